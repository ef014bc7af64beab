"""The library with Qdrant's engine, behind our small server: what the growth program measures where no Qdrant can be installed.

Runs if the package `qdrant-edge-py` is installed.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from knowledge.index.engines.qdrant.engine import QdrantVectorIndex
from knowledge.index.engines.qdrant.server import QdrantAddress, QdrantLine
from tests.contract.index.test_index_store import IDENTITY
from tests.contract.index.test_vector_index import embedded, some
from tests.external.programs import ROOT
from tests.support.index.memory_engines import MemoryVectorIndex
from tests.support.processes.free_port import free_port
from tests.support.state.memory.index import MemoryIndexStore

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(importlib.util.find_spec("qdrant_edge") is None, reason="qdrant-edge-py is not installed"),
]

STARTS_S = 60.0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Return a function that starts the server on the same folder, ends the one before, and returns the address."""
    running: list[subprocess.Popen[bytes]] = []

    def started() -> str:
        for one in running:
            one.kill()
            one.wait()
        port = free_port()
        command = [sys.executable, "-m", "tests.support.index.qdrant_edge", str(tmp_path / "server"), str(port)]
        running.append(subprocess.Popen(command, cwd=ROOT))
        url, until = f"http://127.0.0.1:{port}", time.monotonic() + STARTS_S
        while True:
            try:
                assert httpx.get(url, trust_env=False).json()["title"] == "Qdrant Edge"
            except httpx.TransportError:
                assert time.monotonic() < until
                time.sleep(0.05)
            else:
                return url

    yield started
    for one in running:
        one.kill()
        one.wait()


async def test_it_finds_the_nearest_and_keeps_them_when_it_is_killed(start: Callable[[], str], tmp_path: Path) -> None:
    store, expected, (question,) = MemoryIndexStore(), MemoryVectorIndex(), some(1, seed=5)
    await store.begin(IDENTITY)
    await store.apply([embedded(f"{number}.md", some(20, seed=number)) for number in range(20)], fence=1)
    await expected.catch_up(store)
    right = await expected.search(store, question, limit=20)
    url = start()
    engine = QdrantVectorIndex(QdrantLine.to(QdrantAddress(url)), "kf", lock=tmp_path / "lock")
    assert await engine.catch_up(store) == 400
    found = await engine.search(store, question, limit=20)
    assert [hit.doc for hit in found] == [hit.doc for hit in right]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in right], abs=1e-3)
    await engine.close()
    engine = QdrantVectorIndex(QdrantLine.to(QdrantAddress(start())), "kf", lock=tmp_path / "lock")
    assert await engine.caught_up(store)
    assert {hit.seq for hit in await engine.search(store, question, limit=20)} == {hit.seq for hit in right}
    await engine.close()
