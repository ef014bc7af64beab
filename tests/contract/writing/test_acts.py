"""The promises of acts, whichever ledger records them."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from knowledge.errors import InvalidPath, KeepsChanging, UnreadableDocument, UnwritableDocument
from knowledge.history.ports import Intent, Ledger
from knowledge.pages.vault import LARGEST_BYTES, Vault, revision_of
from knowledge.writing.files.patience import LEAST_TRIES, ActPatience
from knowledge.writing.files.unwatched_writes import saved_over
from knowledge.writing.locks.page_locks import LONGEST_WAIT_S
from knowledge.writing.model import ActWork, Contents, PageAct
from tests.support.state.ledgers import change, contradiction, entry, open_shared
from tests.support.state.memory.ledger import MemoryLedger
from tests.support.writing.acts import (
    ADA,
    World,
    adapting,
    appending,
    checked,
    now,
    rejoin,
    save_as_new,
    save_in_place,
    setting,
)
from tests.support.writing.stored import stored_world

PAGE = "guides/a.md"
TEXT = b"# A\n\nOne.\n\nTwo.\n"


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.external)])
async def world(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[World]:
    if request.param == "memory":
        yield World(tmp_path, MemoryLedger(lambda _topic, _paths: None))
        return
    where = request.getfixturevalue("postgres").url() if request.param == "postgres" else str(tmp_path)
    store = await open_shared(where, schema)
    yield World(tmp_path, store.ledger)
    await store.close()


@pytest.fixture(
    params=[
        *("memory", "sqlite", "stored in sqlite"),
        *(pytest.param(name, marks=pytest.mark.external) for name in ("postgres", "stored in postgres")),
    ]
)
async def anywhere(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[World]:
    """Yield pages in a folder, or in a database with a copy in a folder."""
    if request.param == "memory":
        yield World(tmp_path, MemoryLedger(lambda _topic, _paths: None))
        return
    where = request.getfixturevalue("postgres").url() if "postgres" in request.param else str(tmp_path)
    store = await open_shared(where, schema)
    if "stored" in request.param:
        async with stored_world(tmp_path, store) as world:
            yield world
    else:
        yield World(tmp_path, store.ledger)
    await store.close()


async def test_an_acts_contents_are_written_and_recorded(anywhere: World) -> None:
    anywhere.put(PAGE, TEXT)
    done = await anywhere.acts.run(appending(PAGE, b"Three."))
    assert anywhere.read(PAGE) == TEXT + b"Three.\n"
    assert done.result == "appended"
    assert done.revisions == {PAGE: revision_of(TEXT + b"Three.\n")}
    line, begin = await anywhere.ledger.history(PAGE, limit=9)
    assert (begin.how, begin.revision) == ("outside", revision_of(TEXT))
    assert (line.how, line.before, line.revision) == ("written", revision_of(TEXT), revision_of(TEXT + b"Three.\n"))
    assert (line.lines_added, line.lines_removed, line.seq) == (1, 0, 1)
    assert await anywhere.ledger.content(PAGE, revision_of(TEXT)) == TEXT


async def test_nothing_is_left_beside_the_page_or_unfinished(anywhere: World) -> None:
    anywhere.put(PAGE, TEXT)
    await anywhere.acts.run(appending(PAGE, b"Three."))
    assert set(anywhere.pages()) == {PAGE}
    assert await anywhere.ledger.intents() == []


async def test_a_page_is_made_with_the_folders_above_it(anywhere: World) -> None:
    await anywhere.acts.run(setting({"new/deep/page.md": b"# New\n"}))
    assert anywhere.pages() == {"new/deep/page.md": b"# New\n"}


async def test_a_page_is_removed_and_can_be_read_from_history(anywhere: World) -> None:
    anywhere.put(PAGE, TEXT)
    done = await anywhere.acts.run(setting({PAGE: None}))
    assert anywhere.pages() == {}
    assert done.revisions == {PAGE: None}
    assert await anywhere.ledger.content(PAGE, revision_of(TEXT)) == TEXT


async def test_a_move_keeps_permissions_and_history(world: World) -> None:
    world.put(PAGE, TEXT)
    (world.root / PAGE).chmod(0o640)
    await world.acts.run(setting({PAGE: None, "b.md": TEXT}, **{"b.md": PAGE}))
    assert world.pages() == {"b.md": TEXT}
    assert (world.root / "b.md").stat().st_mode & 0o777 == 0o640
    assert (await world.ledger.history("b.md", limit=1))[0].moved_from == PAGE


async def test_an_act_that_changes_nothing_writes_and_records_nothing(anywhere: World) -> None:
    anywhere.put(PAGE, TEXT)
    before = (anywhere.root / PAGE).stat()
    done = await anywhere.acts.run(setting({PAGE: TEXT}))
    now = (anywhere.root / PAGE).stat()  # of which only the time of the last reading differs
    assert (now.st_ino, now.st_ctime_ns, now.st_mtime_ns) == (before.st_ino, before.st_ctime_ns, before.st_mtime_ns)
    assert (done.record, dict(done.revisions)) == (None, {})


async def test_a_contradiction_is_recorded_though_nothing_is_written(anywhere: World) -> None:
    async def work(_: Contents) -> ActWork[None]:
        return ActWork({}, None, outcome="flagged", contradictions=[contradiction(PAGE)])

    done = await anywhere.acts.run(PageAct(ADA, (PAGE,), work))
    assert done.record is not None
    assert len(await anywhere.ledger.flags(None, limit=9)) == 1


async def test_a_rehearsal_changes_nothing_and_waits_for_nobody(anywhere: World) -> None:
    anywhere.put(PAGE, TEXT)
    async with anywhere.beside().locks.held([PAGE]):
        with anyio.fail_after(60):
            assert (await anywhere.acts.rehearse(appending(PAGE, b"Three."))).work.result == "appended"
    assert anywhere.pages() == {PAGE: TEXT}
    assert await anywhere.ledger.records() == []


async def test_an_act_may_only_change_the_pages_it_names(anywhere: World) -> None:
    async def work(_: Contents) -> ActWork[None]:
        return ActWork({"other.md": b"x"}, None)

    with pytest.raises(ValueError, match=r"other\.md"):
        await anywhere.acts.run(PageAct(ADA, (PAGE,), work))
    assert anywhere.pages() == {}


@pytest.mark.parametrize("save", [save_as_new, save_in_place])
@pytest.mark.parametrize("moment", ["create", "fsync", "exchange", "exchanged"])
async def test_a_save_that_comes_while_an_act_is_under_way_is_merged_with_it(
    world: World, moment: str, save: Callable[[Path, bytes], None]
) -> None:
    """Design, section 5: a displaced save is archived, never lost; then it is merged again."""
    world.put(PAGE, TEXT)
    world.steps.at(moment, lambda: save(world.root / PAGE, b"# A\n\nSaved.\n"))
    async with anyio.create_task_group() as group:
        group.start_soon(world.acts.watch)
        await anyio.lowlevel.checkpoint()
        await world.acts.run(appending(PAGE, b"Three."))
        if moment == "exchanged":  # after our write: the editor had read what was there before it
            assert await _until(lambda: b"Three." in (world.read(PAGE) or b"")), world.read(PAGE)
        group.cancel_scope.cancel()
    final = world.read(PAGE)
    assert final is not None
    assert b"Saved." in final
    assert b"Three." in final
    assert b"# A\n\nSaved.\n" in await world.lineage(PAGE)


async def _until(so: Callable[[], bool]) -> bool:
    with anyio.move_on_after(60):
        while not so():  # noqa: ASYNC110  what is waited for is a file
            await anyio.sleep(0.01)
    return so()


async def test_a_page_that_appears_while_it_is_made_is_not_overwritten(world: World) -> None:
    world.steps.at("exchange", lambda: world.put(PAGE, b"theirs\n"))
    await world.acts.run(appending(PAGE, b"ours"))
    assert world.read(PAGE) == b"theirs\nours\n"


async def test_a_page_that_vanishes_during_a_write_is_planned_again(world: World) -> None:
    """File vanished."""
    world.put(PAGE, TEXT)
    world.steps.at("exchange", (world.root / PAGE).unlink)
    done = await world.acts.run(adapting([PAGE], lambda seen: {PAGE: b"made anew\n" if seen[PAGE] is None else b"x"}))
    assert done.result == {PAGE: None}
    assert world.pages() == {PAGE: b"made anew\n"}


async def test_a_save_during_a_removal_is_seen_before_anything_goes(world: World) -> None:
    world.put(PAGE, TEXT)
    world.steps.at("exchange", lambda: save_as_new(world.root / PAGE, b"saved\n"))
    done = await world.acts.run(adapting([PAGE], lambda _: {PAGE: None}))
    assert done.result == {PAGE: b"saved\n"}
    assert b"saved\n" in await world.lineage(PAGE)


def _saves(world: World, step: str, count: int) -> list[bytes]:
    """Save the page at every step of that name, this often."""
    saves = [b"# A\n\nSave %d.\n" % number for number in range(count)]
    for number, raw in enumerate(saves, 1):
        world.steps.at(step, partial(save_as_new, world.root / PAGE, raw), nth=number)
    return saves


async def test_a_page_that_is_saved_again_and_again_is_given_up_with_all_saves_kept(world: World) -> None:
    world.put(PAGE, TEXT)
    await world.acts.run(appending(PAGE, b"Before."))
    saves = _saves(world, "fsync", 40)
    with pytest.raises(KeepsChanging, match=f"{LEAST_TRIES} times.*in its history"):
        await world.impatient().acts.run(appending(PAGE, b"Three."))
    final = world.read(PAGE)
    assert final in saves
    assert set(world.pages()) == {PAGE}
    lineage = [final, *await world.lineage(PAGE)]
    assert all(save in lineage for save in saves[: saves.index(final) + 1])
    assert await world.ledger.intents() == []


@pytest.mark.parametrize("save", [save_as_new, save_in_place])
@pytest.mark.external
async def test_an_edit_comes_in_between_however_often_the_page_was_saved_while_it_was_worked_out(
    world: World, save: Callable[[Path, bytes], None]
) -> None:
    """No disjoint edit is refused. An editor saves dozens of times within a second."""
    world.put(PAGE, TEXT)
    saves = iter([b"# A\n\nSave %d.\n" % number for number in range(60)])

    def overtaken(seen: Contents) -> Contents:
        if (raw := next(saves, None)) is not None:
            save(world.root / PAGE, raw)
        return {PAGE: (seen[PAGE] or b"") + b"Three.\n"}

    done = await world.acts.run(adapting([PAGE], overtaken))
    assert done.result == {PAGE: b"# A\n\nSave 59.\n"}
    assert world.read(PAGE) == b"# A\n\nSave 59.\nThree.\n"
    assert world.steps.seen.count("create") == 1


async def test_an_edit_that_is_overtaken_without_end_is_given_up_before_others_have_waited_too_long(
    world: World,
) -> None:
    """The caller gets an answer in the end, by a clock that advances a second at each look."""
    world.put(PAGE, TEXT)
    ticks = count()
    patient = World(world.home, world.ledger, patience=lambda: ActPatience(clock=lambda: float(next(ticks))))
    numbers = count()

    def overtaken(seen: Contents) -> Contents:
        save_as_new(world.root / PAGE, b"# A\n\nSave %d.\n" % next(numbers))
        return {PAGE: (seen[PAGE] or b"") + b"Three.\n"}

    with pytest.raises(KeepsChanging):
        await patient.acts.run(adapting([PAGE], overtaken))
    assert LEAST_TRIES < next(numbers) < LONGEST_WAIT_S
    assert set(world.pages()) == {PAGE}


async def test_saves_right_before_every_exchange_and_taking_back_are_all_kept(world: World) -> None:
    world.put(PAGE, TEXT)
    await world.acts.run(appending(PAGE, b"Before."))
    saves = _saves(world, "exchange", 7)
    await world.acts.run(appending(PAGE, b"Three."))
    final = world.pages().pop(PAGE)
    assert b"Save 6." in final
    assert b"Three." in final
    assert set(world.pages()) == {PAGE}
    lineage = await world.lineage(PAGE)
    assert all(save in lineage for save in saves)


async def test_an_act_whose_check_fails_is_undone_completely(anywhere: World) -> None:
    """Design, section 5, internal verification: otherwise the act is undone and reported."""

    async def check(_: Contents) -> Sequence[str]:
        return ["a link leads nowhere"]

    anywhere.put(PAGE, TEXT)
    anywhere.put("b.md", b"b\n")
    act = checked(setting({PAGE: b"changed\n", "b.md": None, "c/new.md": b"new\n"}), check)
    done = await anywhere.acts.run(act)
    assert done.undone == ("a link leads nowhere",)
    assert anywhere.pages() == {PAGE: TEXT, "b.md": b"b\n"}
    assert done.record is not None
    assert '"outcome":"undone"' in done.record.body
    assert [line.how for line in await anywhere.ledger.history(PAGE, limit=9)] == ["outside"]
    assert await anywhere.ledger.intents() == []


async def test_a_save_over_an_undone_write_stays(world: World) -> None:
    async def check(_: Contents) -> Sequence[str]:
        save_as_new(world.root / PAGE, b"saved over it\n")
        return ["wrong"]

    world.put(PAGE, TEXT)
    await world.acts.run(checked(appending(PAGE, b"Three."), check))
    assert world.pages() == {PAGE: b"saved over it\n"}


async def test_a_caller_that_goes_away_does_not_stop_an_act_half_way(world: World) -> None:
    world.put(PAGE, TEXT)
    scope = anyio.CancelScope()
    world.steps.at("exchange", lambda: anyio.from_thread.run_sync(scope.cancel))
    with scope:
        await world.acts.run(appending(PAGE, b"Three."))
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert world.read(PAGE) == TEXT + b"Three.\n"
    assert len(await world.ledger.records()) == 1


FAULTS = {
    "create": (errno.EACCES, "may not be written to"),
    "write": (errno.ENOSPC, "disk is full"),
    "fsync": (errno.EIO, "disk reports an error"),
    "exchange": (errno.EROFS, "read-only"),
    "exchanged": (errno.EIO, "disk reports an error"),
    "sync folder": (errno.EIO, "disk reports an error"),
}


@pytest.mark.parametrize("step", FAULTS)
@pytest.mark.parametrize("nth", [1, 2])
async def test_a_fault_at_any_step_leaves_every_file_unchanged(world: World, step: str, nth: int) -> None:
    """ENOSPC, EIO, read-only directory: a clear error each, nothing half-written."""
    world.put(PAGE, TEXT)
    world.put("b.md", b"b\n")
    number, told = FAULTS[step]
    world.steps.fail(step, number, nth=nth)
    with pytest.raises(UnwritableDocument, match=told) as raised:
        await world.acts.run(setting({PAGE: b"changed\n", "b.md": b"changed too\n"}))
    assert "nothing was changed" in str(raised.value)
    assert world.pages() == {PAGE: TEXT, "b.md": b"b\n"}
    assert await world.ledger.intents() == []
    assert await world.ledger.records() == []
    await world.acts.run(setting({PAGE: b"changed\n"}))
    assert world.read(PAGE) == b"changed\n"


async def test_a_fault_in_the_middle_of_a_large_file_leaves_nothing(world: World) -> None:
    world.steps.fail("write", errno.ENOSPC, nth=3)
    with pytest.raises(UnwritableDocument, match="disk is full"):
        await world.acts.run(setting({PAGE: b"x" * 5_000_000}))
    assert world.pages() == {}


async def test_a_disk_that_gives_back_other_bytes_than_it_was_given_is_noticed(world: World) -> None:
    """Design, section 5: the file is read back and equals the plan."""

    def lie() -> None:
        file = world.root / PAGE
        status = file.stat()
        file.write_bytes(b"?" * status.st_size)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    world.put(PAGE, TEXT)
    world.steps.at("folder synced", lie)
    with pytest.raises(UnwritableDocument, match="disk reports an error"):
        await world.acts.run(appending(PAGE, b"Three."))
    assert world.read(PAGE) == TEXT
    assert await world.ledger.records() == []


async def test_an_act_that_cannot_be_undone_is_repaired_by_the_next_process(world: World) -> None:
    """The disk fails in the middle and again during the undo: the intent stays, and says what was in progress."""
    world.put(PAGE, TEXT)
    world.put("b.md", b"b\n")
    world.steps.fail("exchange", errno.EIO, nth=2)
    world.steps.fail("exchange", errno.EIO, nth=3)
    with pytest.raises(UnwritableDocument):
        await world.acts.run(setting({PAGE: b"changed\n", "b.md": b"changed too\n"}))
    assert len(await world.ledger.intents()) == 1
    await world.beside().acts.recovery.finish_all()
    assert world.pages() == {PAGE: b"changed\n", "b.md": b"changed too\n"}
    assert await world.ledger.intents() == []


async def test_a_folder_in_the_place_of_a_page_is_refused_and_left_alone(world: World) -> None:
    """The file became a directory."""
    (world.root / "x.md").mkdir()
    with pytest.raises(UnwritableDocument, match="a folder is there"):
        await world.acts.run(appending("x.md", b"text"))
    assert (world.root / "x.md").is_dir()


async def test_a_page_that_becomes_a_folder_while_it_is_written_is_left_a_folder(world: World) -> None:
    def become() -> None:
        (world.root / PAGE).unlink()
        (world.root / PAGE).mkdir()

    world.put(PAGE, TEXT)
    world.steps.at("exchange", become)
    with pytest.raises(UnwritableDocument, match="a folder is there"):
        await world.acts.run(appending(PAGE, b"Three."))
    assert (world.root / PAGE).is_dir()
    assert world.pages() == {}


async def test_a_file_above_a_page_is_refused(anywhere: World) -> None:
    anywhere.put("a.md", TEXT)
    with pytest.raises(UnwritableDocument, match="a file is where a folder should be"):
        await anywhere.acts.run(setting({"a.md/b.md": b"x"}))


async def test_a_read_only_page_is_refused(world: World) -> None:
    world.put(PAGE, TEXT)
    (world.root / PAGE).chmod(0o444)
    with pytest.raises(UnwritableDocument, match="read-only"):
        await world.acts.run(appending(PAGE, b"Three."))
    assert world.pages() == {PAGE: TEXT}


async def test_a_page_of_fifty_megabytes_is_refused_both_ways(world: World) -> None:
    """50 MB document."""
    assert LARGEST_BYTES < 50 * 2**20, "let this test write a page larger than the new limit"
    with pytest.raises(UnwritableDocument, match=r"it would be 50 MiB.*split it"):
        await world.acts.run(setting({PAGE: b"x" * 50 * 2**20}))
    assert world.pages() == {}
    (world.root / "big.md").touch()
    os.truncate(world.root / "big.md", 50 * 2**20)
    with pytest.raises(UnreadableDocument, match="too large"):
        await world.acts.run(appending("big.md", b"more"))


async def test_bytes_that_are_not_text_pass_unchanged(anywhere: World) -> None:
    """The merge decides what they mean; here none of their text is lost."""
    anywhere.put(PAGE, b"\xff\xfe\x00broken\n")
    await anywhere.acts.run(appending(PAGE, b"\xfe"))
    assert anywhere.read(PAGE) == b"\xff\xfe\x00broken\n\xfe\n"


@pytest.mark.parametrize(
    "path",
    [
        *("../out.md", "/etc/x.md", ".git/x.md", "a/.hidden.md", "notes.txt", "CON.md", "a/nul.md", "x./y.md"),
        *("folder /y.md", "aux.tar.md", "com1.md", "LPT9.md", "node_modules/x.md", "no-suffix", "a\x00b.md", ""),
    ],
)
async def test_names_that_can_be_no_page_are_refused(anywhere: World, path: str) -> None:
    with pytest.raises(InvalidPath):
        await anywhere.acts.run(setting({path: b"x"}))
    assert anywhere.pages() == {}


async def test_a_link_that_stays_inside_stays_and_its_target_is_written(world: World) -> None:
    world.put(PAGE, TEXT)
    (world.root / "link.md").symlink_to(PAGE)
    await world.acts.run(appending("link.md", b"Three."))
    assert (world.root / "link.md").is_symlink()
    assert not (world.root / PAGE).is_symlink()
    assert world.read(PAGE) == TEXT + b"Three.\n"


async def test_links_that_lead_outside_nowhere_or_to_hidden_files_are_refused(world: World) -> None:
    outside = world.home / "outside"
    outside.mkdir()
    (outside / "x.md").write_bytes(b"secret")
    (world.root / ".hidden").mkdir()
    (world.root / ".hidden/x.md").write_bytes(b"hidden")
    (world.root / "out").symlink_to(outside)
    (world.root / "x.md").symlink_to(outside / "x.md")
    (world.root / "nothing.md").symlink_to("gone.md")
    (world.root / "hidden.md").symlink_to(".hidden/x.md")
    for path in ("out/x.md", "out/new.md", "x.md", "nothing.md", "hidden.md"):
        with pytest.raises(InvalidPath):
            await world.acts.run(setting({path: b"y"}))
    assert (outside / "x.md").read_bytes() == b"secret"
    assert sorted(p.name for p in outside.iterdir()) == ["x.md"]
    assert (world.root / ".hidden/x.md").read_bytes() == b"hidden"


async def test_a_folder_that_is_exchanged_for_a_link_to_outside_is_not_followed(world: World) -> None:
    """Paths are resolved at open time beneath the knowledge base's root."""
    outside = world.home / "outside"
    outside.mkdir()
    world.put(PAGE, TEXT)

    def swap() -> None:
        (world.root / "guides").rename(world.root / "moved-away")
        (world.root / "guides").symlink_to(outside)

    world.steps.at("open folder", swap, nth=2)
    with pytest.raises((InvalidPath, UnwritableDocument)):
        await world.acts.run(appending(PAGE, b"Three."))
    assert list(outside.iterdir()) == []
    assert (world.root / "moved-away/a.md").read_bytes() == TEXT


