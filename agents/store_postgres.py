"""Journeys in the schema of a PostgreSQL database.

Who holds more than one thing takes the journey first, then the counter of events. So nobody waits for somebody who waits for
him.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from agents.errors import JourneyExists, NoSuchJourney, StaleJourney
from agents.events import Event, Logged, Note, Started, event_of, event_text, in_words
from agents.fold import FOLDING, fold
from agents.state import JourneyState, Status, held
from agents.store import Appended, JourneyLine, Standing
from agents.store_forms import (
    asked_id,
    beginning,
    filled,
    logged_row,
    new_id,
    noted,
    numbered,
    state_of,
    state_text,
    title,
    upto,
    whole,
)
from knowledge.ledger.acts import storable
from knowledge.storage.postgres_events import publishing
from knowledge.storage.postgres_tables import Ask, Part, Tables

_HEAD = "SELECT number, seq, folding, folded FROM forge.journey WHERE id = %s"
_HOLD = f"{_HEAD} FOR UPDATE"
_HOLD_AT = "SELECT number, seq, version FROM forge.journey WHERE id = %s FOR UPDATE"
_HEAD_AND_KEPT = """
SELECT number, seq, folding, folded,
    (SELECT e.version FROM forge.journey_event e WHERE e.journey = j.number AND e.key = %s)
FROM forge.journey j WHERE id = %s
"""
_EVENTS = """
SELECT seq, version, happened_at, actor, key, body FROM forge.journey_event
WHERE journey = %s AND seq > %s ORDER BY seq LIMIT %s
"""
_HELD = "SELECT seq, body FROM forge.journey_event WHERE journey = %s AND seq = ANY(%s::bigint[])"
_KEPT = "SELECT version FROM forge.journey_event WHERE journey = %s AND key = %s"
_BEGIN = """
INSERT INTO forge.journey
    (id, agent, principal, status, phase, version, seq, started_at, moved_at, title, folding, folded)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (id) DO NOTHING RETURNING number
