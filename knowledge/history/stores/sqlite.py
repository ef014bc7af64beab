"""The ledger in the state database's file: what was committed survives a power cut, with one fsync."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import apsw

from knowledge.errors import CorruptDatabase, UnknownIntent
from knowledge.history.acts import (
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
from knowledge.history.audit.sqlite_chain import append, carry_out
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
from knowledge.history.timestamps import micros, moment
from knowledge.state.sqlite.database import Database
from knowledge.state.sqlite.events import publish

T = TypeVar("T")

FOR_EVER = 2**62

_STATE = """
INSERT INTO page_state VALUES (?1, ?2, ?3, ?3, ?4)
ON CONFLICT (path, digest) DO UPDATE SET
    at_us = max(at_us, excluded.at_us), in_history = max(in_history, excluded.in_history)
"""
_KEPT = "SELECT 1 FROM content WHERE digest = ?"
_CONTENT = """
SELECT digest, packed FROM page_state JOIN content USING (digest)
WHERE path = ? AND digest BETWEEN ? AND ? AND since_us <= ? ORDER BY at_us DESC LIMIT 1
"""
# A page is followed to where it lay before a move, from before all lines of that act: it may itself say that there is
# nothing at the old path any more.
_NAMES = """
WITH RECURSIVE name (path, below, until_us) AS (
    SELECT ?1, ?2, ?2
    UNION
    SELECT r.moved_from, (SELECT min(f.id) FROM revision f WHERE f.seq = r.seq), r.at_us
    FROM name JOIN revision r ON r.path = name.path AND r.id < name.below AND r.moved_from IS NOT NULL
)
SELECT path, below, until_us FROM name
"""
_LINE = """
INSERT INTO revision (path, revision, before, at_us, how, principal, tool, source, confidence, proposal, intent,
    lines_added, lines_removed, moved_from, seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_LINES = """
SELECT id, path, revision, before, at_us, how, principal, tool, source, confidence, proposal, intent,
    lines_added, lines_removed, moved_from, seq
FROM revision WHERE path = ? AND id < ? ORDER BY id DESC
"""
_IN_HISTORY = "UPDATE page_state SET in_history = 1 WHERE path = ? AND digest BETWEEN ? AND ? AND NOT in_history"
_FLAG = """
INSERT INTO contradiction (at_us, principal, existing_path, new_path, same, told) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (same) WHERE settled_us IS NULL DO NOTHING
"""
_FLAGS = """
SELECT id, at_us, principal, told FROM contradiction
WHERE settled_us IS NULL AND id < :below AND (
    :place = '' OR existing_path = :place OR new_path = :place
    OR substr(existing_path, 1, length(:place) + 1) = :place || '/'
    OR substr(new_path, 1, length(:place) + 1) = :place || '/'
) ORDER BY id DESC LIMIT :limit
"""

# Who names a page's act by its sequence sees two pages change places in one act as one step.
_TOLD_BY = """
WITH RECURSIVE told (path, seq, newest) AS (
    SELECT path, seq, seq FROM revision
    WHERE source IN (SELECT value FROM json_each(:sources)) AND (source LIKE 'plane:%' OR source LIKE 'zulip:%')
    UNION
    SELECT r.path, r.seq, told.newest FROM told JOIN revision r ON r.moved_from = told.path AND r.seq = (
        SELECT min(next.seq) FROM revision next WHERE next.moved_from = told.path AND next.seq > told.seq
    )
)
SELECT path, max(newest) AS newest FROM told
WHERE NOT EXISTS (SELECT 1 FROM revision r WHERE r.moved_from = told.path AND r.seq > told.seq)
GROUP BY path ORDER BY newest DESC, path LIMIT :limit
"""

ASIDE_BYTES = 64 * 1024
"""To pack or unpack less takes no longer than to hand it to another thread."""


@dataclass(frozen=True, slots=True)
class _SqliteName:
    """A path that a page had: its history lines below `below` are the page's; it was moved away at `until_us`."""

    path: str
    below: int
    until_us: int


class SqliteLedger:
    """Revisions, provenance, contradictions and the audit chain in a file that several processes share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(self, path: str, raw: bytes, *, how: Found, at: datetime) -> str:
        """Keep these bytes as a state of the page and return their revision."""
        digest, at_us, durable = content_digest(raw), micros(at), how == "outside"
        packed = await self._pack({digest: raw})

        def work(c: apsw.Connection) -> None:
            _store(c, {digest: raw}, packed)
            c.execute(_STATE, (path, digest, at_us, int(durable)))
            if durable:
                _note_outside(c, path, revision_of(digest), at)

        await self._database.write(work, durable=durable)
        return revision_of(digest)

    async def _pack(self, contents: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """Return compressed what is not kept yet: before the transaction, because others wait for its end."""
        new = {digest: raw for digest, raw in contents.items() if not self._database.query(_KEPT, (digest,))}
        return await _aside(lambda: {digest: pack(raw) for digest, raw in new.items()}, sum(map(len, new.values())))

    async def content(self, path: str, revision: str) -> bytes | None:
        """Return the bytes that are kept as that state of the page, also from before it was moved."""
        between = digests_between(revision)
        if between is None:
            return None

        def work(c: apsw.Connection) -> list[tuple[bytes, bytes]]:
            found = (c.execute(_CONTENT, (name.path, *between, name.until_us)).fetchall() for name in _names(c, path))
            rows: Any = next((rows for rows in found if rows), [])
            return list(rows)

        for digest, packed in self._database.read(work):
            try:
                return await _aside(partial(unpacked_content, digest, packed), len(packed))
            except ValueError as error:
                raise CorruptDatabase(str(self._database.path), str(error)) from error
        return None

    async def recent(self, path: str, *, limit: int) -> Sequence[KeptState]:
        """Return the states of the page's history, newest first, each once."""

        def work(c: apsw.Connection) -> list[KeptState]:
            found: dict[str, KeptState] = {}
            below = FOR_EVER
            while len(found) < limit and (lines := _history(c, path, limit=limit, below=below)):
                below = lines[-1].id
                for line in lines:
                    if line.revision is not None:
                        found.setdefault(line.revision, KeptState(line.revision, line.at, line.how))
            return list(found.values())[:limit]

        return self._database.read(work)

    async def intend(self, intent: Intent, contents: Sequence[bytes]) -> None:
        """Record that an act begins, and keep the bytes before and after."""
        given = {revision_of(digest): (digest, raw) for raw in contents for digest in [content_digest(raw)]}
        at_us = micros(intent.at)
        states = states_given(intent, {revision: raw for revision, (_, raw) in given.items()})
        contents_by_digest = dict(given.values())
        packed = await self._pack(contents_by_digest)
        blob = packed_intent(intent)

        def work(c: apsw.Connection) -> None:
            _store(c, contents_by_digest, packed)
            c.executemany(_STATE, [(path, given[revision][0], at_us, 0) for path, revision in states])
            c.execute("INSERT OR REPLACE INTO intent VALUES (?, ?, ?)", (intent.id, at_us, blob))

        await self._database.write(work, durable=False)

    async def intents(self) -> Sequence[Intent]:
        """Return every act that was begun and neither committed nor dropped, oldest first."""
        rows: Any = self._database.query("SELECT packed FROM intent ORDER BY at_us, id")
        return [unpacked_intent(packed) for (packed,) in rows]

    async def drop(self, intent_id: str) -> None:
        """Forget an act that did not happen."""
        sql = "DELETE FROM intent WHERE id = ?"
        await self._database.write(lambda c: c.execute(sql, (intent_id,)).fetchall(), durable=False)

    async def commit(self, entry: HistoryEntry, *, intent_id: str | None = None) -> AuditRecord:
        """Put the act on record and end its intent, durably."""
        require_sound(entry)
        origins = {path: packed_origins(found) for path, found in entry.origins.items()}

        def work(c: apsw.Connection) -> AuditRecord:
            if intent_id is not None and not _delete(c, "DELETE FROM intent WHERE id = ?", intent_id):
                raise UnknownIntent(intent_id)
            carry_out(c, entry)
            record = append(c, str(self._database.path), entry)
            _remember(c, entry, record.seq)
            _track(c, entry, origins)
            _flag(c, entry)
            events = [("doc", path) for path in paths_to_tell(entry)]
            if events:
                publish(events, c)
            return record

        return await self._database.write(work)

    async def history(self, path: str, *, limit: int, before: int | None = None) -> Sequence[Revision]:
        """Return the page's history, newest first, from the line after `before`, also from before it was moved."""
        below = FOR_EVER if before is None else before
        return self._database.read(partial(_history, path=path, limit=limit, below=below))

    async def tracked(self, path: str) -> Tracked | None:
        """Return what is known of the page's units."""
        rows: Any = self._database.query("SELECT revision, packed FROM origin WHERE path = ?", (path,))
        return Tracked(rows[0][0], unpacked_origins(rows[0][1])) if rows else None

    async def told_by(self, sources: Collection[str], *, limit: int) -> Sequence[str]:
        """Return where the pages are now in whose history an act has one of these sources, the newest act first."""
        values = {"sources": json.dumps(list(sources)), "limit": limit}
        rows: Any = self._database.read(lambda c: c.execute(_TOLD_BY, values).fetchall())
        return [path for path, _ in rows]

    async def flags(self, path: str | None, *, limit: int, after: int | None = None) -> Sequence[Flag]:
        """Return open contradictions, newest first, of which a side lies at or below `path`."""
        values = {"place": path or "", "below": FOR_EVER if after is None else after, "limit": limit}
        rows: Any = self._database.read(lambda c: c.execute(_FLAGS, values).fetchall())
        return [Flag(id_, moment(at_us), who, contradiction(told)) for id_, at_us, who, told in rows]

    async def settle(self, flag_ids: Sequence[int], *, at: datetime) -> None:
        """Close these contradictions."""
        rows = [(micros(at), flag) for flag in flag_ids]
        sql = "UPDATE contradiction SET settled_us = ? WHERE id = ? AND settled_us IS NULL"
        await self._database.write(lambda c: c.executemany(sql, rows).fetchall())

    async def records(self, *, after: int = 0, limit: int = 1000) -> Sequence[AuditRecord]:
        """Return audit records, oldest first."""
        sql = "SELECT seq, body, digest FROM audit WHERE seq > ? ORDER BY seq LIMIT ?"
        rows: Any = await self._database.bulk(lambda c: c.execute(sql, (after, limit)).fetchall())
        return [AuditRecord(*row) for row in rows]

    async def chain_end(self) -> tuple[int, bytes]:
        """Return `seq` and digest of the newest record as kept beside the chain."""
        rows: Any = self._database.query("SELECT seq, digest FROM chain_end")
        return rows[0] if rows else (0, b"")

    async def forget(self, *, seen_before: datetime, limit: int = 1000) -> int:
        """Drop states that were only `seen`, last before then, the oldest first, and return how many."""
        return await self._database.write(partial(_forget, micros(seen_before), limit), durable=False)


async def _aside(work: Callable[[], T], size_bytes: int) -> T:
    """Return what `work` gives; on another thread if it is about so much that other calls would have to wait for it."""
    return await anyio.to_thread.run_sync(work) if size_bytes > ASIDE_BYTES else work()


def _delete(c: apsw.Connection, sql: str, *values: str) -> int:
    c.execute(sql, values)
    return c.changes()


def _store(c: apsw.Connection, contents: Mapping[bytes, bytes], packed: Mapping[bytes, bytes]) -> None:
    for digest, raw in contents.items():
        # Asked again: it may have been forgotten since.
        if not c.execute(_KEPT, (digest,)).fetchall():
            row = (digest, len(raw), packed.get(digest) or pack(raw))
            c.execute("INSERT INTO content (digest, size, packed) VALUES (?, ?, ?)", row)


def _remember(c: apsw.Connection, entry: HistoryEntry, seq: int) -> None:
    for change in pages_changed(entry):
        c.execute(_LINE, _row(history_line(0, entry, change, seq)))
        for revision in (change.before, change.after):
            between = None if revision is None else digests_between(revision)
            if between is not None:
                c.execute(_IN_HISTORY, (change.path, *between))


def _note_outside(c: apsw.Connection, path: str, revision: str, at: datetime) -> None:
    lines = _lines(c, path, FOR_EVER, limit=1)
    if not lines or lines[0].revision != revision:
        c.execute(_LINE, _row(outside_line(0, path, revision, lines[0] if lines else None, at)))


def _track(c: apsw.Connection, entry: HistoryEntry, origins: Mapping[str, bytes]) -> None:
    moved = moves(entry)
    sql = "DELETE FROM origin WHERE path = ? RETURNING revision, packed"
    carried = {old: c.execute(sql, (old,)).fetchall() for old in dict.fromkeys((*moved.values(), *moved))}
    rows = [(new, *row) for new, old in moved.items() for row in carried[old]]
    rows += [(path, revision, origins[path]) for path, revision in origins_at(entry).items()]
    c.executemany("INSERT OR REPLACE INTO origin VALUES (?, ?, ?)", rows)


def _flag(c: apsw.Connection, entry: HistoryEntry) -> None:
    rows = [
        (
            micros(entry.at),
            storable(entry.actor.principal),
            found.existing.path,
            found.new.path,
            contradiction_key(found),
            contradiction_text(found),
        )
        for found in entry.contradictions
    ]
    c.executemany(_FLAG, rows)


def _names(c: apsw.Connection, path: str) -> list[_SqliteName]:
    """Return every path that the page had, the present one first."""
    rows: Any = c.execute(_NAMES, (path, FOR_EVER)).fetchall()
    return [_SqliteName(*row) for row in rows]


def _history(c: apsw.Connection, path: str, *, limit: int, below: int) -> list[Revision]:
    ends: dict[str, int] = {}
    for name in _names(c, path):
        ends[name.path] = max(name.below, ends.get(name.path, 0))
    found = [line for name, end in ends.items() for line in _lines(c, name, min(end, below), limit=limit)]
    return sorted(found, key=lambda line: -line.id)[:limit]


def _lines(c: apsw.Connection, path: str, below: int, *, limit: int) -> list[Revision]:
    rows: Any = c.execute(f"{_LINES} LIMIT ?", (path, below, limit)).fetchall()
    return [Revision(id_, at, new, old, moment(at_us), *rest) for id_, at, new, old, at_us, *rest in rows]


def _row(line: Revision) -> tuple[Any, ...]:
    return (
        line.path,
        line.revision,
        line.before,
        micros(line.at),
        line.how,
        line.principal,
        line.tool,
        line.source,
        line.confidence,
        line.proposal,
        line.intent,
        line.lines_added,
        line.lines_removed,
        line.moved_from,
        line.seq,
    )


def _forget(before_us: int, limit: int, c: apsw.Connection) -> int:
    packed: Any = c.execute("SELECT packed FROM intent").fetchall()
    begun = {
        (change.path, revision)
        for (blob,) in packed
        for change in unpacked_intent(blob).entry.changes
        for revision in (change.before, change.after)
    }
    sql = "SELECT path, digest FROM page_state WHERE NOT in_history AND at_us < ? ORDER BY at_us, path, digest LIMIT ?"
    rows: Any = c.execute(sql, (before_us, limit + len(begun))).fetchall()
    old = [(path, digest) for path, digest in rows if (path, revision_of(digest)) not in begun][:limit]
    c.executemany("DELETE FROM page_state WHERE path = ? AND digest = ?", old)
    c.executemany(
        "DELETE FROM content WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM page_state WHERE digest = ?1)",
        {(digest,) for _, digest in old},
    )
    return len(old)
