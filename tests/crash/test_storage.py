"""Processes killed while writing leave an old or a new state, never half of one."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.state.ports import IndexPosition, StateStore
from knowledge.state.postgres.store import PostgresStateStore
from knowledge.state.sqlite.store import SqliteStateStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)

INDEXING = """
import asyncio, itertools, sys
from dataclasses import replace
from pathlib import Path
from knowledge.state.ports import DocumentRecord, IndexedChunk, Replace, Stamp
from knowledge.index.store.sqlite import SqliteIndexStore

async def main():
    store = await SqliteIndexStore.open(Path(sys.argv[1]))
    for turn in itertools.count():
        words = frozenset({"common", f"turn{turn}"})
        chunks = tuple(
            IndexedChunk(i, (), 1, 1, f"turn{turn} " * 200, bytes([i]) * 16, b"h" * 512, b"c" * 32, words) for i in range(5)
        )
        changes = [
            Replace(DocumentRecord(f"d{n}/a.md", "T", "", "page", "user", "en", (), (), (), False, f"turn{turn}",
                                   Stamp(1, turn, 1), 1, 1), chunks)
            for n in range(20)
        ]
        await store.apply(changes, fence=1)
        print(turn, flush=True)

asyncio.run(main())
"""

TRUSTING = """
import asyncio, itertools, sys
from datetime import UTC, datetime
from pathlib import Path
from knowledge.trust.ports import TrustRecord
from knowledge.state.sqlite.store import SqliteStateStore
from tests.support.state.trust_levels import stand

async def opened(where, schema):
    if not schema:
        return await SqliteStateStore.open(Path(where))
    from knowledge.state.postgres.store import PostgresStateStore
    return await PostgresStateStore.open(where, schema)

async def main():
    now = datetime(2026, 3, 1, tzinfo=UTC)
    store = await opened(*sys.argv[1:])
    await store.acquire_lease("index", "victim", now=now, ttl_s=30)
    for turn in itertools.count(1):
        await stand(store, TrustRecord("ada", turn / 1000, 0.0, 5.0, False, now), reason=str(turn), by="server")
        print(turn, flush=True)

asyncio.run(main())
"""


def kill_after(script: str, lines: int, *words: str) -> int:
    """Run the script, kill it while it works after its output line `lines`, and return the last line."""
    child = subprocess.Popen([sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        for _ in range(lines):
            assert child.stdout.readline()
    finally:
        child.kill()
    said = [int(line) for line in child.stdout.read().splitlines() if line]
    child.stdout.close()
    child.wait(60)
    return said[-1] if said else lines - 1


@pytest.mark.parametrize("lines", [1, 2, 5])
async def test_an_index_killed_while_applying_holds_whole_batches_only(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "index.db"
    kill_after(INDEXING, lines, str(path))
    store = await SqliteIndexStore.open(path)
    assert store.rebuilt is None
    assert await store.check() == []
    (turn,) = {revision for _, revision, _ in (await store.stamps()).values()}
    assert int(turn.removeprefix("turn")) >= lines - 1
    assert list(await store.vocabulary()) == [("common", 100), (turn, 100)]
    delta = await store.delta(IndexPosition("", 0), limit=10_000, texts=True)
    assert {row.text for row in delta.texts} == {f"{turn} " * 200}
    assert len(delta.texts) == 100
    folder = await store.directory("d7")
    assert folder is not None
    assert folder.documents == 1
    await store.close()


@pytest.mark.parametrize("lines", [1, 7])
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_everything_a_killed_process_had_acknowledged_still_exists(
    tmp_path: Path, lines: int, engine: str, schema: str, request: pytest.FixtureRequest
) -> None:
    store: StateStore
    if engine == "sqlite":
        kill_after(TRUSTING, lines, str(tmp_path / "state.db"), "")
        store = await SqliteStateStore.open(tmp_path / "state.db")
    else:
        url = request.getfixturevalue("postgres").url()
        kill_after(TRUSTING, lines, url, schema)
        store = await PostgresStateStore.open(url, schema)
    assert await store.check() == []
    trust_record = await store.trust_record("ada")
    newest = (await store.history("ada", limit=1))[0]
    assert trust_record is not None
    assert trust_record.score == newest.score_after == int(newest.reason) / 1000
    assert int(newest.reason) >= lines
    assert await store.acquire_lease("index", "heir", now=NOW, ttl_s=30) is None
    assert await store.acquire_lease("index", "heir", now=NOW.replace(minute=1), ttl_s=30)
    await store.close()