"""
_MOVE = """
UPDATE forge.journey SET principal = %s, status = %s, phase = %s, version = %s, seq = %s, moved_at = %s, folding = %s, folded = %s
WHERE number = %s
"""
_STRETCH = "UPDATE forge.journey SET seq = seq + %s WHERE id = %s RETURNING number, version, seq"
_ADD = """
INSERT INTO forge.journey_event (journey, seq, version, happened_at, actor, key, body)
SELECT %s, * FROM unnest(%s::bigint[], %s::bigint[], %s::timestamptz[], %s::text[], %s::text[], %s::text[])
"""
_LINES = """
SELECT id, agent, title, principal, status, phase, version, started_at, moved_at FROM forge.journey
WHERE (%(status)s::text IS NULL OR status = %(status)s) AND (%(agent)s::text IS NULL OR agent = %(agent)s)
AND (%(principal)s::text IS NULL OR principal = %(principal)s)
AND (%(before)s::text IS NULL OR number < (SELECT number FROM forge.journey WHERE id = %(before)s))
ORDER BY number DESC LIMIT %(limit)s
"""


class PostgresJourneys:
    """Journeys shared by processes on any number of machines."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def start(self, journey: str, begun: Started, *, by: str, at: datetime) -> Appended:
        """Begin a journey with that id, at version 1."""
        first = beginning(begun, by, at)

        new_id(journey)

        async def work(ask: Ask) -> Appended:
            number = await self._begun(ask, journey, [first], whole([first]))
            if number is None:
                return Appended(1)
            if event_text((await _events(ask, number, limit=1))[0].event) != event_text(first.event):
                raise JourneyExists(journey)
            return Appended(1, repeated=True)

        return await self._tables.decide(work)

    async def adopt(self, journey: str, log: Sequence[Logged]) -> Appended:
        """Take over a whole log under that id."""
        new_id(journey)
        state = whole(log)

        async def work(ask: Ask) -> Appended:
            number = await self._begun(ask, journey, log, state)
            if number is None:
                return Appended(state.version)
            if _columns(await _events(ask, number)) != _columns(log):
                raise JourneyExists(journey)
            return Appended(state.version, repeated=True)

        return await self._tables.decide(work)

    async def _begun(self, ask: Ask, journey: str, log: Sequence[Logged], state: JourneyState) -> int | None:
        """Put the journey on record; or return the number of the one that has that id, which may have come this moment."""
        s = state
        told = (journey, s.agent, s.principal, s.status, s.phase, s.version, s.seq, s.started_at, s.moved_at)
        made: Any = await ask((_BEGIN, (*told, title(s), FOLDING, state_text(s))))
        if not made:
            return int((await ask((_HEAD, (journey,))))[0][0])
        await ask(_adding(made[0][0], log))
        await self._tell(ask, journey)
        return None

    async def _tell(self, ask: Ask, journey: str) -> None:
        await ask(publishing("journey", [journey], self._tables.schema))

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

        async def work(ask: Ask) -> Appended:
            number, state = await _held_at(ask, journey, before)
            first: Any = await ask((_KEPT, (number, storable(key))))
            if first:
                return Appended(first[0][0], repeated=True)
            if state.version != expected:
                missed = [logged for logged in await _events(ask, number) if logged.version > expected]
                raise StaleJourney(journey, expected, state.version, in_words(missed))
            step = numbered(state, events, key, by, at)
            after = fold(step, state)
            await ask(_moving(number, after))
            await ask(_adding(number, step))
            await self._tell(ask, journey)
            return Appended(expected + 1, state=after if before else None)

        return await self._tables.decide(work)

    async def standing(self, journey: str, key: str) -> Standing:
        """Return where the journey stands, and the version that the step with that key led to."""
        rows: Any = await self._ask((_HEAD_AND_KEPT, (storable(key), asked_id(journey))))
        number, state = await _bare(self._ask, journey, rows)
        return Standing(await self._whole(number, state), rows[0][4])

    async def note(self, journey: str, notes: Sequence[Note], *, by: str, at: datetime) -> None:
        """Add notes at whatever version the journey has."""

        async def work(ask: Ask) -> None:
            rows: Any = await ask((_STRETCH, (len(notes), journey)))
            if not rows:
                raise NoSuchJourney(journey)
            number, version, seq = rows[0]
            await ask(_adding(number, noted(version, seq - len(notes), notes, by, at)))
            await self._tell(ask, journey)

        asked_id(journey)
        await self._tables.decide(work)

    async def journey(self, journey: str, *, version: int | None = None) -> JourneyState:
        """Return where the journey stands, or where it stood at that version."""
        # What a state refers to never changes, so one read after the other sees what one snapshot would.
        number, state = await _stands(self._ask, journey, _HEAD)
        if version is not None and version != state.version:
            return fold(upto(journey, await _events(self._ask, number), version))
        return await self._whole(number, state)

    async def _whole(self, number: int, state: JourneyState) -> JourneyState:
        rows: Any = await self._ask((_HELD, (number, list(held(state)))))
        return filled(state, {seq: event_of(body) for seq, body in rows})

    async def _ask(self, part: Part) -> list[tuple[Any, ...]]:
        return await self._tables.read(*part)

    async def events(self, journey: str, *, after: int = 0, limit: int | None = None) -> Sequence[Logged]:
        """Return what happened after the event number `after`, oldest first."""
        rows: Any = await self._ask((_HEAD, (asked_id(journey),)))
        if not rows:
            raise NoSuchJourney(journey)
        return await _events(self._ask, rows[0][0], after=after, limit=limit)

    async def journeys(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        principal: str | None = None,
        limit: int = 20,
        before: str | None = None,
    ) -> Sequence[JourneyLine]:
        """Return journeys, those that were put on record last first, from the one after `before`."""
        asked = {"status": status, "agent": agent, "principal": principal, "before": before}
        told = {name: text and storable(text) for name, text in asked.items()}
        rows: Any = await self._ask((_LINES, {**told, "limit": limit}))
        return [JourneyLine(*row) for row in rows]


async def _stands(ask: Ask, journey: str, statement: str) -> tuple[int, JourneyState]:
    """Return the journey's number and where it stands, bare."""
    return await _bare(ask, journey, await ask((statement, (asked_id(journey),))))


async def _held_at(ask: Ask, journey: str, before: JourneyState | None) -> tuple[int, JourneyState]:
    """Return the same, and keep everybody else from moving it: as `before` says if that is so still, else bare."""
    if before is not None:
        found: Any = await ask((_HOLD_AT, (asked_id(journey),)))
        if found and found[0][2] == before.version:
            return found[0][0], replace(
                before, seq=found[0][1]
            )  # notes may have come meanwhile, which change nothing else
    return await _stands(ask, journey, _HOLD)


async def _bare(ask: Ask, journey: str, rows: Sequence[tuple[Any, ...]]) -> tuple[int, JourneyState]:
    if not rows:
        raise NoSuchJourney(journey)
    number, seq, folding, folded, *_ = rows[0]
    if folding != FOLDING:
        return number, fold(await _events(ask, number))
    return number, replace(state_of(folded), seq=seq)


async def _events(ask: Ask, number: int, *, after: int = 0, limit: int | None = None) -> list[Logged]:
    return [logged_row(row) for row in await ask((_EVENTS, (number, after, limit)))]


def _moving(number: int, state: JourneyState) -> Part:
    s = state
    return _MOVE, (s.principal, s.status, s.phase, s.version, s.seq, s.moved_at, FOLDING, state_text(s), number)


def _adding(number: int, log: Sequence[Logged]) -> Part:
    return _ADD, (number, *(list(column) for column in zip(*_columns(log), strict=True)))


def _columns(log: Sequence[Logged]) -> list[tuple[Any, ...]]:
    return [(e.seq, e.version, e.at, e.by, e.key or None, event_text(e.event)) for e in log]
