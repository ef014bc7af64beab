"""Journeys in PostgreSQL. The most frequent acts are one call of a stored function: a transaction in one round trip."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from agents.engine.events import Event, Logged, Note, event_text
from agents.engine.fold import FOLDING, fold
from agents.engine.state import JourneyState, content_events
from agents.errors import BadLog, NoSuchJourney
from agents.store.codec import checked_id, may_be_refused, numbered, state_text
from agents.store.ports import Appended, JourneyHead
from agents.store.sql import SqlJourneys, stale, state_in
from knowledge.errors import QuotaReached
from knowledge.history.acts import storable
from knowledge.history.timestamps import aware
from knowledge.state.change_events import PUBLISH_ARGUMENTS
from knowledge.state.postgres.tables import PostgresTables
from knowledge.state.quota.bounds import Quotas, bytes_of, require_room
from knowledge.state.quota.usage import SLOTS

T = TypeVar("T")

MOST_TRIES = 3
"""How often a step is sent if notes are added meanwhile. After that, the journey is locked before the step is sent."""

_STANDING = """
SELECT place, last_seq, by_folding, folded_into, bodies, led_to FROM forge.journey_standing(%s, %s, %s, %s)
"""
_STEP_ARGUMENTS = f"%s, %s, %s, %s, %s, %s, %s, %s, %b, %s, %s, %s, %s, %s, %b, {PUBLISH_ARGUMENTS}"
_NOTE_ARGUMENTS = f"%s, %s, %s, %s, %s, %b, {PUBLISH_ARGUMENTS}"
_COUNT_ARGUMENTS = "%s, %s, %s, %s, %s, %s"
_STEP_ROWS = "SELECT place, stood_at, last_seq, led_to FROM forge."
_STEP = f"{_STEP_ROWS}journey_step({_STEP_ARGUMENTS})"
_STEP_COUNTED = f"{_STEP_ROWS}journey_step_counted({_STEP_ARGUMENTS}, {_COUNT_ARGUMENTS})"
_NOTE = f"SELECT noted_at FROM forge.journey_note({_NOTE_ARGUMENTS})"  # noqa: S608 - constants
_NOTE_COUNTED = f"SELECT noted_at FROM forge.journey_note_counted({_NOTE_ARGUMENTS}, {_COUNT_ARGUMENTS})"  # noqa: S608 - constants


class PostgresJourneys(SqlJourneys):
    """Journeys shared by processes on any number of machines."""

    def __init__(self, tables: PostgresTables, quotas: Quotas | None = None) -> None:
        super().__init__(tables, quotas)
        self._schema_tables = tables

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
        """Add the events as the step after version `expected`: in one call if `before` turns out to be up to date."""
        checked_id(journey)
        there = before if before is not None and before.version == expected else None
        for _ in range(MOST_TRIES):
            if there is None:
                break
            try:
                step = numbered(there, events, key, by, at)
                after = fold(step, there)
            except (BadLog, ValueError):
                break  # it may be a repeated or an outdated step instead: `super().append` finds out
            done = await self._append_in_one_call(journey, there, step, after)
            if isinstance(done, Appended):
                return done
            # Notes were added in the meantime, which change nothing else.
            there = replace(there, seq=done) if done else None
        return await super().append(journey, events, expected=expected, key=key, by=by, at=at, before=before)

    async def _append_in_one_call(
        self, journey: str, before: JourneyState, step: Sequence[Logged], after: JourneyState
    ) -> Appended | int:
        """Append `step`; or return the number of the newest event if notes were added since, 0 if there is no such journey."""
        first, bodies = step[0], [event_text(logged.event) for logged in step]
        where = (*self._schema_tables.entry, journey, before.version, before.seq)
        what = (first.key, first.by, first.at, bodies)
        there = (after.principal, after.status, after.phase, FOLDING, state_text(after), list(content_events(after)))
        counted = self._counted([logged.event for logged in step], bodies, first.by, first.at)
        function = _STEP_COUNTED if counted else _STEP
        call = self._schema_tables.call(function, (*where, *what, *there, *counted))
        rows = await self._explained(call, first.by, bodies, first.at)
        if not rows:
            return 0
        number, version, seq, led_to = rows[0]
        # Before the versions: a repeated act gets its first answer, even if the journey has moved since.
        if led_to is not None:
            return Appended(led_to, repeated=True)
        if version != before.version:
            raise await self._tables.inspect(lambda t: stale(t, number, journey, before.version, version))
        if seq != before.seq:
            return int(seq)
        self._recent.keep(journey, after)
        return Appended(after.version, state=after)

    def _counted(self, events: Sequence[Event], bodies: Sequence[str], by: str, at: datetime) -> tuple[Any, ...]:
        """Return the arguments by which a stored function counts these events for a quota; none if nothing is counted."""
        if self._quotas is None or not events:
            return ()
        bound = self._quotas.journeyed
        most = bound.most if may_be_refused(events) else None
        return by, bound.kind, bytes_of(bodies), most, bound.slot_at(at), bound.since(at)

    async def _explained(self, call: Awaitable[T], by: str, bodies: Sequence[str], at: datetime) -> T:
        """Return the result of the call.

        Raises:
            OverQuota: the quota has no room for these bodies; the server names only the quota.
        """
        try:
            return await call
        except QuotaReached:
            if self._quotas is not None:
                bound = self._quotas.journeyed
                slots: Any = await self._tables.read(SLOTS, (by, bound.kind, bound.since(at), bound.slot_at(at)))
                require_room(bound, by, slots, bytes_of(bodies), at)
            raise

    async def head(self, journey: str, key: str) -> JourneyHead:
        """Return the journey's state, and the version that the step with that key led to."""
        recent = self._recent.claim(checked_id(journey))
        # The server leaves the state out of its answer if the one cached here is still the newest.
        known = (recent.version, recent.moved_at) if recent else (None, None)
        rows = await self._tables.read(_STANDING, (journey, storable(key), *known))
        if not rows:
            raise NoSuchJourney(journey)
        *row, led_to = rows[0]
        _, seq, _, folded, _ = row
        if recent and folded is None:
            return JourneyHead(replace(recent, seq=seq), led_to)
        return JourneyHead(await self._tables.inspect(lambda t: state_in(t, tuple(row))), led_to)

    async def note(self, journey: str, notes: Sequence[Note], *, by: str, at: datetime) -> None:
        """Add notes at whatever version the journey has."""
        bodies, who = [event_text(note) for note in notes], storable(by)
        counted = self._counted(notes, bodies, who, at)
        given = (*self._schema_tables.entry, checked_id(journey), who, aware(at), bodies, *counted)
        call = self._schema_tables.call(_NOTE_COUNTED if counted else _NOTE, given)
        if not await self._explained(call, who, bodies, at):
            raise NoSuchJourney(journey)
