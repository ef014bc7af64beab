"""An outbox in the state database. An entry that was begun is known after a power cut.

Lock order in PostgreSQL: the end of the audit chain, then the outbox entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from knowledge.errors import UnknownOutboxEntry
from knowledge.history.audit.chain_end import HOLD_THE_END, appending
from knowledge.history.timestamps import aware, moment
from knowledge.outbox import audit_entries as entries
from knowledge.outbox.codec import (
    MENTIONS_IN_ALL,
    MENTIONS_OF_A_PAGE,
    ended_entry,
    mark_text,
    marks_text,
    new_entry,
    newest_mentions,
    outbox_entry_of,
    storable_marks,
)
from knowledge.outbox.ports import Fate, Mention, OutboxEntry
from knowledge.state.tables import LOCK, ManyRows, SqlPair, StateTables, StateTransaction

# Columns by name: a program that was overtaken by a migration still reads tables that may have more of them.
_ENTRY = """
SELECT id, principal, tool, target, digest, begun_at, proposal, arguments_hash, marks, fate, result, ended_at
FROM forge.errand
"""
_OF_PROPOSAL = f"{_ENTRY} WHERE proposal = %s AND proposal != '' AND fate != 'failed' ORDER BY number DESC LIMIT 1"
# An act that may have happened is never repeated without a person. One that is done only catches a retry a moment later.
_SAME_ACT = f"""
{_ENTRY} WHERE digest = %s AND principal = %s AND tool = %s
AND (fate IN ('begun', 'unsure') OR (fate = 'done' AND begun_at >= %s AND %s = '')) ORDER BY number DESC LIMIT 1
"""
_PUT = """
INSERT INTO forge.errand (id, principal, tool, target, digest, begun_at, proposal, arguments_hash, marks, fate)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, 'begun') ON CONFLICT (id) DO NOTHING RETURNING 1
"""
_FIND = f"{_ENTRY} WHERE id = %s"
_HOLD_ENTRY = f"{_FIND} FOR UPDATE"
# By the partial index on proposals, which leaves out the entries without one.
_FIND_OF = f"{_ENTRY} WHERE proposal = %s AND proposal != '' ORDER BY number DESC LIMIT 1"
# The value of another mark may contain the text: the caller checks the marks of each row.
_MARKED = f"{_ENTRY} WHERE strpos(marks, %s) > 0 ORDER BY number DESC"
_OPEN = f"{_ENTRY} WHERE fate IN ('begun', 'unsure') ORDER BY number DESC LIMIT %s"
_MARK = "UPDATE forge.errand SET marks = %s WHERE id = %s"
_END = "UPDATE forge.errand SET fate = %s, ended_at = %s, result = %s WHERE id = %s"
_FORGET = """
DELETE FROM forge.errand WHERE number IN
(SELECT number FROM forge.errand WHERE ended_at < %s ORDER BY ended_at, number LIMIT %s) RETURNING 1
"""
_MENTION = SqlPair(
    """
INSERT INTO mention VALUES (?, ?, ?, ?, ?)
ON CONFLICT (path, origin) DO UPDATE SET title = excluded.title, url = excluded.url, at_us = excluded.at_us
WHERE at_us <= excluded.at_us
""",
    """
