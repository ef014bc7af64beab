"""A search over one engine that holds words and vectors: one round trip, the server's order, and others when it is away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from knowledge.errors import EngineUnavailable
from knowledge.find.ranking import Engines
from knowledge.index.memory import MemoryVectorIndex
from knowledge.index.qdrant import QdrantEngine
from knowledge.index.qdrant_server import QdrantLine
from mcp_server.app import indexed_terms
from tests.knowledge_bases import PAGES, write
from tests.qdrant_places import PLACES, engine_at
from tests.unit.test_search import Base

T = TypeVar("T")


class Counting(QdrantLine):
    """A line that counts what searches ask, and that can be cut."""

    def __init__(self, line: QdrantLine) -> None:
        super().__init__(line._make, line.shown)
        self.asked = 0
        self.cut = False

    async def ask(self, request: Callable[..., Awaitable[T]]) -> T:
        self.asked += 1
        if self.cut:
            raise EngineUnavailable("Qdrant", "somebody cut the line")
        return await super().ask(request)


class HybridBase(Base):
    """A knowledge base whose searches ask Qdrant, and memory when it is away."""

    qdrant: QdrantEngine

    async def engines(self) -> Engines:
        return Engines(self.keyword, MemoryVectorIndex(), self.load, self.qdrant.keyword)


@pytest.fixture(params=list(PLACES))
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with PLACES[request.param](tmp_path / "server") as opened:
        yield opened


async def test_a_search_asks_once_and_goes_on_without_the_server(place: str, tmp_path: Path) -> None:
    base = HybridBase(write(tmp_path / "kb", PAGES))
    lines: list[Counting] = []

    def counting(line: QdrantLine) -> QdrantLine:
        lines.append(Counting(line))
        return lines[-1]

    base.qdrant = engine_at(place, indexed_terms, store=base.index, through=counting)
    await base.index_all()
    await base.qdrant.catch_up(base.index)
    await base.finder.search("how do we roll back a release")
    (line,) = lines
    line.asked = 0
    there = await base.finder.search("how do we roll back a payment release")
    assert line.asked == 1
    line.cut = True
    without = await base.finder.search("how do we roll back a payment release")
    assert line.asked == 2
    assert without.note is not None
    assert "somebody cut the line" in without.note
    assert there.hits[0].path == without.hits[0].path == "guides/deploy.md"
    await base.qdrant.close()
