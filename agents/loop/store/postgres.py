"""Runs in the schema of a PostgreSQL database.

Who holds more than one thing takes the quota first, then the end of the audit chain, then the run, then the counter of events. So
nobody waits for somebody who waits for him.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from agents.loop.errors import NoSuchRun, RunExists
from agents.loop.record import audit_entries as entries
from agents.loop.record.frames import Frame, Header, frame_of, frame_text, header_of, header_text
from agents.loop.record.run import Run, State, begun, fold
from agents.loop.store.forms import (
    ASKED,
    after,
    asked_id,
    free_for,
    is_bounded,
    new_header,
    repeated,
    require_next,
    shorter,
    sound,
    title,
    with_earlier,
)
from agents.loop.store.ports import LONGEST_HOLD_S, Hold, RunLine, Total
from knowledge.history.acts import storable
from knowledge.history.audit.postgres_chain import HOLD_THE_END, appending
from knowledge.history.timestamps import aware
from knowledge.leases import latest_end
from knowledge.state.postgres.events import publishing
from knowledge.state.postgres.tables import Ask, Part, Tables
from knowledge.state.quota.bounds import Quotas, bytes_of
from knowledge.state.quota.postgres import charging, explained, holding
from knowledge.state.retention.cuts import Shortened

_HEAD = "SELECT number, header, frames, holder, held_until FROM forge.run WHERE id = %s"
_HOLD_ROW = f"{_HEAD} FOR UPDATE"
_BEGIN = """
INSERT INTO forge.run (id, header, title, principal, model, state, frames, begun_at, moved_at, tokens_in, tokens_out, cost_micros,
    unpriced, holder, held_until)
VALUES (%s, %s, %s, %s, %s, 'running', 0, %s, %s, 0, 0, 0, false, %s, %s) ON CONFLICT (id) DO NOTHING RETURNING 1
"""
_ADD = """
INSERT INTO forge.run_frame (run, number, id, body) SELECT %s, * FROM unnest(%s::bigint[], %s::text[], %s::text[])
"""
_MOVE = """
UPDATE forge.run SET state = %s, frames = %s, moved_at = %s, tokens_in = %s, tokens_out = %s, cost_micros = %s, unpriced = %s
WHERE number = %s
"""
_HOLD = "UPDATE forge.run SET holder = %s, held_until = %s WHERE number = %s"
_RELEASE = "UPDATE forge.run SET holder = NULL, held_until = NULL WHERE id = %s AND holder = %s"
_FRAMES = "SELECT body FROM forge.run_frame WHERE run = %s AND number >= %s ORDER BY number LIMIT %s"
_BODIES = "SELECT id, body FROM forge.run_frame WHERE run = %s AND id = ANY(%s::text[])"
# One statement, because two see two moments: header and frames of a run that somebody leads belong together.
_WHOLE = """
SELECT header, ARRAY(SELECT body FROM forge.run_frame f WHERE f.run = r.number ORDER BY f.number) FROM forge.run r WHERE id = %s
"""
_LINES = """
SELECT id, title, principal, state, model, frames, begun_at, moved_at FROM forge.run
WHERE (%(state)s::text IS NULL OR state = %(state)s) AND (%(principal)s::text IS NULL OR principal = %(principal)s)
AND (%(adrift)s::timestamptz IS NULL
    OR (state = 'running' AND (holder IS NULL OR held_until <= %(adrift)s OR held_until > %(latest)s)))
AND (%(before)s::text IS NULL OR number < (SELECT number FROM forge.run WHERE id = %(before)s))
ORDER BY number DESC LIMIT %(limit)s
"""
_TO_SHORTEN = """
SELECT number FROM forge.run WHERE state IN ('done', 'failed', 'cancelled') AND moved_at < %s
AND NOT EXISTS (SELECT FROM forge.run_cut c WHERE c.number = run.number) ORDER BY number LIMIT %s
"""
_CUT = """
UPDATE forge.run_frame f SET body = short.body FROM unnest(%s::bigint[], %s::text[]) AS short (number, body)
WHERE f.run = %s AND f.number = short.number
"""
_TOTAL = """
SELECT count(*), coalesce(sum(tokens_in), 0)::bigint, coalesce(sum(tokens_out), 0)::bigint, coalesce(sum(cost_micros), 0)::bigint,
    count(*) FILTER (WHERE unpriced)
