"""The treatment of acts whose process died, from what it left: the page, the file beside it, and the intent."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest

from knowledge.history.ports import FileChange, HistoryEntry, Intent
from knowledge.pages.vault import revision_of
from tests.support.state.decisions import approved
from tests.support.state.memory.state import MemoryStateStore
from tests.support.writing.acts import ADA, World, appending, now, save_as_new, save_in_place

PAGE, STAGED = "a.md", ".forge-00000000abcdef012345.tmp"
BEFORE, AFTER = b"# A\n\nOne.\nTwo.\n", b"# A\n\nOne.\nTwo.\nThree.\n"
SAVE = b"# A\n\nOne, by hand.\nTwo.\n"
JOINED = b"# A\n\nOne, by hand.\nTwo.\nThree.\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def left(world: World, name: str, raw: bytes | None) -> None:
    if raw is not None:
        world.put(name, raw)


async def begin(
    world: World, *changes: tuple[str, bytes | None, bytes | None, str], id_: str = "it", proposal: str | None = None
) -> Intent:
    """Record the begin of an act that changes pages from these bytes to those."""
    told = tuple(
        FileChange(
            path,
            None if before is None else revision_of(before),
            None if after is None else revision_of(after),
            staged=staged,
            moved_from=PAGE if path == "moved.md" else None,
        )
        for path, before, after, staged in changes
    )
    intent = Intent(id_, now(), HistoryEntry(at=now(), actor=ADA, changes=told, proposal=proposal))
    contents = {raw for _, before, after, _ in changes for raw in (before, after) if raw is not None}
    await world.ledger.intend(intent, list(contents))
    return intent


class Left(NamedTuple):
    """What a dead process left, and the expected outcome."""

    page: bytes | None
    beside: bytes | None
    wanted: bytes | None
    recorded: bool
    kept: bytes | None = None


async def expect_kept(world: World, kept: bytes | None, *, page: bytes | None, dropped: bool) -> None:
    """Fail if a save is not in the page's history; after a dropped act, the next check records it (it may undo earlier acts)."""
    if kept is None:
        return
    if dropped:
        await world.acts.note_outside(PAGE)
        assert world.read(PAGE) == page
    assert kept in await world.lineage(PAGE)


NOTHING, EMPTY = None, b""
ONE_PAGE = {
    "nothing was staged": Left(BEFORE, NOTHING, BEFORE, recorded=False),
    "it was staged half": Left(BEFORE, AFTER[:9], BEFORE, recorded=False),
    "it was staged, empty after a power cut": Left(BEFORE, EMPTY, BEFORE, recorded=False),
    "it was staged": Left(BEFORE, AFTER, BEFORE, recorded=False),
    "it was exchanged": Left(AFTER, BEFORE, AFTER, recorded=True),
    "it was exchanged and tidied up": Left(AFTER, NOTHING, AFTER, recorded=True),
    "it was exchanged with a save that nobody has seen": Left(AFTER, SAVE, JOINED, recorded=True, kept=SAVE),
    "it was exchanged, and saved over": Left(SAVE, BEFORE, SAVE, recorded=True),
    "it was staged, and somebody saved": Left(SAVE, AFTER, SAVE, recorded=False, kept=SAVE),
    "it was begun, and somebody saved": Left(SAVE, NOTHING, SAVE, recorded=False, kept=SAVE),
    "it was staged, and somebody removed the page": Left(NOTHING, AFTER, NOTHING, recorded=False),
}


@pytest.mark.parametrize("case", ONE_PAGE)
async def test_an_act_on_one_page_has_happened_or_not_and_no_save_is_lost(world: World, case: str) -> None:
    page, beside, wanted, recorded, kept = ONE_PAGE[case]
    left(world, PAGE, page)
    left(world, STAGED, beside)
    await begin(world, (PAGE, BEFORE, AFTER, STAGED))
    assert await world.acts.recovery.finish_all() == 1
    assert world.pages() == ({} if wanted is None else {PAGE: wanted})
    assert len(await world.ledger.records()) == recorded
    assert await world.ledger.intents() == []
    await expect_kept(world, kept, page=wanted, dropped=not recorded)


