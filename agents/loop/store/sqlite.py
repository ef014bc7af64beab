"""Runs in the file of the state database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import apsw

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
from knowledge.history.audit.sqlite_chain import append as record
from knowledge.history.timestamps import micros, moment
from knowledge.leases import latest_end
from knowledge.state.quota.bounds import Quotas, bytes_of
from knowledge.state.quota.sqlite import charge
from knowledge.state.retention.cuts import Shortened
from knowledge.state.sqlite.database import Database
from knowledge.state.sqlite.events import publish

EVER = -(2**63)
_HEAD = "SELECT number, header, frames, holder, held_us FROM run WHERE id = ?"
_BEGIN = """
INSERT INTO run (id, header, title, principal, model, state, frames, begun_us, moved_us, tokens_in, tokens_out, cost_micros,
    unpriced, holder, held_us)
VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, 0, 0, 0, 0, ?, ?)
"""
_ADD = "INSERT INTO run_frame (run, number, id, body) VALUES (?, ?, ?, ?)"
_MOVE = """
UPDATE run SET state = ?, frames = ?, moved_us = ?, tokens_in = ?, tokens_out = ?, cost_micros = ?, unpriced = ? WHERE number = ?
"""
_HOLD = "UPDATE run SET holder = ?, held_us = ? WHERE number = ?"
_RELEASE = "UPDATE run SET holder = NULL, held_us = NULL WHERE id = ? AND holder = ?"
_FRAMES = "SELECT body FROM run_frame WHERE run = ? AND number >= ? ORDER BY number LIMIT ?"
_BODY = "SELECT body FROM run_frame WHERE run = ? AND id = ?"
_LINES = """
SELECT id, title, principal, state, model, frames, begun_us, moved_us FROM run
WHERE (:state IS NULL OR state = :state) AND (:principal IS NULL OR principal = :principal)
AND (:adrift IS NULL OR (state = 'running' AND (holder IS NULL OR held_us <= :adrift OR held_us > :latest)))
AND (:before IS NULL OR number < (SELECT number FROM run WHERE id = :before))
ORDER BY number DESC LIMIT :limit
"""
_TO_SHORTEN = """
SELECT number FROM run WHERE state IN ('done', 'failed', 'cancelled') AND moved_us < ?
AND NOT EXISTS (SELECT 1 FROM run_cut c WHERE c.number = run.number) ORDER BY number LIMIT ?
"""
_TOTAL = """
SELECT count(*), ifnull(sum(tokens_in), 0), ifnull(sum(tokens_out), 0), ifnull(sum(cost_micros), 0), ifnull(sum(unpriced), 0)
FROM run WHERE moved_us >= :since AND begun_us >= :since AND (:principal IS NULL OR principal = :principal)
"""
_EARLIER = """
SELECT body FROM run JOIN run_frame ON run_frame.run = run.number
WHERE moved_us >= :since AND begun_us < :since AND (:principal IS NULL OR principal = :principal) AND instr(body, :asked)
"""


class SqliteRuns:
    """Runs in one file that several processes share."""

    def __init__(self, database: Database, quotas: Quotas | None = None) -> None:
        self._database, self._quotas = database, quotas

    async def begin(self, header: Header, hold: Hold) -> Run:
        """Put a run on record."""
        new, at = new_header(header), micros(header.begun_at)
        whose = (storable(new.principal), storable(new.model))
        row = (new.id, header_text(new), title(new), *whose, "running", at, at, sound(hold).by, micros(hold.until))

        def work(c: apsw.Connection) -> Run:
            there: Any = c.execute(_HEAD, (new.id,)).fetchall()
            if not there:
                if self._quotas is not None:
                    charge(c, self._quotas.started, whose[0], 1, new.begun_at)
                    charge(c, self._quotas.ran, whose[0], bytes_of([header_text(new)]), new.begun_at)
                record(c, str(self._database.path), entries.begun(new))
                c.execute(_BEGIN, row)
                publish([("run", new.id)], c)
                return begun(new)
            if there[0][1] != header_text(new):
                raise RunExists(new.id)
            return _run(c, new.id)

        return await self._database.write(work)

    async def append(self, before: Run, frames: Sequence[Frame], hold: Hold | None) -> Run:
        """Add the frames after those of `before`."""

        def work(c: apsw.Connection) -> Run:
            number, _, count, by, held_us = _head(c, before.id)
            if frames and repeated(frames, _bodies(c, number, frames)):
                return _run(c, before.id)
            require_next(before, count, hold, by, _moment(held_us))
            moved, kept = after(before, frames)
            bodies = [frame_text(frame) for frame in kept]
            if self._quotas is not None:
                whose, refuse = storable(moved.header.principal), is_bounded(moved, kept)
                charge(c, self._quotas.ran, whose, bytes_of(bodies), moved.moved_at, refuse=refuse)
            if moved.over and not before.over:
                record(c, str(self._database.path), entries.ended(moved))
            c.executemany(
                _ADD, [(number, frame.number, frame.id, body) for frame, body in zip(kept, bodies, strict=True)]
            )
            spent = moved.spent
            took = (spent.tokens_in, spent.tokens_out, spent.cost_micros, int(spent.unpriced))
            c.execute(_MOVE, (moved.state, moved.count, micros(moved.moved_at), *took, number))
            if hold is not None:
                c.execute(_HOLD, (hold.by, micros(hold.until), number))
            publish([("run", before.id)], c)
            return moved

        return await self._database.write(work)

    async def claim(self, run: str, hold: Hold) -> Run | None:
        """Hold the run and return it; None if somebody else holds it then."""

        def work(c: apsw.Connection) -> Run | None:
            number, _, _, by, held_us = _head(c, run)
            if not free_for(sound(hold), by, _moment(held_us)):
                return None
            c.execute(_HOLD, (hold.by, micros(hold.until), number))
            return _run(c, run)

        return await self._database.write(work)

    async def release(self, run: str, by: str) -> None:
        """Hold it no longer, if `by` does."""
        await self._database.write(lambda c: c.execute(_RELEASE, (run, by)).fetchall())

    async def run(self, run: str) -> Run:
        """Return the run as it stands."""
        return await self._database.bulk(lambda c: _run(c, run))

    async def frames(self, run: str, *, start: int = 0, limit: int | None = None) -> Sequence[Frame]:
        """Return its frames from that number on."""
        return await self._database.bulk(lambda c: _frames(c, _head(c, run)[0], start, limit))

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
        whose, adrift = principal and storable(principal), adrift_at and micros(adrift_at)
        latest = adrift_at and micros(latest_end(adrift_at, LONGEST_HOLD_S))
        asked = {
            "state": state,
            "principal": whose,
            "adrift": adrift,
            "latest": latest,
            "limit": limit,
            "before": before,
        }
        rows: Any = self._database.read(lambda c: c.execute(_LINES, asked).fetchall())
        return [_line(*row) for row in rows]

    async def shorten(self, *, moved_before: datetime, limit: int) -> Shortened:
        """Shorten the texts of runs that are over, each in a transaction of its own."""
        asked = (micros(moved_before), limit)
        due: Any = await self._database.bulk(lambda c: c.execute(_TO_SHORTEN, asked).fetchall())
        freed = 0
        for (number,) in due:
            freed += await self._database.write(partial(_shorten, number, asked[0]))
        return Shortened(len(due), freed)

    async def total(self, *, principal: str | None = None, since: datetime | None = None) -> Total:
        """Return what these runs took together."""
        asked = {"principal": principal and storable(principal), "since": EVER if since is None else micros(since)}
        rows: Any = self._database.read(lambda c: c.execute(_TOTAL, asked).fetchall())
        begun_since = Total(*rows[0])
        if since is None:
            return begun_since
        bodies: Any = self._database.read(lambda c: c.execute(_EARLIER, {**asked, "asked": ASKED}).fetchall())
        return with_earlier(begun_since, (body for (body,) in bodies), since)


def _shorten(number: int, at_us: int, c: apsw.Connection) -> int:
    ((header,),) = c.execute("SELECT header FROM run WHERE number = ?", (number,)).fetchall()
    short = shorter(str(header))
    c.execute("UPDATE run SET header = ? WHERE number = ?", (short, number))
    freed, cut = len(str(header)) - len(short), []
    for place, body in c.execute("SELECT number, body FROM run_frame WHERE run = ?", (number,)):
        if (short := shorter(str(body))) != body:
            freed += len(str(body)) - len(short)
            cut.append((short, number, place))
    c.executemany("UPDATE run_frame SET body = ? WHERE run = ? AND number = ?", cut)
    c.execute("INSERT INTO run_cut VALUES (?, ?) ON CONFLICT (number) DO NOTHING", (number, at_us))
    return freed


def _line(*row: Any) -> RunLine:
    id_, title_, principal, state, model, count, begun_us, moved_us = row
    return RunLine(id_, title_, principal, state, model, count, moment(begun_us), moment(moved_us))


def _head(c: apsw.Connection, run: str) -> tuple[int, str, int, str | None, int | None]:
    rows: Any = c.execute(_HEAD, (asked_id(run),)).fetchall()
    if not rows:
        raise NoSuchRun(run)
    number, header, count, by, held_us = rows[0]
    return number, header, count, by, held_us


def _moment(us: int | None) -> datetime | None:
    return None if us is None else moment(us)


def _run(c: apsw.Connection, run: str) -> Run:
    number, header, *_ = _head(c, run)
    return fold(header_of(header), _frames(c, number))


def _frames(c: apsw.Connection, number: int, start: int = 0, limit: int | None = None) -> list[Frame]:
    rows: Any = c.execute(_FRAMES, (number, start, -1 if limit is None else limit)).fetchall()
    return [frame_of(body) for (body,) in rows]


def _bodies(c: apsw.Connection, number: int, frames: Sequence[Frame]) -> dict[str, str]:
    """Return the texts of those of the frames that are on record, by their ids."""
    found: dict[str, str] = {}
    for frame in frames:
        for (body,) in c.execute(_BODY, (number, frame.id)):
            found[frame.id] = str(body)
    return found