FROM forge.run WHERE (%(principal)s::text IS NULL OR principal = %(principal)s)
AND (%(since)s::timestamptz IS NULL OR begun_at >= %(since)s)
"""
# The runs first, or all frames are gone through where the planner knows little of them.
_EARLIER = """
SELECT body FROM forge.run_frame WHERE run = ANY(ARRAY(
    SELECT number FROM forge.run WHERE moved_at >= %(since)s AND begun_at < %(since)s
    AND (%(principal)s::text IS NULL OR principal = %(principal)s)
)) AND strpos(body, %(asked)s) > 0
"""


class PostgresRuns:
    """Runs shared by processes on any number of machines."""

    def __init__(self, tables: Tables, quotas: Quotas | None = None) -> None:
        self._tables, self._quotas = tables, quotas

    async def begin(self, header: Header, hold: Hold) -> Run:
        """Put a run on record."""
        new, at = new_header(header), aware(header.begun_at)
        whose = (storable(new.principal), storable(new.model))
        row = (new.id, header_text(new), title(new), *whose, at, at, sound(hold).by, hold.until)

        whose_quota, uses = whose[0], []
        if self._quotas is not None:
            uses = [(self._quotas.started, 1), (self._quotas.ran, bytes_of([header_text(new)]))]

        async def work(ask: Ask) -> Run:
            if uses:
                await ask(holding(self._tables, whose_quota))
            await ask((HOLD_THE_END, ()))
            if await ask((_BEGIN, row)):
                for bound, amount in uses:
                    await ask(charging(bound, whose_quota, amount, at))
                await ask(appending(entries.begun(new)))
                await ask(self._telling(new.id))
                return begun(new)
            there = await _run(ask, new.id)
            if there.header != new:
                raise RunExists(new.id)
            return there

        return await explained(lambda: self._tables.decide(work), self._tables, uses, whose_quota, at)

    async def append(self, before: Run, frames: Sequence[Frame], hold: Hold | None) -> Run:
        """Add the frames after those of `before`."""
        whose, at = storable(before.header.principal), frames[-1].at if frames else before.moved_at
        uses = [(self._quotas.ran, bytes_of([frame_text(frame) for frame in frames]))] if self._quotas else []

        async def work(ask: Ask) -> Run:
            if uses:
                await ask(holding(self._tables, whose))
            if entries.may_end(frames):
                await ask((HOLD_THE_END, ()))
            number, _, count, by, until = await _head(ask, before.id, _HOLD_ROW)
            ids = [frame.id for frame in frames]
            if frames and repeated(frames, dict(await ask((_BODIES, (number, ids))))):
                return await _run(ask, before.id)
            require_next(before, count, hold, by, until)
            moved, kept = after(before, frames)
            for bound, amount in uses:
                await ask(charging(bound, whose, amount, at, refuse=is_bounded(moved, kept)))
            if moved.over and not before.over:
                await ask(appending(entries.ended(moved)))
            bodies = [frame_text(frame) for frame in kept]
            await ask((_ADD, (number, [frame.number for frame in kept], ids, bodies)))
            spent = moved.spent
            took = (spent.tokens_in, spent.tokens_out, spent.cost_micros, spent.unpriced)
            await ask((_MOVE, (moved.state, moved.count, moved.moved_at, *took, number)))
            if hold is not None:
                await ask((_HOLD, (hold.by, hold.until, number)))
            await ask(self._telling(before.id))
            return moved

        return await explained(lambda: self._tables.decide(work), self._tables, uses, whose, at)

    async def claim(self, run: str, hold: Hold) -> Run | None:
        """Hold the run and return it; None if somebody else holds it then."""

        async def work(ask: Ask) -> Run | None:
            number, _, _, by, until = await _head(ask, run, _HOLD_ROW)
            if not free_for(sound(hold), by, until):
                return None
            await ask((_HOLD, (hold.by, hold.until, number)))
            return await _run(ask, run)

        return await self._tables.decide(work)

    async def release(self, run: str, by: str) -> None:
        """Hold it no longer, if `by` does."""
        await self._tables.write((_RELEASE, (storable(run), storable(by))))

    async def run(self, run: str) -> Run:
        """Return the run as it stands."""
        return await _run(self._ask, run)

    async def frames(self, run: str, *, start: int = 0, limit: int | None = None) -> Sequence[Frame]:
        """Return its frames from that number on."""
        number, *_ = await _head(self._ask, run, _HEAD)
        return [frame_of(body) for (body,) in await self._ask((_FRAMES, (number, start, limit)))]

    async def runs(
        self,
        *,
        state: State | None = None,
        principal: str | None = None,
        adrift_at: datetime | None = None,
        limit: int = 20,
        before: str | None = None,
    ) -> Sequence[RunLine]:
        """Return runs, those that were put on record last first, from the one after `before`."""
        told = {name: text and storable(text) for name, text in (("principal", principal), ("before", before))}
        latest = adrift_at and latest_end(adrift_at, LONGEST_HOLD_S)
        asked = {**told, "state": state, "adrift": adrift_at and aware(adrift_at), "latest": latest, "limit": limit}
        return [RunLine(*row) for row in await self._ask((_LINES, asked))]

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of runs that are over, each in a transaction of its own."""
        due: Any = await self._ask((_TO_SHORTEN, (aware(moved_before), limit)))
        freed = 0
        for (number,) in due:
            freed += await self._tables.decide(partial(_shorten, number, moved_before))
        return Shortened(len(due), freed)

    async def total(self, *, principal: str | None = None, since: datetime | None = None) -> Total:
        """Return what these runs took together."""
        asked = {"principal": principal and storable(principal), "since": since and aware(since)}
        begun_since = Total(*(await self._ask((_TOTAL, asked)))[0])
        if since is None:
            return begun_since
        bodies = await self._ask((_EARLIER, {**asked, "asked": ASKED}))
        return with_earlier(begun_since, (body for (body,) in bodies), since)

    async def _ask(self, part: Part) -> list[tuple[Any, ...]]:
        return await self._tables.read(*part)

    def _telling(self, run: str) -> Part:
        return publishing("run", [run], self._tables.schema)


