"""What a journey sees when a person or the server itself takes it on (decision 114)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from agents.engine.agent import Look
from mcp_server.app.factories.journey_store import LookOfBeginner


async def test_a_journey_looks_as_the_one_who_began_it() -> None:
    """Otherwise an owner's approval could record titles of pages that are hidden from the beginner."""
    within = 0

    @asynccontextmanager
    async def as_beginner() -> AsyncIterator[None]:
        nonlocal within
        within += 1
        yield
        within -= 1

    class Pages:
        async def near(self, text: str, most: int) -> list[str]:
            return [text] * most * within

    look = cast("Look", LookOfBeginner(cast("Look", Pages()), as_beginner))
    assert await look.near("tea", 2) == ["tea", "tea"]
    assert within == 0
