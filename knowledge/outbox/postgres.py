"""An outbox in the schema of a PostgreSQL database, shared by processes on any number of machines.

Whoever holds more than one thing takes the end of the chain first, then the outbox entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from knowledge.errors import UnknownOutboxEntry
from knowledge.history.audit.postgres_chain import HOLD_THE_END, appending
from knowledge.history.timestamps import aware
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
from knowledge.state.postgres.tables import Ask, Part, Tables

# Columns by name: a program that was overtaken reads on in tables that may have more of them.
_ERRAND = """
SELECT id, principal, tool, target, digest, begun_at, proposal, arguments_hash, marks, fate, result, ended_at
FROM forge.errand
"""
# Of two that begin the same at once the second sees what the first has begun. Something else may, seldom, have the same lock:
# that costs a moment.
_HOLD = "SELECT pg_advisory_xact_lock(hashtext(%s), hashtext(%s))"
_OF_PROPOSAL = f"{_ERRAND} WHERE proposal = %s AND proposal <> '' AND fate <> 'failed' ORDER BY number DESC LIMIT 1"
_SAME_ACT = f"""
{_ERRAND} WHERE digest = %s AND principal = %s AND tool = %s
AND (fate IN ('begun', 'unsure') OR (fate = 'done' AND begun_at >= %s AND %s = '')) ORDER BY number DESC LIMIT 1
"""
_PUT = """
INSERT INTO forge.errand (id, principal, tool, target, digest, begun_at, proposal, arguments_hash, marks, fate)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, 'begun') ON CONFLICT (id) DO NOTHING RETURNING 1
"""
_FIND = f"{_ERRAND} WHERE id = %s"
_HOLD_ENTRY = f"{_FIND} FOR UPDATE"
_FIND_OF = f"{_ERRAND} WHERE proposal = %s AND proposal <> '' ORDER BY number DESC LIMIT 1"
_MARKED = f"{_ERRAND} WHERE strpos(marks, %s) > 0 ORDER BY number DESC"
_OPEN = f"{_ERRAND} WHERE fate IN ('begun', 'unsure') ORDER BY number DESC LIMIT %s"
_MARK = "UPDATE forge.errand SET marks = %s WHERE id = %s"
_END = "UPDATE forge.errand SET fate = %s, ended_at = %s, result = %s WHERE id = %s"
_FORGET = """
DELETE FROM forge.errand WHERE number IN
(SELECT number FROM forge.errand WHERE ended_at < %s ORDER BY ended_at, number LIMIT %s) RETURNING 1
"""
_MENTION = """
INSERT INTO forge.mention AS known (path, origin_key, origin, title, url, mentioned_at)
SELECT * FROM unnest(%s::text[], %s::bytea[], %s::text[], %s::text[], %s::text[], %s::timestamptz[])
ON CONFLICT (path, origin_key) DO UPDATE SET title = excluded.title, url = excluded.url, mentioned_at = excluded.mentioned_at
WHERE known.mentioned_at <= excluded.mentioned_at
"""
_CUT_PAGES = """
DELETE FROM forge.mention AS m USING (
    SELECT path, origin_key, row_number() OVER (PARTITION BY path ORDER BY mentioned_at DESC, origin) AS place
    FROM forge.mention WHERE path = ANY(%s::text[])
) AS old WHERE m.path = old.path AND m.origin_key = old.origin_key AND old.place > %s
"""
_COUNT = "SELECT count(*) FROM forge.mention"
_CUT = """
DELETE FROM forge.mention AS m USING (
    SELECT path, origin_key FROM forge.mention ORDER BY mentioned_at DESC, path, origin OFFSET %s
) AS old WHERE m.path = old.path AND m.origin_key = old.origin_key
"""
_MENTIONS = """
SELECT path, origin, title, url, mentioned_at FROM forge.mention WHERE path = %s ORDER BY mentioned_at DESC, origin LIMIT %s
"""


class PostgresOutbox:
    """Outbox entries and mentions, shared by processes on any number of machines."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def begin(self, outbox_entry: OutboxEntry, *, within: timedelta) -> OutboxEntry:
        """Record that `outbox_entry` is about to be done and return it, or return the one that is the same."""
        e = fresh(outbox_entry)
        row = (e.id, e.principal, e.tool, e.target, e.digest, e.begun_at, e.proposal, e.arguments_hash)
        same = (e.digest, e.principal, e.tool, e.begun_at - within, e.proposal)

        async def work(ask: Ask) -> OutboxEntry:
            if e.proposal:  # whoever holds both locks takes them in this order
                await ask(self._alone(f"proposal {e.proposal}"))
            await ask(self._alone(f"errand {e.digest}"))
            found = await ask((_OF_PROPOSAL, (e.proposal,))) or await ask((_SAME_ACT, same))
            if found:
                return outbox_entry_of(found[0])
            if not await ask((_PUT, (*row, marks_text(e.marks)))):
                raise ValueError(f"there is an outbox entry {e.id} already")
            return e

        return await self._tables.decide(work)

    async def mark(self, entry_id: str, marks: Mapping[str, str]) -> None:
        """Add what it can be looked up by."""
        told = kept_marks(marks)

        async def work(ask: Ask) -> None:
            known = await _known(ask, entry_id)
            await ask((_MARK, (marks_text({**known.marks, **told}), entry_id)))

        await self._tables.decide(work)

    async def end(self, entry_id: str, fate: Fate, *, at: datetime, result: str | None = None) -> OutboxEntry:
        """Record what became of it, with a record in the audit chain, and return it."""

        async def work(ask: Ask) -> OutboxEntry:
            await ask((HOLD_THE_END, ()))
            known = await _known(ask, entry_id)
            after = ended(known, fate, at, result)
            if after is None:
                return known
            await ask((_END, (after.fate, at, after.result, entry_id)))
            await ask(appending(entries.ended(after)))
            return after

        return await self._tables.decide(work)

    async def outbox_entry(self, entry_id: str) -> OutboxEntry | None:
        """Return it, or None."""
        return next(map(outbox_entry_of, await self._tables.read(_FIND, (entry_id,))), None)

    async def outbox_entry_of(self, proposal: str) -> OutboxEntry | None:
        """Return the newest outbox entry that carries out that proposal, or None."""
        return next(map(outbox_entry_of, await self._tables.read(_FIND_OF, (proposal,))), None)

    async def marked(self, name: str) -> OutboxEntry | None:
        """Return the newest outbox entry that has a mark of that name, or None."""
        found = map(outbox_entry_of, await self._tables.read(_MARKED, (mark_text(name),)))
        return next((one for one in found if name in one.marks), None)

    async def open(self, *, limit: int = 100) -> Sequence[OutboxEntry]:
        """Return those begun or unsure, newest first."""
        return [outbox_entry_of(row) for row in await self._tables.read(_OPEN, (limit,))]

    async def forget(self, *, ended_before: datetime, limit: int = 1000) -> int:
        """Drop outbox entries that ended before then, the oldest first, and return how many."""
        return len(await self._tables.write((_FORGET, (aware(ended_before), limit))))

    async def mention(self, mentions: Sequence[Mention]) -> None:
        """Remember what names which page; of the same page and origin the newest counts."""
        told = newest(mentions)
        if not told:
            return
        columns = (
            [m.path for m in told],
            [hashlib.sha256(m.origin.encode()).digest() for m in told],
            *([getattr(m, name) for m in told] for name in ("origin", "title", "url", "at")),
        )
        paths = list(dict.fromkeys(m.path for m in told))
        cut = (_CUT_PAGES, (paths, MENTIONS_OF_A_PAGE))
        await self._tables.write(self._alone("mentions"), (_MENTION, columns), cut, light=True)
        if (await self._tables.read(_COUNT))[0][0] > MENTIONS_IN_ALL:
            await self._tables.write(self._alone("mentions"), (_CUT, (MENTIONS_IN_ALL,)), light=True)

    def _alone(self, what: str) -> Part:
        return _HOLD, (self._tables.schema, what)

    async def mentions(self, path: str, *, limit: int = 20) -> Sequence[Mention]:
        """Return what names the page, newest first."""
        return [Mention(*row) for row in await self._tables.read(_MENTIONS, (path, limit))]


async def _known(ask: Ask, entry_id: str) -> OutboxEntry:
    rows = await ask((_HOLD_ENTRY, (entry_id,)))
    if not rows:
        raise UnknownOutboxEntry(entry_id)
    return outbox_entry_of(rows[0])