NEW_PAGE = {
    "nothing was staged": Left(NOTHING, NOTHING, NOTHING, recorded=False),
    "it was staged": Left(NOTHING, AFTER, NOTHING, recorded=False),
    "it has its name": Left(AFTER, NOTHING, AFTER, recorded=True),
    "somebody else made one": Left(SAVE, AFTER, SAVE, recorded=False, kept=SAVE),
}


@pytest.mark.parametrize("case", NEW_PAGE)
async def test_a_page_is_made_or_not(world: World, case: str) -> None:
    page, beside, wanted, recorded, kept = NEW_PAGE[case]
    left(world, PAGE, page)
    left(world, STAGED, beside)
    await begin(world, (PAGE, None, AFTER, STAGED))
    await world.acts.recovery.finish_all()
    assert world.pages() == ({} if wanted is None else {PAGE: wanted})
    assert len(await world.ledger.records()) == recorded
    await expect_kept(world, kept, page=wanted, dropped=not recorded)


REMOVED = {
    "it is still there": Left(BEFORE, NOTHING, BEFORE, recorded=False),
    "it was set aside": Left(NOTHING, BEFORE, NOTHING, recorded=True),
    "it was set aside with a save that nobody has seen": Left(NOTHING, SAVE, NOTHING, recorded=True, kept=SAVE),
    "it was set aside and made anew": Left(SAVE, BEFORE, SAVE, recorded=True),
    "somebody saved it": Left(SAVE, NOTHING, SAVE, recorded=False, kept=SAVE),
}


@pytest.mark.parametrize("case", REMOVED)
async def test_a_page_is_removed_or_not(world: World, case: str) -> None:
    page, beside, wanted, recorded, kept = REMOVED[case]
    left(world, PAGE, page)
    left(world, STAGED, beside)
    await begin(world, (PAGE, BEFORE, None, STAGED))
    await world.acts.recovery.finish_all()
    assert world.pages() == ({} if wanted is None else {PAGE: wanted})
    assert len(await world.ledger.records()) == recorded
    await expect_kept(world, kept, page=wanted, dropped=not recorded)


INDEX, INDEX_AFTER = b"see a\n", b"see moved\n"
MOVE = (
    (PAGE, BEFORE, None, STAGED),
    ("moved.md", None, BEFORE, ".forge-1.tmp"),
    ("index.md", INDEX, INDEX_AFTER, ".forge-2.tmp"),
)
MOVED = {"moved.md": BEFORE, "index.md": INDEX_AFTER}
UNMOVED = {PAGE: BEFORE, "index.md": INDEX}


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (UNMOVED, UNMOVED),
        ({**UNMOVED, ".forge-1.tmp": BEFORE, ".forge-2.tmp": INDEX_AFTER}, UNMOVED),
        ({**UNMOVED, "moved.md": BEFORE, ".forge-2.tmp": INDEX_AFTER}, MOVED),
        ({PAGE: BEFORE, "moved.md": BEFORE, "index.md": INDEX_AFTER, ".forge-2.tmp": INDEX}, MOVED),
        ({**MOVED, ".forge-2.tmp": INDEX, STAGED: BEFORE}, MOVED),
        (MOVED, MOVED),
        # Somebody saved the page at its old place, or the page that links to it.
        ({PAGE: SAVE, "index.md": INDEX, "moved.md": BEFORE}, {"moved.md": SAVE, "index.md": INDEX_AFTER}),
        (
            {**UNMOVED, "index.md": b"new\n" + INDEX, "moved.md": BEFORE},
            {**MOVED, "index.md": b"new\n" + INDEX_AFTER},
        ),
    ],
    ids=[
        *("begun", "staged", "made", "linked", "all done", "tidied up"),
        *("the old page was saved", "the linking page was saved"),
    ],
)
async def test_a_move_is_complete_or_not_at_all(
    world: World, files: dict[str, bytes], wanted: dict[str, bytes]
) -> None:
    for name, raw in files.items():
        world.put(name, raw)
    await begin(world, *MOVE)
    await world.acts.recovery.finish_all()
    assert world.pages() == wanted
    assert await world.ledger.intents() == []
    assert len(await world.ledger.records()) == ("moved.md" in wanted)
    kept = [raw for path in (PAGE, "moved.md", "index.md") for raw in await world.lineage(path)]
    lost = [raw for raw in files.values() if raw not in kept and raw not in world.pages().values()]
    assert not lost or wanted == UNMOVED