INSERT INTO forge.mention AS known (path, origin_key, origin, title, url, mentioned_at)
SELECT path, sha256(convert_to(origin, 'UTF8')), origin, title, url, at
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::timestamptz[]) AS new (path, origin, title, url, at)
ON CONFLICT (path, origin_key) DO UPDATE SET title = excluded.title, url = excluded.url, mentioned_at = excluded.mentioned_at
WHERE known.mentioned_at <= excluded.mentioned_at
""",
)
_CUT_PAGES = """
DELETE FROM forge.mention WHERE (path, origin_key) IN (
    SELECT path, origin_key FROM (
        SELECT path, origin_key, row_number() OVER (PARTITION BY path ORDER BY mentioned_at DESC, origin) AS place
        FROM forge.mention WHERE path = ANY(%s::text[])
    ) AS ranked WHERE place > %s
)
"""
_COUNT = "SELECT count(*) FROM forge.mention"
# SQLite takes an OFFSET only with a LIMIT; far fewer rows than that can be too many.
_CUT = """
DELETE FROM forge.mention WHERE (path, origin_key) IN
(SELECT path, origin_key FROM forge.mention ORDER BY mentioned_at DESC, path, origin LIMIT %s OFFSET %s)
"""
_MENTIONS = """
SELECT path, origin, title, url, mentioned_at FROM forge.mention WHERE path = %s ORDER BY mentioned_at DESC, origin LIMIT %s
"""


class SqlOutbox:
    """Outbox entries and mentions, shared by all processes that use the state database."""

    def __init__(self, tables: StateTables) -> None:
        self._tables = tables

    async def begin(self, outbox_entry: OutboxEntry, *, within: timedelta) -> OutboxEntry:
        """Record that `outbox_entry` is about to be done and return it, or return an equal one."""
        e = new_entry(outbox_entry)
        row = (e.id, e.principal, e.tool, e.target, e.digest, e.begun_at, e.proposal, e.arguments_hash)
        same = (e.digest, e.principal, e.tool, e.begun_at - within, e.proposal)

        async def work(t: StateTransaction) -> OutboxEntry:
            # If two begin the same at once, the second must see the first. Both locks are always taken in this order.
            if e.proposal:
                await t.execute(LOCK, (f"proposal {e.proposal}",))
            await t.execute(LOCK, (f"errand {e.digest}",))
            found = await t.execute(_OF_PROPOSAL, (e.proposal,)) or await t.execute(_SAME_ACT, same)
            if found:
                return outbox_entry_of(found[0])
            if not await t.execute(_PUT, (*row, marks_text(e.marks))):
                raise ValueError(f"outbox entry {e.id} already exists")
            return e

        return await self._tables.transact(work)

    async def mark(self, entry_id: str, marks: Mapping[str, str]) -> None:
        """Add marks, by which the act can be looked up."""
        added = storable_marks(marks)

        async def work(t: StateTransaction) -> None:
            known = await _known(t, entry_id)
            await t.execute(_MARK, (marks_text({**known.marks, **added}), entry_id))

        await self._tables.transact(work)

    async def end(self, entry_id: str, fate: Fate, *, at: datetime, result: str | None = None) -> OutboxEntry:
        """Record how the act ended, with a record in the audit chain, and return the entry."""

        async def work(t: StateTransaction) -> OutboxEntry:
            await t.execute(HOLD_THE_END)
            known = await _known(t, entry_id)
            after = ended_entry(known, fate, at, result)
            if after is None:
                return known
            await t.execute(_END, (after.fate, at, after.result, entry_id))
            await t.execute(*appending(entries.ended(after)))
            return after

        return await self._tables.transact(work)

    async def outbox_entry(self, entry_id: str) -> OutboxEntry | None:
        """Return the entry, or None."""
        return next(map(outbox_entry_of, await self._tables.read(_FIND, (entry_id,))), None)

    async def outbox_entry_of(self, proposal: str) -> OutboxEntry | None:
        """Return the newest outbox entry that carries out that proposal, or None."""
        return next(map(outbox_entry_of, await self._tables.read(_FIND_OF, (proposal,))), None)

    async def marked(self, name: str) -> OutboxEntry | None:
        """Return the newest outbox entry that has a mark of that name, or None."""
        found = map(outbox_entry_of, await self._tables.read(_MARKED, (mark_text(name),)))
        return next((one for one in found if name in one.marks), None)

    async def open(self, *, limit: int = 100) -> Sequence[OutboxEntry]:
        """Return the entries that are begun or unsure, newest first."""
        return [outbox_entry_of(row) for row in await self._tables.read(_OPEN, (limit,))]

    async def forget(self, *, ended_before: datetime, limit: int = 1000) -> int:
        """Delete outbox entries that ended before then, the oldest first, and return how many."""
        return len(await self._tables.write((_FORGET, (aware(ended_before), limit))))

    async def mention(self, mentions: Sequence[Mention]) -> None:
        """Record where pages were mentioned; for the same page and origin, the newest counts."""
        rows = [(m.path, m.origin, m.title, m.url, m.at) for m in newest_mentions(mentions)]
        if not rows:
            return
        paths = list(dict.fromkeys(path for path, *_ in rows))
        lock, cut_pages = (LOCK, ("mentions",)), (_CUT_PAGES, (paths, MENTIONS_OF_A_PAGE))
        await self._tables.write(lock, (_MENTION, ManyRows(rows)), cut_pages, durable=False)
        # Rarely true, so the count is not taken under the lock: a few mentions too many do no harm for a moment.
        if (await self._tables.read(_COUNT))[0][0] > MENTIONS_IN_ALL:
            await self._tables.write(lock, (_CUT, (MENTIONS_IN_ALL, MENTIONS_IN_ALL)), durable=False)

    async def mentions(self, path: str, *, limit: int = 20) -> Sequence[Mention]:
        """Return the places that mention the page, newest first."""
        rows = await self._tables.read(_MENTIONS, (path, limit))
        return [Mention(path, origin, title, url, moment(at)) for path, origin, title, url, at in rows]


async def _known(t: StateTransaction, entry_id: str) -> OutboxEntry:
    rows = await t.execute(_HOLD_ENTRY, (entry_id,))
    if not rows:
        raise UnknownOutboxEntry(entry_id)
    return outbox_entry_of(rows[0])
