"""Runs in the state database.

Lock order in PostgreSQL, the same for all transactions, so that no two wait for each other: the quota, the end of the audit
chain, the run, the counter of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from agents.loop.errors import NoSuchRun, RunExists
from agents.loop.record import audit_entries as entries
from agents.loop.record.frames import Frame, Header, frame_of, frame_text, header_of, header_text
from agents.loop.record.run import Run, State, begun, fold
from agents.loop.store.ports import LONGEST_HOLD_S, Hold, RunLine, Total
from agents.loop.store.rules import (
    USAGE_KEY,
    all_recorded,
    checked_hold,
    checked_id,
    is_free_for,
    may_be_refused,
    new_header,
    require_next,
    title_of,
    with_earlier,
    with_frames,
)
from knowledge.history.acts import storable
from knowledge.history.audit.chain_end import HOLD_THE_END, appending
from knowledge.history.timestamps import aware, moment, moment_if_any
from knowledge.leases import latest_end
from knowledge.state.change_events import PUBLISH
from knowledge.state.quota.bounds import Quotas, bytes_of
from knowledge.state.quota.usage import charge, hold_quotas
from knowledge.state.retention.cuts import Shortened, after_retention
from knowledge.state.tables import NO_LIMIT, ManyRows, Row, SqlPair, StateTables, StateTransaction

_HEAD = "SELECT number, frames, holder, held_until FROM forge.run WHERE id = %s"
_HOLD_ROW = f"{_HEAD} FOR UPDATE"
_BEGIN = """
INSERT INTO forge.run (id, header, title, principal, model, state, frames, begun_at, moved_at, tokens_in, tokens_out, cost_micros,
    unpriced, holder, held_until)
VALUES (%s, %s, %s, %s, %s, 'running', 0, %s, %s, 0, 0, 0, false, %s, %s) ON CONFLICT (id) DO NOTHING RETURNING 1
"""
_ADD = SqlPair(
    "INSERT INTO run_frame (run, number, id, body) VALUES (?, ?, ?, ?)",
    """
INSERT INTO forge.run_frame (run, number, id, body)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[])
""",
)
_MOVE = """
UPDATE forge.run SET state = %s, frames = %s, moved_at = %s, tokens_in = %s, tokens_out = %s, cost_micros = %s, unpriced = %s
WHERE number = %s
"""
_HOLD = "UPDATE forge.run SET holder = %s, held_until = %s WHERE number = %s"
_RELEASE = "UPDATE forge.run SET holder = NULL, held_until = NULL WHERE id = %s AND holder = %s"
_FRAMES = "SELECT body FROM forge.run_frame WHERE run = %s AND number >= %s ORDER BY number LIMIT %s"
_BODIES = "SELECT id, body FROM forge.run_frame WHERE run = %s AND id = ANY(%s::text[])"
# The header, then the frames. In one statement, because two may see two moments, and another process may be leading the run.
_WHOLE = SqlPair(
    """
SELECT body FROM (
    SELECT -1 AS number, header AS body FROM run WHERE id = :run
    UNION ALL SELECT f.number, f.body FROM run r JOIN run_frame f ON f.run = r.number WHERE r.id = :run
) ORDER BY number
""",
    # In PostgreSQL this takes a quarter less time than the union.
    """
SELECT unnest(ARRAY[header] || ARRAY(SELECT body FROM forge.run_frame f WHERE f.run = r.number ORDER BY f.number))
FROM forge.run r WHERE id = %(run)s
""",
)
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
AND NOT EXISTS (SELECT 1 FROM forge.run_cut c WHERE c.number = run.number) ORDER BY number LIMIT %s
"""
_SHORTEN = SqlPair(
    "UPDATE run_frame SET body = ? WHERE run = ? AND number = ?",
    """
UPDATE forge.run_frame f SET body = short.body
FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS short (body, run, number)
WHERE f.run = short.run AND f.number = short.number
""",
)
_TOTAL = """
SELECT count(*), coalesce(sum(tokens_in), 0)::bigint, coalesce(sum(tokens_out), 0)::bigint, coalesce(sum(cost_micros), 0)::bigint,
    count(*) FILTER (WHERE unpriced)
FROM forge.run WHERE (%(principal)s::text IS NULL OR principal = %(principal)s)
"""
# A run that began since then also moved since then, so SQLite can use the index on `moved_at`.
_TOTAL_SINCE = f"{_TOTAL} AND moved_at >= %(since)s AND begun_at >= %(since)s"
_EARLIER = SqlPair(
    """
SELECT body FROM run JOIN run_frame ON run_frame.run = run.number
WHERE moved_us >= :since AND begun_us < :since AND (:principal IS NULL OR principal = :principal) AND instr(body, :asked)
""",
    # The runs first: with few statistics the planner would go through all frames.
    """
SELECT body FROM forge.run_frame WHERE run = ANY(ARRAY(
    SELECT number FROM forge.run WHERE moved_at >= %(since)s AND begun_at < %(since)s
    AND (%(principal)s::text IS NULL OR principal = %(principal)s)
)) AND strpos(body, %(asked)s) > 0
""",
)


