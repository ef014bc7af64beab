"""The journeys that a caller with limited rights may see: those that rest on nothing that is hidden from the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from agents.engine.events import Event, Logged, Note, Started
from agents.engine.state import JourneyState, Status
from agents.errors import NoSuchJourney
from agents.store.ports import Appended, Begun, JourneyHead, JourneyLine, JourneyStore
from knowledge.state.retention.cuts import Shortened

AT_ONCE = 100

MaySee = Callable[[str], Awaitable[bool]]
"""Returns whether the caller may see what the principal with that id has begun."""


class SeenJourneys(JourneyStore):
    """A journey quotes what its principal could read. A caller who may read less finds no such journey."""

    def __init__(self, journeys: JourneyStore, may_see: MaySee) -> None:
        self._journeys, self._may_see = journeys, may_see

    async def start(self, journey: str, begun: Started, *, by: str, at: datetime) -> Appended:
        """Begin a journey."""
        return await self._journeys.start(journey, begun, by=by, at=at)

    async def begin(self, journey: str, log: Sequence[Logged], *, since: datetime) -> Begun:
        """Put a new journey on record, or return an equal one of the same principal."""
        return await self._journeys.begin(journey, log, since=since)

    async def adopt(self, journey: str, log: Sequence[Logged]) -> Appended:
        """Take over a whole log."""
        return await self._journeys.adopt(journey, log)

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten nothing: the server's own rounds do that."""
        del moved_before, limit
        return Shortened()

    async def append(
        self,
        journey: str,
        events: Sequence[Event],
        *,
        expected: int,
        key: str,
        by: str,
        at: datetime,
        before: JourneyState | None = None,
    ) -> Appended:
        """Add the events to a journey that the caller may see."""
        await self._require(journey)
        return await self._journeys.append(journey, events, expected=expected, key=key, by=by, at=at, before=before)

    async def head(self, journey: str, key: str) -> JourneyHead:
        """Return the journey's state, if the caller may see it."""
        await self._require(journey)
        return await self._journeys.head(journey, key)

    def recent(self, journey: str, version: int) -> JourneyState | None:
        """Return the state just written here; it is only compared, and never shown before an append was allowed."""
        return self._journeys.recent(journey, version)

    async def note(self, journey: str, notes: Sequence[Note], *, by: str, at: datetime) -> None:
        """Add notes to a journey that the caller may see."""
        await self._require(journey)
        await self._journeys.note(journey, notes, by=by, at=at)

    async def journey(self, journey: str, *, version: int | None = None) -> JourneyState:
        """Return the journey's state, if the caller may see it."""
        # Without the version first: an error about a version would show that the journey exists.
        found = await self._journeys.journey(journey)
        if not await self._may_see(found.principal):
            raise NoSuchJourney(journey)
        return found if version is None else await self._journeys.journey(journey, version=version)

    async def events(self, journey: str, *, after: int = 0, limit: int | None = None) -> Sequence[Logged]:
        """Return the events of a journey that the caller may see."""
        await self._require(journey)
        return await self._journeys.events(journey, after=after, limit=limit)

    async def journeys(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        principal: str | None = None,
        limit: int = 20,
        before: str | None = None,
    ) -> Sequence[JourneyLine]:
        """Return the journeys that the caller may see, the newest first."""
        found: list[JourneyLine] = []
        wanted: dict[str, Any] = {"status": status, "agent": agent, "principal": principal}
        while len(found) < limit:
            lines = await self._journeys.journeys(**wanted, limit=AT_ONCE, before=before)
            found += [line for line in lines if await self._may_see(line.principal)]
            if len(lines) < AT_ONCE:
                break
            before = lines[-1].id
        return found[:limit]

    async def _require(self, journey: str) -> None:
        await self.journey(journey)
