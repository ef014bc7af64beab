"""Journeys in the file of the state database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import apsw

from agents.engine.events import Event, Logged, Note, Started, event_of, event_text, in_words
from agents.engine.fold import FOLDING, fold
from agents.engine.state import JourneyState, Status, held
from agents.errors import AgentError, JourneyExists, NoSuchJourney, StaleJourney
from agents.store.forms import (
    alike,
    asked_id,
    beginning,
    filled,
    is_bounded,
    logged_row,
    new_id,
    noted,
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
from knowledge.history.acts import storable
from knowledge.history.timestamps import micros, moment
from knowledge.state.quota.bounds import Quotas, bytes_of
from knowledge.state.quota.sqlite import charge
from knowledge.state.retention.cuts import Shortened
from knowledge.state.sqlite.database import Database
from knowledge.state.sqlite.events import publish

_EVENTS = "SELECT seq, version, at_us, actor, key, body FROM journey_event WHERE journey = ?"
_HEAD = "SELECT number, seq, folding, folded FROM journey WHERE id = ?"
_AT = "SELECT number, seq, version FROM journey WHERE id = ?"
_AT_AND_KEPT = """
SELECT number, seq, version, moved_us, (SELECT e.version FROM journey_event e WHERE e.journey = j.number AND e.key = ?)
FROM journey j WHERE id = ?
"""
_HELD = "SELECT seq, body FROM journey_event WHERE journey = ? AND seq IN ({})"
_BEGIN = """
INSERT INTO journey (id, agent, principal, status, phase, version, seq, started_us, moved_us, title, folding, folded)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_MOVE = """
UPDATE journey SET phase = ?, version = ?, seq = ?, moved_us = ?, folding = ?, folded = ? WHERE number = ?
"""
_REFILE = "UPDATE journey SET principal = ?, status = ? WHERE number = ?"
"""Apart, because SQLite writes an index anew whose columns are named, whether they change or not."""
_KEPT = "SELECT version FROM journey_event WHERE journey = ? AND key = ?"
_ADD = "INSERT INTO journey_event (journey, seq, version, at_us, actor, key, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
_TO_SHORTEN = """
SELECT number FROM journey WHERE status IN ('complete', 'cancelled') AND moved_us < ?
AND NOT EXISTS (SELECT 1 FROM journey_cut c WHERE c.number = journey.number) ORDER BY number LIMIT ?
"""
_BEGUN = """
SELECT j.id, e.body
FROM (SELECT * FROM journey WHERE principal = ? ORDER BY number DESC LIMIT ?) j
JOIN journey_event e ON e.journey = j.number AND e.seq = 1
WHERE j.version = 1 AND j.agent = ? AND j.started_us >= ? ORDER BY j.number DESC
"""
_LINES = """
SELECT id, agent, title, principal, status, phase, version, started_us, moved_us FROM journey
WHERE (:status IS NULL OR status = :status) AND (:agent IS NULL OR agent = :agent)
AND (:principal IS NULL OR principal = :principal)
AND (:before IS NULL OR number < (SELECT number FROM journey WHERE id = :before))
ORDER BY number DESC LIMIT :limit
"""


