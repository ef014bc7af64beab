"""The ledger in the schema of a PostgreSQL database. Each method is one transaction, sent in one go."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import anyio.to_thread

from knowledge.errors import CorruptDatabase
from knowledge.history.acts import (
    carries_out,
    history_line,
    moves,
    origins_at,
    outside_line,
    pages_changed,
    paths_to_tell,
    require_sound,
    states_given,
    storable,
)
from knowledge.history.audit.postgres_chain import HOLD_THE_END, appending
from knowledge.history.forms import (
    content_digest,
    contradiction,
    contradiction_key,
    contradiction_text,
    digests_between,
    pack,
    packed_intent,
    packed_origins,
    revision_of,
    unpacked_content,
    unpacked_intent,
    unpacked_origins,
)
from knowledge.history.ports import AuditRecord, Flag, Found, HistoryEntry, Intent, KeptState, Revision, Tracked
from knowledge.history.timestamps import aware
from knowledge.state.postgres.events import publishing
from knowledge.state.postgres.tables import Part, Tables

FOR_EVER = 2**62

_CONTENT = "INSERT INTO forge.content VALUES (%s, %s, %s) ON CONFLICT (digest) DO NOTHING"
_STATE = """
INSERT INTO forge.page_state AS known VALUES (%(key)s, %(digest)s, %(path)s, %(at)s, %(at)s, %(in_history)s)
ON CONFLICT (path_key, digest) DO UPDATE SET seen_at = greatest(known.seen_at, excluded.seen_at),
    in_history = known.in_history OR excluded.in_history
"""
_APPENDED = "SELECT seq, body, digest FROM forge.audit WHERE seq = (SELECT seq FROM forge.chain_end)"
# After all else but the events: whoever changes a proposal holds the end of the chain (if at all) before the proposal, and
# the proposal before the counter of events.
_CARRY_OUT = "SELECT forge.carry_out(%s, %s, %s)"
_COLUMNS = """(path_key, path, revision, before, made_at, how, principal, tool, source, confidence, proposal, intent,
    lines_added, lines_removed, moved_from, moved_from_key, seq)"""
_LINE = f"""
INSERT INTO forge.revision {_COLUMNS}
SELECT %(key)s, %(path)s, %(revision)s, %(before)s, %(at)s, %(how)s, %(principal)s, %(tool)s, %(source)s,
    %(confidence)s, %(proposal)s, %(intent)s, %(added)s, %(removed)s, %(moved_from)s, %(moved_from_key)s, seq
FROM forge.chain_end
"""  # noqa: S608 - one constant in another
_OUTSIDE = f"""
WITH last (revision) AS (
    SELECT (SELECT revision FROM forge.revision WHERE path_key = %(key)s ORDER BY id DESC LIMIT 1)
)
INSERT INTO forge.revision {_COLUMNS}
SELECT %(key)s, %(path)s, %(revision)s, last.revision, %(at)s, %(how)s, %(principal)s, %(tool)s, %(source)s,
    %(confidence)s, %(proposal)s, %(intent)s, %(added)s, %(removed)s, %(moved_from)s, %(moved_from_key)s, NULL
FROM last WHERE last.revision IS DISTINCT FROM %(revision)s
"""  # noqa: S608 - as above
_IN_HISTORY = """
UPDATE forge.page_state SET in_history = true
WHERE path_key = %s AND digest BETWEEN %s AND %s AND NOT in_history
"""
# Sorted, so that all rows are gone before the first is put back: two pages may change places.
_CARRY = """
WITH gone AS (
    DELETE FROM forge.origin WHERE path_key = ANY(%(old)s::bytea[] || %(new)s::bytea[])
    RETURNING path_key, revision, packed
)
INSERT INTO forge.origin
SELECT moved.new, moved.path, gone.revision, gone.packed
FROM gone JOIN unnest(%(old)s::bytea[], %(new)s::bytea[], %(paths)s::text[]) AS moved (old, new, path)
    ON moved.old = gone.path_key
