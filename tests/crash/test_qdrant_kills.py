"""Processes filling Qdrant are killed inside each kind of request; the next makes the server equal to the store."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from operator import methodcaller
from pathlib import Path

import pytest

from knowledge.index.engines.qdrant.points import MARK
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.state.ports import IndexPosition, Remove
from tests.contract.index.test_index_store import IDENTITY
from tests.contract.index.test_vector_index import embedded, some
from tests.support.index.qdrant import PLACES, engine_at, line_to

KILLS = int(os.environ.get("FORGE_TEST_KILLS", "20"))
STAGES = ["create_collection", "create_payload_index", "upsert", "mark", "delete", "swap", "delete_collection"]
CHILD = """
import asyncio, sys
from pathlib import Path
from knowledge.index.engines.qdrant import fill as qdrant_fill
from knowledge.index.engines.qdrant.server import QdrantLine
from knowledge.index.store.sqlite import SqliteIndexStore
from tests.support.index.qdrant import engine_at

qdrant_fill.ROWS, qdrant_fill.POINTS = 20, 10

class Spied:
    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        def told(*args, points=(), **named):
            mark = points and points[0].id == qdrant_fill.MARK
            stage = "swap" if name == "update_collection_aliases" else "mark" if mark else name
            print(stage, flush=True)
            sent = {"points": points} if points else {}
            return getattr(self._client, name)(*args, **sent, **named)
        return told

class Announcing(QdrantLine):
    async def do(self, request):
        return await super().do(lambda client: request(Spied(client)))

async def main(place, folder):
    store = await SqliteIndexStore.open(Path(folder) / "index.db")
    engine = engine_at(place, through=lambda line: Announcing(line._make, line.shown))
    while await engine.catch_up(store):
        pass
    await engine.close()
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[str]:
    async with PLACES["qdrant-server"](tmp_path) as opened:
        yield opened


def killed_in(place: str, folder: Path, stage: str, chance: random.Random) -> str:
    """Start a process that fills, kill it when it reaches `stage` (perhaps not the first time).

    Return where it died.
    """
    skip = chance.randrange(3) if stage in ("upsert", "mark") else 0
    child = subprocess.Popen([sys.executable, "-c", CHILD, place, str(folder)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        for line in child.stdout:
            if line.strip() == stage and (skip := skip - 1) < 0:
                # A request takes about a millisecond: some die before it is sent, some inside, some after it.
                try:
                    child.wait(chance.random() * 0.004)
                except subprocess.TimeoutExpired:
                    child.kill()
                return stage
        return "nowhere"
    finally:
        child.wait(60)
        child.stdout.close()


async def test_a_server_is_equal_to_the_store_wherever_the_filling_process_died(place: str, tmp_path: Path) -> None:
    """Our promise: an index never stays wrong. `FORGE_TEST_KILLS` sets how often (60 in the benchmark run)."""
    chance = random.Random(11)  # noqa: S311 - moments of dying, not secrets
    store = await SqliteIndexStore.open(tmp_path / "index.db")
    await store.begin(IDENTITY)
    vectors, fell = some(60), Counter[str]()
    for kill in range(KILLS):
        stage = STAGES[kill % len(STAGES)]
        if stage in ("create_collection", "create_payload_index", "swap", "delete_collection"):
            await store.begin(replace(IDENTITY, recipe=100 + kill))
        pages = [embedded(f"{chance.randrange(20)}.md", vectors[: 1 + chance.randrange(12)]) for _ in range(12)]
        changes = {change.record.path: change for change in pages}
        await store.apply([*changes.values(), Remove(f"{chance.randrange(20)}.md")], fence=1)
        fell[killed_in(place, tmp_path, stage, chance)] += 1
        if kill % 3:
            continue
        engine = engine_at(place)
        await engine.catch_up(store)
        assert await engine.caught_up(store)
        await engine.close()
        line, name, _ = line_to(place)
        found, _ = await line.do(methodcaller("scroll", name, limit=10_000))
        expected = {row.seq for row in (await store.delta(IndexPosition("", 0), limit=10_000, codes=True)).codes}
        assert {point.id for point in found} == expected | {MARK}
        there = (await line.do(lambda client: client.get_collections())).collections
        assert len([one for one in there if one.name.startswith(name)]) == 1
        await line.close()
    print("kills fell in:", dict(fell))  # noqa: T201 - the histogram is part of the answer
    assert fell["nowhere"] <= KILLS // 3
    await store.close()
