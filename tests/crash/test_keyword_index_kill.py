"""A process killed during catch-up leaves an index that the next one completes, wherever it stopped."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge.index.store.sqlite import SqliteIndexStore
from tests.contract.index.test_index_store import IDENTITY, page
from tests.contract.index.test_keyword_index import found
from tests.support.index.keyword_engines import ENGINES, ON_DISK
from tests.support.index.memory_engines import MemoryKeywordIndex
from tests.support.index.split_terms import terms_of

CHILD = """
import asyncio, sys
from pathlib import Path
from knowledge.index.engines import fts5
from knowledge.index.engines import tantivy_keywords as tantivy_engine
from knowledge.index.store.sqlite import SqliteIndexStore
from tests.support.index.keyword_engines import ENGINES

tantivy_engine.BATCH = fts5.BATCH = tantivy_engine.ROWS_PER_COMMIT = 7

async def main(engine, folder):
    store = await SqliteIndexStore.open(folder / "index.db")
    index = ENGINES[engine].open(str(folder))
    print("ready", flush=True)
    while await index.catch_up(store):
        pass
    print("done", flush=True)

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


@pytest.mark.parametrize("kills", [1, pytest.param(15, marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ON_DISK)
async def test_kills_leave_an_index_equal_to_a_fresh_one(engine: str, kills: int, tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - moments of dying, not secrets
    store = await SqliteIndexStore.open(tmp_path / "index.db")
    await store.begin(IDENTITY)
    for kill in range(kills):
        pages = [page(f"{chance.randrange(60)}.md", f"common w{kill}", f"common v{i}") for i in range(25)]
        await store.apply(list({change.record.path: change for change in pages}.values()), fence=1)
        child = subprocess.Popen([sys.executable, "-c", CHILD, engine, str(tmp_path)], stdout=subprocess.PIPE)  # noqa: ASYNC220 - the child works while this test goes on
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        try:
            child.wait(chance.random() * 0.06)
        except subprocess.TimeoutExpired:
            child.kill()
        child.wait()
        child.stdout.close()
    index, exact = ENGINES[engine].open(str(tmp_path)), MemoryKeywordIndex(terms_of)
    await index.catch_up(store)
    await exact.catch_up(store)
    for word in ["common", *(f"w{kill}" for kill in range(kills))]:
        assert sorted(await found(index, word, limit=999)) == sorted(await found(exact, word, limit=999))
    await index.close()
    await store.close()