ORDER BY moved.new
"""
_ORIGIN = """
INSERT INTO forge.origin VALUES (%s, %s, %s, %s)
ON CONFLICT (path_key) DO UPDATE SET revision = excluded.revision, packed = excluded.packed
"""
_FLAG = """
INSERT INTO forge.contradiction (found_at, principal, existing_path, new_path, same, told) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (same) WHERE settled_at IS NULL DO NOTHING
"""
_FLAGS = """
SELECT id, found_at, principal, told FROM forge.contradiction
WHERE settled_at IS NULL AND id < %(below)s AND (
    %(place)s = '' OR existing_path = %(place)s OR new_path = %(place)s
    OR starts_with(existing_path, %(place)s || '/') OR starts_with(new_path, %(place)s || '/')
) ORDER BY id DESC LIMIT %(limit)s
"""
# A page is followed to where it lay before a move, from before all lines of that act: it may itself say that there is
# nothing at the old path any more.
_NAMES = """
WITH RECURSIVE name (path_key, below, until) AS (
    SELECT %(key)s::bytea, %(ever)s::bigint, 'infinity'::timestamptz
    UNION
    SELECT r.moved_from_key, (SELECT min(f.id) FROM forge.revision AS f WHERE f.seq = r.seq), r.made_at
    FROM name JOIN forge.revision AS r
    ON r.path_key = name.path_key AND r.id < name.below AND r.moved_from_key IS NOT NULL
), ends AS (
    SELECT path_key, max(below) AS below FROM name GROUP BY path_key
)
"""
# As in SQLite. A percent sign is doubled, because others stand for values.
_TOLD_BY = """
WITH RECURSIVE told (path_key, path, seq, newest) AS (
    SELECT path_key, path, seq, seq FROM forge.revision
    WHERE source = ANY(%(sources)s::text[]) AND (source LIKE 'plane:%%' OR source LIKE 'zulip:%%')
    UNION
    SELECT r.path_key, r.path, r.seq, told.newest FROM told JOIN forge.revision AS r
    ON r.moved_from_key = told.path_key AND r.seq = (
        SELECT min(later.seq) FROM forge.revision AS later
        WHERE later.moved_from_key = told.path_key AND later.seq > told.seq
    )
)
SELECT path, max(newest) AS newest FROM told
WHERE NOT EXISTS (
    SELECT 1 FROM forge.revision AS r WHERE r.moved_from_key = told.path_key AND r.seq > told.seq
) GROUP BY path ORDER BY newest DESC, path COLLATE "C" LIMIT %(limit)s
"""
_STATE_NOW = f"""{_NAMES}
SELECT c.digest, c.packed FROM name
JOIN forge.page_state AS s ON s.path_key = name.path_key AND s.since_at <= name.until
JOIN forge.content AS c ON c.digest = s.digest
WHERE s.digest BETWEEN %(low)s AND %(high)s ORDER BY name.below DESC, s.seen_at DESC LIMIT 1
"""  # noqa: S608 - as above
_HISTORY = f"""{_NAMES}
SELECT line.* FROM ends CROSS JOIN LATERAL (
    SELECT r.id, r.path, r.revision, r.before, r.made_at, r.how, r.principal, r.tool, r.source, r.confidence, r.proposal,
        r.intent, r.lines_added, r.lines_removed, r.moved_from, r.seq
    FROM forge.revision AS r
    WHERE r.path_key = ends.path_key AND r.id < least(ends.below, %(before)s) ORDER BY r.id DESC LIMIT %(limit)s
) AS line ORDER BY line.id DESC LIMIT %(limit)s
"""  # noqa: S608 - as above
_RECENT = f"""{_NAMES}
SELECT revision, made_at, how FROM (
    SELECT DISTINCT ON (r.revision) r.revision, r.made_at, r.how, r.id
    FROM ends JOIN forge.revision AS r ON r.path_key = ends.path_key AND r.id < ends.below
    WHERE r.revision IS NOT NULL ORDER BY r.revision, r.id DESC
) AS newest ORDER BY id DESC LIMIT %(limit)s
"""  # noqa: S608 - as above
_ONLY_SEEN = """
SELECT path_key, digest FROM forge.page_state WHERE NOT in_history AND seen_at < %s
ORDER BY seen_at, path COLLATE "C", digest LIMIT %s
"""


class PostgresLedger:
    """Revisions, provenance, contradictions and the audit chain, shared by processes on any number of machines."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def keep(self, path: str, raw: bytes, *, how: Found, at: datetime) -> str:
        """Keep these bytes as a state of the page and return their revision."""
        digest, outside = content_digest(raw), how == "outside"
        parts = await self._contents({digest: raw})
        parts.append(_state(path, digest, aware(at), in_history=outside))
        if outside:
            line = outside_line(0, path, revision_of(digest), None, at)
            parts = [(HOLD_THE_END, ()), *parts, (_OUTSIDE, _values(line))]
        await self._tables.write(*parts, light=not outside)
        return revision_of(digest)

    async def _contents(self, contents: Mapping[bytes, bytes]) -> list[Part]:
        """Return what stores those that are not kept yet, in one order, so that two callers cannot wait for each other."""
        sql = "SELECT digest FROM forge.content WHERE digest = ANY(%s)"
        known = {digest for (digest,) in await self._tables.read(sql, (list(contents),))}
        new = sorted(contents.keys() - known)
        packed = await anyio.to_thread.run_sync(lambda: [pack(contents[digest]) for digest in new]) if new else []
        return [(_CONTENT, (d, len(contents[d]), small)) for d, small in zip(new, packed, strict=True)]

    async def content(self, path: str, revision: str) -> bytes | None:
        """Return the bytes that are kept as that state of the page, also from before it was moved."""
        between = digests_between(revision)
        if between is None:
            return None
        low, high = between
        rows = await self._tables.read(_STATE_NOW, {**_named(path), "low": low, "high": high})
        try:
            return await anyio.to_thread.run_sync(unpacked_content, *rows[0]) if rows else None
        except ValueError as error:
            raise CorruptDatabase(self._tables.place, str(error)) from error

    async def recent(self, path: str, *, limit: int) -> Sequence[KeptState]:
        """Return the states of the page's history, newest first, each once."""
        return [KeptState(*row) for row in await self._tables.read(_RECENT, {**_named(path), "limit": limit})]

    async def intend(self, intent: Intent, contents: Sequence[bytes]) -> None:
        """Record that an act begins, and keep the bytes before and after."""
        by_digest = {content_digest(raw): raw for raw in contents}
        digests = {revision_of(digest): digest for digest in by_digest}
        given = states_given(intent, {revision: by_digest[digest] for revision, digest in digests.items()})
        states = sorted((path_key(path), path, digests[revision]) for path, revision in given)
        sql = (
            "INSERT INTO forge.intent VALUES (%s, %s, %s) "
            "ON CONFLICT (id) DO UPDATE SET begun_at = excluded.begun_at, packed = excluded.packed"
        )
        await self._tables.write(
            *await self._contents(by_digest),
            *(_state(path, digest, intent.at, in_history=False) for _, path, digest in states),
            (sql, (intent.id, intent.at, packed_intent(intent))),
            light=True,
        )

    async def intents(self) -> Sequence[Intent]:
        """Return every act that was begun and neither committed nor dropped, oldest first."""
        rows = await self._tables.read("SELECT packed FROM forge.intent ORDER BY begun_at, id")
        return [unpacked_intent(packed) for (packed,) in rows]

    async def drop(self, intent_id: str) -> None:
        """Forget an act that did not happen."""
        await self._tables.write(("DELETE FROM forge.intent WHERE id = %s", (intent_id,)), light=True)

    async def commit(self, entry: HistoryEntry, *, intent_id: str | None = None) -> AuditRecord:
        """Put the act on record and end its intent, durably."""
        require_sound(entry)
        told, proposal = paths_to_tell(entry), carries_out(entry)
        rows = await self._tables.write(
            *([("SELECT forge.end_intent(%s)", (intent_id,))] if intent_id is not None else []),
            appending(entry),
            *_remembering(entry),
            *_tracking(entry),
            *((_FLAG, values) for values in _flags(entry)),
            *([(_CARRY_OUT, (proposal, entry.at, self._tables.schema))] if proposal is not None else []),
            *([publishing("doc", told, self._tables.schema)] if told else []),
            (_APPENDED, ()),
        )
        return AuditRecord(*rows[0])

    async def history(self, path: str, *, limit: int, before: int | None = None) -> Sequence[Revision]:
        """Return the page's history, newest first, from the line after `before`, also from before it was moved."""
        values = {**_named(path), "limit": limit, "before": FOR_EVER if before is None else before}
        return [Revision(*row) for row in await self._tables.read(_HISTORY, values)]

    async def tracked(self, path: str) -> Tracked | None:
        """Return what is known of the page's units."""
        sql = "SELECT revision, packed FROM forge.origin WHERE path_key = %s"
        rows = await self._tables.read(sql, (path_key(path),))
        return Tracked(rows[0][0], unpacked_origins(rows[0][1])) if rows else None

    async def told_by(self, sources: Collection[str], *, limit: int) -> Sequence[str]:
        """Return where the pages are now in whose history an act has one of these sources, the newest act first."""
        rows = await self._tables.read(_TOLD_BY, {"sources": list(sources), "limit": limit})
        return [path for path, _ in rows]

    async def flags(self, path: str | None, *, limit: int, after: int | None = None) -> Sequence[Flag]:
        """Return open contradictions, newest first, of which a side lies at or below `path`."""
        values = {"place": path or "", "below": FOR_EVER if after is None else after, "limit": limit}
        rows = await self._tables.read(_FLAGS, values)
        return [Flag(id_, at, who, contradiction(told)) for id_, at, who, told in rows]

    async def settle(self, flag_ids: Sequence[int], *, at: datetime) -> None:
        """Close these contradictions."""
        sql = "UPDATE forge.contradiction SET settled_at = %s WHERE id = ANY(%s::bigint[]) AND settled_at IS NULL"
        await self._tables.write((sql, (aware(at), list(flag_ids))))

    async def records(self, *, after: int = 0, limit: int = 1000) -> Sequence[AuditRecord]:
        """Return audit records, oldest first."""
        sql = "SELECT seq, body, digest FROM forge.audit WHERE seq > %s ORDER BY seq LIMIT %s"
        return [AuditRecord(*row) for row in await self._tables.read(sql, (after, limit))]

    async def chain_end(self) -> tuple[int, bytes]:
        """Return `seq` and digest of the newest record as kept beside the chain."""
        rows = await self._tables.read("SELECT seq, digest FROM forge.chain_end")
        return (rows[0][0], rows[0][1]) if rows else (0, b"")

    async def forget(self, *, seen_before: datetime, limit: int = 1000) -> int:
        """Drop states that were only `seen`, last before then, the oldest first, and return how many."""
        begun = {
            (path_key(change.path), revision)
            for intent in await self.intents()
            for change in intent.entry.changes
            for revision in (change.before, change.after)
        }
        rows = await self._tables.read(_ONLY_SEEN, (aware(seen_before), limit + len(begun)))
        old = [(key, digest) for key, digest in rows if (key, revision_of(digest)) not in begun][:limit]
        if not old:
            return 0
        values = ([key for key, _ in old], [digest for _, digest in old], seen_before)
        dropped = await self._tables.write(("SELECT forge.forget(%s::bytea[], %s::bytea[], %s)", values), light=True)
        return int(dropped[0][0])