class SqliteJourneys:
    """Journeys in one file that several processes share."""

    def __init__(self, database: Database, quotas: Quotas | None = None) -> None:
        self._database, self._quotas, self._recent = database, quotas, Recent()

    async def start(self, journey: str, begun: Started, *, by: str, at: datetime) -> Appended:
        """Begin a journey with that id, at version 1."""
        first = beginning(begun, by, at)

        def work(c: apsw.Connection) -> Appended:
            there: Any = c.execute(_HEAD, (new_id(journey),)).fetchall()
            if there and event_text(_events(c, there[0][0], limit=1)[0].event) == event_text(first.event):
                return Appended(1, repeated=True)
            return _adopted(c, journey, [first], whole([first]), self._quotas)

        return await self._database.write(work)

    async def begin(self, journey: str, log: Sequence[Logged], *, since: datetime) -> Begun:
        """Put a new journey on record, or return the newest that was begun alike since then."""
        new_id(journey)
        state = whole(log)

        def work(c: apsw.Connection) -> Begun:
            asked = (state.principal, NEWEST_COMPARED, state.agent, micros(since))
            rows: Any = c.execute(_BEGUN, asked).fetchall()
            same = [id_ for id_, body in rows if alike(event_of(body), log[0].event)]
            if same:
                return Begun(same[0], repeated=True)
            return Begun(journey, _adopted(c, journey, log, state, self._quotas).repeated)

        return await self._database.write(work)

    async def adopt(self, journey: str, log: Sequence[Logged]) -> Appended:
        """Take over a whole log under that id."""
        new_id(journey)
        state = whole(log)
        return await self._database.write(lambda c: _adopted(c, journey, log, state, self._quotas))

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

        def work(c: apsw.Connection) -> Appended:
            number, state = _stands(c, journey, before)
            first = _kept(c, number, key)
            if first is not None:
                return Appended(first, repeated=True)
            if state.version != expected:
                missed = [logged for logged in _events(c, number) if logged.version > expected]
                raise StaleJourney(journey, expected, state.version, in_words(missed))
            step = numbered(state, events, key, by, at)
            after = fold(step, state)
            self._charge(c, step)
            _move(c, number, state, after)
            _add(c, number, step)
            publish([("journey", journey)], c)
            return Appended(expected + 1, state=after if before else None)

        done = await self._database.write(work)
        if done.state is not None:
            self._recent.keep(journey, done.state)
        return done

    async def head(self, journey: str, key: str) -> JourneyHead:
        """Return where the journey stands, and the version that the step with that key led to."""

        def work(c: apsw.Connection) -> JourneyHead:
            found: Any = c.execute(_AT_AND_KEPT, (key, asked_id(journey))).fetchall()
            if not found:
                raise NoSuchJourney(journey)
            _, seq, version, moved_us, kept = found[0]
            state = self._recent.take(journey, version, seq, moment(moved_us))
            return JourneyHead(state or _whole(c, *_stands(c, journey)), kept)

        return self._database.read(work)

    async def note(self, journey: str, notes: Sequence[Note], *, by: str, at: datetime) -> None:
        """Add notes at whatever version the journey has."""

        def work(c: apsw.Connection) -> None:
            rows: Any = c.execute(
                "UPDATE journey SET seq = seq + ? WHERE id = ? RETURNING number, version, seq", (len(notes), journey)
            ).fetchall()
            if not rows:
                raise NoSuchJourney(journey)
            number, version, seq = rows[0]
            log = noted(version, seq - len(notes), notes, by, at)
            self._charge(c, log)
            _add(c, number, log)
            publish([("journey", journey)], c)

        asked_id(journey)
        await self._database.write(work)

    def _charge(self, c: apsw.Connection, log: Sequence[Logged]) -> None:
        if self._quotas is not None and log:
            events = [logged.event for logged in log]
            amount = bytes_of([event_text(event) for event in events])
            charge(c, self._quotas.journeyed, log[0].by, amount, log[0].at, refuse=is_bounded(events))

    async def journey(self, journey: str, *, version: int | None = None) -> JourneyState:
        """Return where the journey stands, or where it stood at that version."""

        def work(c: apsw.Connection) -> JourneyState:
            number, state = _stands(c, journey)
            if version is not None and version != state.version:
                return fold(upto(journey, _events(c, number), version))
            return _whole(c, number, state)

        return self._database.read(work)

    async def events(self, journey: str, *, after: int = 0, limit: int | None = None) -> Sequence[Logged]:
        """Return what happened after the event number `after`, oldest first."""

        def work(c: apsw.Connection) -> list[Logged]:
            rows: Any = c.execute("SELECT number FROM journey WHERE id = ?", (asked_id(journey),)).fetchall()
            if not rows:
                raise NoSuchJourney(journey)
            return _events(c, rows[0][0], after=after, limit=limit)

        return await self._database.bulk(work)

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of journeys that ended, each in a transaction of its own."""
        asked = (micros(moved_before), limit)
        due: Any = await self._database.bulk(lambda c: c.execute(_TO_SHORTEN, asked).fetchall())
        freed = 0
        for (number,) in due:
            freed += await self._database.write(partial(_shorten, number, asked[0]))
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
        whose = principal and storable(principal)
        asked = {"status": status, "agent": agent, "principal": whose, "limit": limit, "before": before}
        rows: Any = self._database.read(lambda c: c.execute(_LINES, asked).fetchall())
        return [_line(*row) for row in rows]


def _shorten(number: int, at_us: int, c: apsw.Connection) -> int:
    c.execute("INSERT INTO journey_cut VALUES (?, ?) ON CONFLICT (number) DO NOTHING", (number, at_us))
    try:
        log = _events(c, number)
        short = shorter(log)
        folded = state_text(fold(short))
    except AgentError:  # of a program that this one does not know: it is left to that
        return 0
    before, after = texts(log), texts(short)
    cut = [(after[seq], number, seq) for seq in before if after[seq] != before[seq]]
    c.executemany("UPDATE journey_event SET body = ? WHERE journey = ? AND seq = ?", cut)
    c.execute("UPDATE journey SET folding = ?, folded = ? WHERE number = ?", (FOLDING, folded, number))
    return sum(map(len, before.values())) - sum(map(len, after.values()))


def _line(*row: Any) -> JourneyLine:
    id_, agent, title_, principal, status, phase, version, started_us, moved_us = row
    return JourneyLine(id_, agent, title_, principal, status, phase, version, moment(started_us), moment(moved_us))


def _stands(c: apsw.Connection, journey: str, before: JourneyState | None = None) -> tuple[int, JourneyState]:
    """Return the journey's number and where it stands: as `before` says if that is so still, else bare."""
    if before is not None:
        found: Any = c.execute(_AT, (asked_id(journey),)).fetchall()
        if found and found[0][2] == before.version:
            return found[0][0], replace(
                before, seq=found[0][1]
            )  # notes may have come meanwhile, which change nothing else
    rows: Any = c.execute(_HEAD, (asked_id(journey),)).fetchall()
    if not rows:
        raise NoSuchJourney(journey)
    number, seq, folding, folded = rows[0]
    if folding != FOLDING:
        return number, fold(_events(c, number))
    return number, replace(state_of(folded), seq=seq)


