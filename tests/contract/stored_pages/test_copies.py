"""The promises of machines' copies of stored pages: both sides of an edit are kept, and nothing is removed by accident."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from knowledge.errors import VaultUnavailable
from knowledge.pages.vault import revision_of
from knowledge.state.ports import StateStore
from knowledge.stored_pages.copy import FEW_REMOVED
from knowledge.stored_pages.ports import FileExchange
from tests.support.writing.acts import adapting, appending, save_as_new, save_in_place, setting
from tests.support.writing.stored import StoredWorld, stored_world

PAGE = "guides/a.md"
TEXT = b"# A\n\nOne.\n\nTwo.\n"
PICTURE = b"\x89PNG\r\n" + bytes(range(64))


@pytest.fixture
async def here(store: StateStore, tmp_path: Path) -> AsyncIterator[StoredWorld]:
    async with stored_world(tmp_path, store) as world:
        yield world


async def there(here: StoredWorld) -> StoredWorld:
    other = here.elsewhere()
    await other.copy.catch_up()
    return other


async def test_what_one_machine_writes_the_others_have_once_they_catch_up(here: StoredWorld) -> None:
    other = await there(here)
    await here.acts.run(setting({PAGE: TEXT, "b.md": b"# B\n"}))
    assert other.pages() == {}
    await other.copy.catch_up()
    assert other.pages() == here.pages() == {PAGE: TEXT, "b.md": b"# B\n"}
    await other.acts.run(setting({PAGE: None, "c/a.md": TEXT}, **{"c/a.md": PAGE}))
    await here.copy.catch_up()
    assert here.pages() == {"c/a.md": TEXT, "b.md": b"# B\n"}
    assert not (here.root / "guides").exists()
    assert (await here.ledger.history("c/a.md", limit=1))[0].moved_from == PAGE


async def test_an_act_reads_the_database_and_not_a_copy_that_is_behind(here: StoredWorld) -> None:
    other = await there(here)
    await here.acts.run(setting({PAGE: TEXT}))
    done = await other.acts.run(adapting([PAGE], lambda seen: {PAGE: (seen[PAGE] or b"") + b"Three.\n"}))
    assert done.result == {PAGE: TEXT}
    assert other.read(PAGE) == TEXT + b"Three.\n"


async def test_edits_on_two_machines_are_merged(here: StoredWorld) -> None:
    await here.acts.run(setting({PAGE: TEXT}))
    other = await there(here)
    save_as_new(other.root / PAGE, TEXT.replace(b"One.", b"One, by hand."))
    save_in_place(here.root / PAGE, TEXT.replace(b"Two.", b"Two, by hand."))
    await here.acts.note_outside(PAGE)
    await other.acts.note_outside(PAGE)
    await here.copy.catch_up()
    both = TEXT.replace(b"One.", b"One, by hand.").replace(b"Two.", b"Two, by hand.")
    assert here.read(PAGE) == other.read(PAGE) == both
    assert {TEXT, both} < set(await here.lineage(PAGE))


async def test_of_a_conflict_both_sides_are_in_the_history(here: StoredWorld) -> None:
    await here.acts.run(setting({PAGE: TEXT}))
    other = await there(here)
    await here.acts.run(setting({PAGE: TEXT.replace(b"One.", b"One from a host.")}))
    save_as_new(other.root / PAGE, TEXT.replace(b"One.", b"One by hand."))
    await other.acts.note_outside(PAGE)
    await here.copy.catch_up()
    assert here.read(PAGE) == other.read(PAGE)
    states = b"".join(await here.lineage(PAGE))
    assert b"One from a host." in states
    assert b"One by hand." in states


async def test_an_unsaved_edit_is_taken_on_the_way_of_the_next_act(here: StoredWorld) -> None:
    await here.acts.run(setting({PAGE: TEXT}))
    save_in_place(here.root / PAGE, TEXT + b"By hand.\n")
    await here.acts.run(appending(PAGE, b"Ours."))
    assert here.read(PAGE) == TEXT + b"By hand.\nOurs.\n"
    assert await here.copy.edited() == []


async def test_a_change_from_elsewhere_never_overwrites_an_edit(here: StoredWorld) -> None:
    await here.acts.run(setting({PAGE: TEXT}))
    other = await there(here)
    await here.acts.run(appending(PAGE, b"Ours."))
    save_as_new(other.root / PAGE, b"By hand.\n" + TEXT)
    await other.copy.catch_up()
    assert other.read(PAGE) == b"By hand.\n" + TEXT
    assert await other.copy.edited() == [PAGE]
    await other.acts.note_outside(PAGE)
    assert other.read(PAGE) == b"By hand.\n" + TEXT + b"Ours.\n"
    assert await other.copy.edited() == []


async def test_a_new_page_in_the_copy_is_stored(here: StoredWorld) -> None:
    other = await there(here)
    other.put("new/page.md", b"# New\n")
    await other.acts.note_outside("new/page.md")
    await here.copy.catch_up()
    assert here.pages() == {"new/page.md": b"# New\n"}
    assert [line.how for line in await here.ledger.history("new/page.md", limit=9)] == ["outside"]


async def test_two_new_pages_at_one_path_become_one_with_both_texts(here: StoredWorld) -> None:
    other = await there(here)
    here.put("new.md", b"Here.\n")
    other.put("new.md", b"There.\n")
    await here.acts.note_outside("new.md")
    await other.acts.note_outside("new.md")
    states = b"".join(await here.lineage("new.md"))
    assert b"Here.\n" in states
    assert b"There.\n" in states


async def test_a_page_removed_in_the_copy_is_removed_and_can_be_restored(here: StoredWorld) -> None:
    await here.acts.run(setting({PAGE: TEXT, "b.md": b"# B\n"}))
    (here.root / PAGE).unlink()
    await here.acts.note_outside(PAGE)
    assert (await there(here)).pages() == {"b.md": b"# B\n"}
    assert (await here.ledger.history(PAGE, limit=1))[0].revision is None
    assert await here.ledger.content(PAGE, revision_of(TEXT)) == TEXT


async def test_a_page_removed_in_one_copy_and_changed_in_the_database_comes_back(here: StoredWorld) -> None:
    await here.acts.run(setting({PAGE: TEXT, "b.md": b"# B\n"}))
    other = await there(here)
    await here.acts.run(appending(PAGE, b"Ours."))
    (other.root / PAGE).unlink()
    await other.acts.note_outside(PAGE)
    assert other.read(PAGE) == here.read(PAGE) == TEXT + b"Ours.\n"


async def test_an_edit_of_a_page_that_was_removed_elsewhere_stays_a_page(here: StoredWorld) -> None:
    await here.acts.run(setting({PAGE: TEXT}))
    other = await there(here)
    await here.acts.run(setting({PAGE: None}))
    save_as_new(other.root / PAGE, TEXT + b"By hand.\n")
    await other.acts.note_outside(PAGE)
    await here.copy.catch_up()
    assert here.read(PAGE) == TEXT + b"By hand.\n"


@pytest.mark.parametrize("count", [3, FEW_REMOVED + 5])
async def test_a_folder_that_was_emptied_is_filled_again_and_removes_nothing(here: StoredWorld, count: int) -> None:
    pages = {f"{number % 3}/{number}.md": b"# %d\n" % number for number in range(count)}
    await here.acts.run(setting(pages))
    shutil.rmtree(here.root)
    here.root.mkdir()
    for path in await here.copy.edited():
        await here.acts.note_outside(path)
    assert here.pages() == pages
    assert (await there(here)).pages() == pages


async def test_a_page_moved_in_the_copy_keeps_its_history(here: StoredWorld) -> None:
    await here.acts.run(setting({PAGE: TEXT, "other.md": b"# Other\n"}))
    (here.root / PAGE).rename(here.root / "moved.md")
    assert await here.acts.follow_move(PAGE, "moved.md")
    assert (await there(here)).pages() == {"moved.md": TEXT, "other.md": b"# Other\n"}
    assert (await here.ledger.history("moved.md", limit=1))[0].moved_from == PAGE
    assert not await here.acts.follow_move("moved.md", "again.md")


async def test_attachments_are_stored_and_of_two_versions_both_are_kept(here: StoredWorld) -> None:
    here.put("img/a.png", PICTURE)
    await here.stored.take_file("img/a.png")
    other = await there(here)
    assert other.read("img/a.png") == PICTURE
    save_as_new(here.root / "img/a.png", PICTURE + b"here")
    save_as_new(other.root / "img/a.png", PICTURE + b"there")
    await here.stored.take_file("img/a.png")
    await other.stored.take_file("img/a.png")
    await here.copy.catch_up()
    assert sorted(here.pages().values()) == sorted([PICTURE + b"here", PICTURE + b"there"])
    assert here.pages() == other.pages()
    assert here.read("img/a.png") == PICTURE + b"there"
    (here.root / "img/a.png").unlink()
    await here.stored.take_file("img/a.png")
    await other.copy.catch_up()
    assert list(other.pages().values()) == [PICTURE + b"here"]


async def test_a_folder_with_other_files_is_not_taken_for_a_copy(here: StoredWorld) -> None:
    await here.acts.run(setting({PAGE: TEXT}))
    other = here.elsewhere()
    other.put("mine.md", b"# Mine\n")
    with pytest.raises(VaultUnavailable, match=r"other files: mine\.md; name an"):
        await other.copy.require_ours()
    assert other.pages() == {"mine.md": b"# Mine\n"}
    (other.root / "mine.md").unlink()
    other.put(PAGE, TEXT)
    await other.copy.require_ours()
    await other.copy.catch_up()
    assert await other.copy.edited() == []


async def test_a_database_restored_from_a_backup_takes_the_copies_back(here: StoredWorld) -> None:
    await here.acts.run(setting({PAGE: TEXT}))
    seq = await here.copy.pages.last()
    await here.acts.run(setting({PAGE: TEXT + b"Later.\n", "later.md": b"# Later\n"}))
    assert here.store is not None
    before = (await here.copy.pages.find([PAGE]))[PAGE].digest
    await here.store.tables.write(("DELETE FROM forge.stored_file WHERE path = %s", ("later.md",)))
    await here.copy.pages.put(FileExchange(PAGE, before, TEXT), at=datetime.now(UTC))
    await here.store.tables.write(("UPDATE forge.stored_file SET seq = %s", (seq,)))
    await here.copy.catch_up()
    assert here.pages() == {PAGE: TEXT}


async def test_a_file_that_cannot_be_placed_is_named_and_the_others_come(here: StoredWorld) -> None:
    other = await there(here)
    (other.root / "b.md").mkdir()
    await here.acts.run(setting({"a.md": b"# A\n", "b.md": b"# B\n", "c.md": b"# C\n"}))
    await other.copy.catch_up()
    assert set(other.pages()) == {"a.md", "c.md"}
    assert "b.md" in other.copy.troubles
    (other.root / "b.md").rmdir()
    await other.copy.catch_up(whole=True)
    assert set(other.pages()) == {"a.md", "b.md", "c.md"}
    assert not other.copy.troubles


async def test_a_name_that_no_folder_may_have_is_never_written(here: StoredWorld) -> None:
    """Somebody who can write to the database names a file outside the copy, or a hidden one."""
    for path in ("../out.md", "/etc/out.md", ".git/hooks/post-checkout", "a/../../out.md"):
        await here.copy.pages.put(FileExchange(path, None, b"x"), at=datetime.now(UTC))
    await here.copy.catch_up()
    assert here.pages() == {}
    assert not (here.home / "out.md").exists()
    assert len(here.copy.troubles) == 4


async def test_a_rehearsal_sees_the_edits_of_this_machines_copy(here: StoredWorld) -> None:
    """The effect that a person is shown is then that of the act, which takes these edits first."""
    await here.acts.run(setting({PAGE: TEXT}))
    other = await there(here)
    await here.acts.run(setting({PAGE: TEXT.replace(b"Two.", b"Two, by a host.")}))
    save_as_new(other.root / PAGE, TEXT.replace(b"One.", b"One, by hand."))
    other.put("new.md", b"# New\n")
    seen = await other.acts.rehearse(adapting([PAGE, "new.md"], lambda _: {}))
    both = TEXT.replace(b"One.", b"One, by hand.").replace(b"Two.", b"Two, by a host.")
    assert seen.contents == {PAGE: both, "new.md": b"# New\n"}
    assert await other.copy.edited() == [PAGE, "new.md"]
    done = await other.acts.run(adapting([PAGE, "new.md"], lambda _: {}))
    assert done.result == seen.contents


async def test_a_file_without_a_history_gets_its_first_state_before_an_act_changes_it(here: StoredWorld) -> None:
    """A canvas that was imported as an attachment is rewritten by a move."""
    await here.copy.add("board.canvas", b"{}", at=datetime.now(UTC))
    await here.acts.run(setting({"board.canvas": b'{"nodes":[]}'}))
    newest, first = await here.ledger.history("board.canvas", limit=9)
    assert (newest.how, first.how, first.revision) == ("written", "outside", revision_of(b"{}"))
    assert await here.ledger.content("board.canvas", revision_of(b"{}")) == b"{}"
