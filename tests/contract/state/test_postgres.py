"""What only PostgreSQL has: authentication, schemas, other transactions, and a server that disappears and returns."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.sql import SQL, Composed, Identifier

from knowledge.errors import (
    DatabaseRefused,
    DatabaseUnavailable,
    ForeignDatabase,
    NewerDatabase,
    OutcomeUnknown,
    StateMoved,
    StorageError,
)
from knowledge.state.ports import ReadingMark
from knowledge.state.postgres import listener as postgres_ear
from knowledge.state.postgres.schema import migrations
from knowledge.state.postgres.store import PostgresStateStore
from knowledge.state.transfer.marks import Mark, marked_version
from knowledge.trust.ports import TrustRecord
from tests.support.state.postgres import PASSWORD, PostgresServer
from tests.support.state.trust_levels import stand

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SOON_S = 60.0
AT_ONCE_S = 10.0


def within(schema: str, statement: LiteralString) -> Composed:
    """Return `statement` with `{s}` replaced by the schema."""
    return SQL(statement).format(s=Identifier(schema))


def sql(server: PostgresServer, statement: LiteralString | Composed, *arguments: object) -> list[tuple[Any, ...]]:
    """Do what an administrator or another program does meanwhile."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        cursor = connection.execute(statement, arguments)
        return cursor.fetchall() if cursor.description else []


@asynccontextmanager
async def opened(url: str, schema: str) -> AsyncIterator[PostgresStateStore]:
    store = await PostgresStateStore.open(url, schema)
    try:
        yield store
    finally:
        await store.close()


def trust_record(score: float, principal: str = "ada") -> TrustRecord:
    return TrustRecord(principal, score, 0.0, 5.0, frozen=False, updated_at=NOW)


async def refusal(url: str, schema: str) -> StorageError:
    """Return the error of opening it, after checking that it doesn't contain the password."""
    with pytest.raises(StorageError) as caught:
        await PostgresStateStore.open(url, schema)
    shown = f"{caught.value} {caught.value!r} {caught.value.__cause__!r} {vars(caught.value)}"
    assert PASSWORD not in shown
    assert "hunter2" not in shown
    assert len(str(caught.value)) < 400
    return caught.value


# --- errors of an unusable server -------------------------------------------------------------------------------------


async def test_whatever_asking_again_cannot_mend_is_refused_with_a_way_out(
    postgres: PostgresServer, schema: str
) -> None:
    wrong = {
        postgres.url(password="hunter2"):  # noqa: S106 - a wrong one
        "password authentication failed",
        postgres.url("nowhere"): 'database "nowhere" does not exist',
        postgres.url(query="?sslmode=verify-full"): "SSL",
        postgres.url(query="?no_such_option=hunter2"): "that URL cannot be read",
    }
    for url, says in wrong.items():
        error = await refusal(url, schema)
        assert isinstance(error, DatabaseRefused), url
        assert says in str(error)