async def _shorten(number: int, at: datetime, ask: Ask) -> int:
    ((header,),) = await ask(("SELECT header FROM forge.run WHERE number = %s FOR UPDATE", (number,)))
    short_header = shorter(header)
    await ask(("UPDATE forge.run SET header = %s WHERE number = %s", (short_header, number)))
    rows: Any = await ask(("SELECT number, body FROM forge.run_frame WHERE run = %s", (number,)))
    cut = [(place, short, len(body) - len(short)) for place, body in rows if (short := shorter(body)) != body]
    await ask((_CUT, ([place for place, _, _ in cut], [short for _, short, _ in cut], number)))
    await ask(("INSERT INTO forge.run_cut VALUES (%s, %s) ON CONFLICT (number) DO NOTHING", (number, at)))
    return len(header) - len(short_header) + sum(freed for _, _, freed in cut)


async def _head(ask: Ask, run: str, statement: str) -> tuple[int, str, int, str | None, datetime | None]:
    rows = await ask((statement, (asked_id(run),)))
    if not rows:
        raise NoSuchRun(run)
    number, header, count, by, until = rows[0]
    return number, header, count, by, until


async def _run(ask: Ask, run: str) -> Run:
    rows = await ask((_WHOLE, (asked_id(run),)))
    if not rows:
        raise NoSuchRun(run)
    header, bodies = rows[0]
    return fold(header_of(header), map(frame_of, bodies))
