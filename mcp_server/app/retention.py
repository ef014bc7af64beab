"""Keeps the state database small: shortens texts that are no longer needed in full, and gives back free space.

Any process may do it, one at a time, in steps so small that no writer waits long.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import anyio

from knowledge.errors import KnowledgeError
from mcp_server.app.knowledge_base import utc_now

if TYPE_CHECKING:
    from agents.loop.store.ports import RunStore
    from agents.store.ports import JourneyStore
    from knowledge.state.ports import StateStore
    from knowledge.state.retention.cuts import Shortened

logger = logging.getLogger("knowledge_forge.retention")

LEASE = "retention"
LEASE_S = 120.0
"""How long a process that died during a pass keeps others from starting one."""
EVERY_S = 3600.0
AT_ONCE = 10
"""Records of one step. Each is shortened in its own transaction."""
PAUSE_S = 0.05
"""The pause between two steps, in which writers go first."""


@dataclass(frozen=True, slots=True)
class Passed:
    """The result of one pass. `ours` is false if another process was doing it."""

    ours: bool = True
    proposals: int = 0
    journeys: int = 0
    runs: int = 0
    freed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Retention:
    """Shortens old texts in one knowledge base's state. If `kept` is None, texts of journeys, runs and proposals stay forever."""

    state: StateStore
    journeys: JourneyStore
    runs: RunStore
    kept: timedelta | None
    holder: str
    now: Callable[[], datetime] = utc_now
    pause_s: float = PAUSE_S

    async def run(self) -> None:
        """Do a pass every hour, until cancelled."""
        while True:
            try:
                done = await self.once()
                if done.freed_bytes:
                    logger.info("retention freed %d bytes in the state database", done.freed_bytes)
            except KnowledgeError:
                logger.warning("the state database cannot be tidied up now", exc_info=True)
            await anyio.sleep(EVERY_S)

    async def once(self) -> Passed:
        """Shorten everything that is due and give back free space, unless another process is doing it."""
        if not await self._is_mine():
            return Passed(ours=False)
        try:
            before = None if self.kept is None else self.now() - self.kept
            proposals = await self._all(lambda: self.state.trust.shorten(ended_before=before, limit=AT_ONCE))
            journeys, runs = (0, 0), (0, 0)
            if before is not None:
                journeys = await self._all(lambda: self.journeys.shorten(moved_before=before, limit=AT_ONCE))
                runs = await self._all(lambda: self.runs.shorten(moved_before=before, limit=AT_ONCE))
            while await self.state.give_back():
                await self._pause()
            return Passed(
                proposals=proposals[0],
                journeys=journeys[0],
                runs=runs[0],
                freed_bytes=proposals[1] + journeys[1] + runs[1],
            )
        finally:
            # Shielded: a server that is being stopped would otherwise keep the lease until it expires.
            with anyio.CancelScope(shield=True):
                await self.state.release_lease(LEASE, self.holder)

    async def _all(self, shorten: Callable[[], Awaitable[Shortened]]) -> tuple[int, int]:
        """Return how many records were shortened, and how many bytes that freed."""
        records = freed = 0
        while (done := await shorten()).records:
            records, freed = records + done.records, freed + done.freed_bytes
            await self._pause()
        return records, freed

    async def _pause(self) -> None:
        await anyio.sleep(self.pause_s)
        await self._is_mine()  # renews the lease

    async def _is_mine(self) -> bool:
        return await self.state.acquire_lease(LEASE, self.holder, now=self.now(), ttl_s=LEASE_S) is not None