async def test_a_server_that_is_not_there_may_be_tried_again(postgres: PostgresServer, schema: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        started = time.monotonic()
        error = await refusal(f"postgresql://forge:hunter2@127.0.0.1:{port}/x?connect_timeout=2", schema)
        assert time.monotonic() - started < AT_ONCE_S
        assert isinstance(error, DatabaseUnavailable)
        assert "timeout" in str(error)
    error = await refusal(f"postgresql://forge:hunter2@127.0.0.1:{port}/x", schema)
    assert isinstance(error, DatabaseUnavailable)
    assert f"127.0.0.1:{port}" in str(error)
    assert "refused" in str(error)
    del postgres


async def test_a_user_without_rights_learns_which_and_works_in_a_prepared_schema(
    postgres: PostgresServer, schema: str
) -> None:
    sql(postgres, "DROP ROLE IF EXISTS guest")
    sql(postgres, "CREATE ROLE guest LOGIN PASSWORD 'correct-horse-1' CONNECTION LIMIT 2")
    url = postgres.url(user="guest")
    error = await refusal(url, schema)
    assert isinstance(error, DatabaseRefused)
    assert "permission denied for database" in str(error)
    with psycopg.connect(postgres.url(), autocommit=True) as admin:
        admin.execute(within(schema, "CREATE SCHEMA {s} AUTHORIZATION guest"))
        async with opened(url, schema) as store:
            await store.publish("doc", ["a.md"])
            with psycopg.connect(url):
                busy = await refusal(url, schema)
                assert isinstance(busy, DatabaseUnavailable), "it may be tried again"
                assert "too many connections" in str(busy)
        admin.execute("DROP OWNED BY guest")
        admin.execute("DROP ROLE guest")


async def test_a_server_that_only_reads_is_refused_for_now(postgres: PostgresServer, schema: str) -> None:
    async with opened(postgres.url(), schema) as store:
        sql(postgres, "ALTER SYSTEM SET default_transaction_read_only = on")
        sql(postgres, "SELECT pg_reload_conf()")
        try:
            async with asyncio.timeout(SOON_S):
                while not isinstance(error := await outcome(store.publish("doc", ["a.md"])), DatabaseUnavailable):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.01)
            assert "read" in str(error)
            assert isinstance(await refusal(postgres.url(), schema), DatabaseUnavailable)
        finally:
            with psycopg.connect(
                postgres.url(query="?options=-cdefault_transaction_read_only%3Doff"), autocommit=True
            ) as c:
                c.execute("ALTER SYSTEM RESET default_transaction_read_only")
                c.execute("SELECT pg_reload_conf()")


async def outcome(asked: Any) -> Exception | None:
    try:
        await asked
    except StorageError as error:
        return error
    return None


# --- schemas ----------------------------------------------------------------------------------------------------------


async def test_two_knowledge_bases_in_one_database_do_not_meet(postgres: PostgresServer, schema: str) -> None:
    async with opened(postgres.url(), schema) as one, opened(postgres.url(), schema + "_b") as two:
        waiting = asyncio.create_task(two.changed(0))
        await one.publish("doc", ["a.md"])
        await stand(one, trust_record(3.0), reason="met", by="server")
        assert await two.last_event() == 0
        assert await two.trust_record("ada") is None
        assert not waiting.done()
        waiting.cancel()


async def test_another_programs_schema_is_left_alone(postgres: PostgresServer, schema: str) -> None:
    for table in ("CREATE TABLE orders (id int)", "CREATE TABLE meta (a int)", "CREATE TABLE meta (application text)"):
        with psycopg.connect(postgres.url(), autocommit=True) as other:
            for statement in ("DROP SCHEMA IF EXISTS {s} CASCADE", "CREATE SCHEMA {s}", "SET search_path = {s}"):
                other.execute(within(schema, statement))
            other.execute(table)
            error = await refusal(postgres.url(), schema)
            assert isinstance(error, ForeignDatabase)
            assert "FORGE_DATABASE_SCHEMA" in str(error)
            tables = "SELECT count(*) FROM pg_tables WHERE schemaname = %s"
            assert other.execute(tables, (schema,)).fetchone() == (1,)


async def test_a_program_writes_after_a_migration_that_only_adds(postgres: PostgresServer, schema: str) -> None:
    async with opened(postgres.url(), schema) as store:
        sql(postgres, within(schema, "UPDATE {s}.meta SET version = version + 1"))
        sql(postgres, within(schema, "ALTER TABLE {s}.standing ADD COLUMN later text"))
        await store.publish("doc", ["a.md"])
        await stand(store, trust_record(3.0), reason="met", by="server")
        assert [event.key for event in await store.events_after(0)] == ["a.md"]
        assert await store.trust_record("ada") == trust_record(3.0)
        marked = marked_version(len(migrations()), Mark("left"))
        sql(postgres, within(schema, "UPDATE {s}.meta SET version = %s"), marked)
        with pytest.raises(StateMoved):
            await store.publish("doc", ["b.md"])
    sql(postgres, within(schema, "UPDATE {s}.meta SET version = 99"))
    assert isinstance(await refusal(postgres.url(), schema), NewerDatabase), "it does not start"


