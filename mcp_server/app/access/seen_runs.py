"""The runs that a caller with limited rights may see: those that rest on nothing that is hidden from the caller."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from agents.loop.errors import NoSuchRun
from agents.loop.record.frames import Frame, Header
from agents.loop.record.run import Run, State
from agents.loop.store.ports import Hold, RunLine, RunStore, Total
from knowledge.state.retention.cuts import Shortened
from mcp_server.app.access.readable_state import AT_ONCE, MaySee


class SeenRuns(RunStore):
    """A run quotes what its principal could read. For a caller who may read less there is no such run."""

    def __init__(self, runs: RunStore, may_see: MaySee) -> None:
        self._runs, self._may_see = runs, may_see

    async def begin(self, header: Header, hold: Hold) -> Run:
        """Record a new run."""
        return await self._runs.begin(header, hold)

    async def append(self, before: Run, frames: Sequence[Frame], hold: Hold | None) -> Run:
        """Add the frames to a run that the caller may see."""
        await self._require(before.id)
        return await self._runs.append(before, frames, hold)

    async def claim(self, run: str, hold: Hold) -> Run | None:
        """Hold a run that the caller may see."""
        await self._require(run)
        return await self._runs.claim(run, hold)

    async def release(self, run: str, by: str) -> None:
        """End the hold of `by`."""
        await self._runs.release(run, by)

    async def run(self, run: str) -> Run:
        """Return the run, if the caller may see it."""
        found = await self._runs.run(run)
        if not await self._may_see(found.header.principal):
            raise NoSuchRun(run)
        return found

    async def frames(self, run: str, *, start: int = 0, limit: int | None = None) -> Sequence[Frame]:
        """Return the frames of a run that the caller may see."""
        await self._require(run)
        return await self._runs.frames(run, start=start, limit=limit)

    async def runs(
        self,
        *,
        state: State | None = None,
        principal: str | None = None,
        adrift_at: datetime | None = None,
        limit: int = 20,
        before: str | None = None,
    ) -> Sequence[RunLine]:
        """Return the runs that the caller may see, the newest first."""
        found: list[RunLine] = []
        wanted: dict[str, Any] = {"state": state, "principal": principal, "adrift_at": adrift_at}
        while len(found) < limit:
            lines = await self._runs.runs(**wanted, limit=AT_ONCE, before=before)
            found += [line for line in lines if await self._may_see(line.principal)]
            if len(lines) < AT_ONCE:
                break
            before = lines[-1].id
        return found[:limit]

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten nothing: the server's own rounds do that."""
        del moved_before, limit
        return Shortened()

    async def total(self, *, principal: str | None = None, since: datetime | None = None) -> Total:
        """Return the total usage of a principal whose runs the caller may see; zero for any other, and for all runs together."""
        if principal is None or not await self._may_see(principal):
            return Total(0, 0, 0, 0, 0)
        return await self._runs.total(principal=principal, since=since)

    async def _require(self, run: str) -> None:
        await self.run(run)
