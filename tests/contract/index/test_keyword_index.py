"""The promises of every keyword index: one suite for all engines; memory is the specification.

Every engine finds the chunks that have any of the terms, none outside the filter, and catches up with the store. The
embedded ones also promise the specification's ranking (`EXACT`), and that they repair damage.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knowledge.index.engines import fts5, tantivy_keywords
from knowledge.index.engines.catch_up import NOWHERE
from knowledge.index.engines.tantivy_keywords import TantivyKeywordIndex
from knowledge.index.ports import KeywordIndex, PageField, QueryTerm, RanksPages
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.state.ports import IndexIdentity, Remove
from tests.contract.index.test_index_store import IDENTITY, page
from tests.support.index.keyword_engines import ENGINES, EXACT, ON_DISK, SHARED
from tests.support.index.memory_engines import MemoryKeywordIndex
from tests.support.index.split_terms import names_of, terms_of
from tests.support.state.memory.index import MemoryIndexStore


@dataclass(frozen=True, slots=True)
class Bench:
    """One engine, and the location of its index in this test."""

    engine: str
    place: str

    def open(self) -> KeywordIndex:
        """Open the index; any number may be open at once."""
        return ENGINES[self.engine].open(self.place)


@pytest.fixture(params=list(ENGINES))
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    async with ENGINES[request.param].place(tmp_path) as place:
        yield Bench(request.param, place)


exact = pytest.mark.parametrize("bench", EXACT, indirect=True)
shared = pytest.mark.parametrize("bench", SHARED, indirect=True)
on_disk = pytest.mark.parametrize("bench", ON_DISK, indirect=True)


@pytest.fixture
async def store() -> MemoryIndexStore:
    made = MemoryIndexStore()
    await made.begin(IDENTITY)
    return made


def ask(*words: str) -> list[QueryTerm]:
    return [QueryTerm(word, ((word, 1.0),)) for word in words]


async def found(index: KeywordIndex, *words: str, docs: frozenset[int] | None = None, limit: int = 50) -> list[int]:
    return [hit.seq for hit in await index.search(ask(*words), limit=limit, docs=docs)]


PAGES = [
    page("a.md", "red apple tree", "green apple and a green pear"),
    page("b.md", "blue sky over an apple", "a long text about the sky where nothing else ever happens at all"),
    page("c.md", "setup of the sky"),
]


@exact
async def test_half_a_character_is_found_nowhere_and_harms_nothing(bench: Bench, store: MemoryIndexStore) -> None:
    """A lone surrogate from a broken encoder in a question.

    Tantivy can't search for it, which doesn't mean that its index is damaged.
    """
    await store.apply(PAGES, fence=1)
    index = bench.open()
    await index.catch_up(store)
    assert await found(index, "\ud800") == await found(index, "sk\udcffy") == []
    assert await found(index, "\ud800", "sky") == await found(index, "sky") != []
    assert await index.position() == await store.position()


@exact
async def test_scores_are_those_of_the_specification(bench: Bench, store: MemoryIndexStore) -> None:
    await store.apply(PAGES, fence=1)
    index, specification = bench.open(), MemoryKeywordIndex(terms_of)
    assert await index.catch_up(store) == await specification.catch_up(store) == 5
    asked = [QueryTerm("apple", (("apple", 1.0), ("pear", 0.5))), QueryTerm("sky", (("sky", 0.8),))]
    hits, expected = await index.search(asked, limit=9), await specification.search(asked, limit=9)
    assert [(hit.seq, hit.doc) for hit in hits] == [(hit.seq, hit.doc) for hit in expected]
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], rel=1e-4)
    await index.close()


@exact
async def test_pages_rank_by_all_of_their_text_and_by_their_names_as_in_the_specification(
    bench: Bench, store: MemoryIndexStore
) -> None:
    named = [
        page("fruit/apple-tree.md", "red apple", "a pear", title="Trees of fruit", aliases=("Orchard",)),
        page("sky.md", "blue sky over an apple", title="Weather"),
        page("apple.md", "a long text about something else", title="Apple pie"),
    ]
    await store.apply(named, fence=1)
    index, specification = bench.open(), MemoryKeywordIndex(terms_of, names_of)
    assert isinstance(index, RanksPages)
    await index.catch_up(store)
    await specification.catch_up(store)

    changed = False

    async def same(*words: str, by: PageField, docs: frozenset[int] | None = None) -> list[int]:
        hits = await index.pages(ask(*words), by=by, limit=9, docs=docs)
        expected = await specification.pages(ask(*words), by=by, limit=9, docs=docs)
        assert [(hit.seq, hit.doc) for hit in hits] == [(hit.seq, hit.doc) for hit in expected]
        # Until its segments are merged, tantivy counts removed pages in its statistics.
        if not changed:
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], rel=1e-3)
        return [hit.doc for hit in hits]

    by_path = {names.path: names.doc for names in (await store.delta(NOWHERE, limit=99, texts=True)).names}
    first, second, third = (by_path[change.record.path] for change in named)
    assert set(await same("apple", "pear", by="text")) == {first, second}
    assert (await same("apple", "pear", by="text"))[0] == first, "words of different chunks of one page count together"
    assert set(await same("apple", by="names")) == {third}
    assert await same("orchard", by="names") == [first]
    assert await same("weather", by="names", docs=frozenset({first})) == []
    await store.apply([page("sky.md", "nothing", title="Clouds"), Remove("apple.md")], fence=1)
    await index.catch_up(store)
    await specification.catch_up(store)
    changed = True
    assert await same("weather", "apple", by="names") == []
    assert await same("clouds", by="names") == [second]
    assert await same("apple", by="text") == [first]
    await index.close()


@exact
async def test_a_page_that_two_batches_share_is_found_by_both_parts_and_goes_with_its_chunks(
    bench: Bench, store: MemoryIndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (tantivy_keywords, fts5):
        monkeypatch.setattr(module, "BATCH", 2)
    await store.apply([page("long.md", "one apple", "two pear", "three plum", "four fig", "five date")], fence=1)
    index = bench.open()
    assert isinstance(index, RanksPages)
    await index.catch_up(store)
    for word in ("apple", "plum", "date"):
        assert await index.pages(ask(word), by="text", limit=9), word
    await store.apply([Remove("long.md")], fence=1)
    await index.catch_up(store)
    for word in ("apple", "plum", "date"):
        assert await index.pages(ask(word), by="text", limit=9) == [], word
    await index.close()


async def test_what_has_any_of_the_words_is_found_and_nothing_else(bench: Bench, store: MemoryIndexStore) -> None:
    await store.apply(PAGES, fence=1)
    index = bench.open()
    assert await index.catch_up(store) == 5
    apple, sky, both = [set(await found(index, *words)) for words in (["apple"], ["sky"], ["apple", "sky"])]
    assert len(apple) == 3
    assert len(sky) == 3
    assert both == apple | sky
    assert set(await found(index, "sky", "apple")) == both, "the order of the words leaves out nothing"
    assert set(await found(index, "zebra", "apple")) == apple, "nor does a word that nobody has"
    hits = await index.search(ask("apple", "sky"), limit=50)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    first = hits[0].seq
    assert first in apple & sky, "what has both words is before what has one"
    assert len(await found(index, "apple", "sky", limit=2)) == 2
    await index.close()


async def test_changes_are_taken_in_once(bench: Bench, store: MemoryIndexStore) -> None:
    index = bench.open()
    assert await found(index, "apple") == []
    await store.apply(PAGES, fence=1)
    await index.catch_up(store)
    assert await index.catch_up(store) == 0
    await store.apply([page("a.md", "a plum"), Remove("b.md")], fence=1)
    assert await index.catch_up(store) == 5
    assert await found(index, "apple") == []
    assert len(await found(index, "plum")) == 1
    assert len(await found(index, "sky")) == 1
    await index.close()


async def test_another_generation_starts_over(bench: Bench, store: MemoryIndexStore) -> None:
    index = bench.open()
    await store.apply(PAGES, fence=1)
    await index.catch_up(store)
    await store.begin(IndexIdentity(IDENTITY.embedder, IDENTITY.dimensions, 2))
    await store.apply([page("d.md", "only this")], fence=1)
    await index.catch_up(store)
    assert await found(index, "apple", "sky") == []
    assert len(await found(index, "only")) == 1
    await index.close()


async def test_only_admitted_documents_are_ranked(bench: Bench, store: MemoryIndexStore) -> None:
    await store.apply(PAGES, fence=1)
    index = bench.open()
    await index.catch_up(store)
    everything = await index.search(ask("apple", "sky"), limit=50)
    for doc in {hit.doc for hit in everything}:
        some = await index.search(ask("apple", "sky"), limit=1, docs=frozenset({doc, 999_999}))
        assert [hit.doc for hit in some] == [doc]
        if bench.engine in EXACT:
            assert some == [hit for hit in everything if hit.doc == doc][:1]
    assert await found(index, "apple", docs=frozenset()) == []
    await index.close()


async def test_many_admitted_documents_are_ranked_as_a_few_are(
    store: MemoryIndexStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["apple", "sky", "tree", "pear"]
    pages = [
        page(f"{n}.md", " ".join(["text", *words[: n % 5]] * (1 + n % 7) + ["filler"] * (n % 11))) for n in range(700)
    ]
    await store.apply(pages, fence=1)
    index = TantivyKeywordIndex(tmp_path, terms_of, names_of)
    await index.catch_up(store)
    every = frozenset(hit.doc for hit in await index.search(ask("text"), limit=700))
    asked: list[int] = []
    hits = tantivy_keywords._hits

    def noted(searcher: Any, query: Any, limit: int) -> Any:
        asked.append(limit)
        return hits(searcher, query, limit)

    monkeypatch.setattr(tantivy_keywords, "_hits", noted)
    best = {hit.doc for hit in await index.search(ask("pear", "tree"), limit=90)}
    for docs, searches in ((every, 1), (every - {min(every)}, 1), (every - best, 2)):
        for by_pages in (False, True):
            answers = []
            for few in (10, 10_000):
                monkeypatch.setattr(tantivy_keywords, "FEW_ADMITTED", few)
                asked.clear()
                if by_pages:
                    answers.append(await index.pages(ask("pear", "tree"), by="text", limit=20, docs=docs))
                else:
                    answers.append(await index.search(ask("pear", "tree"), limit=20, docs=docs))
                assert len(asked) == (searches if few == 10 else 1)
            assert answers[0] == answers[1]
            assert len(answers[0]) == 20


@exact
async def test_signs_are_words_where_we_cut_them(bench: Bench, store: MemoryIndexStore) -> None:
    odd = ["c++", "straße", "日本", '"quoted"', "a-b_c", "*", "x'y", "naïve", "or", "near", "€", "wé" * 40]
    await store.apply([page(f"{i}.md", word) for i, word in enumerate(odd)], fence=1)
    index = bench.open()
    await index.catch_up(store)
    for word in odd:
        assert len(await found(index, word.casefold())) == 1, word
    assert await found(index, "unheard-of") == []
    assert len(await found(index, *(f"w{i}" for i in range(3_000)), "c++")) == 1
    await index.close()


async def test_odd_questions_have_plain_answers(bench: Bench, store: MemoryIndexStore) -> None:
    odd = ["straße", "日本", "naïve", "or", "near", "not", "filter", "größer", "x1y2"]
    await store.apply([page(f"{i}.md", word) for i, word in enumerate(odd)], fence=1)
    index = bench.open()
    await index.catch_up(store)
    docs = {hit.doc for word in odd for hit in await index.search(ask(word.casefold()), limit=50)}
    assert len(docs) == len(odd)
    for word in odd:
        assert await found(index, word.casefold()), word
    for signs in ['"', "'", "\\", "*", "c++", "-near", '"near', "a = b", "€", "(", "\x00", "wé" * 400]:
        await index.search(ask(signs, "nothing-like-it"), limit=5)  # any result will do, but no error
    assert await found(index) == []
    assert await found(index, "unheardof") == []
    assert await found(index, "setup", limit=0) == []
    assert len(await found(index, "setup", limit=3)) == 3, "headings are searched like text"
    assert await found(index, *(f"w{i}q" for i in range(47)), "naïve"), "a long question is asked to its end"
    assert await index.search([QueryTerm("nothing", ())], limit=5) == []
    await index.close()


@shared
async def test_a_second_process_sees_what_the_first_took_in(bench: Bench, store: MemoryIndexStore) -> None:
    one, two = bench.open(), bench.open()
    await store.apply(PAGES[:1], fence=1)
    await one.catch_up(store)
    assert await found(two, "apple")
    await store.apply(PAGES[1:], fence=1)
    await one.catch_up(store)
    assert len(await found(two, "sky")) == 3
    assert await two.catch_up(store) == 0
    await one.close()
    await two.close()


@on_disk
async def test_a_deleted_index_comes_back(bench: Bench, store: MemoryIndexStore, tmp_path: Path) -> None:
    await store.apply(PAGES, fence=1)
    index = bench.open()
    await index.catch_up(store)
    for path in tmp_path.iterdir():  # noqa: ASYNC240 - a test may block its own loop
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    await found(index, "apple")
    await index.catch_up(store)
    assert len(await found(index, "apple")) == 3
    await index.close()


@on_disk
@pytest.mark.parametrize("damage", [b"", b"not an index at all" * 300])
async def test_a_damaged_index_is_made_anew(
    bench: Bench, damage: bytes, store: MemoryIndexStore, tmp_path: Path
) -> None:
    await store.apply(PAGES, fence=1)
    first = bench.open()
    await first.catch_up(store)
    await first.close()
    for path in tmp_path.rglob("*"):  # noqa: ASYNC240 - a test may block its own loop
        if path.is_file():
            path.write_bytes(damage)
    index = bench.open()
    await found(index, "apple")
    await index.catch_up(store)
    assert len(await found(index, "apple")) == 3
    await index.close()


@pytest.mark.parametrize("damaged", ["*/meta.json", "*/*.term", "*/*.fast", "*/*.idx", "*/*.store", "applied.json"])
async def test_tantivy_survives_the_loss_of_any_file(damaged: str, store: MemoryIndexStore, tmp_path: Path) -> None:
    await store.apply(PAGES, fence=1)
    first = TantivyKeywordIndex(tmp_path / "keyword", terms_of, names_of)
    await first.catch_up(store)
    for path in (tmp_path / "keyword").glob(damaged):
        path.unlink()
    index = TantivyKeywordIndex(tmp_path / "keyword", terms_of, names_of)
    await store.apply([page("d.md", "apple pie")], fence=1)
    await found(index, "apple")
    await index.catch_up(store)
    assert len(await found(index, "apple")) == 4


async def test_tiny_commits_do_not_pile_up(store: MemoryIndexStore, tmp_path: Path) -> None:
    index = TantivyKeywordIndex(tmp_path, terms_of, names_of)
    for i in range(60):
        await store.apply([page(f"{i % 20}.md", f"common text {i}")], fence=1)
        await index.catch_up(store)
    assert len(await found(index, "common")) == 20
    assert index._reading is not None
    assert index._reading.searcher.num_segments < 12


def page_segments(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("data-*/pages/*.term")}


async def test_no_search_waits_until_what_was_taken_in_is_opened(
    store: MemoryIndexStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening it, and closing what was open before, takes longer than a search. Without searches nothing is opened."""
    index = TantivyKeywordIndex(tmp_path, terms_of, names_of)
    await store.apply(PAGES, fence=1)
    await index.catch_up(store)
    assert index._reading is None
    assert await found(index, "sky")
    await store.apply([page("d.md", "a new sky")], fence=1)
    await index.catch_up(store)
    opened = index._reading
    with monkeypatch.context() as patched:
        patched.setattr(index, "_opened", None)
        assert len(await found(index, "sky")) == 4
    for text in ("a sky", "the sky"):
        await store.apply([page("e.md", text)], fence=1)
        await index.catch_up(store)
    assert opened is not index._reading, "the first of two changes after a search"
    opened = index._reading
    await store.apply([page("f.md", "one more sky")], fence=1)
    await index.catch_up(store)
    assert opened is index._reading
    assert len(await found(index, "sky")) == 6


