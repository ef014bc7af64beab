"""Opening a database file: what is refused, what is rebuilt, and what several processes see."""

from __future__ import annotations

import asyncio
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from knowledge.errors import (
    CorruptDatabase,
    DatabaseUnavailable,
    ForeignDatabase,
    NewerDatabase,
    UnsafeDatabaseEngine,
)
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.state.ports import DocumentRecord, IndexIdentity, Remove, Replace, Stamp
from knowledge.state.sqlite.database import Database, SqliteSchema, load_schema, require_safe_engine
from knowledge.state.sqlite.store import SqliteStateStore
from knowledge.trust.ports import TrustRecord
from tests.support.state.trust_levels import stand

NOW = datetime(2026, 3, 1, tzinfo=UTC)
STANDING = TrustRecord("ada", 2.5, 2.0, 3.9, frozen=False, updated_at=NOW)
IDENTITY = IndexIdentity("words", 256, 1)


def page(path: str) -> Replace:
    stamp = Stamp(1, 1, 1)
    return Replace(
        DocumentRecord(path, path, "", "page", "user", "en", (), (), (), False, "r", stamp, 1, 1),  # noqa: FBT003 - a record's field
        (),
    )


def run_sql(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql).fetchall()
    connection.close()


def scribble(path: Path, *, keep: int) -> None:
    """Damage everything after the first `keep` bytes, and drop the log that could repair it."""
    path.write_bytes(path.read_bytes()[:keep] + b"\xa5" * 8192)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def damage_table(path: Path, table: str) -> None:
    """Overwrite the first page of one table, as a failing disk might: the file still opens."""
    connection = apsw.Connection(str(path))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    ((page_number, size),) = connection.execute(
        "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = ?", (table,)
    ).fetchall()
    connection.close()
    assert isinstance(page_number, int)
    assert isinstance(size, int)
    with path.open("r+b") as file:
        file.seek((page_number - 1) * size)
        file.write(b"\xa5" * size)


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.9.99"])
async def test_an_engine_with_the_wal_reset_bug_is_refused_before_anything_is_touched(
    tmp_path: Path, version: str
) -> None:
    """Design, section 2: the bug was fixed in 3.51.3."""
    with pytest.raises(UnsafeDatabaseEngine, match=version):
        await SqliteStateStore.open(tmp_path / "state.db", engine=version)
    with pytest.raises(UnsafeDatabaseEngine):
        await SqliteIndexStore.open(tmp_path / "index.db", engine=version)
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - in an async test, and nothing waits for it


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "4.0.0", apsw.sqlite_lib_version()])
def test_an_engine_without_the_bug_is_accepted(version: str) -> None:
    require_safe_engine(version)


async def test_a_new_database_is_its_owners_alone(tmp_path: Path) -> None:
    """Whatever the umask: reading the state would reveal secrets' digests, and writing it could grant trust."""
    old = os.umask(0)
    try:
        store = await SqliteStateStore.open(tmp_path / "deep" / "state.db")
        await stand(store, STANDING, reason="met", by="server")
    finally:
        os.umask(old)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "deep").iterdir()}
    await store.close()
    assert set(modes.values()) == {0o600}
    assert {"state.db", "state.db-wal"} <= set(modes)


async def test_random_bytes_in_place_of_the_state_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"\x07 not a database" * 100)
    with pytest.raises(ForeignDatabase, match="move it away"):
        await SqliteStateStore.open(path)
    assert path.read_bytes() == b"\x07 not a database" * 100


@pytest.mark.parametrize("store", [SqliteStateStore, SqliteIndexStore])
async def test_a_directory_in_place_of_a_database_is_refused(
    tmp_path: Path, store: type[SqliteStateStore | SqliteIndexStore]
) -> None:
    (tmp_path / "some.db").mkdir()
    with pytest.raises(ForeignDatabase, match="not a file"):
        await store.open(tmp_path / "some.db")


