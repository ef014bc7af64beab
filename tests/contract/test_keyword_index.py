"""What every keyword index promises: one suite for all engines; memory is the specification."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from knowledge.index.fts5 import Fts5KeywordIndex
from knowledge.index.memory import MemoryKeywordIndex
from knowledge.index.ports import KeywordIndex, QueryTerm
from knowledge.index.tantivy_engine import TantivyKeywordIndex
from knowledge.storage.memory import MemoryIndexStore
from knowledge.storage.ports import IndexIdentity, Remove, TextRow
from knowledge.storage.sqlite_index import SqliteIndexStore
from tests.contract.test_index_store import IDENTITY, page

ENGINES = ["memory", "tantivy", "fts5"]
ON_DISK = ENGINES[1:]


def terms_of(row: TextRow) -> Sequence[str]:
    return [*" ".join(row.section).casefold().split(), *row.text.casefold().split()]


def opened(engine: str, folder: Path) -> KeywordIndex:
    makers: dict[str, Callable[[], KeywordIndex]] = {
        "memory": lambda: MemoryKeywordIndex(terms_of),
        "tantivy": lambda: TantivyKeywordIndex(folder / "keyword", terms_of),
        "fts5": lambda: Fts5KeywordIndex(folder / "keyword.db", terms_of),
    }
    return makers[engine]()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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


async def test_scores_are_those_of_the_specification(engine: str, store: MemoryIndexStore, tmp_path: Path) -> None:
    await store.apply(PAGES, fence=1)
    index, exact = opened(engine, tmp_path), MemoryKeywordIndex(terms_of)
    assert await index.catch_up(store) == await exact.catch_up(store) == 5
    asked = [QueryTerm("apple", (("apple", 1.0), ("pear", 0.5))), QueryTerm("sky", (("sky", 0.8),))]
    hits, expected = await index.search(asked, limit=9), await exact.search(asked, limit=9)
    assert [(hit.seq, hit.doc) for hit in hits] == [(hit.seq, hit.doc) for hit in expected]
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], rel=1e-4)
    await index.close()


async def test_changes_are_taken_in_once(engine: str, store: MemoryIndexStore, tmp_path: Path) -> None:
    index = opened(engine, tmp_path)
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


async def test_another_generation_starts_over(engine: str, store: MemoryIndexStore, tmp_path: Path) -> None:
    index = opened(engine, tmp_path)
    await store.apply(PAGES, fence=1)
    await index.catch_up(store)
    await store.begin(IndexIdentity("other", 64, 1))
    await store.apply([page("d.md", "only this")], fence=1)
    await index.catch_up(store)
    assert await found(index, "apple", "sky") == []
    assert len(await found(index, "only")) == 1
    await index.close()


async def test_only_admitted_documents_are_ranked(engine: str, store: MemoryIndexStore, tmp_path: Path) -> None:
    await store.apply(PAGES, fence=1)
    index = opened(engine, tmp_path)
    await index.catch_up(store)
    everything = await index.search(ask("apple", "sky"), limit=50)
    for doc in {hit.doc for hit in everything}:
        some = await index.search(ask("apple", "sky"), limit=1, docs=frozenset({doc, 999_999}))
        assert some == [hit for hit in everything if hit.doc == doc][:1]
    assert await found(index, "apple", docs=frozenset()) == []
    await index.close()


async def test_odd_questions_have_plain_answers(engine: str, store: MemoryIndexStore, tmp_path: Path) -> None:
    odd = ["c++", "straße", "日本", '"quoted"', "a-b_c", "*", "x'y", "naïve", "or", "near", "€", "wé" * 40]
    await store.apply([page(f"{i}.md", word) for i, word in enumerate(odd)], fence=1)
    index = opened(engine, tmp_path)
    await index.catch_up(store)
    for word in odd:
        assert len(await found(index, word.casefold())) == 1, word
    assert await found(index) == []
    assert await found(index, "unheard-of") == []
    assert await found(index, "setup", limit=0) == []
    assert len(await found(index, "setup", limit=3)) == 3, "headings are searched like text"
    assert len(await found(index, *(f"w{i}" for i in range(3_000)), "c++")) == 1
    assert await index.search([QueryTerm("nothing", ())], limit=5) == []
    await index.close()


@pytest.mark.parametrize("engine", ON_DISK)
async def test_a_second_process_sees_what_the_first_took_in(
    engine: str, store: MemoryIndexStore, tmp_path: Path
) -> None:
    one, two = opened(engine, tmp_path), opened(engine, tmp_path)
    await store.apply(PAGES[:1], fence=1)
    await one.catch_up(store)
    assert await found(two, "apple")
    await store.apply(PAGES[1:], fence=1)
    await one.catch_up(store)
    assert len(await found(two, "sky")) == 3
    assert await two.catch_up(store) == 0
    await one.close()
    await two.close()


@pytest.mark.parametrize("engine", ON_DISK)
async def test_a_deleted_index_comes_back(engine: str, store: MemoryIndexStore, tmp_path: Path) -> None:
    await store.apply(PAGES, fence=1)
    index = opened(engine, tmp_path)
    await index.catch_up(store)
    for path in tmp_path.iterdir():  # noqa: ASYNC240 - a test may block its own loop
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    await found(index, "apple")
    await index.catch_up(store)
    assert len(await found(index, "apple")) == 3
    await index.close()


@pytest.mark.parametrize("engine", ON_DISK)
@pytest.mark.parametrize("damage", [b"", b"not an index at all" * 300])
async def test_a_damaged_index_is_made_anew(
    engine: str, damage: bytes, store: MemoryIndexStore, tmp_path: Path
) -> None:
    await store.apply(PAGES, fence=1)
    first = opened(engine, tmp_path)
    await first.catch_up(store)
    await first.close()
    for path in tmp_path.rglob("*"):  # noqa: ASYNC240 - a test may block its own loop
        if path.is_file():
            path.write_bytes(damage)
    index = opened(engine, tmp_path)
    await found(index, "apple")
    await index.catch_up(store)
    assert len(await found(index, "apple")) == 3
    await index.close()


@pytest.mark.parametrize("damaged", ["*/meta.json", "*/*.term", "*/*.fast", "*/*.idx", "*/*.store", "applied.json"])
async def test_tantivy_survives_the_loss_of_any_file(damaged: str, store: MemoryIndexStore, tmp_path: Path) -> None:
    await store.apply(PAGES, fence=1)
    first = opened("tantivy", tmp_path)
    await first.catch_up(store)
    for path in (tmp_path / "keyword").glob(damaged):
        path.unlink()
    index = opened("tantivy", tmp_path)
    await store.apply([page("d.md", "apple pie")], fence=1)
    await found(index, "apple")
    await index.catch_up(store)
    assert len(await found(index, "apple")) == 4


async def test_tiny_commits_do_not_pile_up(store: MemoryIndexStore, tmp_path: Path) -> None:
    index = TantivyKeywordIndex(tmp_path, terms_of)
    for i in range(60):
        await store.apply([page(f"{i % 20}.md", f"common text {i}")], fence=1)
        await index.catch_up(store)
    assert len(await found(index, "common")) == 20
    assert index._reading is not None
    assert index._reading.searcher.num_segments < 12


CHILD = """
import asyncio, sys
from pathlib import Path
from knowledge.storage.sqlite_index import SqliteIndexStore
from tests.contract.test_keyword_index import opened

