"""Journeys in the schema of a PostgreSQL database.

Who holds more than one thing takes the principal first, then the journey, then the counter of events. So nobody waits for
somebody who waits for him.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from agents.engine.events import Event, Logged, Note, Started, event_of, event_text, in_words
from agents.engine.fold import FOLDING, fold
from agents.engine.state import JourneyState, Status, held
from agents.errors import AgentError, BadLog, JourneyExists, NoSuchJourney, StaleJourney
from agents.store.forms import (
    alike,
    asked_id,
    beginning,
    filled,
    is_bounded,
    logged_row,
    new_id,
    numbered,
    shorter,
    state_of,
    state_text,
    texts,
    title,
    upto,
    whole,
)
from agents.store.ports import NEWEST_COMPARED, Appended, Begun, JourneyHead, JourneyLine
from agents.store.recent import Recent
from knowledge.errors import CorruptDatabase
from knowledge.history.acts import storable
from knowledge.history.timestamps import aware
from knowledge.state.postgres.events import publishing, telling
from knowledge.state.postgres.tables import Ask, Part, Tables
from knowledge.state.quota.bounds import Bound, Quotas, bytes_of
from knowledge.state.quota.postgres import charging, counted, explained, holding
from knowledge.state.retention.cuts import Shortened

T = TypeVar("T")

_HEAD = "SELECT number, seq, folding, folded FROM forge.journey WHERE id = %s"
_HOLD = f"{_HEAD} FOR UPDATE"
_HOLD_AT = "SELECT number, seq, version FROM forge.journey WHERE id = %s FOR UPDATE"
_STANDING = """
SELECT place, last_seq, by_folding, folded_into, bodies, led_to FROM forge.journey_standing(%s, %s, %s, %s)
"""
# Where it is asked once a connection, a function would first have to be read in.
_WHOLE = """
SELECT number, seq, folding, folded, ARRAY(
    SELECT e.body FROM forge.journey_event e WHERE e.journey = j.number AND e.seq = ANY(j.held) ORDER BY e.seq
) FROM forge.journey j WHERE id = %s
"""
_EVENTS = """
SELECT seq, version, happened_at, actor, key, body FROM forge.journey_event
WHERE journey = %s AND seq > %s ORDER BY seq LIMIT %s
"""
_HELD = "SELECT seq, body FROM forge.journey_event WHERE journey = %s AND seq = ANY(%s::bigint[])"
_KEPT = "SELECT version FROM forge.journey_event WHERE journey = %s AND key = %s"
_BEGIN = """
INSERT INTO forge.journey
    (id, agent, principal, status, phase, version, seq, started_at, moved_at, title, folding, folded, held)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (id) DO NOTHING RETURNING number