async def test_a_save_from_a_stale_buffer_gets_the_missing_changes(anywhere: World) -> None:
    """The editor read the page before our write and saves it right after it."""
    anywhere.put(PAGE, TEXT)
    await anywhere.acts.run(appending(PAGE, b"Ours."))
    save_as_new(anywhere.root / PAGE, TEXT.replace(b"One.", b"One, by hand."))
    await anywhere.acts.note_outside(PAGE)
    assert anywhere.read(PAGE) == TEXT.replace(b"One.", b"One, by hand.") + b"Ours.\n"
    history = await anywhere.ledger.history(PAGE, limit=9)
    assert [(line.how, line.tool) for line in history] == [
        ("written", "restore"),
        ("outside", ""),
        ("written", "kb_merge"),
        ("outside", ""),
    ]
    assert '"outcome":"restored"' in (await anywhere.ledger.records())[-1].body


async def test_a_stale_save_is_put_right_on_the_way_of_the_next_write(anywhere: World) -> None:
    anywhere.put(PAGE, TEXT)
    await anywhere.acts.run(appending(PAGE, b"Ours."))
    save_as_new(anywhere.root / PAGE, TEXT)
    await anywhere.beside().acts.run(appending(PAGE, b"Next."))
    assert anywhere.read(PAGE) == TEXT + b"Ours.\nNext.\n"


