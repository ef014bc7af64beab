"""Journeys in the state database.

Lock order in PostgreSQL, the same for all transactions, so that no two wait for each other: the principal's quotas, the journey,
the counter of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from agents.engine.events import Event, Logged, Note, Started, event_of, event_text, newest_steps
from agents.engine.fold import FOLDING, fold
from agents.engine.state import JourneyState, Status, content_events
from agents.errors import AgentError, JourneyExists, NoSuchJourney, StaleJourney
from agents.store.codec import (
    checked_id,
    filled,
    first_event,
    log_after_retention,
    logged_of_row,
    may_be_refused,
    new_id,
    numbered,
    numbered_notes,
    same_start,
    state_of,
    state_of_log,
    state_text,
    texts_by_seq,
    title_of,
    upto,
)
from agents.store.ports import NEWEST_COMPARED, Appended, Begun, JourneyHead, JourneyLine
from agents.store.recent import Recent
from knowledge.errors import CorruptDatabase
from knowledge.history.acts import storable
from knowledge.history.timestamps import aware, moment
from knowledge.state.change_events import PUBLISH
from knowledge.state.quota.bounds import Quotas, bytes_of
from knowledge.state.quota.usage import charge, hold_quotas
from knowledge.state.retention.cuts import Shortened
from knowledge.state.tables import LOCK, NO_LIMIT, ManyRows, Row, SqlPair, StateTables, StateTransaction

_NUMBER = "SELECT number FROM forge.journey WHERE id = %s"
_HOLD_AT = "SELECT number, seq, version FROM forge.journey WHERE id = %s FOR UPDATE"
_HOLD = "SELECT number, seq, version, folding, folded FROM forge.journey WHERE id = %s FOR UPDATE"
_AT_AND_KEPT = """
SELECT seq, version, moved_at, (
    SELECT e.version FROM forge.journey_event e WHERE e.journey = j.number AND e.key = %s
) FROM forge.journey j WHERE id = %s
"""
# PostgreSQL keeps the numbers of the events that hold the rest of the state, so that one statement can return them as well.
_WHOLE = SqlPair(
    "SELECT number, seq, folding, folded, NULL FROM journey WHERE id = ?",
    """
SELECT number, seq, folding, folded, ARRAY(
    SELECT e.body FROM forge.journey_event e WHERE e.journey = j.number AND e.seq = ANY(j.held) ORDER BY e.seq
) FROM forge.journey j WHERE id = %s
""",
)
_EVENTS = """
SELECT seq, version, happened_at, actor, key, body FROM forge.journey_event
WHERE journey = %s AND seq > %s ORDER BY seq LIMIT %s
"""
_HELD = "SELECT seq, body FROM forge.journey_event WHERE journey = %s AND seq = ANY(%s::bigint[])"
_KEPT = "SELECT version FROM forge.journey_event WHERE journey = %s AND key = %s"
_BEGIN = SqlPair(
    """
INSERT INTO journey (id, agent, principal, status, phase, version, seq, started_us, moved_us, title, folding, folded)
VALUES (:id, :agent, :principal, :status, :phase, :version, :seq, :started, :moved, :title, :folding, :folded)
ON CONFLICT (id) DO NOTHING RETURNING number
""",
    """
INSERT INTO forge.journey
    (id, agent, principal, status, phase, version, seq, started_at, moved_at, title, folding, folded, held)
VALUES (%(id)s, %(agent)s, %(principal)s, %(status)s, %(phase)s, %(version)s, %(seq)s, %(started)s, %(moved)s, %(title)s,
    %(folding)s, %(folded)s, %(held)s)
ON CONFLICT (id) DO NOTHING RETURNING number
""",
)
_MOVE = SqlPair(
    """
UPDATE journey SET phase = :phase, version = :version, seq = :seq, moved_us = :moved, folding = :folding, folded = :folded
WHERE number = :number
""",
    """
UPDATE forge.journey SET phase = %(phase)s, version = %(version)s, seq = %(seq)s, moved_at = %(moved)s, folding = %(folding)s,
    folded = %(folded)s, held = %(held)s WHERE number = %(number)s
