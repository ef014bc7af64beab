"""A process is killed while it exchanges the vectors of an index: the index holds old or new ones, never both."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
import pytest

from knowledge.index.engines.codes import CodesVectorIndex
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.index.vector_renewal import packed
from knowledge.pages.markdown.chunk import indexed_text
from knowledge.search.query.corrections import Candidate
from knowledge.search.query.question import Questions
from knowledge.search.ranking.ranker import Engines, Ranker, SearchScope
from knowledge.state.ports import Filters, IndexIdentity, IndexPosition, IndexStore
from tests.crash.renewing import AFTER, BATCH, BEFORE, POINTS, embedder, indexer
from tests.support.index.memory_engines import MemoryKeywordIndex

ROOT = Path(__file__).parents[2]
PAGES = 150
ENOUGH_TO_HIT = 30
"""With fewer kills, none may hit the exchange on a busy machine."""
KILLS = int(os.environ.get("FORGE_TEST_KILLS", "8"))

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


def text(number: int) -> str:
    return f"page{number} word{number % 7} thing{number % 11} berry{number % 5}"


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    (tmp_path / "kb").mkdir()
    for number in range(PAGES):
        (tmp_path / "kb" / f"{number}.md").write_text(text(number), encoding="utf-8")
    index = await SqliteIndexStore.open(tmp_path / "index.db")
    await index.begin(BEFORE)
    await indexer(tmp_path / "kb", index).reconcile(1)
    await index.close()
    return tmp_path


def renewing(home: Path, point: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.crash.renewing", str(home), point]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


class Searcher:
    """Another process's view: its own connection, and its own codes in memory."""

    def __init__(self, index: SqliteIndexStore) -> None:
        self.index = index
        self.vectors = CodesVectorIndex()
        self.ranker, self.questions = Ranker(index, self._engines), Questions(index, uncorrected)
        self.searches = 0

    async def _engines(self) -> Engines:
        return Engines(MemoryKeywordIndex(lambda row: row.text.split()), self.vectors, embedder)

    async def ask(self, number: int) -> None:
        """Search with a page's own title and text: its score is 1 if question and page were embedded alike, and about 0 if not."""
        asked = await self.questions.ask(indexed_text(str(number), (), text(number)))
        ranking = await self.ranker.rank(asked, (), SearchScope(None, Filters()), room=3)
        assert not ranking.notes
        best = ranking.vectors[0]
        assert ranking.rows[best.seq].path == f"{number}.md"
        assert best.score == pytest.approx(1, abs=0.01)
        self.searches += 1


async def uncorrected(_index: IndexStore, _word: str) -> Sequence[Candidate]:
    return ()


async def whose(index: SqliteIndexStore) -> IndexIdentity:
    """Return whose vectors the index claims to hold, after comparing each with that embedder's."""
    space = await index.space()
    rows = (await index.delta(IndexPosition("", 0), limit=10**6, texts=True)).texts
    halves = await index.halves([row.seq for row in rows])
    stored = np.stack([np.frombuffer(half, "<f2") for half in halves]).astype(np.float32)
    wanted = await (await embedder(space.identity)).embed(
        [indexed_text(row.title, row.section, row.text) for row in rows]
    )
    assert len(rows) == PAGES
    assert np.allclose(stored, wanted, atol=1e-3)
    codes = [row.code for row in (await index.delta(IndexPosition("", 0), limit=10**6, codes=True)).codes]
    assert codes == [code for _, code in packed(wanted)]
    return space.identity


@pytest.mark.parametrize("point", [*POINTS[:2], *(pytest.param(at, marks=pytest.mark.external) for at in POINTS[2:])])
async def test_killed_anywhere_it_has_old_or_new_vectors_and_continues_where_it_was(home: Path, point: str) -> None:
    index = await SqliteIndexStore.open(home / "index.db")
    searcher = Searcher(index)
    await searcher.ask(1)
    process = renewing(home, point)
    assert await anyio.to_thread.run_sync(first_line, process) == point
    for number in range(5):
        await searcher.ask(number)  # nor does a search wait for the transaction that is open now
    kill(process)
    assert await whose(index) == (AFTER if point == "swapped" else BEFORE)
    await searcher.ask(7)
    embedded = int(await anyio.to_thread.run_sync(first_line, again := renewing(home, "")))
    again.wait(60)
    kill(again)
    supplied = {"supplying": 2 * BATCH, "supplied": 3 * BATCH, "swapping": PAGES, "swapped": PAGES}[point]
    assert embedded == PAGES - supplied, "nothing is embedded twice"
    assert await whose(index) == AFTER
    await searcher.ask(11)
    assert await index.renewal() is None
    await index.close()


@pytest.mark.external
async def test_killed_again_and_again_no_search_ever_compares_old_with_new(home: Path) -> None:
    """`FORGE_TEST_KILLS` sets how many kills. Between the kills the settings change back and forth."""
    index = await SqliteIndexStore.open(home / "index.db")
    searcher, chance = Searcher(index), random.Random(7)  # noqa: S311  seeded, not secret
    fell = Counter[tuple[str, bool]]()
    for number in range(KILLS):
        process = renewing(home, "go")
        await anyio.to_thread.run_sync(first_line, process)
        with anyio.move_on_after(chance.random() * 0.25):  # the point of death is drawn at random
            while True:
                await searcher.ask(chance.randrange(PAGES))
                await anyio.lowlevel.checkpoint()
        kill(process)
        found = await whose(index)
        progress = await index.renewal()
        fell[found.embedder, progress is not None and progress.done > 0] += 1
        if found == AFTER and number % 2:
            await index.begin(BEFORE)
            await indexer(home / "kb", index).renew(1)
            assert await whose(index) == BEFORE
    assert searcher.searches > KILLS
    print(f"embedder and whether halfway: {dict(fell)}")  # noqa: T201 - where the kills fell, with -s
    if KILLS >= ENOUGH_TO_HIT:
        assert any(halfway for _, halfway in fell)
    await index.close()