async def test_a_person_who_has_seen_our_write_may_remove_it(anywhere: World) -> None:
    anywhere.put(PAGE, TEXT)
    await anywhere.acts.run(appending(PAGE, b"Ours.", b"And ours.", b"Ours too."))
    edited = TEXT + b"And ours.\nOurs too.\n"
    save_as_new(anywhere.root / PAGE, edited)
    await anywhere.acts.note_outside(PAGE)
    assert anywhere.read(PAGE) == edited


async def test_a_save_long_after_our_write_is_intentional(anywhere: World) -> None:
    anywhere.put(PAGE, TEXT)
    await anywhere.acts.run(appending(PAGE, b"Ours."))
    save_as_new(anywhere.root / PAGE, TEXT)
    later = (anywhere.root / PAGE).stat().st_mtime + 60
    os.utime(anywhere.root / PAGE, (later, later))
    await anywhere.acts.note_outside(PAGE)
    assert anywhere.read(PAGE) == TEXT


async def test_a_page_that_is_emptied_stays_empty(anywhere: World) -> None:
    anywhere.put(PAGE, TEXT)
    await anywhere.acts.run(appending(PAGE, b"Ours."))
    save_in_place(anywhere.root / PAGE, b"")
    await anywhere.acts.note_outside(PAGE)
    assert anywhere.read(PAGE) == b""