async def test_a_living_processs_act_is_left_to_it(world: World) -> None:
    world.put(PAGE, BEFORE)
    await begin(world, (PAGE, BEFORE, AFTER, STAGED))
    async with world.beside().locks.held([PAGE]):
        assert await world.acts.recovery.finish_all() == 0
    assert len(await world.ledger.intents()) == 1


@pytest.mark.parametrize("save", [save_as_new, save_in_place])
@pytest.mark.parametrize("moment", ["create", "exchange"])
async def test_a_save_that_comes_while_an_act_is_ended_is_kept_and_joined(
    world: World, moment: str, save: Callable[[Path, bytes], None]
) -> None:
    """Design, section 5: a displaced save is archived, never lost."""
    left(world, PAGE, AFTER)
    left(world, STAGED, SAVE)
    await begin(world, (PAGE, BEFORE, AFTER, STAGED))
    meanwhile = AFTER + b"By hand, too.\n"
    world.steps.at(moment, lambda: save(world.root / PAGE, meanwhile))
    assert await world.acts.recovery.finish_all() == 1
    assert world.pages() == {PAGE: JOINED + b"By hand, too.\n"}
    assert {SAVE, meanwhile} <= set(await world.lineage(PAGE))
    assert (await world.ledger.history(PAGE, limit=1))[0].revision == revision_of(JOINED + b"By hand, too.\n")


async def test_a_page_that_is_saved_while_its_removal_is_ended_stays(world: World) -> None:
    for name, raw in {PAGE: BEFORE, "moved.md": BEFORE, "index.md": INDEX_AFTER}.items():
        world.put(name, raw)
    await begin(world, *MOVE)
    world.steps.at("exchange", lambda: save_as_new(world.root / PAGE, SAVE))
    await world.acts.recovery.finish_all()
    assert world.pages() == {**MOVED, PAGE: SAVE}
    assert SAVE in await world.lineage(PAGE)


async def test_the_first_writer_of_a_page_finishes_what_was_begun_there(world: World) -> None:
    left(world, PAGE, AFTER)
    left(world, STAGED, SAVE)
    await begin(world, (PAGE, BEFORE, AFTER, STAGED))
    await world.acts.run(appending(PAGE, b"Four."))
    assert world.pages() == {PAGE: JOINED + b"Four.\n"}
    assert len(await world.ledger.records()) == 2


async def test_two_concurrent_recoveries_act_once(world: World) -> None:
    views = [world.beside() for _ in range(6)]
    for number in range(10):
        name = f"{number}.md"
        world.put(name, AFTER)
        world.put(f".forge-{number}.tmp", BEFORE)
        await begin(world, (name, BEFORE, AFTER, f".forge-{number}.tmp"), id_=f"act {number}")
    ended: list[int] = []

    async def recover(view: World) -> None:
        ended.append(await view.acts.recovery.finish_all())

    async with anyio.create_task_group() as group:
        for view in views:
            group.start_soon(recover, view)
    assert sum(ended) == 10
    assert len(await world.ledger.records()) == 10


async def test_recovering_again_changes_nothing(world: World) -> None:
    left(world, PAGE, AFTER)
    left(world, STAGED, SAVE)
    await begin(world, (PAGE, BEFORE, AFTER, STAGED))
    await world.acts.recovery.finish_all()
    records = await world.ledger.records()
    assert await world.acts.recovery.finish_all() == 0
    assert await world.ledger.records() == records
    assert world.pages() == {PAGE: JOINED}