""",
)
# On its own, because SQLite rewrites every index whose columns a statement sets, whether they change or not.
_REFILE = "UPDATE forge.journey SET principal = %s, status = %s WHERE number = %s"
_REFOLD = SqlPair(
    "UPDATE journey SET folding = :folding, folded = :folded WHERE number = :number",
    "UPDATE forge.journey SET folding = %(folding)s, folded = %(folded)s, held = %(held)s WHERE number = %(number)s",
)
_ADD = SqlPair(
    "INSERT INTO journey_event (journey, seq, version, at_us, actor, key, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
    """
INSERT INTO forge.journey_event (journey, seq, version, happened_at, actor, key, body)
SELECT * FROM unnest(
    %s::bigint[], %s::bigint[], %s::bigint[], %s::timestamptz[], %s::text[], %s::text[], %s::text[]
)
""",
)
_NOTE = "UPDATE forge.journey SET seq = seq + %s WHERE id = %s RETURNING number, version, seq"
_TO_SHORTEN = """
SELECT number FROM forge.journey WHERE status IN ('complete', 'cancelled') AND moved_at < %s
AND NOT EXISTS (SELECT 1 FROM forge.journey_cut c WHERE c.number = journey.number) ORDER BY number LIMIT %s
"""
_SHORTEN = SqlPair(
    "UPDATE journey_event SET body = ? WHERE journey = ? AND seq = ?",
    """
