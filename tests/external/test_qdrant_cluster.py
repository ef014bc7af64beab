"""Real Qdrant nodes that this test starts: three that are killed and restarted one by one, and one restored from a snapshot.

Runs if FORGE_TEST_QDRANT_PROGRAM is the path of a Qdrant program.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import httpx
import pytest

from knowledge.errors import EngineUnavailable
from knowledge.index.engines.qdrant.engine import QdrantVectorIndex
from knowledge.index.engines.qdrant.points import QdrantOptions
from knowledge.index.engines.qdrant.server import QdrantAddress, QdrantLine
from knowledge.state.ports import Filters, IndexChange, Remove
from tests.contract.index.test_index_store import IDENTITY
from tests.contract.index.test_vector_index import embedded, some
from tests.support.index.memory_engines import MemoryVectorIndex
from tests.support.processes.free_port import free_port
from tests.support.state.memory.index import MemoryIndexStore

PROGRAM = "FORGE_TEST_QDRANT_PROGRAM"
OPTIONS = QdrantOptions(shards=6, replicas=2)
PAGES, CHUNKS = 200, 10
READY_S = 60.0
SAME = 1e-3
"""Half precision, and sums in another order."""

pytestmark = [pytest.mark.external, pytest.mark.slow]


@dataclass(slots=True)
class Node:
    """One process of Qdrant with its own storage."""

    program: str
    folder: Path
    ports: tuple[int, int, int]
    first: str | None
    """The address of the node to join; None for the one that begins the cluster."""
    running: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def peer(self) -> str:
        return f"http://127.0.0.1:{self.ports[2]}"

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        settings = {
            "SERVICE__HTTP_PORT": str(self.ports[0]),
            "SERVICE__GRPC_PORT": str(self.ports[1]),
            "CLUSTER__ENABLED": "true",
            "CLUSTER__P2P__PORT": str(self.ports[2]),
            "CLUSTER__CONSENSUS__TICK_PERIOD_MS": "50",
            "SERVICE__HOST": "127.0.0.1",
            "TELEMETRY_DISABLED": "true",
        }
        joined = ["--bootstrap", self.first] if self.first else []
        with (self.folder / "log").open("ab") as log:
            self.running = subprocess.Popen(
                [self.program, "--uri", self.peer, *joined],
                cwd=self.folder,
                env={**os.environ, **{f"QDRANT__{name}": value for name, value in settings.items()}},
                stdout=log,
                stderr=log,
            )

    def stop(self, by: signal.Signals) -> None:
        if self.running is not None:
            self.running.send_signal(by)
            self.running.wait()
            self.running = None


@dataclass(slots=True)
class Cluster:
    """Three nodes, an index of their own, and the knowledge base that it is compared with."""

    nodes: Sequence[Node]
    folder: Path
    store: MemoryIndexStore = field(default_factory=MemoryIndexStore)
    name: str = field(default_factory=lambda: f"kf-cluster-{secrets.token_hex(4)}")

    def engine(self, node: Node, name: str | None = None) -> QdrantVectorIndex:
        line = QdrantLine.to(QdrantAddress(node.url, None))
        return QdrantVectorIndex(line, name or self.name, lock=self.folder / "lock", options=OPTIONS)

    async def healthy(self, nodes: Sequence[Node] | None = None) -> None:
        """Wait until these nodes answer, know all three, and have every replica of every collection active."""
        until = time.monotonic() + READY_S
        async with httpx.AsyncClient(trust_env=False) as client:
            for node in nodes or self.nodes:
                while not await _is_whole(client, node, len(self.nodes)):
                    assert time.monotonic() < until, f"{node.url} is not ready; see {node.folder / 'log'}"
                    await anyio.sleep(0.2)

    async def fill(self, changes: Sequence[IndexChange], node: Node) -> None:
        await self.store.apply(changes, fence=1)
        engine = self.engine(node)
        await engine.catch_up(self.store)
        assert await engine.caught_up(self.store)
        await engine.close()

    async def assert_same_on(self, nodes: Sequence[Node]) -> None:
        """Every one of the nodes finds what the specification finds, with filters and without."""
        expected = MemoryVectorIndex()
        await expected.catch_up(self.store)
        asked = [Filters(), Filters(path="notes"), Filters(path="notes/3"), Filters(tags=("none",))]
        for node in nodes:
            engine = self.engine(node)
            for number, question in enumerate(some(12, seed=5)):
                filters = asked[number % len(asked)]
                docs = await self.store.select(filters)
                hits = await engine.search(self.store, question, limit=20, docs=docs, filters=filters)
                right = await expected.search(self.store, question, limit=20, docs=docs)
                assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in right], abs=SAME)
                assert {hit.seq for hit in hits[:10]} <= {hit.seq for hit in right}
            await engine.close()


async def _is_whole(client: httpx.AsyncClient, node: Node, size: int) -> bool:
    try:
        known = (await client.get(f"{node.url}/cluster")).json()["result"]
        if len(known["peers"]) != size or known["raft_info"]["pending_operations"]:
            return False
        for collection in (await client.get(f"{node.url}/collections")).json()["result"]["collections"]:
            of = (await client.get(f"{node.url}/collections/{collection['name']}/cluster")).json()["result"]
            shards = [*of["local_shards"], *of["remote_shards"]]
            if of["shard_transfers"] or any(shard["state"] != "Active" for shard in shards):
                return False
    except (httpx.HTTPError, KeyError, TypeError):
        return False
    return True


def pages(numbers: range, seed: int) -> list[IndexChange]:
    vectors = some(len(numbers) * CHUNKS, seed=seed)
    return [
        embedded(f"notes/{n % 10}/{n}.md" if n % 2 else f"other/{n}.md", vectors[at * CHUNKS : (at + 1) * CHUNKS])
        for at, n in enumerate(numbers)
    ]


@pytest.fixture
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    program = os.environ.get(PROGRAM)
    if not program:
        pytest.skip(f"{PROGRAM} names no Qdrant program")
    first: str | None = None
    nodes = []
    for number in range(getattr(request, "param", 3)):
        nodes.append(Node(program, tmp_path / f"node-{number}", (free_port(), free_port(), free_port()), first))
        first = nodes[0].peer
    made = Cluster(nodes, tmp_path)
    try:
        for count, node in enumerate(nodes, 1):
            node.start()
            await Cluster(nodes[:count], tmp_path).healthy()
        await made.store.begin(IDENTITY)
        yield made
    finally:
        for node in nodes:
            node.stop(signal.SIGKILL)


async def test_every_node_finds_the_same_after_changes_deletions_and_another_generation(cluster: Cluster) -> None:
    await cluster.fill(pages(range(PAGES), seed=1), cluster.nodes[0])
    await cluster.assert_same_on(cluster.nodes)
    changed = [*pages(range(40), seed=2), *(Remove(f"other/{n}.md") for n in range(100, 140, 2))]
    await cluster.fill(changed, cluster.nodes[1])
    await cluster.assert_same_on(cluster.nodes)
    await cluster.store.begin(replace(IDENTITY, recipe=2))
    await cluster.fill(pages(range(PAGES // 2), seed=3), cluster.nodes[2])
    await cluster.assert_same_on(cluster.nodes)
    async with httpx.AsyncClient(trust_env=False) as client:
        there = (await client.get(f"{cluster.nodes[0].url}/collections")).json()["result"]["collections"]
    assert len(there) == 1, "the collection of the earlier generation is deleted"


async def test_a_killed_node_takes_nothing_with_it(cluster: Cluster) -> None:
    """Each node in turn is killed, the others go on searching and take changes, and the node catches up with them."""
    await cluster.fill(pages(range(PAGES), seed=1), cluster.nodes[0])
    await cluster.healthy()
    for turn, node in enumerate(cluster.nodes):
        node.stop(signal.SIGKILL)
        others = [one for one in cluster.nodes if one is not node]
        await cluster.fill(pages(range(turn * 20, turn * 20 + 20), seed=10 + turn), others[0])
        await cluster.assert_same_on(others)
        node.start()
        await cluster.healthy()
        await cluster.assert_same_on(cluster.nodes)


async def test_a_rolling_restart_never_gives_a_wrong_answer(cluster: Cluster) -> None:
    """As for an upgrade: each node is stopped in order and started again while the same node is asked all the time."""
    await cluster.fill(pages(range(PAGES), seed=1), cluster.nodes[0])
    await cluster.healthy()
    (question,) = some(1, seed=6)
    engine = cluster.engine(cluster.nodes[0])
    right = [hit.seq for hit in await engine.search(cluster.store, question, limit=5)]
    answers, failures = 0, 0
    done = anyio.Event()

    async def ask() -> None:
        nonlocal answers, failures
        while not done.is_set():
            try:
                hits = await engine.search(cluster.store, question, limit=5)
            except EngineUnavailable:
                # The embedded engine answers then.
                failures += 1
            else:
                assert [hit.seq for hit in hits] == right
                answers += 1
            await anyio.sleep(0.02)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        for node in cluster.nodes:
            await anyio.to_thread.run_sync(node.stop, signal.SIGTERM)
            await anyio.sleep(1)
            node.start()
            await cluster.healthy()
        done.set()
    await engine.close()
    print(f"{answers} right answers, {failures} without the server")  # noqa: T201 - the figures
    assert answers > 20


@pytest.mark.parametrize("cluster", [1], indirect=True)
async def test_what_is_restored_from_a_snapshot_is_brought_up_to_date(cluster: Cluster) -> None:
    """The collection was lost; the mark in the snapshot says how far it is, so what was indexed since is added."""
    (node,) = cluster.nodes
    await cluster.fill(pages(range(PAGES), seed=1), node)
    async with httpx.AsyncClient(base_url=node.url, trust_env=False, timeout=60) as client:
        (collection,) = (await client.get("/collections")).json()["result"]["collections"]
        at = f"/collections/{collection['name']}"
        name = (await client.post(f"{at}/snapshots")).json()["result"]["name"]
        await cluster.fill(pages(range(30), seed=4), node)
        # Deleting a collection deletes its snapshots; this one is kept where the node may read it.
        made = next(node.folder.rglob(name))
        kept = made.rename(made.parent.parent / "kept.snapshot")
        await client.delete(at)
        body = {"location": kept.as_uri(), "priority": "snapshot"}
        restored = await client.put(f"{at}/snapshots/recover", json=body)
        assert restored.status_code == 200, restored.text
    await cluster.healthy()
    engine = cluster.engine(node)
    assert not await engine.caught_up(cluster.store)
    await engine.catch_up(cluster.store)
    await engine.close()
    await cluster.assert_same_on([node])