def _whole(c: apsw.Connection, number: int, state: JourneyState) -> JourneyState:
    """Return the state with what its events hold word for word."""
    seqs = held(state)
    rows: Any = c.execute(_HELD.format(",".join("?" * len(seqs))), (number, *seqs)).fetchall()
    return filled(state, {seq: event_of(body) for seq, body in rows})


def _kept(c: apsw.Connection, number: int, key: str) -> int | None:
    found: Any = c.execute(_KEPT, (number, key)).fetchall()
    return found[0][0] if found else None


def _events(c: apsw.Connection, number: int, *, after: int = 0, limit: int | None = None) -> list[Logged]:
    asked = (number, after, -1 if limit is None else limit)
    rows: Any = c.execute(f"{_EVENTS} AND seq > ? ORDER BY seq LIMIT ?", asked).fetchall()
    return [logged_row((seq, version, moment(at_us), *rest)) for seq, version, at_us, *rest in rows]


def _adopted(
    c: apsw.Connection, journey: str, log: Sequence[Logged], state: JourneyState, quotas: Quotas | None
) -> Appended:
    there: Any = c.execute(_HEAD, (journey,)).fetchall()
    if there:
        if _rows(there[0][0], _events(c, there[0][0])) != _rows(there[0][0], log):
            raise JourneyExists(journey)
        return Appended(state.version, repeated=True)
    s = state
    if quotas is not None:
        charge(c, quotas.started, s.principal, 1, s.moved_at)
        charge(c, quotas.journeyed, s.principal, bytes_of([event_text(e.event) for e in log]), s.moved_at)
    c.execute(
        _BEGIN,
        (
            *(journey, s.agent, s.principal, s.status, s.phase, s.version, s.seq, micros(s.started_at)),
            *(micros(s.moved_at), title(s), FOLDING, state_text(s)),
        ),
    )
    _add(c, c.last_insert_rowid(), log)
    publish([("journey", journey)], c)
    return Appended(state.version)


def _move(c: apsw.Connection, number: int, before: JourneyState, after: JourneyState) -> None:
    s = after
    c.execute(_MOVE, (s.phase, s.version, s.seq, micros(s.moved_at), FOLDING, state_text(s), number))
    if (before.principal, before.status) != (s.principal, s.status):
        c.execute(_REFILE, (s.principal, s.status, number))


def _add(c: apsw.Connection, number: int, log: Sequence[Logged]) -> None:
    c.executemany(_ADD, _rows(number, log))


def _rows(number: int, log: Sequence[Logged]) -> list[tuple[Any, ...]]:
    return [(number, e.seq, e.version, micros(e.at), e.by, e.key or None, event_text(e.event)) for e in log]
