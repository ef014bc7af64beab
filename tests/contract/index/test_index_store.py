"""The promises of every index store.

One suite for all engines, and random changes that must leave them equal to memory.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.errors import LeaseLost
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.pages.paths import PageLink
from knowledge.state.document_names import keys_of_links_to
from knowledge.state.ports import (
    DocumentRecord,
    Filters,
    IndexChange,
    IndexedChunk,
    IndexedProperties,
    IndexIdentity,
    IndexPosition,
    IndexStore,
    LinkedDocument,
    Period,
    Progress,
    PropertyLines,
    Remove,
    Replace,
    SourcedDocument,
    Stamp,
    TaggedCount,
    Touch,
)
from tests.support.state.memory.index import MemoryIndexStore

IDENTITY = IndexIdentity("words", 256, 1)
START = IndexPosition("", 0)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[IndexStore]:
    opened: IndexStore = (
        MemoryIndexStore() if request.param == "memory" else await SqliteIndexStore.open(tmp_path / "index.db")
    )
    await opened.begin(IDENTITY)
    yield opened
    await opened.close()


def record(path: str, **other: object) -> DocumentRecord:
    plain = DocumentRecord(
        path=path,
        title=f"Title of {path}",
        summary="What it says.",
        kind="page",
        source="user",
        language="en",
        tags=("a", "b"),
        aliases=(),
        sections=("Setup", "Setup > On Windows"),
        untrusted=False,
        revision="r1",
        stamp=Stamp(10, 1_000, 7),
        tokens=3,
        indexed_at_ns=5,
    )
    return plain._replace(**other)  # type: ignore[arg-type]  # keyword arguments of a test, checked by the tuple


def chunk(text: str, ordinal: int = 0) -> IndexedChunk:
    digest = blake2b(text.encode(), digest_size=16).digest()
    return IndexedChunk(
        ordinal, ("Setup",), 1, 3, text, digest, digest * 32, digest * 2, frozenset(text.lower().split())
    )


def page(path: str, *texts: str, **other: object) -> Replace:
    return Replace(record(path, **other), tuple(chunk(text, i) for i, text in enumerate(texts)))


async def seqs_of(store: IndexStore) -> list[int]:
    return [row.seq for row in (await store.delta(START, limit=1000, codes=True)).codes]


async def test_a_store_fits_its_identity_until_another_is_asked_for(store: IndexStore) -> None:
    before = await store.apply([page("a.md", "one")], fence=1)
    assert await store.begin(IDENTITY)
    assert await store.position() == before
    assert not await store.begin(replace(IDENTITY, recipe=2))
    after = await store.position()
    assert after.generation != before.generation
    assert await store.progress() == Progress(0, 0)
    assert await store.document("a.md") is None
    assert list(await store.vocabulary()) == []
    assert (await store.delta(before, limit=9, codes=True)).codes == []


async def test_a_chunk_number_is_never_used_again_not_even_in_a_new_generation(store: IndexStore) -> None:
    await store.apply([page("a.md", "one", "two")], fence=1)
    old = await seqs_of(store)
    await store.begin(replace(IDENTITY, recipe=2))
    await store.apply([page("a.md", "one", "two")], fence=1)
    assert min(await seqs_of(store)) > max(old)


async def test_a_document_is_returned_as_it_was_stored(store: IndexStore) -> None:
    stored = record(
        "día/ü b.md", tags=("x",), aliases=("Über", "日本"), sections=("A > B",), untrusted=True, title="é\x00"
    )
    await store.apply([Replace(stored, (chunk("hello"),))], fence=1)
    assert await store.document("día/ü b.md") == stored
    assert await store.document("nope.md") is None
    assert await store.stamps() == {"día/ü b.md": (stored.stamp, "r1", 5)}
    assert await store.stamps(["día/ü b.md", "nowhere.md"]) == {"día/ü b.md": (stored.stamp, "r1", 5)}
    assert await store.stamps([]) == {}


async def test_documents_are_found_by_the_terms_of_their_properties(store: IndexStore) -> None:
    lines = PropertyLines(2, "author: Clarke\nrating: 5")
    one = replace(
        page("one.md", "text"), properties=IndexedProperties(lines, ("author", "clarke"), ("author", "clarke"))
    )
    two = replace(page("two.md", "text"), properties=IndexedProperties(lines, ("author",), ("author",)))
    await store.apply([one, two, page("three.md", "text")], fence=1)
    doc = {row.path: row.doc for row in (await store.chunks([1, 3, 5])).values()}
    assert await store.first_chunks([*doc.values(), 4711]) == {doc["one.md"]: 1, doc["two.md"]: 3, doc["three.md"]: 5}
    assert await store.first_chunks([]) == {}
    assert await store.having_properties(["clarke", "author", "nobody"], most=2) == {
        "clarke": [doc["one.md"]],
        "author": [doc["one.md"], doc["two.md"]],
    }
    assert (await store.having_properties(["clarke", "author"], most=1)).keys() == {"clarke"}, "too many have the other"
    assert await store.properties([*doc.values(), 4711]) == {doc["one.md"]: lines, doc["two.md"]: lines}
    assert await store.properties([]) == {}
    assert await store.frequencies(["author", "clarke", "text"]) == {"author": 2, "clarke": 1, "text": 3}

    await store.apply([page("one.md", "text"), Remove("two.md")], fence=1)
    assert await store.having_properties(["clarke", "author"], most=2) == {}
    assert await store.properties(doc.values()) == {}
    assert await store.frequencies(["author", "clarke"]) == {}

    await store.apply([one], fence=1)
    await store.begin(replace(IDENTITY, recipe=2))
    assert await store.having_properties(["clarke"], most=2) == {}


async def test_documents_are_found_by_the_time_that_they_are_of(store: IndexStore) -> None:
    times = {
        "week.md": Period("2026-11-16", "2026-11-22"),
        "monday.md": Period("2026-11-16", "2026-11-16"),
        "tuesday.md": Period("2026-11-17", "2026-11-17"),
        "before.md": Period("2025-11-10", "2025-11-10"),
        "none.md": None,
    }
    await store.apply([replace(page(path, "text"), period=period) for path, period in times.items()], fence=1)
    path_of = {row.doc: row.path for row in (await store.chunks(await seqs_of(store))).values()}

    async def found(*periods: tuple[str, str], limit: int = 9) -> list[str]:
        return [path_of[doc] for doc in await store.of_periods([Period(*one) for one in periods], limit=limit)]

    week, year_before = ("2026-11-16", "2026-11-22"), ("2025-11-10", "2025-11-16")
    assert await found(week) == ["week.md", "monday.md", "tuesday.md"]
    assert await found(week, limit=2) == ["week.md", "monday.md"]
    assert await found(("2026-11-17", "2026-11-17")) == ["tuesday.md"]
    assert await found(("2026-11-20", "2026-11-20")) == ["week.md"], "no page of that day, but one of its week"
    assert await found(("2026-11-21", "2026-11-23")) == []
    assert await found(week, year_before) == ["week.md", "monday.md", "tuesday.md", "before.md"]
    assert await found(week, year_before, limit=3) == ["week.md", "monday.md", "tuesday.md"]
    assert await found(("2030-01-01", "2030-01-07"), year_before) == ["before.md"]
    assert await found() == []

    await store.apply([Remove("week.md"), page("monday.md", "text")], fence=1)
    path_of = {row.doc: row.path for row in (await store.chunks(await seqs_of(store))).values()}
    assert await found(week) == ["tuesday.md"]


async def test_records_are_found_by_the_documents_numbers(store: IndexStore) -> None:
    await store.apply([page("a.md", "one"), page("b.md", "two", "three")], fence=1)
    rows = await store.chunks([1, 2, 3])
    found = await store.records({row.doc for row in rows.values()} | {4711})
    assert {doc: record.path for doc, record in found.items()} == {row.doc: row.path for row in rows.values()}
    assert found[rows[1].doc] == await store.document("a.md")


async def test_a_chunk_comes_with_what_its_document_says(store: IndexStore) -> None:
    await store.apply([page("g/a.md", "first words", "more words", source="plane:P-1", untrusted=True)], fence=1)
    one, two = await seqs_of(store)
    rows = await store.chunks([two, 999, one, two])
    assert set(rows) == {one, two}
    row = rows[two]
    assert (row.seq, row.ordinal, row.section, row.text) == (two, 1, ("Setup",), "more words")
    assert (row.path, row.title, row.source) == ("g/a.md", "Title of g/a.md", "plane:P-1")
    assert (row.line_start, row.line_end, row.revision, row.untrusted) == (1, 3, "r1", True)
    assert (row.language, row.modified_ns) == ("en", 1_000)


async def test_replacing_keeps_the_document_number_and_renumbers_the_chunks(store: IndexStore) -> None:
    await store.apply([page("a.md", "old text"), page("b.md", "other")], fence=1)
    before = (await store.delta(START, limit=9, codes=True)).codes
    position = await store.position()
    await store.apply([page("a.md", "new text", revision="r2")], fence=1)
    change = await store.delta(position, limit=9, texts=True, codes=True)
    assert list(change.removed) == [before[0].seq]
    assert [(row.doc, row.text, row.section, row.language) for row in change.texts] == [
        (before[0].doc, "new text", ("Setup",), "en")
    ]
    assert [(row.seq, row.code) for row in change.codes] == [(change.texts[0].seq, chunk("new text").code)]
    assert change.upto == await store.position()
    assert list(await store.halves([before[1].seq, before[0].seq])) == [chunk("other").half, b""]


async def test_a_document_number_is_not_given_to_another_document(store: IndexStore) -> None:
    await store.apply([page("a.md", "x")], fence=1)
    first = (await store.delta(START, limit=9, codes=True)).codes[0].doc
    await store.apply([Remove("a.md")], fence=1)
    await store.apply([page("a.md", "x"), page("b.md", "y")], fence=1)
    assert first not in {row.doc for row in (await store.delta(START, limit=9, codes=True)).codes}


async def test_the_position_moves_with_every_document_that_comes_changes_or_goes(store: IndexStore) -> None:
    """Also for a page without chunks: caches by position must see it."""
    positions = [await store.position()]
    for change in (page("empty.md"), page("empty.md", title="New"), Remove("empty.md")):
        positions.append(await store.apply([change], fence=1))
        assert positions[-1] == await store.position()
    assert [p.seq for p in positions] == sorted({p.seq for p in positions})
    assert await store.apply([Remove("never.md"), Touch("never.md", Stamp(1, 1, 1), 1)], fence=1) == positions[-1]


async def test_a_delta_taken_in_small_steps_tells_the_same_as_one_large_one(store: IndexStore) -> None:
    await store.apply([page("a.md", "a0", "a1", "a2"), page("b.md", "b0")], fence=1)
    middle = (await store.delta(START, limit=2, codes=True)).upto
    held = {row.seq for row in (await store.delta(START, limit=2, codes=True)).codes}
    await store.apply([page("a.md", "a9"), Remove("b.md"), page("c.md", "c0", "c1")], fence=1)
    position, rounds = middle, 0
    while position != await store.position():
        part = await store.delta(position, limit=1, codes=True)
        assert len(part.codes) + len(part.removed) <= 1
        assert part.upto.seq > position.seq
        held = (held | {row.seq for row in part.codes}) - set(part.removed)
        position, rounds = part.upto, rounds + 1
    assert rounds > 2
    assert sorted(held) == await seqs_of(store)


async def test_another_generation_gets_everything_and_no_removals(store: IndexStore) -> None:
    await store.apply([page("a.md", "one"), page("b.md", "two")], fence=1)
    await store.apply([Remove("a.md")], fence=1)
    all_of_it = await store.delta(IndexPosition("elsewhere", 10_000), limit=100, texts=True)
    assert ([row.text for row in all_of_it.texts], list(all_of_it.removed)) == (["two"], [])
    assert all_of_it.codes == []


async def test_a_touched_document_has_only_a_new_stamp(store: IndexStore) -> None:
    before = await store.apply([page("g/a.md", "one")], fence=1)
    after = await store.apply([Touch("g/a.md", Stamp(10, 9_999, 8), 77)], fence=1)
    assert after == before
    touched = await store.document("g/a.md")
    assert touched == record("g/a.md", stamp=Stamp(10, 9_999, 8), indexed_at_ns=77)
    folder = await store.directory("g")
    assert folder is not None
    assert folder.modified_ns == 9_999


async def test_a_writer_that_lost_its_lease_writes_nothing(store: IndexStore) -> None:
    position = await store.apply([page("a.md", "one")], fence=7)
    with pytest.raises(LeaseLost) as refused:
        await store.apply([Remove("a.md")], fence=6)
    assert refused.value.fence == 6
    assert await store.position() == position
    assert await store.document("a.md") == record("a.md")


async def test_a_text_that_is_stored_anywhere_need_not_be_embedded_again(store: IndexStore) -> None:
    await store.apply([page("a.md", "same", "own"), page("b.md", "same")], fence=1)
    await store.apply([Remove("a.md")], fence=1)
    same, own = chunk("same"), chunk("own")
    assert await store.vectors([same.digest, own.digest, same.digest]) == {same.digest: (same.half, same.code)}


async def test_directories_count_what_lies_below_and_vanish_with_it(store: IndexStore) -> None:
    root = await store.directory("")
    assert root is not None
    assert (root.documents, root.modified_ns) == (0, 0)
    await store.apply(
        [
            page("a/b/one.md", stamp=Stamp(1, 50, 1)),
            page("a/b/two.md", stamp=Stamp(1, 90, 2)),
            page("a/three.md", stamp=Stamp(1, 70, 3)),
            page("z/_index.md", stamp=Stamp(1, 20, 4)),
        ],
        fence=1,
    )
    found = [await store.directory(path) for path in ("", "a", "a/b", "z")]
    assert [(d.documents, d.modified_ns) for d in found if d] == [(4, 90), (3, 90), (2, 90), (1, 20)]
    await store.apply([Remove("a/b/two.md"), Remove("z/_index.md")], fence=1)
    found = [await store.directory(path) for path in ("", "a", "a/b")]
    assert [(d.documents, d.modified_ns) for d in found if d] == [(2, 70), (2, 70), (1, 50)]
    assert await store.directory("z") is None
    assert await store.directory("a/b/one.md") is None


async def test_children_are_what_lies_right_below_by_path(store: IndexStore) -> None:
    await store.apply([page(p) for p in ("b.md", "a.md", "x/y/z/deep.md", "x/n.md", "c d/e.md", "_index.md")], fence=1)
    folders, documents = await store.children("", limit=10)
    assert [folder.path for folder in folders] == ["c d", "x"]
    assert [document.path for document in documents] == ["_index.md", "a.md", "b.md"]
    folders, documents = await store.children("x", limit=10)
    assert ([f.path for f in folders], [d.path for d in documents]) == (["x/y"], ["x/n.md"])
    folders, documents = await store.children("", limit=1)
    assert ([f.path for f in folders], [d.path for d in documents]) == (["c d"], ["_index.md"])
    assert await store.children("nowhere", limit=5) == ([], [])
    folders, documents = await store.children("", limit=2, folders_after="c d", documents_after="_index.md")
    assert ([f.path for f in folders], [d.path for d in documents]) == (["x"], ["a.md", "b.md"])
    folders, documents = await store.children("", limit=9, folders_after=None, documents_after="b.md")
    assert (folders, documents) == ([], [])
    assert (await store.children("", limit=9, documents_after=None))[1] == []


async def test_directories_are_found_by_the_end_of_their_path(store: IndexStore) -> None:
    await store.apply(
        [page(p) for p in ("a/Debug/x.md", "b/tasks/debug/y.md", "debug/z.md", "b/undebug/w.md")], fence=1
    )
    assert await store.directories_ending(["debug"], limit=9) == ["a/Debug", "b/tasks/debug", "debug"]
    assert await store.directories_ending(["tasks/debug", "b"], limit=9) == ["b", "b/tasks/debug"]
    assert await store.directories_ending(["debug"], limit=1) == ["a/Debug"]
    assert await store.directories_ending(["", "ebug", "x.md", "x" * 100_000], limit=9) == []
    assert await store.directories_ending([], limit=9) == []
    assert await store.directories_ending(["%ebug", "_ebug", "\\debug"], limit=9) == []


async def test_links_are_found_by_the_keys_of_the_page_that_they_may_lead_to(store: IndexStore) -> None:
    links = (
        PageLink("../guides/deploy", wiki=False),
        PageLink("Deploy Guide", wiki=True),
        PageLink("/x.md", wiki=False),
    )
    await store.apply(
        [Replace(record("ops/a.md"), (), links), Replace(record("b.md"), (), links[1:]), page("c.md")], fence=1
    )

    async def linking(path: str, *names: str, limit: int = 9) -> list[tuple[str, str]]:
        return [(row.page, row.link.path) for row in await store.linking(keys_of_links_to(path, names), limit=limit)]

    assert await linking("guides/deploy.md") == [("ops/a.md", "../guides/deploy")]
    assert await linking("guides/deploy/_index.md") == [("ops/a.md", "../guides/deploy")]
    assert await linking("other.md", "Deploy guide") == [("b.md", "Deploy Guide"), ("ops/a.md", "Deploy Guide")]
    assert await linking("x.md") == [("b.md", "/x.md"), ("ops/a.md", "/x.md")]
    assert await linking("x.md", limit=1) == [("b.md", "/x.md")]
    assert await linking("ops/x.md") == []
    assert await store.existing(["b.md", "ops", "gone.md", "c.md"]) == {"b.md", "c.md"}
    assert await store.existing([]) == frozenset()
    # Another text, a removal, and another recipe take the links with them.
    await store.apply([Replace(record("ops/a.md"), (), links[2:]), Remove("b.md")], fence=1)
    assert await linking("guides/deploy.md") == await linking("other.md", "Deploy guide") == []
    assert await linking("x.md") == [("ops/a.md", "/x.md")]
    await store.begin(replace(IDENTITY, recipe=2))
    assert await linking("x.md") == []


async def test_documents_are_read_with_their_names_and_links(store: IndexStore) -> None:
    links = (PageLink("b.md", wiki=False), PageLink("Deploy Guide", wiki=True))
    titled = record("ops/a.md", title="A", aliases=("first", "\u00e9"))
    await store.apply([Replace(titled, (), links), page("b.md"), page("c.md")], fence=1)
    first = LinkedDocument("ops/a.md", "A", ("first", "\u00e9"), links)
    second = LinkedDocument("b.md", record("b.md").title, record("b.md").aliases, ())
    assert await store.linked_documents(["ops/a.md", "gone.md", "b.md"]) == [second, first]
    assert await store.linked_documents([]) == []
    assert [document.path for document in await store.linked_documents()] == ["b.md", "c.md", "ops/a.md"]
    await store.apply([Remove("ops/a.md")], fence=1)
    assert [document.links for document in await store.linked_documents()] == [(), ()]


async def test_documents_are_read_with_their_sources_and_files(store: IndexStore) -> None:
    marked = record("b.md")._replace(source="zulip:x", untrusted=True, stamp=Stamp(12, 5_000_000_000, 7))
    await store.apply([Replace(record("c.md"), ()), Replace(marked, ())], fence=1)
    plain = record("c.md")
    assert list(await store.sourced_documents()) == [
        SourcedDocument("b.md", "zulip:x", untrusted=True, modified_ns=5_000_000_000, size=12),
        SourcedDocument("c.md", plain.source, plain.untrusted, plain.stamp.mtime_ns, plain.stamp.size),
    ]
    await store.apply([Remove("b.md")], fence=1)
    assert [page.path for page in await store.sourced_documents()] == ["c.md"]


async def test_progress_counts_documents_and_its_total_is_never_below_them(store: IndexStore) -> None:
    await store.set_total(5)
    await store.apply([page("a.md", "x"), page("b/c.md")], fence=1)
    assert await store.progress() == Progress(2, 5)
    await store.set_total(1)
    assert await store.progress() == Progress(2, 2)


@pytest.mark.parametrize(
    ("filters", "admitted"),
    [
        (Filters(path="g"), {"g/a.md", "g/h/b.md"}),
        (Filters(path="g/a.md"), {"g/a.md"}),
        (Filters(path="g/h", tags=("red",)), {"g/h/b.md"}),
        (Filters(tags=("red",)), {"g/h/b.md", "g2/c.md"}),
        (Filters(tags=("red", "blue")), {"g2/c.md"}),
        (Filters(tags=("area",)), {"g/a.md", "g/h/b.md"}),
        (Filters(tags=("area/sub",)), {"g/a.md"}),
        (Filters(tags=("area/su",)), set()),
        (Filters(tags=("are",)), set()),
        (Filters(tags=("area", "red")), {"g/h/b.md"}),
        (Filters(kind="decision"), {"g/a.md"}),
        (Filters(source="zulip"), {"g/h/b.md", "g2/c.md"}),
        (Filters(source="zulip:x"), {"g/h/b.md"}),
        (Filters(modified_after_ns=200), {"g/h/b.md", "g2/c.md"}),
        (Filters(modified_before_ns=200), {"g/a.md"}),
        (Filters(modified_after_ns=200, modified_before_ns=300), {"g/h/b.md"}),
        (Filters(path="none"), set()),
        (Filters(paths=("g/a.md", "gone.md")), {"g/a.md"}),
        (Filters(tags=("red",), paths=("g/a.md", "g/h/b.md")), {"g/h/b.md"}),
        (Filters(paths=()), set()),
    ],
)
async def test_filters_admit_exactly_what_meets_all_of_them(
    store: IndexStore, filters: Filters, admitted: set[str]
) -> None:
    await store.apply(
        [
            page("g/a.md", "x", kind="decision", tags=("area/sub",), stamp=Stamp(1, 100, 1)),
            page("g/h/b.md", "y", tags=("red", "area/sub2", "area"), source="zulip:x", stamp=Stamp(1, 200, 2)),
            page("g2/c.md", "z", tags=("red", "blue", "area-1"), source="zulip", stamp=Stamp(1, 300, 3)),
        ],
        fence=1,
    )
    rows = await store.chunks(await seqs_of(store))
    docs = await store.select(filters)
    assert docs is not None
    assert {row.path for row in rows.values() if row.doc in docs} == admitted
    assert await store.select(Filters()) is None


async def test_a_name_finds_paths_then_titles_then_aliases_then_headings(store: IndexStore) -> None:
    await store.apply(
        [
            page("zoo/Trust.md", title="Levels", sections=()),
            page("trust.md", title="Trust", sections=("Trust",)),
            page("b.md", title="  TRUST ", sections=()),
            page("c.md", title="C", aliases=("x", "trust"), sections=("How", "How > Trust")),
        ],
        fence=1,
    )
    found = await store.named("Trust", limit=20)
    assert [(m.path, m.section, m.by) for m in found] == [
        ("trust.md", None, "path"),
        ("zoo/Trust.md", None, "path"),
        ("b.md", None, "title"),
        ("c.md", None, "alias"),
        ("c.md", "How > Trust", "heading"),
        ("trust.md", "Trust", "heading"),
    ]
    assert list(await store.named("trust", limit=2)) == list(found[:2])
    assert [m.path for m in await store.named("ZOO/trust.MD", limit=5)] == ["zoo/Trust.md"]
    assert [m.by for m in await store.named("how > trust", limit=5)] == ["heading"]
    assert list(await store.named("tru", limit=5)) == []
    assert list(await store.named("tru st", limit=20, spellings=("tru", "trust", "how"))) == list(found)
    await store.apply([page("c.md", title="C", sections=()), Remove("trust.md")], fence=1)
    assert [m.path for m in await store.named("trust", limit=9)] == ["zoo/Trust.md", "b.md"]


async def test_documents_are_found_by_any_text_in_them_whatever_the_case(store: IndexStore) -> None:
    await store.apply(
        [page("b.md", "see [[Ünïcode Page]]", "nothing"), page("a.md", "x", "to ünïcode page.md%20")], fence=1
    )
    await store.apply([page("c.md", "neither")], fence=1)
    assert list(await store.mentioning(["ÜNÏCODE page"])) == ["a.md", "b.md"]
    assert list(await store.mentioning(["%20", "[[ünï"])) == ["a.md", "b.md"]
    assert list(await store.mentioning(["nowhere"])) == []
    assert list(await store.mentioning([])) == []
    await store.apply([Remove("a.md")], fence=1)
    assert list(await store.mentioning(["ünïcode"])) == ["b.md"]


async def test_paths_are_found_by_beginning_and_part_whatever_the_case(store: IndexStore) -> None:
    await store.apply([page(p) for p in ("Guides/Trust.md", "guides/merge.md", "other/GUIDES.md", "ü%_.md")], fence=1)
    assert list(await store.paths(limit=9)) == ["Guides/Trust.md", "guides/merge.md", "other/GUIDES.md", "ü%_.md"]
    assert list(await store.paths(prefix="GUIDES/", limit=9)) == ["Guides/Trust.md", "guides/merge.md"]
    assert list(await store.paths(contains="guides", limit=2)) == ["Guides/Trust.md", "guides/merge.md"]
    assert list(await store.paths(prefix="guides", contains="TRUST", limit=9)) == ["Guides/Trust.md"]
    assert list(await store.paths(contains="%_", limit=9)) == ["ü%_.md"]
    assert list(await store.paths(prefix="Ü", limit=9)) == ["ü%_.md"]


async def test_the_vocabulary_counts_chunks_and_forgets_words_nobody_uses(store: IndexStore) -> None:
    await store.apply([page("a.md", "merge trust", "merge base"), page("b.md", "merge only")], fence=1)
    assert await store.frequencies(["merge", "base", "absent"]) == {"merge": 3, "base": 1}
    assert list(await store.vocabulary()) == [("base", 1), ("merge", 3), ("only", 1), ("trust", 1)]
    await store.apply([page("a.md", "merge trust"), Remove("b.md"), page("c.md", "mend mend")], fence=1)
    assert list(await store.vocabulary()) == [("mend", 1), ("merge", 1), ("trust", 1)]
    await store.apply([page("d.md", "merge merely", "merely")], fence=1)
    assert list(await store.completions("me", limit=3)) == ["merely", "merge", "mend"]
    assert list(await store.completions("", limit=1)) == ["merely"]


async def test_the_same_document_twice_in_one_call_is_what_came_last(store: IndexStore) -> None:
    await store.apply([page("a.md", "one", "two"), page("a.md", "three"), page("b.md", "x"), Remove("b.md")], fence=1)
    rows = await store.chunks(await seqs_of(store))
    assert [row.text for row in rows.values()] == ["three"]
    assert list(await store.vocabulary()) == [("three", 1)]
    assert await store.progress() == Progress(1, 1)


async def test_the_first_chunk_of_a_document_and_of_its_sections_is_known(store: IndexStore) -> None:
    intro, deep = replace(chunk("intro"), section=()), replace(chunk("deep", 1), section=("Setup", "On Windows"))
    await store.apply([Replace(record("a.md"), (intro, deep, replace(deep, ordinal=2))), page("empty.md")], fence=1)
    first, second, _ = (await store.delta(START, limit=9, codes=True)).codes
    assert await store.first_chunk(first.doc, None) == first.seq
    assert await store.first_chunk(first.doc, "Setup > On Windows") == second.seq
    assert await store.first_chunk(first.doc, "Nowhere") is None
    assert await store.first_chunk(999, None) is None


async def test_tags_are_counted_and_lead_to_their_documents(store: IndexStore) -> None:
    assert list(await store.tags(limit=9)) == []
    tagged = [
        Replace(record(path)._replace(tags=tags), ())
        for path, tags in (("b.md", ("x", "y", "x")), ("a.md", ("x",)), ("c.md", ("X", "y")), ("d.md", ("z", "x")))
    ]
    await store.apply(tagged, fence=1)
    assert list(await store.tags(limit=9)) == [("x", 3), ("y", 2), ("X", 1), ("z", 1)]
    assert list(await store.tags(limit=1)) == [("x", 3)]
    assert [one.path for one in await store.tagged(["x"], limit=2)] == ["a.md", "b.md"]
    assert [one.path for one in await store.tagged(["x"], after="b.md", limit=2)] == ["d.md"]
    assert list(await store.tagged(["none"], limit=2)) == []
    await store.apply([Replace(record("e.md")._replace(tags=("z/part", "z")), ())], fence=1)
    assert [one.path for one in await store.tagged(["z"], limit=3)] == ["d.md", "e.md"]
    assert [one.path for one in await store.tagged(["z/part"], limit=3)] == ["e.md"]
    assert [one.path for one in await store.tagged(["X", "z/part", "z"], limit=9)] == ["c.md", "d.md", "e.md"]
    await store.apply([Remove("d.md")], fence=1)
    assert list(await store.tags(limit=1)) == [("x", 2)]


async def test_documents_with_a_tag_are_counted_without_being_read(store: IndexStore) -> None:
    assert await store.count_tagged(["x"]) == TaggedCount(0, 0)
    changes = [("a.md", ("x",), 3), ("b.md", ("x/y", "x"), 7), ("c.md", ("X",), 9), ("d.md", ("xy",), 11)]
    stamped = [
        record(path)._replace(tags=tags, stamp=replace(record(path).stamp, mtime_ns=mtime_ns))
        for path, tags, mtime_ns in changes
    ]
    await store.apply([Replace(one, ()) for one in stamped], fence=1)
    assert await store.count_tagged(["x"]) == TaggedCount(2, 7)
    assert await store.count_tagged(["x", "X"]) == TaggedCount(3, 9)
    assert await store.count_tagged(["x", "X"], after="a.md") == TaggedCount(2, 9)


async def test_the_newest_documents_are_those_whose_files_changed_last(store: IndexStore) -> None:
    changed = {"a.md": 3, "b.md": 9, "c.md": 3, "d.md": 1}
    await store.apply(
        [
            Replace(record(path)._replace(stamp=replace(record(path).stamp, mtime_ns=at)), ())
            for path, at in changed.items()
        ],
        fence=1,
    )
    assert [one.path for one in await store.newest(limit=3)] == ["b.md", "a.md", "c.md"]


async def test_languages_are_listed_by_how_many_documents_speak_them(store: IndexStore) -> None:
    assert await store.languages() == {}
    pages = [
        page("a.md", language="de"),
        page("b.md", language="en"),
        page("c.md", language="de"),
        page("d.md", language=""),
    ]
    await store.apply(pages, fence=1)
    assert next(iter(await store.languages())) == "de"
    assert await store.languages() == {"de": 2, "en": 1, "": 1}


async def test_only_a_batch_keeps_many_pages_in_memory(tmp_path: Path) -> None:
    """A server that changes one page after the other kept 32 MB of them after some hours."""
    store = await SqliteIndexStore.open(tmp_path / "index.db")
    for chunks, size in ((1, 4_000), (300, 32_000), (1, 4_000)):
        await store.apply([page("a.md", *map(str, range(chunks)))], fence=1)
        assert store._database.write_now(lambda c: c.execute("PRAGMA cache_size").fetchall()) == [(-size,)]
    await store.close()


async def test_an_index_of_an_earlier_version_counts_its_languages_when_it_is_opened(tmp_path: Path) -> None:
    store = await SqliteIndexStore.open(tmp_path / "index.db")
    await store.apply([page("a.md", language="de"), page("b.md", language="de"), page("c.md", language="en")], fence=1)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "index.db")) as connection:
        connection.executescript(
            "DROP TABLE language; DROP TABLE property; DROP TABLE property_term; DROP TABLE period; PRAGMA user_version = 3;"
        )
    store = await SqliteIndexStore.open(tmp_path / "index.db")
    assert await store.languages() == {"de": 2, "en": 1}
    await store.close()


# --- SQLite compared with memory --------------------------------------------------------------------------------------

_paths = st.sampled_from(["a.md", "A.md", "g/a.md", "g/h/b.md", "g/h/ü c.md", "g-2/x.md", "g/h/i/j.md"])
_words = st.lists(st.sampled_from(["merge", "trust", "ünit", "mergé", "z\U0010ffff", "z"]), max_size=4)
_days = [Period(day, day) for day in ("2026-11-16", "2026-11-20", "2025-11-16")]
_weeks = [Period("2026-11-16", "2026-11-22"), Period("2026-11-01", "2026-11-30")]
_pages = st.builds(
    lambda path, texts, title, language, tags, mtime, period: replace(
        page(
            path,
            *(" ".join(t) for t in texts),
            title=title,
            language=language,
            tags=tuple(tags),
            stamp=Stamp(1, mtime, 1),
            aliases=(title, "Al"),
        ),
        period=period,
    ),
    _paths,
    st.lists(_words, max_size=3),
    st.sampled_from(["Merge", "TRUST", "", "Ünit"]),
    st.sampled_from(["de", "en", ""]),
    st.lists(st.sampled_from(["red", "blue"]), unique=True),
    st.integers(0, 5),
    st.sampled_from([None, *_days, *_weeks]),
)
_changes = st.one_of(
    _pages,
    _pages,
    st.builds(Remove, _paths),
    st.builds(lambda p, t: Touch(p, Stamp(2, t, 2), t), _paths, st.integers(0, 9)),
)


async def content(store: IndexStore) -> object:
    """Return everything a caller can ask, with numbers replaced by what they refer to."""
    rows = await store.chunks(await seqs_of(store))
    paths = await store.paths(limit=99)
    docs = {row.doc: row.path for row in rows.values()}
    chunks = sorted(
        (row.path, row.ordinal, row.text, row.title, row.modified_ns, half)
        for row, half in zip(rows.values(), await store.halves(list(rows)), strict=True)
    )
    selected = [
        await store.select(f) for f in (Filters(path="g"), Filters(tags=("red",)), Filters(modified_after_ns=3))
    ]
    return {
        "chunks": chunks,
        "records": [await store.document(path) for path in paths],
        "folders": [await store.directory(p) for p in ("", "g", "g/h", "g/h/i", "g-2")],
        "children": [await store.children(p, limit=9) for p in ("", "g", "g/h")],
        "selected": [sorted(docs[d] for d in s or () if d in docs) for s in selected],
        "named": [
            [asdict(m) | {"doc": 0} for m in await store.named(n, limit=99)] for n in ("merge", "a", "g/a", "al")
        ],
        "of_periods": [
            [docs.get(doc) for doc in await store.of_periods(one, limit=most)]
            for one in (
                [_days[1]],
                _weeks[:1],
                _weeks[1:],
                [*_days],
                [_days[2], _days[0]],
                [Period("2026-11-19", "2026-11-19")],
            )
            for most in (1, 2, 9)
        ],
        "languages": list((await store.languages()).items()),
        "vocabulary": list(await store.vocabulary()),
        "completions": [list(await store.completions(p, limit=3)) for p in ("", "m", "z", "z\U0010ffff")],
        "stamps": dict(await store.stamps()),
        "progress": await store.progress(),
    }


@settings(max_examples=20)
@given(st.lists(st.lists(_changes, max_size=5), max_size=6), st.integers(1, 4))
def test_after_any_changes_sqlite_says_what_memory_says(batches: Sequence[Sequence[IndexChange]], limit: int) -> None:
    """Also for a reader that follows by `delta` in small steps, after every batch."""

    async def compare(folder: str) -> None:
        memory, sqlite = MemoryIndexStore(), await SqliteIndexStore.open(Path(folder) / "index.db")
        followed: set[int] = set()
        position = START
        for batch in batches:
            for store in (memory, sqlite):
                await store.apply(batch, fence=1)
            while position != await sqlite.position():
                part = await sqlite.delta(position, limit=limit, codes=True)
                followed = (followed | {row.seq for row in part.codes}) - set(part.removed)
                position = part.upto
            assert sorted(followed) == await seqs_of(sqlite)
            assert await memory.position() == replace(
                await sqlite.position(), generation=(await memory.position()).generation
            )
        assert await content(sqlite) == await content(memory)
        assert await sqlite.check() == []
        await sqlite.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(folder))
