"""The promises of every index store while its vectors are exchanged for another embedder's."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.errors import LeaseLost
from knowledge.index import vector_renewal
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.state.ports import IndexedChunk, IndexIdentity, IndexStore, LackingRow, Progress, Remove, Replace
from tests.contract.index.test_index_store import IDENTITY, START, page, record, store
from tests.support.state.memory.index import MemoryIndexStore

__all__ = ["store"]

OTHER = IndexIdentity("other", 0, IDENTITY.recipe)


def other_vector(digest: bytes) -> tuple[bytes, bytes]:
    return digest * 64, bytes(16) + digest


async def supply(store: IndexStore, rows: list[LackingRow], of: IndexIdentity = OTHER) -> bool:
    return await store.supply({row.digest: other_vector(row.digest) for row in rows}, of=of, fence=1)


async def lacking(store: IndexStore) -> list[LackingRow]:
    return list(await store.lacking(0, limit=1000))


async def halves(store: IndexStore) -> dict[str, bytes]:
    rows = (await store.delta(START, limit=1000, texts=True)).texts
    found = await store.halves([row.seq for row in rows])
    return {row.text: half for row, half in zip(rows, found, strict=True)}


def digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def without_vector(path: str, text: str) -> Replace:
    return Replace(record(path), (IndexedChunk(0, ("A",), 1, 2, text, digest(text), b"", bytes(32), {text}),))


async def test_an_index_serves_the_old_vectors_until_all_new_ones_are_there(store: IndexStore) -> None:
    await store.apply([page("a.md", "one", "two"), page("b.md", "two")], fence=1)
    position, space, before = await store.position(), await store.space(), await halves(store)
    assert await store.begin(OTHER), "nothing is emptied"
    found = await store.space()
    assert (found.identity, found.coming, found.position) == (IDENTITY, OTHER, space.position)
    rows = await lacking(store)
    assert [(row.text, row.section, row.digest) for row in rows] == [
        ("one", ("Setup",), digest("one")),
        ("two", ("Setup",), digest("two")),
        ("two", ("Setup",), digest("two")),
    ]
    assert await store.renewal() == Progress(0, 3)
    assert await supply(store, rows[1:2])
    assert [row.text for row in await lacking(store)] == ["one"], "by text: the second page has it too"
    assert await store.renewal() == Progress(2, 3)
    assert not await store.swap(fence=1)
    assert (await halves(store), await store.space()) == (before, found)
    await supply(store, rows[:1])
    assert await store.swap(fence=1)
    swapped = await store.space()
    assert (swapped.identity, swapped.coming) == (replace(OTHER, dimensions=512), None), "the length is learned"
    assert swapped.position.generation != space.position.generation
    assert await store.position() == position, "the words need not be indexed again"
    assert await halves(store) == {text: other_vector(digest(text))[0] for text in ("one", "two")}
    assert await store.renewal() is None


async def test_vectors_start_over_after_an_exchange_and_words_do_not(store: IndexStore) -> None:
    await store.apply([page("a.md", "one")], fence=1)
    words = (await store.delta(START, limit=9, texts=True)).upto
    codes = (await store.delta(START, limit=9, codes=True)).upto
    assert codes == (await store.space()).position
    await store.begin(OTHER)
    await supply(store, await lacking(store))
    await store.swap(fence=1)
    assert (await store.delta(words, limit=9, texts=True)).texts == []
    again = await store.delta(codes, limit=9, codes=True)
    assert [row.code for row in again.codes] == [other_vector(digest("one"))[1]]
    assert again.upto == (await store.space()).position != codes
    assert await store.vectors([digest("one")]) == {digest("one"): other_vector(digest("one"))}


async def test_what_is_stored_meanwhile_lacks_its_new_vector_and_is_found_by_going_on(store: IndexStore) -> None:
    await store.apply([page("a.md", "one")], fence=1)
    await store.begin(OTHER)
    rows = await lacking(store)
    await supply(store, rows)
    await store.apply([page("b.md", "one", "late"), Remove("a.md")], fence=1)
    assert not await store.swap(fence=1)
    (late,) = await store.lacking(rows[-1].seq, limit=9)
    assert late.text == "late"
    await supply(store, [late])
    assert await store.swap(fence=1)


FALLBACK = IndexIdentity("at once", 256, 2)
"""What an index starts with that was emptied because the program stores pages in another way now."""


async def test_after_an_upgrade_only_changed_texts_need_a_new_vector(store: IndexStore) -> None:
    """A transformer takes hours for a large folder, and an endpoint costs money."""
    await store.apply([page("a.md", "one", "two")], fence=1)
    assert not await store.begin(FALLBACK)
    wanted = replace(IDENTITY, recipe=2)
    assert (await store.space()).coming == wanted
    await store.apply([page("a.md", "one", "changed")], fence=1)
    assert await store.begin(wanted)
    assert [row.text for row in await lacking(store)] == ["changed"]
    assert await store.renewal() == Progress(1, 2)
    await supply(store, await lacking(store), of=wanted)
    assert await store.swap(fence=1)
    assert ((await store.space()).identity, (await store.space()).coming) == (wanted, None)
    assert (await halves(store))["one"] == digest("one") * 32


async def test_an_upgrade_during_a_change_keeps_the_vectors_that_were_made_so_far(store: IndexStore) -> None:
    await store.apply([page("a.md", "one", "two")], fence=1)
    await store.begin(OTHER)
    await supply(store, (await lacking(store))[:1])
    await store.begin(FALLBACK)
    await store.apply([page("a.md", "one", "two")], fence=1)
    assert await store.begin(replace(OTHER, recipe=2))
    assert [row.text for row in await lacking(store)] == ["two"]


async def test_a_process_that_dies_right_after_emptying_the_index_loses_no_vectors(store: IndexStore) -> None:
    await store.apply([page("a.md", "one")], fence=1)
    wanted = replace(IDENTITY, recipe=2)
    await store.begin(replace(FALLBACK, recipe=0))
    for _ in range(2):
        await vector_renewal.begin(store, wanted, FALLBACK)
        assert (await store.space()).coming == wanted
    assert (await store.space()).identity == FALLBACK
    await store.apply([page("a.md", "one")], fence=1)
    await store.begin(wanted)
    assert await lacking(store) == []


async def test_an_index_for_no_embedder_and_another_embedder_keep_no_vectors(store: IndexStore) -> None:
    await store.apply([page("a.md", "one")], fence=1)
    await store.begin(IndexIdentity("", 0, 0))
    assert (await store.space()).coming is None
    await store.begin(IDENTITY)
    await store.apply([page("a.md", "one")], fence=1)
    await store.begin(FALLBACK)
    await store.apply([page("a.md", "one")], fence=1)
    await store.begin(replace(OTHER, recipe=2))
    assert [row.text for row in await lacking(store)] == ["one"]


async def test_going_back_to_the_serving_embedder_drops_what_was_coming(store: IndexStore) -> None:
    await store.apply([page("a.md", "one")], fence=1)
    space = await store.space()
    await store.begin(OTHER)
    await supply(store, await lacking(store))
    await store.begin(IDENTITY)
    assert await store.space() == space
    assert await store.swap(fence=1), "there is nothing to exchange"
    assert await store.space() == space
    await store.begin(OTHER)
    assert len(await lacking(store)) == 1, "and it is not taken up again"


async def test_beginning_again_with_the_same_embedder_goes_on_where_it_was(store: IndexStore) -> None:
    await store.apply([page("a.md", "one", "two")], fence=1)
    await store.begin(OTHER)
    await supply(store, (await lacking(store))[:1])
    await store.begin(OTHER)
    assert [row.text for row in await lacking(store)] == ["two"]
    third = replace(OTHER, embedder="third")
    await store.begin(third)
    assert len(await lacking(store)) == 2, "vectors of two embedders are never mixed"
    assert not await supply(store, await lacking(store), OTHER), "a late delivery of what nobody wants is refused"
    assert len(await lacking(store)) == 2


async def test_an_empty_index_takes_another_embedder_at_once(store: IndexStore) -> None:
    await store.begin(OTHER)
    space = await store.space()
    assert (space.identity, space.coming) == (OTHER, None)
    await store.apply([page("a.md", "one")], fence=1)
    assert (await store.space()).identity == replace(OTHER, dimensions=256), "the length is learned"
    assert await store.begin(OTHER)
    assert await store.begin(replace(OTHER, dimensions=256))
    assert (await store.space()).coming is None


async def test_another_recipe_starts_over_and_what_is_coming_still_comes(store: IndexStore) -> None:
    await store.apply([page("a.md", "one")], fence=1)
    await store.begin(OTHER)
    await supply(store, await lacking(store))
    assert not await store.begin(replace(IDENTITY, recipe=2))
    space = await store.space()
    assert (space.identity, space.coming) == (replace(IDENTITY, recipe=2), replace(OTHER, recipe=2))
    assert space.position == await store.position()
    assert await lacking(store) == []


async def test_a_chunk_stored_without_a_vector_gets_it_later(store: IndexStore) -> None:
    """An endpoint was down: the page is found by its words at once, and by its meaning when the endpoint is back."""
    await store.apply([page("a.md", "one"), without_vector("b.md", "two")], fence=1)
    generation = (await store.space()).position.generation
    assert (await halves(store))["two"] == b""
    assert await store.vectors([digest("two")]) == {}
    assert [row.text for row in await lacking(store)] == ["two"]
    assert await store.renewal() == Progress(1, 2)
    assert not await store.swap(fence=1)
    assert await supply(store, await lacking(store), IDENTITY)
    one = (await halves(store))["one"]
    assert await store.swap(fence=1)
    assert await halves(store) == {"one": one, "two": other_vector(digest("two"))[0]}
    assert (await store.space()).position.generation != generation, "vector engines must hear of it"
    assert (await store.space()).identity == IDENTITY


async def test_a_writer_that_lost_its_lease_neither_supplies_nor_swaps(store: IndexStore) -> None:
    await store.apply([page("a.md", "one")], fence=5)
    await store.begin(OTHER)
    with pytest.raises(LeaseLost):
        await store.supply({}, of=OTHER, fence=4)
    with pytest.raises(LeaseLost):
        await store.swap(fence=4)
    assert (await store.space()).coming == OTHER


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from("abc"), st.lists(st.sampled_from("uvwxyz"), max_size=3)),
        st.tuples(st.just("bare"), st.sampled_from("abc"), st.sampled_from("uvwxyz")),
        st.tuples(st.just("remove"), st.sampled_from("abc"), st.none()),
        st.tuples(st.just("want"), st.sampled_from(["words", "other", "third"]), st.none()),
        st.tuples(st.just("supply"), st.integers(1, 4), st.none()),
        st.tuples(st.just("swap"), st.none(), st.none()),
    ),
    max_size=14,
)


async def _act(store: IndexStore, act: tuple[str, object, object]) -> object:
    kind, first, second = act
    if kind == "write":
        assert isinstance(second, list)
        return (await store.apply([page(f"{first}.md", *second)], fence=1)).seq
    if kind == "bare":
        return (await store.apply([without_vector(f"{first}.md", str(second))], fence=1)).seq
    if kind == "remove":
        return (await store.apply([Remove(f"{first}.md")], fence=1)).seq
    if kind == "want":
        return await store.begin(IndexIdentity(str(first), 0, 1))
    if kind == "supply":
        assert isinstance(first, int)
        return await supply(store, (await lacking(store))[:first], (await store.space()).wanted)
    return await store.swap(fence=1)


async def _seen(store: IndexStore) -> object:
    space = await store.space()
    codes = [(row.seq, row.code) for row in (await store.delta(START, limit=1000, codes=True)).codes]
    return space.identity, space.coming, codes, await halves(store), await lacking(store), await store.renewal()


async def _played(acts: list[tuple[str, object, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory, sqlite = MemoryIndexStore(), await SqliteIndexStore.open(Path(folder) / "index.db")
        for each in (memory, sqlite):
            await each.begin(IDENTITY)
        for act in acts:
            assert await _act(memory, act) == await _act(sqlite, act)
            assert await _seen(memory) == await _seen(sqlite)
        await sqlite.close()


@given(ACTS)
@settings(max_examples=20)
def test_sqlite_agrees_with_memory_whatever_happens_in_between(acts: list[tuple[str, object, object]]) -> None:
    anyio.run(_played, acts)