@pytest.mark.parametrize("store", [SqliteStateStore, SqliteIndexStore])
async def test_another_programs_database_is_refused_and_left_alone(
    tmp_path: Path, store: type[SqliteStateStore | SqliteIndexStore]
) -> None:
    """A damaged index is rebuilt, but foreign data is not damage."""
    path = tmp_path / "some.db"
    run_sql(path, "CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1);")
    before = path.read_bytes()
    with pytest.raises(ForeignDatabase):
        await store.open(path)
    assert path.read_bytes() == before


async def test_state_and_index_do_not_take_each_others_file(tmp_path: Path) -> None:
    await (await SqliteStateStore.open(tmp_path / "state.db")).close()
    with pytest.raises(ForeignDatabase):
        await SqliteIndexStore.open(tmp_path / "state.db")


@pytest.mark.parametrize("store", [SqliteStateStore, SqliteIndexStore])
async def test_an_older_program_refuses_a_database_that_a_newer_one_migrated(
    tmp_path: Path, store: type[SqliteStateStore | SqliteIndexStore]
) -> None:
    """Not even the index is deleted: two versions would take turns in doing so."""
    path = tmp_path / "some.db"
    await (await store.open(path)).close()
    run_sql(path, "PRAGMA user_version=99")
    with pytest.raises(NewerDatabase, match="schema 99"):
        await store.open(path)


async def test_an_older_program_that_is_running_writes_nothing_after_a_newer_one_migrated(tmp_path: Path) -> None:
    store = await SqliteStateStore.open(tmp_path / "state.db")
    run_sql(tmp_path / "state.db", "PRAGMA user_version=99")
    with pytest.raises(NewerDatabase):
        await stand(store, STANDING, reason="met", by="server")
    assert await store.trust_record("ada") is None
    await store.close()