class SqlRuns:
    """Runs, shared by all processes that use the state database."""

    def __init__(self, tables: StateTables, quotas: Quotas | None = None) -> None:
        self._tables, self._quotas = tables, quotas

    async def begin(self, header: Header, hold: Hold) -> Run:
        """Put a run on record, or return the one that is there."""
        new, at = new_header(header), aware(header.begun_at)
        text, principal = header_text(new), storable(new.principal)
        row = (new.id, text, title_of(new), principal, storable(new.model), at, at, checked_hold(hold).by, hold.until)

        async def work(t: StateTransaction) -> Run:
            if self._quotas is not None:
                await hold_quotas(t, principal)
            await t.execute(HOLD_THE_END)
            if not await t.execute(_BEGIN, row):
                there = await _run(t, new.id)
                # The same header is a start whose reply was lost.
                if there.header != new:
                    raise RunExists(new.id)
                return there
            if self._quotas is not None:
                await charge(t, self._quotas.started, principal, 1, at)
                await charge(t, self._quotas.ran, principal, bytes_of([text]), at)
            await t.execute(*appending(entries.begun(new)))
            await t.execute(PUBLISH, ("run", [new.id]))
            return begun(new)

        return await self._tables.transact(work)

    async def append(self, before: Run, frames: Sequence[Frame], hold: Hold | None) -> Run:
        """Add the frames after those of `before`."""
        principal, ids = storable(before.header.principal), [frame.id for frame in frames]

        async def work(t: StateTransaction) -> Run:
            if self._quotas is not None:
                await hold_quotas(t, principal)
            # Others that append to the audit chain wait for this lock, so a step that cannot need it does not take it.
            if entries.may_end(frames):
                await t.execute(HOLD_THE_END)
            number, count, by, until = await _head(t, before.id, _HOLD_ROW)
            # Before any check: the caller may repeat an append whose reply was lost.
            if frames and all_recorded(frames, dict(await t.execute(_BODIES, (number, ids)))):
                return await _run(t, before.id)
            require_next(before, count, hold, by, until)
            moved, kept = with_frames(before, frames)
            bodies = [frame_text(frame) for frame in kept]
            if self._quotas is not None:
                refuse = may_be_refused(moved, kept)
                await charge(t, self._quotas.ran, principal, bytes_of(bodies), moved.moved_at, refuse=refuse)
            if moved.over and not before.over:
                await t.execute(*appending(entries.ended(moved)))
            added = [(number, frame.number, frame.id, body) for frame, body in zip(kept, bodies, strict=True)]
            await t.execute(_ADD, ManyRows(added))
            spent = moved.spent
            took = (spent.tokens_in, spent.tokens_out, spent.cost_micros, bool(spent.unpriced))
            await t.execute(_MOVE, (moved.state, moved.count, moved.moved_at, *took, number))
            if hold is not None:
                await t.execute(_HOLD, (hold.by, hold.until, number))
            await t.execute(PUBLISH, ("run", [before.id]))
            return moved

        return await self._tables.transact(work)

    async def claim(self, run: str, hold: Hold) -> Run | None:
        """Hold the run and return it; None if another process holds it."""

        async def work(t: StateTransaction) -> Run | None:
            number, _, by, until = await _head(t, run, _HOLD_ROW)
            if not is_free_for(checked_hold(hold), by, until):
                return None
            await t.execute(_HOLD, (hold.by, hold.until, number))
            return await _run(t, run)

        return await self._tables.transact(work)

    async def release(self, run: str, by: str) -> None:
        """End the hold of `by`, if it has one."""
        await self._tables.write((_RELEASE, (storable(run), storable(by))))

    async def run(self, run: str) -> Run:
        """Return the run as it is now."""
        return await self._tables.inspect(lambda t: _run(t, run), long=True)

    async def frames(self, run: str, *, start: int = 0, limit: int | None = None) -> Sequence[Frame]:
        """Return its frames from that number on."""

        async def work(t: StateTransaction) -> list[Row]:
            number, *_ = await _head(t, run, _HEAD)
            return await t.execute(_FRAMES, (number, start, NO_LIMIT if limit is None else limit))

        return [frame_of(body) for (body,) in await self._tables.inspect(work, long=True)]

    async def runs(
        self,
        *,
        state: State | None = None,
        principal: str | None = None,
        adrift_at: datetime | None = None,
        limit: int = 20,
        before: str | None = None,
    ) -> Sequence[RunLine]:
        """Return runs, the newest first, from the one after `before`."""
        wanted = {
            "state": state,
            "principal": principal and storable(principal),
            "adrift": adrift_at and aware(adrift_at),
            "latest": adrift_at and latest_end(adrift_at, LONGEST_HOLD_S),
            "limit": limit,
            "before": before and storable(before),
        }
        rows = await self._tables.read(_LINES, wanted)
        return [
            RunLine(id_, title, whose, found, model, count, moment(begun_at), moment(moved_at))
            for id_, title, whose, found, model, count, begun_at, moved_at in rows
        ]

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of runs that are over, each in a transaction of its own."""
        due = await self._tables.read(_TO_SHORTEN, (aware(moved_before), limit), long=True)
        freed = 0
        for (number,) in due:
            freed += await self._tables.transact(partial(_shorten, number, moved_before))
        return Shortened(len(due), freed)

    async def total(self, *, principal: str | None = None, since: datetime | None = None) -> Total:
        """Return the total usage of these runs."""
        wanted = {"principal": principal and storable(principal), "since": since and aware(since)}
        if since is None:
            return Total(*(await self._tables.read(_TOTAL, wanted))[0])
        begun_since = Total(*(await self._tables.read(_TOTAL_SINCE, wanted))[0])
        bodies = await self._tables.read(_EARLIER, {**wanted, "asked": USAGE_KEY})
        return with_earlier(begun_since, (body for (body,) in bodies), since)


async def _shorten(number: int, at: datetime, t: StateTransaction) -> int:
    ((header,),) = await t.execute("SELECT header FROM forge.run WHERE number = %s FOR UPDATE", (number,))
    short_header = after_retention(header)
    await t.execute("UPDATE forge.run SET header = %s WHERE number = %s", (short_header, number))
    rows = await t.execute("SELECT number, body FROM forge.run_frame WHERE run = %s", (number,))
    cut = [(place, short, len(body) - len(short)) for place, body in rows if (short := after_retention(body)) != body]
    if cut:
        await t.execute(_SHORTEN, ManyRows([(short, number, place) for place, short, _ in cut]))
    # Another process may have shortened it while this one waited for the row.
    await t.execute("INSERT INTO forge.run_cut VALUES (%s, %s) ON CONFLICT (number) DO NOTHING", (number, at))
    return len(header) - len(short_header) + sum(freed for _, _, freed in cut)


async def _head(t: StateTransaction, run: str, statement: str) -> tuple[int, int, str | None, datetime | None]:
    """Return the run's number, how many frames it has, and who holds it until when."""
    rows = await t.execute(statement, (checked_id(run),))
    if not rows:
        raise NoSuchRun(run)
    number, count, by, until = rows[0]
    return number, count, by, moment_if_any(until)


async def _run(t: StateTransaction, run: str) -> Run:
    rows = await t.execute(_WHOLE, {"run": checked_id(run)})
    if not rows:
        raise NoSuchRun(run)
    (header,), *frames = rows
    return fold(header_of(header), (frame_of(body) for (body,) in frames))
