"""Journeys that end with the process: slow, obvious, and the specification of the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime

from agents.engine.events import Event, Logged, Note, Started, event_of, event_text, newest_steps
from agents.engine.fold import fold
from agents.engine.state import JourneyState, Status
from agents.errors import JourneyExists, NoSuchJourney, StaleJourney
from agents.store.codec import (
    checked_id,
    first_event,
    log_after_retention,
    may_be_refused,
    new_id,
    numbered,
    numbered_notes,
    same_start,
    state_of_log,
    texts_by_seq,
    title_of,
    upto,
)
from agents.store.ports import NEWEST_COMPARED, Appended, Begun, JourneyHead, JourneyLine
from knowledge.history.acts import storable
from knowledge.state.quota.bounds import Quotas, bytes_of
from knowledge.state.retention.cuts import Shortened
from tests.support.state.memory.quotas import Used

Publish = Callable[[str, Sequence[str]], Awaitable[object]]


def as_stored(logged: Logged) -> Logged:
    """Return the event as a store would return it."""
    return replace(logged, event=event_of(event_text(logged.event)))


class MemoryJourneys:
    """Journeys in this process; `publish` reports that one of them changed."""

    def __init__(self, publish: Publish, quotas: Quotas | None = None) -> None:
        self._publish, self._quotas, self._used = publish, quotas, Used()
        self._logs: dict[str, list[Logged]] = {}
        self._shortened: set[str] = set()

    async def start(self, journey: str, begun: Started, *, by: str, at: datetime) -> Appended:
        """Begin a journey with that id, at version 1."""
        first, log = as_stored(first_event(begun, by, at)), self._logs.get(new_id(journey))
        if log is not None and log[0].event == first.event:
            return Appended(1, repeated=True)
        return await self.adopt(journey, [first])

    async def begin(self, journey: str, log: Sequence[Logged], *, since: datetime) -> Begun:
        """Record a new journey, or return the newest equal one begun since then."""
        state = state_of_log(log)
        states = {id_: fold(kept) for id_, kept in reversed(self._logs.items())}
        of_principal = [(id_, one) for id_, one in states.items() if one.principal == state.principal]
        for id_, one in of_principal[:NEWEST_COMPARED]:
            if one.version == 1 and one.started_at >= since and same_start(self._logs[id_][0].event, log[0].event):
                return Begun(id_, repeated=True)
        return Begun(journey, (await self.adopt(journey, log)).repeated)

    async def adopt(self, journey: str, log: Sequence[Logged]) -> Appended:
        """Import a whole log under that id."""
        state, kept = state_of_log(log), [as_stored(logged) for logged in log]
        there = self._logs.get(new_id(journey))
        if there is not None and there != kept:
            raise JourneyExists(journey)
        if there is not None:
            return Appended(state.version, repeated=True)
        if self._quotas is not None:
            size = bytes_of([event_text(logged.event) for logged in kept])
            uses = [(self._quotas.started, 1), (self._quotas.journeyed, size)]
            self._used.charge_all(uses, state.principal, state.moved_at)
        self._logs[journey] = kept
        await self._publish("journey", [journey])
        return Appended(state.version)

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
        """Add the events as the step after version `expected`."""
        log = self._log(journey)
        first = _kept(log, key)
        if first is not None:
            return Appended(first, repeated=True)
        state = self._state(journey)
        if state.version != expected:
            missed = [logged for logged in log if logged.version > expected]
            raise StaleJourney(journey, expected, state.version, newest_steps(missed))
        step = [as_stored(logged) for logged in numbered(state, events, key, by, at)]
        after = fold(step, state)
        self._charge(events, by, at)
        log.extend(step)
        await self._publish("journey", [journey])
        return Appended(expected + 1, state=after if before else None)

    def recent(self, journey: str, version: int) -> JourneyState | None:
        """Return None: nothing is cached."""
        del journey, version
        return None

    async def head(self, journey: str, key: str) -> JourneyHead:
        """Return the journey's position, and the version after the step with that key."""
        return JourneyHead(self._state(journey), _kept(self._log(journey), key))

    async def note(self, journey: str, notes: Sequence[Note], *, by: str, at: datetime) -> None:
        """Add notes at the journey's present version."""
        log = self._log(journey)
        self._charge(notes, by, at)
        log.extend(as_stored(logged) for logged in numbered_notes(log[-1].version, len(log), notes, by, at))
        await self._publish("journey", [journey])

    async def journey(self, journey: str, *, version: int | None = None) -> JourneyState:
        """Return the journey's state, now or at that version."""
        if version is None:
            return self._state(journey)
        return fold(upto(journey, self._log(journey), version))

    async def events(self, journey: str, *, after: int = 0, limit: int | None = None) -> Sequence[Logged]:
        """Return the events after the number `after`, oldest first."""
        return self._log(journey)[max(0, after) :][:limit]

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of journeys that ended."""
        due = [
            id_
            for id_ in self._logs
            if id_ not in self._shortened and self._state(id_).over and self._state(id_).moved_at < moved_before
        ][:limit]
        freed = 0
        for id_ in due:
            self._shortened.add(id_)
            short = log_after_retention(self._logs[id_])
            freed += sum(map(len, texts_by_seq(self._logs[id_]).values())) - sum(map(len, texts_by_seq(short).values()))
            self._logs[id_] = short
        return Shortened(len(due), freed)

    async def journeys(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        principal: str | None = None,
        limit: int = 20,
        before: str | None = None,
    ) -> Sequence[JourneyLine]:
        """Return journeys, last recorded first, from the one after `before`."""
        ids = list(self._logs)
        below = ids[: ids.index(before)] if before in ids else [] if before is not None else ids
        asked = {"status": status, "agent": agent, "principal": principal and storable(principal)}
        lines = [_line(id_, fold(self._logs[id_])) for id_ in reversed(below)]
        return [
            line
            for line in lines
            if all(getattr(line, name) == said for name, said in asked.items() if said is not None)
        ][:limit]

    def _charge(self, events: Sequence[Event], by: str, at: datetime) -> None:
        if self._quotas is not None and events:
            amount, refuse = bytes_of([event_text(event) for event in events]), may_be_refused(events)
            self._used.charge(self._quotas.journeyed, storable(by), amount, at, refuse=refuse)

    def _state(self, journey: str) -> JourneyState:
        return fold(self._log(journey))

    def _log(self, journey: str) -> list[Logged]:
        log = self._logs.get(checked_id(journey))
        if log is None:
            raise NoSuchJourney(journey)
        return log


def _kept(log: Sequence[Logged], key: str) -> int | None:
    return next((logged.version for logged in log if key and logged.key == key), None)


def _line(id_: str, state: JourneyState) -> JourneyLine:
    s = state
    return JourneyLine(id_, s.agent, title_of(s), s.principal, s.status, s.phase, s.version, s.started_at, s.moved_at)