@pytest.mark.parametrize("end", [None, "failed", "superseded"])
async def test_an_act_that_a_person_approved_is_ended_with_its_proposal_or_beside_it(tmp_path: Path, end: Any) -> None:
    """The act is recorded even if someone declared the proposal failed meanwhile; and the page can be written."""
    store = MemoryStateStore()
    world = World(tmp_path, store.ledger)
    await approved(store)
    left(world, PAGE, AFTER)
    left(world, STAGED, BEFORE)
    await begin(world, (PAGE, BEFORE, AFTER, STAGED), proposal="p-1")
    if end:
        await store.trust.finish("p-1", end, at=now())
    await world.acts.run(appending(PAGE, b"Four."))
    assert world.pages() == {PAGE: AFTER + b"Four.\n"}
    found = await store.trust.proposal("p-1")
    assert found is not None
    assert found.state == (end or "executed")
    assert await world.ledger.intents() == []
    act = json.loads((await world.ledger.records())[1].body)
    assert act["proposal"] == (None if end else "p-1")
    assert not end or "proposal p-1 had ended without it" in act["decision"]


async def test_one_act_that_cannot_be_ended_does_not_keep_others_from_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (PAGE, "b.md"):
        world.put(name, AFTER)
    await begin(world, (PAGE, BEFORE, AFTER, STAGED), id_="1")
    await begin(world, ("b.md", BEFORE, AFTER, ""), id_="2")
    world.steps.fail("read", errno.EIO)
    assert await world.acts.recovery.finish_all() == 1
    assert [intent.id for intent in await world.ledger.intents()] == ["1"]
    assert "cannot finish or drop" in caplog.text
    assert await world.acts.recovery.finish_all() == 1


async def test_a_foreign_thing_in_a_pages_place_does_not_keep_an_act_open_forever(world: World) -> None:
    world.put("moved.md", BEFORE)
    world.put(STAGED, BEFORE)
    (world.root / "index.md").mkdir()
    await begin(world, *MOVE)
    await world.acts.recovery.finish_all()
    assert world.pages() == {"moved.md": BEFORE}
    assert await world.ledger.intents() == []


async def test_an_act_through_a_link_is_finished_by_a_writer_of_the_page_itself(world: World) -> None:
    world.put(PAGE, AFTER)
    (world.root / "link.md").symlink_to(PAGE)
    await begin(world, ("link.md", BEFORE, AFTER, STAGED))
    await world.acts.run(appending(PAGE, b"Four."))
    assert await world.ledger.intents() == []
    assert world.read(PAGE) == AFTER + b"Four.\n"


async def test_old_files_of_no_act_are_removed_and_unknown_ones_kept(world: World) -> None:
    """After a power cut: intents survive a killed process only."""
    name = world.files.staged_name(PAGE)
    world.put(PAGE, AFTER)
    world.put(name, SAVE)
    world.put("sub/.forge-00000000abc.tmp", b"whose is it\n")
    world.put("sub/.forge-notes.md", b"not ours\n")
    assert await world.acts.recovery.sweep(older_than_s=60) == 0
    assert await world.acts.recovery.sweep(older_than_s=-1) == 2
    assert set(world.pages()) == {PAGE, "sub/.forge-notes.md"}
    assert SAVE in await world.lineage(PAGE)
    assert await world.lineage("sub/lost-forge-00000000abc.tmp.md") == [b"whose is it\n"]


async def test_files_of_an_act_that_is_under_way_are_not_swept(world: World) -> None:
    world.put(PAGE, BEFORE)
    world.put(STAGED, AFTER)
    await begin(world, (PAGE, BEFORE, AFTER, STAGED))
    assert await world.acts.recovery.sweep(older_than_s=-1) == 0
    assert world.read(STAGED) == AFTER


async def test_a_stopped_clock_does_not_matter(world: World) -> None:
    """The lock and the intent end an act, never its age."""
    world.put(PAGE, AFTER)
    told = FileChange(PAGE, revision_of(BEFORE), revision_of(AFTER), staged=STAGED)
    old = now() - timedelta(days=400)
    await world.ledger.intend(Intent("old", old, HistoryEntry(at=old, actor=ADA, changes=(told,))), [BEFORE, AFTER])
    assert await world.acts.recovery.finish_all() == 1
    assert len(await world.ledger.records()) == 1