"""
_STEP = """
SELECT place, stood_at, last_seq, led_to
FROM forge.journey_step(%s, %s, %s, %s, %s, %s, %s, %s, %b, %s, %s, %s, %s, %s, %b, %s, %s, %s)
"""
_STEP_COUNTED = """
SELECT place, stood_at, last_seq, led_to FROM forge.journey_step_counted(
    %s, %s, %s, %s, %s, %s, %s, %s, %b, %s, %s, %s, %s, %s, %b, %s, %s, %s, %s, %s, %s, %s, %s, %s
)
"""
_NOTE_COUNTED = """
SELECT noted_at FROM forge.journey_note_counted(%s, %s, %s, %s, %s, %b, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_NOTE = "SELECT noted_at FROM forge.journey_note(%s, %s, %s, %s, %s, %b, %s, %s, %s)"
_ADD = """
INSERT INTO forge.journey_event (journey, seq, version, happened_at, actor, key, body)
SELECT %s, * FROM unnest(%s::bigint[], %s::bigint[], %s::timestamptz[], %s::text[], %s::text[], %s::text[])
"""
# Of two that begin alike at once the second sees what the first has begun. Something else may, seldom, have the same lock: that
# costs a moment.
_ALONE = "SELECT pg_advisory_xact_lock(hashtext(%s), hashtext(%s))"
_TO_SHORTEN = """
SELECT number FROM forge.journey WHERE status IN ('complete', 'cancelled') AND moved_at < %s
AND NOT EXISTS (SELECT FROM forge.journey_cut c WHERE c.number = journey.number) ORDER BY number LIMIT %s
"""
_REFOLD = "UPDATE forge.journey SET folding = %s, folded = %s, held = %s WHERE number = %s"
_CUT = """
UPDATE forge.journey_event e SET body = short.body FROM unnest(%s::bigint[], %s::text[]) AS short (seq, body)
WHERE e.journey = %s AND e.seq = short.seq
"""
_IS_CUT = "INSERT INTO forge.journey_cut VALUES (%s, %s) ON CONFLICT (number) DO NOTHING"
_BEGUN = """
SELECT j.id, e.body
FROM (SELECT * FROM forge.journey WHERE principal = %s ORDER BY number DESC LIMIT %s) j
JOIN forge.journey_event e ON e.journey = j.number AND e.seq = 1
WHERE j.version = 1 AND j.agent = %s AND j.started_at >= %s ORDER BY j.number DESC
"""
_LINES = """
SELECT id, agent, title, principal, status, phase, version, started_at, moved_at FROM forge.journey
WHERE (%(status)s::text IS NULL OR status = %(status)s) AND (%(agent)s::text IS NULL OR agent = %(agent)s)
AND (%(principal)s::text IS NULL OR principal = %(principal)s)
AND (%(before)s::text IS NULL OR number < (SELECT number FROM forge.journey WHERE id = %(before)s))
ORDER BY number DESC LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class _Act:
    """What is to be a step."""

    events: Sequence[Event]
    key: str
    by: str
    at: datetime

    def after(self, state: JourneyState) -> tuple[list[Logged], JourneyState]:
        """Return it as the step after `state`, and where that leads.

        Raises:
            BadLog, ValueError: it does not fit there.
        """
        step = numbered(state, self.events, self.key, self.by, self.at)
        return step, fold(step, state)


class PostgresJourneys:
    """Journeys shared by processes on any number of machines."""

    def __init__(self, tables: Tables, quotas: Quotas | None = None) -> None:
        self._tables, self._quotas, self._recent = tables, quotas, Recent()

    async def start(self, journey: str, begun: Started, *, by: str, at: datetime) -> Appended:
        """Begin a journey with that id, at version 1."""
        first = beginning(begun, by, at)

        new_id(journey)

        state = whole([first])

        async def work(ask: Ask) -> Appended:
            number = await self._begun(ask, journey, [first], state)
            if number is None:
                return Appended(1)
            if event_text((await _events(ask, number, limit=1))[0].event) != event_text(first.event):
                raise JourneyExists(journey)
            return Appended(1, repeated=True)

        return await self._beginning(work, [first], state)

    async def begin(self, journey: str, log: Sequence[Logged], *, since: datetime) -> Begun:
        """Put a new journey on record, or return the newest that was begun alike since then."""
        new_id(journey)
        state = whole(log)
        asked = (state.principal, NEWEST_COMPARED, state.agent, aware(since))

        async def work(ask: Ask) -> Begun:
            if self._quotas is not None:
                await ask(holding(self._tables, state.principal))
            await ask((_ALONE, (self._tables.schema, f"begin {state.principal}")))
            same = [id_ for id_, body in await ask((_BEGUN, asked)) if alike(event_of(body), log[0].event)]
            if same:
                return Begun(same[0], repeated=True)
            return Begun(journey, (await self._adopted(ask, journey, log, state)).repeated)

        return await self._beginning(work, log, state)

    async def adopt(self, journey: str, log: Sequence[Logged]) -> Appended:
        """Take over a whole log under that id."""
        new_id(journey)
        state = whole(log)
        return await self._beginning(lambda ask: self._adopted(ask, journey, log, state), log, state)

    async def _beginning(self, work: Callable[[Ask], Awaitable[T]], log: Sequence[Logged], state: JourneyState) -> T:
        """Run an act that may record a journey. A refusal by a quota names the bound."""
        uses = self._uses(log)
        return await explained(lambda: self._tables.decide(work), self._tables, uses, state.principal, state.moved_at)

    def _uses(self, log: Sequence[Logged]) -> list[tuple[Bound, int]]:
        """Return what a new journey with that log takes of which quota."""
        if self._quotas is None:
            return []
        return [
            (self._quotas.started, 1),
            (self._quotas.journeyed, bytes_of([event_text(logged.event) for logged in log])),
        ]

    async def _adopted(self, ask: Ask, journey: str, log: Sequence[Logged], state: JourneyState) -> Appended:
        number = await self._begun(ask, journey, log, state)
        if number is None:
            return Appended(state.version)
        if _columns(await _events(ask, number)) != _columns(log):
            raise JourneyExists(journey)
        return Appended(state.version, repeated=True)

    async def _begun(self, ask: Ask, journey: str, log: Sequence[Logged], state: JourneyState) -> int | None:
        """Put the journey on record; or return the number of the one that has that id, which may have come this moment."""
        s = state
        if self._quotas is not None:
            await ask(holding(self._tables, s.principal))
        told = (journey, s.agent, s.principal, s.status, s.phase, s.version, s.seq, s.started_at, s.moved_at)
        made: Any = await ask((_BEGIN, (*told, title(s), FOLDING, state_text(s), list(held(s)))))
        if not made:
            return int((await ask((_HEAD, (journey,))))[0][0])
        for bound, amount in self._uses(log):
            await ask(charging(bound, s.principal, amount, s.moved_at))
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
        act = _Act(events, key, by, at)
        asked_id(journey)

        async def add() -> Appended:
            done = await self._at_once(journey, act, before) if before and before.version == expected else None
            if done is None:
                done = await self._tables.decide(lambda ask: self._held(ask, journey, act, expected, before))
            return done

        done = await self._counting(add, events, by, at)
        if done.state is not None:
            self._recent.keep(journey, done.state)
        return done

    async def _at_once(self, journey: str, act: _Act, before: JourneyState) -> Appended | None:
        """Append in one call, or return None: then the journey must be held to know what to do."""
        try:
            step, after = act.after(before)
            call = self._stepping(journey, before, step, after)
        except (BadLog, ValueError):  # it may be a step that is on record, or too late, before it is a bad one
            return None
        for number, version, seq, led_to in await self._tables.act(call):
            if led_to is not None:
                return Appended(led_to, repeated=True)
            if version != before.version:
                raise await _stale(self._ask, number, journey, before.version, version)
            if seq == before.seq:
                return Appended(after.version, state=after)
        return None

    async def _held(self, ask: Ask, journey: str, act: _Act, expected: int, before: JourneyState | None) -> Appended:
        """Append while nobody else can move the journey or add notes."""
        if self._quotas is not None:
            await ask(holding(self._tables, storable(act.by)))
        number, state = await _held_at(ask, journey, before)
        first: Any = await ask((_KEPT, (number, storable(act.key))))
        if first:
            return Appended(first[0][0], repeated=True)
        if state.version != expected:
            raise await _stale(ask, number, journey, expected, state.version)
        step, after = act.after(state)
        _, *stood, _ = (await ask(self._stepping(journey, state, step, after)))[0]
        if stood != [state.version, state.seq]:
            raise CorruptDatabase(
                self._tables.place, f"what is kept beside the log of journey {journey} is not its state"
            )
        return Appended(after.version, state=after if before else None)

    def _stepping(self, journey: str, before: JourneyState, step: Sequence[Logged], after: JourneyState) -> Part:
        first, bodies = step[0], [event_text(logged.event) for logged in step]
        where = (*self._tables.entry, journey, before.version, before.seq)
        what = (first.key, first.by, first.at, bodies)
        there = (after.principal, after.status, after.phase, FOLDING, state_text(after), list(held(after)))
        given = (*where, *what, *there, *telling(self._tables.schema))
        counted = self._counted([logged.event for logged in step], bodies, first.by, first.at)
        return (_STEP_COUNTED, (*given, *counted)) if counted else (_STEP, given)

    def _counted(self, events: Sequence[Event], bodies: Sequence[str], by: str, at: datetime) -> tuple[Any, ...]:
        if self._quotas is None or not events:
            return ()
        return counted(self._quotas.journeyed, by, bytes_of(bodies), at, refuse=is_bounded(events))

    async def _counting(self, work: Callable[[], Awaitable[T]], events: Sequence[Event], by: str, at: datetime) -> T:
        """Run an act that adds these events. A refusal by a quota names the bound."""
        if self._quotas is None:
            return await work()
        uses = [(self._quotas.journeyed, bytes_of([event_text(event) for event in events]))]
        return await explained(work, self._tables, uses, storable(by), at)

    async def head(self, journey: str, key: str) -> JourneyHead:
        """Return where the journey stands, and the version that the step with that key led to."""
        recent = self._recent.claim(asked_id(journey))
        known = (recent.version, recent.moved_at) if recent else (None, None)
        *row, led_to = await self._row(journey, _STANDING, (journey, storable(key), *known))
        _, seq, _, folded, _ = row
        if recent and folded is None:
            return JourneyHead(replace(recent, seq=seq), led_to)
        return JourneyHead(await self._state(*row), led_to)

    async def _row(self, journey: str, statement: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        rows = await self._ask((statement, arguments))
        if not rows:
            raise NoSuchJourney(journey)
        return rows[0]

    async def _state(self, number: int, seq: int, folding: int, folded: str, bodies: Sequence[str]) -> JourneyState:
        """Return the whole state that a row tells of."""
        if folding != FOLDING:
            return fold(await _events(self._ask, number))
        state = replace(state_of(folded), seq=seq)
        seqs = held(state)
        rows: Any = zip(seqs, bodies, strict=False)
        if len(bodies) < len(seqs):  # an older program did not say which they are
            rows = await self._ask((_HELD, (number, list(seqs))))
        return filled(state, {seq: event_of(body) for seq, body in rows})

    async def note(self, journey: str, notes: Sequence[Note], *, by: str, at: datetime) -> None:
        """Add notes at whatever version the journey has."""
        bodies = [event_text(note) for note in notes]
        where = (*self._tables.entry, asked_id(journey))
        what = (storable(by), aware(at), bodies, *telling(self._tables.schema))
        given = (*where, *what)
        counted = self._counted(notes, bodies, storable(by), at)
        part: Part = (_NOTE_COUNTED, (*given, *counted)) if counted else (_NOTE, given)
        if not await self._counting(lambda: self._tables.act(part), notes, by, at):
            raise NoSuchJourney(journey)

    async def journey(self, journey: str, *, version: int | None = None) -> JourneyState:
        """Return where the journey stands, or where it stood at that version."""
        row = await self._row(journey, _WHOLE, (asked_id(journey),))
        state = await self._state(*row)
        if version is None or version == state.version:
            return state
        return fold(upto(journey, await _events(self._ask, row[0]), version))

    async def _ask(self, part: Part) -> list[tuple[Any, ...]]:
        return await self._tables.read(*part)

    async def events(self, journey: str, *, after: int = 0, limit: int | None = None) -> Sequence[Logged]:
        """Return what happened after the event number `after`, oldest first."""
        rows: Any = await self._ask((_HEAD, (asked_id(journey),)))
        if not rows:
            raise NoSuchJourney(journey)
        return await _events(self._ask, rows[0][0], after=after, limit=limit)

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of journeys that ended, each in a transaction of its own."""
        due: Any = await self._ask((_TO_SHORTEN, (aware(moved_before), limit)))
        freed = 0
        for (number,) in due:
            freed += await self._tables.decide(partial(_shorten, number, moved_before))
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
        """Return journeys, those that were put on record last first, from the one after `before`."""
        asked = {"status": status, "agent": agent, "principal": principal, "before": before}
        told = {name: text and storable(text) for name, text in asked.items()}
        rows: Any = await self._ask((_LINES, {**told, "limit": limit}))
        return [JourneyLine(*row) for row in rows]


async def _shorten(number: int, at: datetime, ask: Ask) -> int:
    await ask((_IS_CUT, (number, at)))
    await ask(("SELECT 1 FROM forge.journey WHERE number = %s FOR UPDATE", (number,)))
    try:
        log = await _events(ask, number)
        short = shorter(log)
        state = fold(short)
    except AgentError:  # of a program that this one does not know: it is left to that
        return 0
    before, after = texts(log), texts(short)
    cut = [seq for seq in before if after[seq] != before[seq]]
    await ask((_CUT, (cut, [after[seq] for seq in cut], number)))
    await ask((_REFOLD, (FOLDING, state_text(state), list(held(state)), number)))
    return sum(map(len, before.values())) - sum(map(len, after.values()))


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


async def _stale(ask: Ask, number: int, journey: str, expected: int, actual: int) -> StaleJourney:
    """Return what to tell somebody whom others came before."""
    log = await _events(ask, number)
    return StaleJourney(
        journey, expected, actual, in_words([logged for logged in log if expected < logged.version <= actual])
    )


def _adding(number: int, log: Sequence[Logged]) -> Part:
    return _ADD, (number, *(list(column) for column in zip(*_columns(log), strict=True)))


def _columns(log: Sequence[Logged]) -> list[tuple[Any, ...]]:
    return [(e.seq, e.version, e.at, e.by, e.key or None, event_text(e.event)) for e in log]