async def test_many_writes_back_a_stale_buffer_is_still_known(anywhere: World) -> None:
    """The editor read the page forty acts ago; all forty are restored."""
    anywhere.put(PAGE, TEXT)
    for number in range(40):
        await anywhere.acts.run(appending(PAGE, b"Line %d." % number))
    save_as_new(anywhere.root / PAGE, TEXT + b"By hand.\n")
    await anywhere.acts.note_outside(PAGE)
    final = anywhere.read(PAGE) or b""
    assert b"By hand." in final
    assert all(b"Line %d.\n" % number in final for number in range(40))


async def test_an_editor_that_has_the_displaced_file_open_loses_nothing(world: World) -> None:
    world.put(PAGE, TEXT)
    async with anyio.create_task_group() as group:
        group.start_soon(world.acts.watch)
        await anyio.lowlevel.checkpoint()
        with (world.root / PAGE).open("r+b") as editor:
            await world.acts.run(appending(PAGE, b"Ours."))
            late = TEXT.replace(b"Two.", b"Two, by hand.")
            editor.truncate()
            editor.write(late)
        assert await _until(lambda: b"by hand" in (world.read(PAGE) or b""))
        group.cancel_scope.cancel()
    assert world.read(PAGE) == late + b"Ours.\n"
    assert late in await world.lineage(PAGE)


