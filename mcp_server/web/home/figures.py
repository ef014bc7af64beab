"""The figures of Home that take long to count if there are many pages: counted once for each state of the index, and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import anyio

from knowledge.history.timeline.growth import Growth, GrowthDay
from knowledge.search.maps.page_health import PageHealth
from knowledge.state.ports import IndexPosition
from mcp_server.ports import WebServices

SOON_COUNTED = 2_000
"""Up to this number of pages the figures are counted before the page is shown, which takes less than 0.1 s."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The health of the pages and the growth of the knowledge base, as they were at `at`."""

    at: datetime
    health: PageHealth
    days: Sequence[GrowthDay]
    position: IndexPosition


@dataclass
class HomeFigures:
    """Counts the figures when the index has changed, one count at a time."""

    services: WebServices
    _kept: Figures | None = None
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    @cached_property
    def _growth(self) -> Growth:
        return Growth(self.services.state.ledger)

    async def soon(self) -> Figures | None:
        """Return the present figures if counting them is quick, else those counted last; None if they were never counted."""
        return await self.now() if await self.is_small() else self._kept

    async def is_small(self) -> bool:
        """Return whether the knowledge base is so small that all its pages can be looked at before an answer."""
        return (await self.services.index.progress()).done <= SOON_COUNTED

    async def now(self) -> Figures:
        """Return the figures of the index as it is now."""
        async with self._lock:
            position, kept = await self.services.index.position(), self._kept
            now = self.services.now()
            if kept is None or kept.position != position or kept.at.date() != now.date():
                self._kept = kept = await self._counted(position, now)
            return kept

    async def count(self) -> None:
        """Count the figures if the index has changed, so that the next page has them."""
        await self.now()

    async def _counted(self, position: IndexPosition, now: datetime) -> Figures:
        apart = (await self.services.index.progress()).done > SOON_COUNTED
        health = await self.services.page_health(int(now.timestamp() * 1_000_000_000), apart=apart)
        days = await self._growth.days(pages=health.pages, size=health.size, now=now)
        return Figures(now, health, days, position)
