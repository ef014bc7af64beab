"""Searches whose vectors are on a Qdrant server: one round trip, the same ranking, and the embedded engine when it is down."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from knowledge.errors import EngineUnavailable
from knowledge.index.engines.qdrant.engine import QdrantVectorIndex
from knowledge.index.engines.qdrant.server import QdrantLine
from knowledge.index.engines.standby import StandbyVectors
from knowledge.search.ranking.ranker import Engines
from mcp_server.app.factories import engines
from mcp_server.app.factories.engines import keep_up
from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.settings import Settings
from tests.contract.index.test_index_store import IDENTITY
from tests.contract.index.test_vector_index import embedded, some
from tests.support.index.memory_engines import MemoryVectorIndex
from tests.support.index.qdrant import PLACES, engine_at, server
from tests.support.knowledge_bases.folders import PAGES, write
from tests.support.state.memory.index import MemoryIndexStore
from tests.unit.search.test_finder import Base

T = TypeVar("T")


class Counting(QdrantLine):
    """A connection that counts the requests of searches, and that can be cut."""

    def __init__(self, line: QdrantLine) -> None:
        super().__init__(line._make, line.shown)
        self.asked = 0
        self.cut = False

    async def ask(self, request: Callable[..., Awaitable[T]]) -> T:
        self.asked += 1
        if self.cut:
            raise EngineUnavailable("Qdrant", "somebody cut the line")
        return await super().ask(request)

    async def do(self, request: Callable[..., Awaitable[T]]) -> T:
        if self.cut:
            raise EngineUnavailable("Qdrant", "somebody cut the line")
        return await super().do(request)


class QdrantBase(Base):
    """A knowledge base whose vectors are searched by Qdrant, and by memory when it is away."""

    qdrant: QdrantVectorIndex

    async def engines(self) -> Engines:
        return Engines(self.keyword, StandbyVectors("Qdrant", self.qdrant, MemoryVectorIndex()), self.load)


@pytest.fixture(params=list(PLACES))
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with PLACES[request.param](tmp_path / "server") as opened:
        yield opened


async def explained(base: QdrantBase) -> dict[str, Any]:
    answer = await base.finder.search("how do we roll back a payment release", explain=True)
    return dict(answer.explanation or {})


async def test_a_search_asks_once_and_goes_on_without_the_server(place: str, tmp_path: Path) -> None:
    base = QdrantBase(write(tmp_path / "kb", PAGES))
    lines: list[Counting] = []

    def counting(line: QdrantLine) -> QdrantLine:
        lines.append(Counting(line))
        return lines[-1]

    base.qdrant = engine_at(place, through=counting)
    await base.index_all()
    await base.qdrant.catch_up(base.index)
    await base.finder.search("how do we roll back a release")
    (line,) = lines
    line.asked = 0
    there = await base.finder.search("how do we roll back a payment release")
    assert line.asked == 1
    told = await explained(base)
    assert told["hits"][0]["parts"]["passage"] > 0
    assert sum(told["hits"][0]["parts"].values()) == pytest.approx(told["hits"][0]["rank_score"], abs=1e-3)
    assert {word["word"] for word in told["hits"][0]["words"]} >= {"roll", "payment"}
    assert any(word.get("passage") for word in told["hits"][0]["words"])
    line.cut, line.asked = True, 0
    without = await base.finder.search("how do we roll back a payment release")
    assert line.asked == 1
    down = await explained(base)
    assert any("somebody cut the line" in engine for engine in down["question"]["engines"])
    assert down["hits"][0]["parts"]["passage"] > 0
    assert any(word.get("passage") for word in down["hits"][0]["words"])
    assert without.note is not None
    assert "somebody cut the line" in without.note
    assert there.hits[0].path == without.hits[0].path == "guides/deploy.md"
    await base.qdrant.close()


async def test_the_ranking_is_that_of_the_embedded_engines(place: str, tmp_path: Path) -> None:
    """Words, pages, names, feedback and pairs rank as they do without a server; only the distances come from there."""
    base, embedded_only = QdrantBase(write(tmp_path / "kb", PAGES)), Base(tmp_path / "kb")
    base.qdrant = engine_at(place)
    for one in (base, embedded_only):
        await one.index_all()
    await base.qdrant.catch_up(base.index)
    for question in ("how do we roll back a payment release", "deploy", "who is on call at night", "deplyo a release"):
        there, here = await base.finder.search(question), await embedded_only.finder.search(question)
        assert there.note is None
        assert [(hit.path, hit.section) for hit in there.hits] == [(hit.path, hit.section) for hit in here.hits]
        assert [hit.score for hit in there.hits] == pytest.approx([hit.score for hit in here.hits], abs=0.01)
    await base.qdrant.close()


async def test_a_server_that_was_away_is_brought_up_when_it_is_back(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engines, "CHECK_S", 0.01)
    monkeypatch.setattr(engines, "FIRST_PAUSE_S", 0.01)
    store = MemoryIndexStore()
    await store.begin(IDENTITY)
    lines: list[Counting] = []

    def counting(line: QdrantLine) -> QdrantLine:
        lines.append(Counting(line))
        return lines[-1]

    engine = engine_at(place, through=counting)
    (line,) = lines

    async def caught_up() -> None:
        with anyio.fail_after(60):
            while not await engine.caught_up(store):  # noqa: ASYNC110 - a server rings no bell
                await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_up, engine, store)
        await store.apply([embedded("a.md", some(5))], fence=1)
        await caught_up()
        line.cut = True
        await store.apply([embedded("b.md", some(5))], fence=1)
        with anyio.fail_after(60):
            while "updated when it answers again" not in caplog.text:  # noqa: ASYNC110 - nor does a log
                await anyio.sleep(0.01)
        line.cut = False
        await caught_up()
        tasks.cancel_scope.cancel()
    assert len(await engine.search(store, some(1)[0], limit=20)) == 10
    await engine.close()


async def test_settings_are_all_that_it_takes(tmp_path: Path) -> None:
    """A command line or server with FORGE_QDRANT_URL fills its own collection and searches there."""
    async with PLACES["qdrant-server"](tmp_path) as _:
        address = server()
        settings = Settings(
            kb=write(tmp_path / "kb", PAGES),
            state_dir=tmp_path / "state",
            qdrant_url=address.url,
            qdrant_key=address.key,
            qdrant_quantization="scalar",
        )
        async with open_base(settings) as base:
            await base.index.begin(base.embedding.wanted)
            await base.indexer.reconcile(1)
            (follower,) = await base.followers()
            assert await follower.catch_up(base.index) > 0
            vectors = (await base.engines()).vectors
            assert isinstance(vectors, StandbyVectors)
            assert await vectors.primary.position() == (await base.index.space()).position
            answer = await base.finder.search("how do we roll back a payment release")
            assert answer.hits[0].path == "guides/deploy.md"
            assert answer.note is None
            name = follower._name  # type: ignore[attr-defined]  # to clear up what the settings made
            for collection in (await follower._line.do(lambda client: client.get_collections())).collections:  # type: ignore[attr-defined]  # likewise
                if collection.name.startswith(name):
                    await follower._line.do(lambda client, one=collection.name: client.delete_collection(one))  # type: ignore[attr-defined]  # likewise