def path_key(path: str) -> bytes:
    """Return what stands for a path in an index."""
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).digest()


def _named(path: str) -> dict[str, Any]:
    return {"key": path_key(path), "ever": FOR_EVER}


def _state(path: str, digest: bytes, at: datetime, *, in_history: bool) -> Part:
    return _STATE, {"key": path_key(path), "digest": digest, "path": path, "at": at, "in_history": in_history}


def _remembering(entry: HistoryEntry) -> list[Part]:
    parts: list[Part] = []
    for change in pages_changed(entry):
        parts.append((_LINE, _values(history_line(0, entry, change, 0))))
        for revision in (change.before, change.after):
            between = None if revision is None else digests_between(revision)
            if between is not None:
                parts.append((_IN_HISTORY, (path_key(change.path), *between)))
    return parts


def _values(line: Revision) -> dict[str, Any]:
    return {
        "key": path_key(line.path),
        "path": line.path,
        "revision": line.revision,
        "before": line.before,
        "at": line.at,
        "how": line.how,
        "principal": line.principal,
        "tool": line.tool,
        "source": line.source,
        "confidence": line.confidence,
        "proposal": line.proposal,
        "intent": line.intent,
        "added": line.lines_added,
        "removed": line.lines_removed,
        "moved_from": line.moved_from,
        "moved_from_key": None if line.moved_from is None else path_key(line.moved_from),
    }


def _tracking(entry: HistoryEntry) -> list[Part]:
    moved = moves(entry)
    values = {
        "old": [path_key(old) for old in moved.values()],
        "new": [path_key(new) for new in moved],
        "paths": list(moved),
    }
    return [
        *([(_CARRY, values)] if moved else []),
        *(
            (_ORIGIN, (path_key(path), path, revision, packed_origins(entry.origins[path])))
            for path, revision in origins_at(entry).items()
        ),
    ]


def _flags(entry: HistoryEntry) -> list[tuple[Any, ...]]:
    return [
        (
            entry.at,
            storable(entry.actor.principal),
            found.existing.path,
            found.new.path,
            contradiction_key(found),
            contradiction_text(found),
        )
        for found in entry.contradictions
    ]
