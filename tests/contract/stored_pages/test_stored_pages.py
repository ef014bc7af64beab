"""The promises of files that are kept in the state database, on both engines."""

from __future__ import annotations

import hashlib

import anyio
import pytest

from knowledge.errors import StoredFileChanged
from knowledge.state.ports import StateStore
from knowledge.stored_pages.ports import BEGINNING, FileExchange, StoredFile
from knowledge.stored_pages.sql import SqlStoredPages
from tests.support.state.ledgers import DAY, MINUTE, NOW, change, entry, revision

ONE, TWO = b"# One\n", b"# Two\n"


@pytest.fixture
def pages(store: StateStore) -> SqlStoredPages:
    return SqlStoredPages(store.tables)


def digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


async def written(pages: SqlStoredPages, path: str, before: bytes | None, after: bytes | None) -> None:
    was = None if before is None else digest(before)
    await pages.commit(entry(change(path, before, after)), [FileExchange(path, was, after)])


async def test_an_act_exchanges_files_and_is_recorded_with_events_in_one_transaction(
    store: StateStore, pages: SqlStoredPages
) -> None:
    seq = await store.last_event()
    act = entry(change("a.md", None, ONE), change("b.md", None, TWO))
    record = await pages.commit(act, [FileExchange("a.md", None, ONE), FileExchange("b.md", None, TWO)])
    assert record.seq == 1
    found = await pages.find(["a.md", "b.md", "c.md"])
    assert {path: file.digest for path, file in found.items()} == {"a.md": digest(ONE), "b.md": digest(TWO)}
    assert await pages.contents([digest(ONE), digest(b"other")]) == {digest(ONE): ONE}
    assert await store.ledger.content("a.md", revision(ONE)) == ONE
    assert [line.revision for line in await store.ledger.history("b.md", limit=9)] == [revision(TWO)]
    assert {event.key for event in await store.events_after(seq, limit=9)} == {"a.md", "b.md"}


async def test_an_exchange_of_other_bytes_writes_and_records_nothing(store: StateStore, pages: SqlStoredPages) -> None:
    await written(pages, "a.md", None, ONE)
    act = entry(change("b.md", None, TWO), change("a.md", TWO, None))
    for stale in (FileExchange("a.md", digest(TWO), None), FileExchange("a.md", None, TWO)):
        with pytest.raises(StoredFileChanged, match=r"a\.md"):
            await pages.commit(act, [FileExchange("b.md", None, TWO), stale])
    assert not await pages.find(["b.md"])
    assert len(await store.ledger.records()) == 1
    assert await store.ledger.history("b.md", limit=1) == []


async def test_changes_are_listed_in_their_order_and_each_file_once(pages: SqlStoredPages) -> None:
    assert await pages.last() == 0
    for number in range(5):
        await written(pages, f"{number}.md", None, ONE)
    await written(pages, "1.md", ONE, TWO)
    await written(pages, "3.md", ONE, None)
    listed = await pages.after(BEGINNING, limit=99)
    assert [file.path for file in listed] == ["0.md", "2.md", "4.md", "1.md", "3.md"]
    assert (listed[-1].digest, listed[-1].seq) == (None, await pages.last())
    seen: list[StoredFile] = []
    while more := await pages.after(seen[-1].place if seen else BEGINNING, limit=2):
        seen += more
    assert seen == listed


async def test_files_of_one_act_are_listed_completely_however_they_are_paged(pages: SqlStoredPages) -> None:
    paths = [f"{number}.md" for number in range(7)]
    await pages.commit(
        entry(*(change(path, None, ONE) for path in paths)), [FileExchange(path, None, ONE) for path in paths]
    )
    place, seen = BEGINNING, []
    while more := await pages.after(place, limit=3):
        seen += [file.path for file in more]
        place = more[-1].place
    assert sorted(seen) == paths


async def test_an_edit_in_a_copy_is_a_line_of_the_history_without_an_author(
    store: StateStore, pages: SqlStoredPages
) -> None:
    await written(pages, "a.md", None, ONE)
    await pages.keep_outside(FileExchange("a.md", digest(ONE), TWO), at=NOW + MINUTE)
    await pages.keep_outside(FileExchange("a.md", digest(TWO), None), at=NOW + 2 * MINUTE)
    gone, edited, _ = await store.ledger.history("a.md", limit=9)
    assert (edited.how, edited.revision, edited.principal) == ("outside", revision(TWO), "")
    assert (gone.how, gone.revision, gone.before) == ("outside", None, revision(TWO))
    with pytest.raises(StoredFileChanged):
        await pages.keep_outside(FileExchange("a.md", digest(TWO), ONE), at=NOW)
    await pages.keep_outside(FileExchange("a.md", None, ONE), at=NOW + 3 * MINUTE)
    assert (await pages.find(["a.md"]))["a.md"].digest == digest(ONE)


async def test_an_attachment_has_no_history_and_outlives_what_is_forgotten(
    store: StateStore, pages: SqlStoredPages
) -> None:
    picture = b"\x89PNG" + bytes(range(256))
    await store.ledger.keep("a.md", picture, how="seen", at=NOW - DAY)
    await pages.put(FileExchange("a.png", None, picture), at=NOW)
    assert await store.ledger.forget(seen_before=NOW) == 1
    assert await pages.contents([digest(picture)]) == {digest(picture): picture}
    assert await store.ledger.history("a.png", limit=1) == []


async def test_of_two_who_write_a_file_at_once_one_is_told(pages: SqlStoredPages) -> None:
    await written(pages, "a.md", None, ONE)
    told = []

    async def write(raw: bytes) -> None:
        try:
            await written(pages, "a.md", ONE, raw)
        except StoredFileChanged:
            told.append(raw)

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(write, b"# %d\n" % number)
    assert len(told) == 5
    assert (await pages.find(["a.md"]))["a.md"].digest not in {digest(raw) for raw in told}