async def test_a_save_over_a_write_of_a_process_that_was_killed_is_noticed_by_the_next_one(world: World) -> None:
    """The killed process would have checked the page for some seconds. No test had an editor beside kills."""
    world.put(PAGE, TEXT)
    await world.acts.run(appending(PAGE, b"Ours."))
    async with anyio.create_task_group() as group:
        group.start_soon(world.beside().acts.watch)
        await anyio.lowlevel.checkpoint()
        save_as_new(world.root / PAGE, TEXT + b"By hand.\n")
        assert await _until(lambda: b"Ours." in (world.read(PAGE) or b""))
        group.cancel_scope.cancel()
    assert set((world.read(PAGE) or b"").splitlines()) == {*TEXT.splitlines(), b"Ours.", b"By hand."}


async def test_pages_saved_over_since_the_last_act_are_found(world: World) -> None:
    world.put(PAGE, TEXT)
    await world.acts.run(setting({PAGE: TEXT + b"Ours.\n", "other.md": b"# Other\n", "gone.md": b"# Gone\n"}))
    assert await saved_over(Vault.open(world.root), world.ledger, now()) == []
    save_as_new(world.root / PAGE, TEXT)
    (world.root / "gone.md").unlink()
    assert await saved_over(Vault.open(world.root), world.ledger, now()) == [PAGE]
    await world.acts.note_outside(PAGE)
    assert b"Ours." in (world.read(PAGE) or b"")
    assert await saved_over(Vault.open(world.root), world.ledger, now()) == []