async def test_a_damaged_state_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = await SqliteStateStore.open(path)
    await stand(store, STANDING, reason="met", by="server")
    await store.close()
    scribble(path, keep=100)
    with pytest.raises(CorruptDatabase, match="restore it from a backup") as refused:
        await SqliteStateStore.open(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("keep", [0, 50, 100])
async def test_a_damaged_index_is_rebuilt_and_says_why(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "index.db"
    store = await SqliteIndexStore.open(path)
    await store.apply([page("a.md")], fence=1)
    old = await store.position()
    await store.close()
    assert store.rebuilt is None
    scribble(path, keep=keep)
    store = await SqliteIndexStore.open(path)
    assert store.rebuilt
    assert (await store.position()).generation != old.generation
    assert await store.document("a.md") is None
    await store.apply([page("a.md")], fence=1)
    await store.close()


async def test_damage_found_in_use_is_reported_and_a_rebuild_repairs_it_for_all(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    one = await SqliteIndexStore.open(path)
    await one.begin(IDENTITY)
    await one.apply([page(f"{i}.md") for i in range(300)], fence=1)
    await one.close()
    damage_table(path, "document")
    one, two = await SqliteIndexStore.open(path), await SqliteIndexStore.open(path)
    with pytest.raises(CorruptDatabase) as met:
        await one.children("", limit=500)
    await one.rebuild(met.value.reason)
    assert one.rebuilt == met.value.reason
    await one.apply([page("new.md")], fence=1)
    assert await two.position() == await one.position()
    assert list(await two.paths(limit=9)) == ["new.md"]
    await two.rebuild("met it as well")
    assert await two.position() == await one.position(), "the second one must not throw the new index away"
    await two.close()
    assert await one.check() == []
    assert list(await one.paths(limit=9)) == ["new.md"]
    await one.close()


async def test_an_index_deleted_in_use_is_noticed_and_begun_again(tmp_path: Path) -> None:
    """Only the main file is deleted, as a person would do it: its log must not be applied to the new file."""
    path = tmp_path / "index.db"
    one, two = await SqliteIndexStore.open(path), await SqliteIndexStore.open(path)
    before = await one.apply([page("a.md")], fence=1)
    assert await two.position() == before
    path.unlink()
    with pytest.raises(DatabaseUnavailable):
        await one.apply([Remove("a.md")], fence=1)
    after = await one.position()
    assert after.generation != before.generation
    assert await one.document("a.md") is None
    await one.apply([page("b.md")], fence=1)
    assert await two.position() == await one.position()
    assert await two.document("b.md")
    await two.close()
    assert await one.check() == []
    await one.close()


async def test_a_state_taken_away_in_use_refuses_to_acknowledge_anything(tmp_path: Path) -> None:
    store = await SqliteStateStore.open(tmp_path / "state.db")
    (tmp_path / "state.db").rename(tmp_path / "elsewhere.db")
    with pytest.raises(DatabaseUnavailable, match="while in use"):
        await stand(store, STANDING, reason="met", by="server")
    await store.close()


async def test_a_cancelled_write_is_done_or_not_done_and_the_next_one_works(tmp_path: Path) -> None:
    store = await SqliteIndexStore.open(tmp_path / "index.db")
    for i in range(20):
        task = asyncio.ensure_future(store.apply([page(f"{i}-{j}.md") for j in range(30)], fence=1))
        for _ in range(i):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await store.apply([page("last.md")], fence=1)
    assert (await store.progress()).done % 30 == 1
    assert await store.check() == []
    await store.close()


async def test_a_failing_write_changes_nothing(tmp_path: Path) -> None:
    store = await SqliteIndexStore.open(tmp_path / "index.db")
    bad = page("\ud800.md")  # a lone surrogate, which no database can hold
    with pytest.raises(UnicodeEncodeError):
        await store.apply([page("a.md"), bad], fence=1)
    assert list(await store.paths(limit=9)) == []
    await store.apply([page("a.md")], fence=1)
    await store.close()


def test_missing_migrations_are_made_in_one_transaction_or_not_at_all(tmp_path: Path) -> None:
    first = SqliteSchema(
        "state", 77, ("PRAGMA user_version; CREATE TABLE one (a); INSERT INTO one VALUES (1);",), durable=True
    )
    Database.open(tmp_path / "x.db", first).close()
    broken = SqliteSchema("state", 77, (*first.migrations, "CREATE TABLE two (a); CREATE TABLE one (b);"), durable=True)
    with pytest.raises(DatabaseUnavailable, match="already exists"):
        Database.open(tmp_path / "x.db", broken)
    mended = SqliteSchema(
        "state", 77, (*first.migrations, "CREATE TABLE two (a);", "INSERT INTO two VALUES (2);"), durable=True
    )
    database = Database.open(tmp_path / "x.db", mended)
    assert database.query("SELECT one.a, two.a FROM one, two") == [(1, 2)]
    assert database.query("PRAGMA user_version") == [(3,)]
    database.close()


def test_a_database_that_a_check_found_sound_is_not_discarded(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "index.db", load_schema("index", 1, durable=False))
    inode = database.path.stat().st_ino
    assert database.check() == []
    database.discard_damaged()
    assert database.path.stat().st_ino == inode


def test_no_statement_changes_the_schema_past_its_migrations(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "state.db", load_schema("state", 1, durable=True))
    with pytest.raises(DatabaseUnavailable, match="sqlite_master may not be modified"):
        database.write_now(lambda c: c.execute("PRAGMA writable_schema=ON; DELETE FROM sqlite_master").fetchall())
    database.close()


def test_the_state_survives_power_cuts_and_the_index_need_not(tmp_path: Path) -> None:
    for name, durable, level in (("state", True, 2), ("index", False, 1)):
        database = Database.open(tmp_path / f"{name}.db", load_schema(name, 1, durable=durable))
        assert database.write_now(lambda c: c.execute("PRAGMA synchronous").fetchall()) == [(level,)]
        assert database.query("PRAGMA journal_mode") == [("wal",)]
        database.close()


async def test_events_older_than_a_day_go_and_their_numbers_do_not_come_back(tmp_path: Path) -> None:
    store = await SqliteStateStore.open(tmp_path / "state.db")
    old = await store.publish("doc", ["old.md"])
    run_sql(tmp_path / "state.db", "UPDATE event SET at_s = unixepoch() - 90000")
    new = await store.publish("doc", ["new.md"])
    assert new > old
    assert [event.key for event in await store.events_after(0)] == ["new.md"]
    run_sql(tmp_path / "state.db", "DELETE FROM event")
    assert await store.last_event() == new
    await store.close()