UPDATE forge.journey_event e SET body = short.body
FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS short (body, journey, seq)
WHERE e.journey = short.journey AND e.seq = short.seq
""",
)
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


class SqlJourneys:
    """Journeys, shared by all processes that use the state database."""

    def __init__(self, tables: StateTables, quotas: Quotas | None = None) -> None:
        self._tables, self._quotas, self._recent = tables, quotas, Recent()

    async def start(self, journey: str, begun: Started, *, by: str, at: datetime) -> Appended:
        """Begin a journey with that id, at version 1."""
        new_id(journey)
        first = first_event(begun, by, at)
        state = state_of_log([first])

        async def work(t: StateTransaction) -> Appended:
            number = await self._record(t, journey, [first], state)
            if number is None:
                return Appended(1)
            if event_text((await _events(t, number, limit=1))[0].event) != event_text(first.event):
                raise JourneyExists(journey)
            return Appended(1, repeated=True)

        return await self._tables.transact(work)

    async def begin(self, journey: str, log: Sequence[Logged], *, since: datetime) -> Begun:
        """Put a new journey on record, or return the newest equal one that began since then."""
        new_id(journey)
        state = state_of_log(log)
        wanted = (state.principal, NEWEST_COMPARED, state.agent, aware(since))

        async def work(t: StateTransaction) -> Begun:
            if self._quotas is not None:
                await hold_quotas(t, state.principal)
            # If two callers begin the same journey at once, the second must see the first one's.
            await t.execute(LOCK, (f"begin {state.principal}",))
            for id_, body in await t.execute(_BEGUN, wanted):
                if same_start(event_of(body), log[0].event):
                    return Begun(id_, repeated=True)
            return Begun(journey, (await self._adopted(t, journey, log, state)).repeated)

        return await self._tables.transact(work)

    async def adopt(self, journey: str, log: Sequence[Logged]) -> Appended:
        """Take over a whole log under that id."""
        new_id(journey)
        state = state_of_log(log)
        return await self._tables.transact(lambda t: self._adopted(t, journey, log, state))

    async def _adopted(self, t: StateTransaction, journey: str, log: Sequence[Logged], state: JourneyState) -> Appended:
        number = await self._record(t, journey, log, state)
        if number is None:
            return Appended(state.version)
        if _rows(number, await _events(t, number)) != _rows(number, log):
            raise JourneyExists(journey)
        return Appended(state.version, repeated=True)

    async def _record(
        self, t: StateTransaction, journey: str, log: Sequence[Logged], state: JourneyState
    ) -> int | None:
        """Put a new journey on record, and return None; or return the number of the one that has that id already."""
        s = state
        if self._quotas is not None:
            await hold_quotas(t, s.principal)
        columns = {"id": journey, "agent": s.agent, "principal": s.principal, "status": s.status, "title": title_of(s)}
        made = await t.execute(_BEGIN, {**columns, "started": s.started_at, **_position(s)})
        if not made:  # perhaps a moment ago
            return int((await t.execute(_NUMBER, (journey,)))[0][0])
        if self._quotas is not None:
            size = bytes_of([event_text(logged.event) for logged in log])
            await charge(t, self._quotas.started, s.principal, 1, s.moved_at)
            await charge(t, self._quotas.journeyed, s.principal, size, s.moved_at)
        await t.execute(_ADD, ManyRows(_rows(made[0][0], log)))
        await t.execute(PUBLISH, ("journey", [journey]))
        return None

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
        checked_id(journey)

        async def work(t: StateTransaction) -> Appended:
            if self._quotas is not None:
                await hold_quotas(t, storable(by))
            number, state = await self._held_state(t, journey, before)
            # Before the version is checked: the caller may repeat a step whose reply was lost.
            first = await t.execute(_KEPT, (number, storable(key)))
            if first:
                return Appended(first[0][0], repeated=True)
            if state.version != expected:
                raise await stale(t, number, journey, expected, state.version)
            step = numbered(state, events, key, by, at)
            after = fold(step, state)
            await self._charge(t, step)
            await t.execute(_MOVE, {**_position(after), "number": number})
            if (state.principal, state.status) != (after.principal, after.status):
                await t.execute(_REFILE, (after.principal, after.status, number))
            await t.execute(_ADD, ManyRows(_rows(number, step)))
            await t.execute(PUBLISH, ("journey", [journey]))
            return Appended(expected + 1, state=after if before else None)

        done = await self._tables.transact(work)
        if done.state is not None:
            self._recent.keep(journey, done.state)
        return done

    async def _held_state(
        self, t: StateTransaction, journey: str, before: JourneyState | None
    ) -> tuple[int, JourneyState]:
        """Lock the journey, and return its number and state: `before` if it is up to date, otherwise a state without texts."""
        if before is not None:
            found = await t.execute(_HOLD_AT, (journey,))
            if found and found[0][2] == before.version:
                return found[0][0], replace(before, seq=found[0][1])  # notes added in the meantime change nothing else
        rows = await t.execute(_HOLD, (journey,))
        if not rows:
            raise NoSuchJourney(journey)
        number, seq, version, folding, folded = rows[0]
        state = replace(state_of(folded), seq=seq) if folding == FOLDING else fold(await _events(t, number))
        if (state.version, state.seq) != (version, seq):
            reason = f"the stored state of journey {journey} does not match its log"
            raise CorruptDatabase(self._tables.place, reason)
        return number, state

    async def _charge(self, t: StateTransaction, log: Sequence[Logged]) -> None:
        if self._quotas is not None and log:
            events = [logged.event for logged in log]
            size = bytes_of([event_text(event) for event in events])
            await charge(t, self._quotas.journeyed, log[0].by, size, log[0].at, refuse=may_be_refused(events))

    def recent(self, journey: str, version: int) -> JourneyState | None:
        """Return the cached state of the journey if it is at that version."""
        return self._recent.at(journey, version)

    async def head(self, journey: str, key: str) -> JourneyHead:
        """Return the journey's state, and the version that the step with that key led to."""

        async def work(t: StateTransaction) -> JourneyHead:
            rows = await t.execute(_AT_AND_KEPT, (storable(key), checked_id(journey)))
            if not rows:
                raise NoSuchJourney(journey)
            seq, version, moved_at, kept = rows[0]
            state = self._recent.take(journey, version, seq, moment(moved_at))
            return JourneyHead(state or await state_in(t, await _row(t, journey)), kept)

        return await self._tables.inspect(work)

    async def note(self, journey: str, notes: Sequence[Note], *, by: str, at: datetime) -> None:
        """Add notes at whatever version the journey has."""
        checked_id(journey)

        async def work(t: StateTransaction) -> None:
            if self._quotas is not None:
                await hold_quotas(t, storable(by))
            rows = await t.execute(_NOTE, (len(notes), journey))
            if not rows:
                raise NoSuchJourney(journey)
            number, version, seq = rows[0]
            log = numbered_notes(version, seq - len(notes), notes, by, at)
            await self._charge(t, log)
            await t.execute(_ADD, ManyRows(_rows(number, log)))
            await t.execute(PUBLISH, ("journey", [journey]))

        await self._tables.transact(work)

    async def journey(self, journey: str, *, version: int | None = None) -> JourneyState:
        """Return the journey's state now or at that version."""

        async def work(t: StateTransaction) -> JourneyState:
            row = await _row(t, checked_id(journey))
            state = await state_in(t, row)
            if version is None or version == state.version:
                return state
            return fold(upto(journey, await _events(t, row[0]), version))

        return await self._tables.inspect(work)

    async def events(self, journey: str, *, after: int = 0, limit: int | None = None) -> Sequence[Logged]:
        """Return the events after number `after`, oldest first."""

        async def work(t: StateTransaction) -> list[Logged]:
            rows = await t.execute(_NUMBER, (checked_id(journey),))
            if not rows:
                raise NoSuchJourney(journey)
            return await _events(t, rows[0][0], after=after, limit=NO_LIMIT if limit is None else limit)

        return await self._tables.inspect(work, long=True)

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of journeys that ended, each in its own transaction."""
        due = await self._tables.read(_TO_SHORTEN, (aware(moved_before), limit), long=True)
        freed = 0
        for (number,) in due:
            freed += await self._tables.transact(partial(_shorten, number, moved_before))
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
        """Return journeys, the newest first, from the one after `before`."""
        names = {"status": status, "agent": agent, "principal": principal, "before": before}
        wanted = {name: text and storable(text) for name, text in names.items()}
        rows = await self._tables.read(_LINES, {**wanted, "limit": limit})
        return [
            JourneyLine(id_, name, title_, whose, found, phase, version, moment(started_at), moment(moved_at))
            for id_, name, title_, whose, found, phase, version, started_at, moved_at in rows
        ]


async def state_in(t: StateTransaction, row: Row) -> JourneyState:
    """Return the whole state from a row of number, `seq`, `folding`, `folded` and `bodies`.

    `bodies` are the events that hold the texts which are left out of `folded`; None if an older program did not store
    which these are.
    """
    number, seq, folding, folded, bodies = row
    if folding != FOLDING:
        return fold(await _events(t, number))
    state = replace(state_of(folded), seq=seq)
    seqs = content_events(state)
    if bodies is None or len(bodies) < len(seqs):  # read here if an older program did not store which events they are
        rows = await t.execute(_HELD, (number, list(seqs)))
    else:
        rows = list(zip(seqs, bodies, strict=False))
    return filled(state, {seq: event_of(body) for seq, body in rows})


async def stale(t: StateTransaction, number: int, journey: str, expected: int, actual: int) -> StaleJourney:
    """Return the error for a caller that another one overtook."""
    missed = [logged for logged in await _events(t, number) if expected < logged.version <= actual]
    return StaleJourney(journey, expected, actual, newest_steps(missed))


async def _row(t: StateTransaction, journey: str) -> Row:
    rows = await t.execute(_WHOLE, (journey,))
    if not rows:
        raise NoSuchJourney(journey)
    return rows[0]


async def _events(t: StateTransaction, number: int, *, after: int = 0, limit: int = NO_LIMIT) -> list[Logged]:
    rows = await t.execute(_EVENTS, (number, after, limit))
    return [logged_of_row(row) for row in rows]


async def _shorten(number: int, at: datetime, t: StateTransaction) -> int:
    # Marked even if it turns out to be unreadable: otherwise every later call would select it again.
    await t.execute("INSERT INTO forge.journey_cut VALUES (%s, %s) ON CONFLICT (number) DO NOTHING", (number, at))
    await t.execute("SELECT 1 FROM forge.journey WHERE number = %s FOR UPDATE", (number,))
    try:
        log = await _events(t, number)
        short = log_after_retention(log)
        state = fold(short)
    except AgentError:  # written by a newer program, which has to shorten it itself
        return 0
    before, after = texts_by_seq(log), texts_by_seq(short)
    cut = [(after[seq], number, seq) for seq in before if after[seq] != before[seq]]
    if cut:
        await t.execute(_SHORTEN, ManyRows(cut))
    # Refolded, because the state holds texts of the log (feedback, a person's note) that were just shortened.
    await t.execute(_REFOLD, {**_folded(state), "number": number})
    return sum(map(len, before.values())) - sum(map(len, after.values()))


def _position(state: JourneyState) -> dict[str, Any]:
    """Return the columns that every step changes, by name."""
    s = state
    return {"phase": s.phase, "version": s.version, "seq": s.seq, "moved": s.moved_at, **_folded(s)}


def _folded(state: JourneyState) -> dict[str, Any]:
    return {"folding": FOLDING, "folded": state_text(state), "held": list(content_events(state))}


def _rows(number: int, log: Sequence[Logged]) -> list[Row]:
    return [(number, e.seq, e.version, e.at, e.by, e.key or None, event_text(e.event)) for e in log]