async def test_a_save_over_acts_of_a_process_that_was_killed_in_its_next_act_does_not_remove_them(world: World) -> None:
    world.put(PAGE, TEXT)
    await world.acts.run(appending(PAGE, b"Ours."))
    written = world.read(PAGE) or b""
    left = entry(change(PAGE, written, written + b"Never written.\n"))
    await world.ledger.intend(Intent("left", now(), left), [written, written + b"Never written.\n"])
    save_as_new(world.root / PAGE, TEXT + b"By hand.\n")
    assert await world.acts.recovery.finish_all() == 1
    await world.beside().acts.note_outside(PAGE)
    assert set((world.read(PAGE) or b"").splitlines()) == {*TEXT.splitlines(), b"Ours.", b"By hand."}


async def test_one_look_that_goes_wrong_does_not_end_the_watch(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def break_down() -> None:
        raise RuntimeError("nobody has thought of this")

    world.put(PAGE, TEXT)
    async with anyio.create_task_group() as group:
        group.start_soon(world.acts.watch)
        await anyio.lowlevel.checkpoint()
        await world.acts.run(appending(PAGE, b"Ours."))
        world.steps.at("read", break_down)
        save_as_new(world.root / PAGE, TEXT)
        assert await _until(lambda: world.read(PAGE) == TEXT + b"Ours.\n")
        group.cancel_scope.cancel()
    assert "cannot look again" in caplog.text


async def test_a_late_save_is_kept_when_the_server_is_stopped(world: World) -> None:
    world.put(PAGE, TEXT)
    late = TEXT + b"By hand, and longer than before.\n"
    async with anyio.create_task_group() as group:
        group.start_soon(world.acts.watch)
        await anyio.lowlevel.checkpoint()
        with (world.root / PAGE).open("r+b") as editor:
            await world.acts.run(appending(PAGE, b"Ours."))
            editor.write(late)
        group.cancel_scope.cancel()
    assert world.read(PAGE) == late + b"Ours.\n"


def test_these_tests_join_additions() -> None:
    assert rejoin(b"a\nb\n", b"a\nx\nb\n", b"a\nb\nc\n") == b"a\nx\nb\nc\n"
    assert rejoin(b"a\nb\n", b"a2\nb\n", b"a\nb2\n") == b"a2\nb2\n"


async def test_an_act_on_very_many_pages_opens_few_files_at_a_time(anywhere: World) -> None:
    """A page with many incoming links is moved."""
    pages = {f"{number % 3}/{number}.md": b"see a\n" for number in range(150)}
    for path, raw in pages.items():
        anywhere.put(path, raw)
    resource = pytest.importorskip("resource")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (220, limit[1]))
    try:
        await anywhere.acts.run(setting(dict.fromkeys(pages, b"see b\n")))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert anywhere.pages() == dict.fromkeys(pages, b"see b\n")