async def test_a_program_that_a_newer_one_overtook_reads_on_writes_nothing_and_does_not_start_again(
    postgres: PostgresServer, schema: str
) -> None:
    async with opened(postgres.url(), schema) as store:
        await store.publish("doc", ["a.md"])
        await stand(store, trust_record(3.0), reason="met", by="server")
        sql(postgres, within(schema, "UPDATE {s}.meta SET version = 99, writers = 99"))
        sql(postgres, within(schema, "ALTER TABLE {s}.standing ADD COLUMN later text"))
        with pytest.raises(NewerDatabase, match=f"schema 99, this program knows up to {len(migrations())}"):
            await store.publish("doc", ["b.md"])
        assert [event.key for event in await store.events_after(0)] == ["a.md"]
        assert await store.trust_record("ada") == trust_record(3.0)
    assert isinstance(await refusal(postgres.url(), schema), NewerDatabase)


async def test_a_write_waits_for_a_migration_that_is_under_way(postgres: PostgresServer, schema: str) -> None:
    async with opened(postgres.url(), schema) as store:
        with psycopg.connect(postgres.url()) as migrating:
            migrating.execute("SELECT pg_advisory_xact_lock(%s)", (store._schema.lock,))
            migrating.execute(within(schema, "UPDATE {s}.meta SET version = 99, writers = 99"))
            late = asyncio.create_task(outcome(store.publish("doc", ["a.md"])))
            await until_somebody_waits(postgres)
            migrating.commit()
            assert isinstance(await late, NewerDatabase)


