"""Changes that editors make are on record before a history is shown."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from knowledge.history.ports import ActsWanted, Revision
from knowledge.pages.vault import Vault, revision_of
from knowledge.writing.files.outside_changes import OutsideChanges, OutsideRecord
from tests.support.state.ledgers import change, entry, open_shared, origin
from tests.support.state.memory.ledger import MemoryLedger
from tests.support.writing.acts import World, appending, setting

PAGE = "guides/a.md"
TEXT = b"# A\n\nOne.\n\nTwo.\n"
LONG_AGO = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.external)])
async def world(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[World]:
    if request.param == "memory":
        yield World(tmp_path, MemoryLedger(lambda _topic, _paths: None))
        return
    where = request.getfixturevalue("postgres").url() if request.param == "postgres" else str(tmp_path)
    store = await open_shared(where, schema)
    yield World(tmp_path, store.ledger)
    await store.close()


def outside(world: World) -> OutsideChanges:
    return OutsideChanges(Vault.open(world.root), world.ledger, world.acts.note_outside, world.acts.follow_move)


async def record(world: World, *, most: int = 500) -> OutsideRecord:
    return await outside(world).record(most=most)


async def newest(world: World, path: str) -> Revision:
    return (await world.ledger.history(path, limit=1))[0]


def saved(world: World, path: str, raw: bytes, at: datetime) -> None:
    """Save the page as somebody did at that time."""
    world.put(path, raw)
    os.utime(world.root / path, (at.timestamp(), at.timestamp()))


async def test_an_edit_is_recorded_once_with_the_time_at_which_it_was_saved(world: World) -> None:
    await world.acts.run(setting({PAGE: TEXT}))
    written = await newest(world, PAGE)
    later = datetime.now(UTC)
    saved(world, PAGE, b"# A\n\nOne.\n", later)
    for _ in range(2):
        found = await record(world)
    line = await newest(world, PAGE)
    assert (line.how, line.revision, line.before) == ("outside", revision_of(b"# A\n\nOne.\n"), written.revision)
    assert written.at <= line.at <= later + timedelta(seconds=1)
    assert (found.recorded, found.left, found.failed) == ([], 0, [])
    assert len(await world.ledger.history(PAGE, limit=9)) == 2


async def test_an_edit_with_an_older_time_is_recorded_and_the_history_keeps_its_order(world: World) -> None:
    await world.acts.run(setting({PAGE: TEXT}))
    written = await newest(world, PAGE)
    saved(world, PAGE, b"# A from a backup\n", LONG_AGO)
    assert (await record(world)).recorded == [PAGE]
    assert (await newest(world, PAGE)).at == written.at


async def test_a_removed_page_is_recorded_as_removed(world: World) -> None:
    await world.acts.run(setting({PAGE: TEXT, "b.md": b"# B\n"}))
    (world.root / PAGE).unlink()
    assert (await record(world)).recorded == [PAGE]
    line = await newest(world, PAGE)
    assert (line.how, line.revision, line.before) == ("outside", None, revision_of(TEXT))
    assert (await record(world)).recorded == []
    world.put(PAGE, TEXT)
    assert (await record(world)).recorded == [PAGE]
    assert (await newest(world, PAGE)).revision == revision_of(TEXT)


async def test_a_new_page_is_recorded_and_a_page_from_before_the_first_reading_is_not(world: World) -> None:
    saved(world, "old.md", b"# Old\n", LONG_AGO)
    assert (await record(world)).recorded == []
    await world.ledger.keep("old.md", b"# Old\n", how="seen", at=LONG_AGO + timedelta(days=1))
    saved(world, "new.md", b"# New\n", LONG_AGO + timedelta(days=2))
    assert (await record(world)).recorded == ["new.md"]
    line = await newest(world, "new.md")
    assert (line.revision, line.before, line.at) == (revision_of(b"# New\n"), None, LONG_AGO + timedelta(days=2))
    assert list(await world.ledger.history("old.md", limit=9)) == []


async def test_an_edit_of_a_page_that_was_only_read_is_compared_with_what_was_read(world: World) -> None:
    world.put(PAGE, TEXT)
    await world.ledger.keep(PAGE, TEXT, how="seen", at=LONG_AGO)
    assert (await record(world)).recorded == [PAGE]
    (only,) = await world.ledger.history(PAGE, limit=9)
    assert (only.revision, only.before, only.at) == (revision_of(TEXT), None, LONG_AGO)
    world.put("b.md", b"# B\n\nBefore.\n")
    await world.ledger.keep("b.md", b"# B\n", how="seen", at=LONG_AGO)
    await record(world)
    newest, oldest = await world.ledger.history("b.md", limit=9)
    assert (newest.before, oldest.revision, oldest.at) == (revision_of(b"# B\n"), revision_of(b"# B\n"), LONG_AGO)


async def test_a_moved_page_keeps_its_history_and_its_origins(world: World) -> None:
    saved(world, PAGE, TEXT, LONG_AGO)
    await world.acts.run(appending(PAGE, b"Three."))
    await world.ledger.keep("other.md", b"one", how="seen", at=LONG_AGO)
    await world.ledger.commit(entry(change("other.md", None, b"one"), origins={"other.md": [origin("other")]}))
    world.put("other.md", b"one")
    (world.root / "new").mkdir()
    (world.root / PAGE).rename(world.root / "new/b.md")
    (world.root / "other.md").rename(world.root / "moved.md")
    found = await record(world)
    assert sorted(found.recorded) == [PAGE, "moved.md", "new/b.md", "other.md"]
    assert [line.path for line in await world.ledger.history("new/b.md", limit=9)] == ["new/b.md", PAGE, PAGE]
    tracked = await world.ledger.tracked("moved.md")
    assert tracked is not None
    assert list(tracked.origins) == [origin("other")]
    moves = await world.ledger.timeline(ActsWanted(who=""), limit=2)
    assert {(act.lines[1].path, act.lines[1].moved_from) for act in moves} == {
        ("new/b.md", PAGE),
        ("moved.md", "other.md"),
    }
    assert await world.ledger.content("new/b.md", revision_of(TEXT)) == TEXT
    assert (await record(world)).recorded == []


async def test_a_page_that_was_moved_and_edited_is_removed_and_new(world: World) -> None:
    await world.acts.run(setting({PAGE: TEXT}))
    (world.root / PAGE).unlink()
    world.put("b.md", TEXT + b"More.\n")
    assert sorted((await record(world)).recorded) == ["b.md", PAGE]
    assert (await newest(world, PAGE)).revision is None
    assert (await newest(world, "b.md")).moved_from is None


async def test_pages_with_the_same_bytes_are_told_apart_by_their_names_or_not_at_all(world: World) -> None:
    await world.acts.run(setting({"a/one.md": TEXT, "a/two.md": TEXT, "a/three.md": TEXT}))
    for old, new in (("a/one.md", "b/one.md"), ("a/two.md", "b/2.md"), ("a/three.md", "b/3.md")):
        world.put(new, (world.root / old).read_bytes())
        (world.root / old).unlink()
    await record(world)
    moved_from = {path: (await newest(world, path)).moved_from for path in ("b/one.md", "b/2.md", "b/3.md")}
    assert moved_from == {"b/one.md": "a/one.md", "b/2.md": None, "b/3.md": None}


async def test_many_new_pages_are_recorded_some_at_a_time_the_newest_first(world: World) -> None:
    await world.ledger.keep("begun.md", b"", how="seen", at=LONG_AGO)
    for number in range(5):
        saved(world, f"{number}.md", b"# Page\n", datetime.now(UTC) + timedelta(minutes=number + 1))
    first = await record(world, most=2)
    assert (first.recorded, first.left) == (["4.md", "3.md"], 3)
    rest = await record(world)
    assert (rest.recorded, rest.left) == (["2.md", "1.md", "0.md"], 0)


async def test_what_the_server_wrote_is_no_change_outside(world: World) -> None:
    world.put(PAGE, TEXT)
    await world.acts.run(appending(PAGE, b"Three."))
    await world.acts.run(setting({PAGE: None, "b.md": TEXT}, **{"b.md": PAGE}))
    assert (await record(world)).recorded == []
    acts = await world.ledger.timeline(ActsWanted(), limit=9)
    assert [act.lines[0].how for act in acts] == ["written", "written", "outside"]


async def test_pages_in_a_folder_that_cannot_be_listed_are_not_taken_for_removed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.acts.run(setting({PAGE: TEXT}))
    scandir = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("guides"):
            raise PermissionError(13, "refused", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    monkeypatch.setattr(Vault, "find", lambda _vault, _path: None)
    assert (await record(world)).recorded == []


async def test_text_that_a_stale_save_removed_is_restored_and_both_are_on_record(world: World) -> None:
    world.put(PAGE, TEXT)
    await world.acts.run(appending(PAGE, b"Three."))
    written = await newest(world, PAGE)
    saved(world, PAGE, TEXT.replace(b"One.", b"One!"), written.at)
    assert (await record(world)).recorded == [PAGE]
    assert world.read(PAGE) == TEXT.replace(b"One.", b"One!") + b"Three.\n"
    lines = await world.ledger.history(PAGE, limit=2)
    assert [(line.how, line.tool) for line in lines] == [("written", "restore"), ("outside", "")]