@pytest.mark.parametrize("first", [b"", TEXT[:9], b"# Something else that is longer than it was.\n"])
async def test_an_editor_that_has_just_begun_to_write_is_waited_for(world: World, first: bytes) -> None:
    """It empties the file and writes it in two steps, as simple editors do."""
    world.put(PAGE, TEXT)
    await world.acts.run(appending(PAGE, b"Ours."))
    whole = first + TEXT + b"Ours.\nBy hand.\n"
    looks = iter([b"", first, whole])

    def save_on() -> None:
        raw = next(looks, None)
        if raw is not None:
            (world.root / PAGE).write_bytes(raw)

    for nth in range(1, 4):
        world.steps.at("read", save_on, nth=nth)
    done = await world.acts.run(adapting([PAGE], lambda seen: {PAGE: (seen[PAGE] or b"") + b"More.\n"}))
    assert done.result == {PAGE: whole}
    assert [line.revision for line in await world.ledger.history(PAGE, limit=9) if line.how == "outside"] == [
        revision_of(whole),
        revision_of(TEXT),
    ]


async def test_an_editor_that_pauses_after_emptying_the_page_is_waited_for(world: World) -> None:
    """On a busy machine it may stall for more than a tenth of a second."""
    world.put(PAGE, TEXT)
    await world.acts.run(appending(PAGE, b"Ours."))
    whole = TEXT + b"Ours.\nBy hand.\n"
    save_in_place(world.root / PAGE, b"")
    world.steps.at("read", lambda: save_in_place(world.root / PAGE, whole), nth=60)
    done = await world.acts.run(adapting([PAGE], lambda seen: {PAGE: (seen[PAGE] or b"") + b"More.\n"}))
    assert done.result == {PAGE: whole}


async def test_concurrent_acts_from_many_views_lose_nothing(anywhere: World) -> None:
    views = [anywhere, *(anywhere.beside() for _ in range(3))]
    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(views[number % 4].acts.run, appending(PAGE, b"Line %d." % number))
    lines = (anywhere.read(PAGE) or b"").splitlines()
    assert sorted(lines) == sorted(b"Line %d." % number for number in range(40))
    assert len(await anywhere.ledger.records()) == 40


def test_the_ledgers_under_test_are_ledgers() -> None:
    ledger: Ledger = MemoryLedger(lambda _topic, _paths: None)
    assert ledger
