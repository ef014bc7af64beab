"""An outbox in the state database's file: what was begun is known after a power cut, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import apsw

from knowledge.errors import UnknownOutboxEntry
from knowledge.history.audit.sqlite_chain import append
from knowledge.history.timestamps import micros, moment
from knowledge.outbox import audit_entries as entries
from knowledge.outbox.forms import (
    MENTIONS_IN_ALL,
    MENTIONS_OF_A_PAGE,
    ended,
    fresh,
    kept_marks,
    mark_text,
    marks_text,
    newest,
    outbox_entry_of,
)
from knowledge.outbox.ports import Fate, Mention, OutboxEntry
from knowledge.state.sqlite.database import Database

_ERRAND = """
SELECT id, principal, tool, target, digest, begun_us, proposal, arguments_hash, marks, fate, result, ended_us FROM errand
"""
_OF_PROPOSAL = f"{_ERRAND} WHERE proposal = ? AND proposal != '' AND fate != 'failed' ORDER BY number DESC LIMIT 1"
_SAME_ACT = f"""
{_ERRAND} WHERE digest = ? AND principal = ? AND tool = ?
AND (fate IN ('begun', 'unsure') OR (fate = 'done' AND begun_us >= ? AND ? = '')) ORDER BY number DESC LIMIT 1
"""
_PUT = """
INSERT INTO errand (id, principal, tool, target, digest, begun_us, proposal, arguments_hash, marks, fate)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'begun') ON CONFLICT (id) DO NOTHING
"""
_FIND = f"{_ERRAND} WHERE id = ?"
# By the index on proposals, which holds nothing of the outbox entries without one.
_FIND_OF = f"{_ERRAND} WHERE proposal = ? AND proposal != '' ORDER BY number DESC LIMIT 1"
_MARKED = f"{_ERRAND} WHERE instr(marks, ?) > 0 ORDER BY number DESC"
_OPEN = f"{_ERRAND} WHERE fate IN ('begun', 'unsure') ORDER BY number DESC LIMIT ?"
_MARK = "UPDATE errand SET marks = ? WHERE id = ?"
_END = "UPDATE errand SET fate = ?, ended_us = ?, result = ? WHERE id = ?"
_FORGET = """
DELETE FROM errand WHERE number IN (SELECT number FROM errand WHERE ended_us < ? ORDER BY ended_us, number LIMIT ?)
"""
_MENTION = """
INSERT INTO mention VALUES (?, ?, ?, ?, ?)
ON CONFLICT (path, origin) DO UPDATE SET title = excluded.title, url = excluded.url, at_us = excluded.at_us
WHERE at_us <= excluded.at_us
"""
_CUT_PAGE = """
DELETE FROM mention WHERE path = ?1 AND origin IN
(SELECT origin FROM mention WHERE path = ?1 ORDER BY at_us DESC, origin LIMIT -1 OFFSET ?2)
"""
_CUT = """
DELETE FROM mention WHERE (path, origin) IN
(SELECT path, origin FROM mention ORDER BY at_us DESC, path, origin LIMIT -1 OFFSET ?)
"""
_MENTIONS = "SELECT path, origin, title, url, at_us FROM mention WHERE path = ? ORDER BY at_us DESC, origin LIMIT ?"


class SqliteOutbox:
    """Outbox entries and mentions in a file that several processes share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, outbox_entry: OutboxEntry, *, within: timedelta) -> OutboxEntry:
        """Record that `outbox_entry` is about to be done and return it, or return the one that is the same."""
        e = fresh(outbox_entry)
        begun = micros(e.begun_at)
        row = (e.id, e.principal, e.tool, e.target, e.digest, begun, e.proposal, e.arguments_hash, marks_text(e.marks))
        same = (e.digest, e.principal, e.tool, micros(e.begun_at - within), e.proposal)

        def work(c: apsw.Connection) -> OutboxEntry:
            for known in (c.execute(_OF_PROPOSAL, (e.proposal,)), c.execute(_SAME_ACT, same)):
                if found := _outbox_entries(known.fetchall()):
                    return found[0]
            c.execute(_PUT, row)
            if not c.changes():
                raise ValueError(f"there is an outbox entry {e.id} already")
            return e

        return await self._database.write(work)

    async def mark(self, entry_id: str, marks: Mapping[str, str]) -> None:
        """Add what it can be looked up by."""
        told = kept_marks(marks)

        def work(c: apsw.Connection) -> None:
            known = _known(c, entry_id)
            c.execute(_MARK, (marks_text({**known.marks, **told}), entry_id))

        await self._database.write(work)

    async def end(self, entry_id: str, fate: Fate, *, at: datetime, result: str | None = None) -> OutboxEntry:
        """Record what became of it, with a record in the audit chain, and return it."""

        def work(c: apsw.Connection) -> OutboxEntry:
            known = _known(c, entry_id)
            after = ended(known, fate, at, result)
            if after is None:
                return known
            append(c, str(self._database.path), entries.ended(after))
            c.execute(_END, (after.fate, micros(at), after.result, entry_id))
            return after

        return await self._database.write(work)

    async def outbox_entry(self, entry_id: str) -> OutboxEntry | None:
        """Return it, or None."""
        return next(iter(_outbox_entries(self._database.query(_FIND, (entry_id,)))), None)

    async def outbox_entry_of(self, proposal: str) -> OutboxEntry | None:
        """Return the newest outbox entry that carries out that proposal, or None."""
        return next(iter(_outbox_entries(self._database.query(_FIND_OF, (proposal,)))), None)

    async def marked(self, name: str) -> OutboxEntry | None:
        """Return the newest outbox entry that has a mark of that name, or None."""
        found = _outbox_entries(self._database.query(_MARKED, (mark_text(name),)))
        return next((one for one in found if name in one.marks), None)

    async def open(self, *, limit: int = 100) -> Sequence[OutboxEntry]:
        """Return those begun or unsure, newest first."""
        return _outbox_entries(self._database.query(_OPEN, (limit,)))

    async def forget(self, *, ended_before: datetime, limit: int = 1000) -> int:
        """Drop outbox entries that ended before then, the oldest first, and return how many."""
        before = micros(ended_before)

        def work(c: apsw.Connection) -> int:
            c.execute(_FORGET, (before, limit))
            return c.changes()

        return await self._database.write(work)

    async def mention(self, mentions: Sequence[Mention]) -> None:
        """Remember what names which page; of the same page and origin the newest counts."""
        rows = [(m.path, m.origin, m.title, m.url, micros(m.at)) for m in newest(mentions)]
        if rows:
            await self._database.write(partial(_mention, rows), durable=False)

    async def mentions(self, path: str, *, limit: int = 20) -> Sequence[Mention]:
        """Return what names the page, newest first."""
        rows: Any = self._database.query(_MENTIONS, (path, limit))
        return [Mention(path, origin, title, url, moment(at_us)) for path, origin, title, url, at_us in rows]


def _mention(rows: Sequence[tuple[str, str, str, str, int]], c: apsw.Connection) -> None:
    c.executemany(_MENTION, rows)
    c.executemany(_CUT_PAGE, [(path, MENTIONS_OF_A_PAGE) for path in dict.fromkeys(row[0] for row in rows)])
    ((kept,),) = c.execute("SELECT count(*) FROM mention").fetchall()
    if int(str(kept)) > MENTIONS_IN_ALL:
        c.execute(_CUT, (MENTIONS_IN_ALL,))


def _outbox_entries(rows: Sequence[Any]) -> list[OutboxEntry]:
    return [
        outbox_entry_of((*row[:5], moment(row[5]), *row[6:-1], None if row[-1] is None else moment(row[-1])))
        for row in rows
    ]


def _known(c: apsw.Connection, entry_id: str) -> OutboxEntry:
    rows: Any = c.execute(_FIND, (entry_id,)).fetchall()
    if not rows:
        raise UnknownOutboxEntry(entry_id)
    return _outbox_entries(rows)[0]