async def until_somebody_waits(server: PostgresServer) -> None:
    async with asyncio.timeout(SOON_S):
        while not sql(server, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


async def test_the_doctor_reports_a_missing_table(postgres: PostgresServer, schema: str) -> None:
    async with opened(postgres.url(), schema) as store:
        sql(postgres, within(schema, "DROP TABLE {s}.nudge"))
        assert list(await store.check()) == [f'there is no table "{schema}".nudge']
        error = await outcome(store.give_nudge("ada", "", "guides", now=NOW, quiet_s=1))
        assert isinstance(error, DatabaseUnavailable)
        assert "schema dropped" in str(error)


# --- events -----------------------------------------------------------------------------------------------------------


async def test_no_event_is_numbered_lower_than_one_that_was_read_already(postgres: PostgresServer, schema: str) -> None:
    """With a sequence the second publisher would commit number 2 while 1 is still invisible, and 1 would be missed."""
    async with opened(postgres.url(), schema) as store:
        with psycopg.connect(postgres.url()) as slow:
            slow.execute(within(schema, "UPDATE {s}.counter SET seq = seq + 1"))
            slow.execute(
                within(schema, "INSERT INTO {s}.event (seq, topic, key) SELECT seq, 'doc', 'slow.md' FROM {s}.counter")
            )
            quick = asyncio.create_task(store.publish("doc", ["quick.md"]))
            await until_somebody_waits(postgres)
            assert await store.last_event() == 0
            slow.commit()
            assert await quick == 2
        assert [(e.seq, e.key) for e in await store.events_after(0)] == [(1, "slow.md"), (2, "quick.md")]


async def test_a_change_is_received_without_polling(
    postgres: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 100 ms across processes, without busy polling: here nobody polls within an hour."""
    monkeypatch.setattr(postgres_ear, "LOOK_S", 3600.0)
    async with opened(postgres.url(), schema) as one, opened(postgres.url(), schema) as two:
        for turn in range(20):
            waiting = asyncio.create_task(two.changed(turn))
            await asyncio.sleep(0)
            await one.publish("doc", ["a.md"])
            await asyncio.wait_for(waiting, SOON_S)


async def test_a_waiting_process_receives_events_again_after_its_connection_was_ended(
    postgres: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_ear, "LOOK_S", 3600.0)
    async with opened(postgres.url(), schema) as store:
        waiting = asyncio.create_task(store.changed(0))
        listening = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = %s AND pid <> pg_backend_pid()"
        )
        async with asyncio.timeout(SOON_S):
            while not sql(postgres, listening, f'LISTEN "{schema}"'):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
        await store.publish("doc", ["a.md"])
        await asyncio.wait_for(waiting, SOON_S)


async def test_where_it_cannot_listen_it_looks(
    postgres: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler may refuse or swallow LISTEN: then changes are only late."""
    async with opened(postgres.url(), schema) as store:

        async def deaf() -> None:
            """No connection for LISTEN can be opened."""

        monkeypatch.setattr(store._listener, "open", deaf)
        waiting = asyncio.create_task(store.changed(0))
        await store.publish("doc", ["a.md"])
        await asyncio.wait_for(waiting, SOON_S)


async def test_events_are_kept_for_a_day(postgres: PostgresServer, schema: str) -> None:
    async with opened(postgres.url(), schema) as store:
        await store.publish("doc", ["old.md", "older.md"])
        sql(postgres, within(schema, "UPDATE {s}.event SET published_at = now() - interval '25 hours'"))
        newest = await store.publish("doc", ["new.md"])
        await store.publish("doc", ["newer.md"])
        assert [(e.seq, e.key) for e in await store.events_after(0)] == [(newest, "new.md"), (newest + 1, "newer.md")]


async def test_looks_are_kept_for_thirty_days(postgres: PostgresServer, schema: str) -> None:
    async with opened(postgres.url(), schema) as store:
        await store.note_looks("ada", "", [ReadingMark("old", "map")], at=NOW - timedelta(days=31))
        await store.note_looks("ada", "", [ReadingMark("new", "map")], at=NOW)
        assert set(await store.looks("ada", "", ["old", "new"])) == {ReadingMark("new", "map")}


# --- other transactions -----------------------------------------------------------------------------------------------


async def test_callers_that_note_the_same_looks_in_any_order_do_not_stop_each_other(
    postgres: PostgresServer, schema: str
) -> None:
    looks = [ReadingMark(f"d{n}", "map") for n in range(40)]
    async with opened(postgres.url(), schema) as one, opened(postgres.url(), schema) as two:
        stores = [one, two] * 20
        noted = (
            store.note_looks("ada", "", looks[:: -1 if n % 2 else 1] * 2, at=NOW + timedelta(seconds=n))
            for n, store in enumerate(stores)
        )
        await asyncio.gather(*noted)
        assert set((await one.looks("ada", "", ["d7"])).values()) == {NOW + timedelta(seconds=39)}


async def test_each_change_of_a_standing_begins_where_the_one_before_ended(
    postgres: PostgresServer, schema: str
) -> None:
    async with opened(postgres.url(), schema) as one, opened(postgres.url(), schema) as two:
        changes = (stand((one, two)[n % 2], trust_record(n / 10), reason=str(n), by="ann") for n in range(30))
        await asyncio.gather(*changes)
        history = list(reversed(await one.history("ada", limit=99)))
        assert [c.score_before for c in history] == [0.0, *(c.score_after for c in history[:-1])]
        assert await two.trust_record("ada") == trust_record(history[-1].score_after)


async def test_a_cancelled_caller_finds_it_done_or_not_done_and_the_store_works_on(
    postgres: PostgresServer, schema: str
) -> None:
    async with opened(postgres.url(), schema) as store:
        done = 0
        for turn in range(1, 40):
            change = asyncio.create_task(stand(store, trust_record(turn / 10), reason=str(turn), by="ann"))
            await asyncio.sleep(turn * 0.0002)
            done += not change.cancel()
            await asyncio.wait([change])
            found = await store.trust_record("ada")
            newest = await store.history("ada", limit=1)
            assert (found.score if found else None) == (newest[0].score_after if newest else None)
        await stand(store, trust_record(4.5), reason="last", by="ann")
        assert await store.trust_record("ada") == trust_record(4.5)


async def test_a_write_that_fails_in_the_middle_leaves_nothing(postgres: PostgresServer, schema: str) -> None:
    async with opened(postgres.url(), schema) as store:
        sql(postgres, within(schema, "ALTER TABLE {s}.standing ADD CHECK (score < 4)"))
        with pytest.raises(StorageError):
            await stand(store, trust_record(4.5), reason="too high", by="ann")
        assert list(await store.history("ada", limit=9)) == []
        await stand(store, trust_record(3.5), reason="fine", by="ann")
        assert len(await store.history("ada", limit=9)) == 1


# --- outages ----------------------------------------------------------------------------------------------------------


async def test_callers_do_not_notice_connections_that_the_server_ended(postgres: PostgresServer, schema: str) -> None:
    async with opened(postgres.url(), schema) as store:
        await asyncio.gather(*(store.publish("doc", ["a.md"]) for _ in range(4)))
        sql(
            postgres,
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'knowledge-forge'",
        )
        assert await store.publish("doc", ["b.md"]) == 5
        assert await store.last_event() == 5


@pytest.mark.external
async def test_a_store_works_again_after_the_server_crashed_and_was_started(
    fragile_postgres: PostgresServer, schema: str
) -> None:
    async with opened(fragile_postgres.url(), schema) as store:
        seen = await store.publish("doc", ["before.md"])
        waiting = asyncio.create_task(outcome(store.changed(seen)))
        await asyncio.to_thread(fragile_postgres.stop)
        assert isinstance(await asyncio.wait_for(waiting, SOON_S), DatabaseUnavailable)
        started = time.monotonic()
        for asked in (store.trust_record("ada"), store.publish("doc", ["lost.md"]), store.last_event()):
            error = await outcome(asked)
            assert isinstance(error, DatabaseUnavailable)
            assert not isinstance(error, OutcomeUnknown), "it was never sent"
        assert time.monotonic() - started < AT_ONCE_S, "what is known to be away is not waited for"
        await asyncio.to_thread(fragile_postgres.start)
        assert await store.publish("doc", ["after.md"]) == seen + 1
        await asyncio.wait_for(store.changed(seen), SOON_S)


async def test_a_write_without_an_answer_is_reported_as_unknown(fragile_postgres: PostgresServer, schema: str) -> None:
    async with opened(fragile_postgres.url(), schema) as store:
        with contextlib.closing(psycopg.connect(fragile_postgres.url())) as slow:
            slow.execute(within(schema, "UPDATE {s}.counter SET seq = seq"))
            late = asyncio.create_task(outcome(store.publish("doc", ["a.md"])))
            await until_somebody_waits(fragile_postgres)
            await asyncio.to_thread(fragile_postgres.stop)
            error = await asyncio.wait_for(late, SOON_S)
        assert isinstance(error, OutcomeUnknown)
        assert "may or may not be done" in str(error)


@pytest.mark.external
async def test_a_lock_that_nobody_gives_back_ends_the_wait_and_others_do_not_wait_after_it(
    postgres: PostgresServer, schema: str
) -> None:
    async with opened(postgres.url(), schema) as store:
        with psycopg.connect(postgres.url()) as stuck:
            stuck.execute(within(schema, "LOCK TABLE {s}.counter"))
            assert isinstance(await asyncio.wait_for(outcome(store.last_event()), SOON_S), DatabaseUnavailable)
            started = time.monotonic()
            assert isinstance(await outcome(store.last_event()), DatabaseUnavailable)
            assert time.monotonic() - started < 1.0
