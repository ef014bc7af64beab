"""Indexing processes are killed inside each stage of their work; the next one leaves the index as if nothing had happened.

`FORGE_TEST_KILLS` sets how often each engine is killed. With -s a histogram of the stages hit is printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import anyio.to_thread
import numpy as np
import pytest

from knowledge.index.ports import KeywordIndex, QueryTerm
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.state.ports import IndexPosition
from tests.crash.renewing import NEW, OLD
from tests.crash.stages import (
    STAGES,
    WORDS,
    edit,
    embedder_of,
    identity,
    indexer_over,
    told,
)
from tests.crash.test_indexing_kills import contents
from tests.support.index.keyword_engines import ENGINES
from tests.support.index.memory_engines import MemoryKeywordIndex
from tests.support.index.split_terms import terms_of

ROOT = Path(__file__).parents[2]
FEW, MANY = 2, int(os.environ.get("FORGE_TEST_KILLS", "60"))
WITHIN_S = 60
OF = {
    "tantivy": STAGES,
    "fts5": STAGES,
    "meilisearch-double": STAGES,
    "meilisearch-server": STAGES,
}

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


@pytest.mark.parametrize(
    ("engine", "kills"),
    [("tantivy", FEW), *(pytest.param(engine, MANY, marks=pytest.mark.slow) for engine in OF)],
)
async def test_killed_inside_every_stage_the_index_is_caught_up_and_equal(
    engine: str, kills: int, tmp_path: Path
) -> None:
    """Consistent with the database after catch-up; at least a sixth of the kills inside each stage."""
    (tmp_path / "kb").mkdir()
    edit(tmp_path / "kb", Random(0))  # noqa: S311 - what files say, not a secret
    fell: Counter[str] = Counter()
    async with ENGINES[engine].place(tmp_path) as place:
        for number in range(kills):
            stage = OF[engine][number % len(OF[engine])]
            fell[await anyio.to_thread.run_sync(_killed, tmp_path, engine, place, stage, number)] += 1
            if number % 20 == 19:
                await _equals_what_was_never_killed(tmp_path, engine, place)
        await _equals_what_was_never_killed(tmp_path, engine, place)
    shown = ", ".join(f"{stage} {fell[stage]}" for stage in OF[engine])
    print(f"\n{engine}: {kills} kills fell into: {shown}; elsewhere {fell['']}")  # noqa: T201 - the histogram, with -s
    assert all(fell[stage] >= kills // 6 for stage in OF[engine])


def _killed(home: Path, engine: str, place: str, stage: str, number: int) -> str:
    """Start a process, wait for its death, and return the stage in which it died."""
    command = [sys.executable, "-m", "tests.crash.stages", str(home), engine, place, stage, str(number)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert process.returncode == -9, process.stderr[-2000:]
    return told((home / "moment").read_bytes())


async def _equals_what_was_never_killed(home: Path, engine: str, place: str) -> None:
    """Let one more process do its work to the end, and compare everything with an index built from scratch."""
    index = await SqliteIndexStore.open(home / "index.db")
    keyword = ENGINES[engine].open(place)
    wanted = (await index.space()).wanted
    indexer = indexer_over(home / "kb", index, keyword)
    await indexer.reconcile(1)
    await indexer.renew(1)
    while await keyword.catch_up(index):
        pass
    fresh_home = home / "fresh"
    fresh_home.mkdir(exist_ok=True)
    (fresh_home / "index.db").unlink(missing_ok=True)
    fresh = await SqliteIndexStore.open(fresh_home / "index.db")
    specification = MemoryKeywordIndex(terms_of)
    await fresh.begin(wanted)
    await indexer_over(home / "kb", fresh, specification).reconcile(1)
    assert await contents(index) == await contents(fresh)
    exact = MemoryKeywordIndex(terms_of)
    await exact.catch_up(index)
    for word in WORDS:
        assert await _found(keyword, word) == await _found(exact, word), word
    await _vectors_are_of_one_embedder(index)
    await index.close()
    await fresh.close()
    await keyword.close()


async def _found(keyword: KeywordIndex, word: str) -> list[int]:
    hits = await keyword.search([QueryTerm(word, ((word, 1.0),))], limit=900)
    return sorted(hit.seq for hit in hits)


async def _vectors_are_of_one_embedder(index: SqliteIndexStore) -> None:
    space = await index.space()
    assert space.coming is None
    assert space.identity.embedder in {identity(OLD).embedder, identity(NEW).embedder}
    rows = (await index.delta(IndexPosition("", 0), limit=10**6, texts=True)).texts
    stored = np.stack([np.frombuffer(h, "<f2") for h in await index.halves([row.seq for row in rows])])
    texts = ["\n\n".join(part for part in (" > ".join(row.section), row.text) if part) for row in rows]
    wanted = await (await embedder_of(space.identity)).embed(texts)
    assert float((stored.astype(np.float32) * wanted).sum(axis=1).min()) > 0.9