async def test_single_changes_do_not_rewrite_the_whole_index(store: MemoryIndexStore, tmp_path: Path) -> None:
    """Eight small segments are merged with every other one of less than 10,000 documents."""
    index = TantivyKeywordIndex(tmp_path, terms_of, names_of)
    await store.apply([page(f"{i}.md", f"common text {i}") for i in range(300)], fence=1)
    await index.catch_up(store)
    first = page_segments(tmp_path)
    for i in range(20):
        await store.apply([page(f"{i % 5}.md", f"common text changed {i}")], fence=1)
        await index.catch_up(store)
    assert first <= page_segments(tmp_path)
    assert len(await found(index, "common", limit=500)) == 300
    assert len(await found(index, "changed", limit=500)) == 5
    assert len(await index.pages(ask("changed"), by="text", limit=500)) == 5
    assert index._reading is not None
    assert index._reading.pages.num_segments <= 5


CHILD = """
import asyncio, sys
from pathlib import Path
from knowledge.index.store.sqlite import SqliteIndexStore
from tests.support.index.keyword_engines import ENGINES

async def main(engine, place, database):
    store = await SqliteIndexStore.open(Path(database))
    index = ENGINES[engine].open(place)
    for _ in range(20):
        await index.catch_up(store)
    await index.close()
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "bench",
    [name if name == "tantivy" else pytest.param(name, marks=pytest.mark.external) for name in SHARED],
    indirect=True,
)
async def test_three_processes_at_once_make_one_index(bench: Bench, tmp_path: Path) -> None:
    store = await SqliteIndexStore.open(tmp_path / "index.db")
    await store.begin(IDENTITY)
    await store.apply([page(f"{i}.md", f"common w{i}", "common again") for i in range(300)], fence=1)
    child = [sys.executable, "-c", CHILD, bench.engine, bench.place, str(tmp_path / "index.db")]
    children = [subprocess.Popen(child) for _ in range(3)]  # noqa: ASYNC220 - the child works while this test goes on
    for i in range(20):
        await store.apply([page(f"{i}.md", f"common changed{i}")], fence=1)
    assert [process.wait(60) for process in children] == [0, 0, 0]
    index = bench.open()
    await index.catch_up(store)
    specification = MemoryKeywordIndex(terms_of)
    await specification.catch_up(store)
    assert sorted(await found(index, "common", limit=999)) == sorted(await found(specification, "common", limit=999))
    await index.close()
    await store.close()


async def test_it_says_how_far_it_is(bench: Bench, store: MemoryIndexStore) -> None:
    index = bench.open()
    assert not (await index.position()).generation
    await store.apply(PAGES, fence=1)
    await index.catch_up(store)
    assert await index.position() == await store.position()
    await store.apply([Remove("a.md")], fence=1)
    assert await index.position() != await store.position()
    await index.catch_up(store)
    assert await index.position() == await store.position()