async def main(engine, folder):
    store = await SqliteIndexStore.open(folder / "index.db")
    index = opened(engine, folder)
    for _ in range(20):
        await index.catch_up(store)
    await index.close()
    await store.close()

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


@pytest.mark.parametrize("engine", ON_DISK)
async def test_three_processes_at_once_make_one_index(engine: str, tmp_path: Path) -> None:
    store = await SqliteIndexStore.open(tmp_path / "index.db")
    await store.begin(IDENTITY)
    await store.apply([page(f"{i}.md", f"common w{i}", "common again") for i in range(300)], fence=1)
    children = [subprocess.Popen([sys.executable, "-c", CHILD, engine, str(tmp_path)]) for _ in range(3)]  # noqa: ASYNC220 - the child works while this test goes on
    for i in range(20):
        await store.apply([page(f"{i}.md", f"common changed{i}")], fence=1)
    assert [child.wait(60) for child in children] == [0, 0, 0]
    index = opened(engine, tmp_path)
    await index.catch_up(store)
    exact = MemoryKeywordIndex(terms_of)
    await exact.catch_up(store)
    assert sorted(await found(index, "common", limit=999)) == sorted(await found(exact, "common", limit=999))
    await index.close()
    await store.close()


async def test_it_says_how_far_it_is(engine: str, store: MemoryIndexStore, tmp_path: Path) -> None:
    index = opened(engine, tmp_path)
    assert not (await index.position()).generation
    await store.apply(PAGES, fence=1)
    await index.catch_up(store)
    assert await index.position() == await store.position()
    await store.apply([Remove("a.md")], fence=1)
    assert await index.position() != await store.position()
    await index.catch_up(store)
    assert await index.position() == await store.position()
