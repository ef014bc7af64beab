"""The ledger in the state database. A committed act survives a power cut, with one fsync.

Lock order in PostgreSQL, the same for all transactions, so that no two wait for each other: the end of the audit chain, contents
and states of pages in the order of their hashes, the proposal, the counter of events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import apsw

from knowledge.errors import CorruptDatabase, UnknownIntent
from knowledge.history.acts import (
    APPROVED_BY,
    FOLLOW,
    PERSONS,
    carries_out,
    history_line,
    moves,
    named_act,
    origins_at,
    outside_line,
    pages_changed,
    paths_to_tell,
    recorded_act,
    require_sound,
    states_given,
    storable,
)
from knowledge.history.audit.chain import canonical
from knowledge.history.audit.chain_end import CARRY_OUT, HOLD_THE_END, appending
from knowledge.history.codec import (
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
from knowledge.history.ports import (
    ActsWanted,
    AuditRecord,
    AuditScan,
    Flag,
    Found,
    HistoryEntry,
    Intent,
    KeptState,
    RecordedAct,
    Revision,
    Settlement,
    Tracked,
    rank_of,
)
from knowledge.history.timestamps import EARLIEST, LATEST, aware, micros, moment, moment_if_any, utc_text, with_moments
from knowledge.merge.model import Contradiction, Dismissal
from knowledge.state.change_events import PUBLISH
from knowledge.state.sqlite.dialect import in_sqlite
from knowledge.state.tables import Part, Row, SqlPair, StateTables, StateTransaction

T = TypeVar("T")

FOR_EVER = 2**62
FROM_THE_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
ABOVE_ALL_RANKS = 2**31 - 1

_SIZES = "SELECT digest, size FROM forge.content"
_KEPT = "SELECT digest FROM forge.content WHERE digest = ANY(%s::bytea[])"


def _store_in_sqlite(c: apsw.Connection, digest: bytes, size: int, packed: bytes | None, raw: bytes) -> list[Row]:
    # Content that was not packed, because it was stored already, may have been deleted since.
    if not c.execute("SELECT 1 FROM content WHERE digest = ?", (digest,)).fetchall():
        c.execute("INSERT INTO content (digest, size, packed) VALUES (?, ?, ?)", (digest, size, packed or pack(raw)))
    return []


# In PostgreSQL a state of a page references its content: if that is gone, the transaction fails.
_STORE = SqlPair(
    _store_in_sqlite,
    """
INSERT INTO forge.content (digest, size, packed)
SELECT %(digest)s, %(size)s, %(packed)s WHERE %(packed)s::bytea IS NOT NULL ON CONFLICT (digest) DO NOTHING
""",
)
_STATE = SqlPair(
    """
INSERT INTO page_state VALUES (:path, :digest, :at, :at, :in_history)
ON CONFLICT (path, digest) DO UPDATE SET
    at_us = max(at_us, excluded.at_us), in_history = max(in_history, excluded.in_history)
""",
    """
INSERT INTO forge.page_state AS known VALUES (%(path_key)s, %(digest)s, %(path)s, %(at)s, %(at)s, %(in_history)s)
ON CONFLICT (path_key, digest) DO UPDATE SET seen_at = greatest(known.seen_at, excluded.seen_at),
    in_history = known.in_history OR excluded.in_history
""",
)
_PUT_INTENT = SqlPair(
    "INSERT OR REPLACE INTO intent VALUES (?, ?, ?)",
    """
INSERT INTO forge.intent VALUES (%s, %s, %s)
ON CONFLICT (id) DO UPDATE SET begun_at = excluded.begun_at, packed = excluded.packed
""",
)
_INTENTS = SqlPair(
    "SELECT packed FROM intent ORDER BY at_us, id", "SELECT packed FROM forge.intent ORDER BY begun_at, id"
)


def _end_intent_in_sqlite(c: apsw.Connection, intent_id: str) -> list[Row]:
    c.execute("DELETE FROM intent WHERE id = ?", (intent_id,))
    if not c.changes():
        raise UnknownIntent(intent_id)
    return []


_END_INTENT = SqlPair(_end_intent_in_sqlite, "SELECT forge.end_intent(%s)")
APPENDED = "SELECT seq, body, digest FROM forge.audit WHERE seq = (SELECT seq FROM forge.chain_end)"
_COLUMNS = (
    "path, revision, how, principal, tool, source, confidence, proposal, intent, lines_added, lines_removed, moved_from"
)
_IN_SQLITE = ", ".join(f":{name}" for name in _COLUMNS.split(", "))
_IN_POSTGRES = ", ".join(f"%({name})s" for name in _COLUMNS.split(", "))
_LINE = SqlPair(
    f"INSERT INTO revision ({_COLUMNS}, before, at_us, seq) SELECT {_IN_SQLITE}, :before, :at, seq FROM chain_end",  # noqa: S608 - constants
    f"""
INSERT INTO forge.revision ({_COLUMNS}, before, made_at, seq, path_key, moved_from_key)
SELECT {_IN_POSTGRES}, %(before)s, %(at)s, seq, %(path_key)s, %(moved_from_key)s FROM forge.chain_end
""",  # noqa: S608 - constants
)
# Adds nothing if the newest line already has this revision.
_OUTSIDE = SqlPair(
    f"""
WITH last (revision) AS (SELECT (SELECT revision FROM revision WHERE path = :path ORDER BY id DESC LIMIT 1))
INSERT INTO revision ({_COLUMNS}, before, at_us)
SELECT {_IN_SQLITE}, last.revision, :at FROM last WHERE last.revision IS NOT :revision
""",  # noqa: S608 - constants
    f"""
WITH last (revision) AS (
    SELECT (SELECT revision FROM forge.revision WHERE path_key = %(path_key)s ORDER BY id DESC LIMIT 1)
)
INSERT INTO forge.revision ({_COLUMNS}, before, made_at, path_key, moved_from_key)
SELECT {_IN_POSTGRES}, last.revision, %(at)s, %(path_key)s, %(moved_from_key)s
FROM last WHERE last.revision IS DISTINCT FROM %(revision)s
""",  # noqa: S608 - constants
)
# A revision is the beginning of a digest, so it is looked up as a range of digests.
_IN_HISTORY = """
UPDATE forge.page_state SET in_history = true
WHERE path_key = %(path_key)s AND digest BETWEEN %(low)s AND %(high)s AND NOT in_history
"""


def _carry_in_sqlite(c: apsw.Connection, moved: Mapping[str, str], **_: object) -> list[Row]:
    # All rows are gone before the first is put back: two pages may change places.
    sql = "DELETE FROM origin WHERE path = ? RETURNING revision, packed"
    carried = {old: c.execute(sql, (old,)).fetchall() for old in dict.fromkeys((*moved.values(), *moved))}
    rows = [(new, *row) for new, old in moved.items() for row in carried[old]]
    c.executemany("INSERT OR REPLACE INTO origin VALUES (?, ?, ?)", rows)
    return []


_CARRY = SqlPair(
    _carry_in_sqlite,
    # Sorted, so that all rows are gone before the first is put back: two pages may change places.
    """
WITH gone AS (
    DELETE FROM forge.origin WHERE path_key = ANY(%(old)s::bytea[] || %(new)s::bytea[])
    RETURNING path_key, revision, packed
)
INSERT INTO forge.origin
SELECT moved.new, moved.path, gone.revision, gone.packed
FROM gone JOIN unnest(%(old)s::bytea[], %(new)s::bytea[], %(paths)s::text[]) AS moved (old, new, path)
    ON moved.old = gone.path_key
ORDER BY moved.new
""",
)
_ORIGIN = SqlPair(
    "INSERT OR REPLACE INTO origin VALUES (:path, :revision, :packed)",
    """
INSERT INTO forge.origin VALUES (%(path_key)s, %(path)s, %(revision)s, %(packed)s)
ON CONFLICT (path_key) DO UPDATE SET revision = excluded.revision, packed = excluded.packed
""",
)
_TRACKED = "SELECT revision, packed FROM forge.origin WHERE path_key = %(path_key)s"
# A contradiction is recorded once for two statements on two pages, in either order, whether it is open or dismissed. Rows
# without `pair`, from before there was one, are known by `same` only.
_FLAG = """
INSERT INTO forge.contradiction (found_at, principal, existing_path, new_path, same, told, rank, pair)
SELECT %(at)s::timestamptz, %(by)s::text, %(existing)s::text, %(new)s::text, %(same)s::bytea, %(told)s::text, %(rank)s::integer,
    %(pair)s::bytea
WHERE NOT EXISTS (
    SELECT 1 FROM forge.contradiction WHERE settled_at IS NULL AND pair = %(pair)s::bytea AND (
        (existing_path = %(existing)s::text AND new_path = %(new)s::text)
        OR (existing_path = %(new)s::text AND new_path = %(existing)s::text)
    )
) ON CONFLICT (same) WHERE settled_at IS NULL DO NOTHING
"""
_FLAG_COLUMNS = """id, found_at, principal, told, existing_path, new_path, rank, settled_at,
    ruling, ruled_by, ruled_at, reason"""
_FLAGS = f"""
SELECT {_FLAG_COLUMNS} FROM forge.contradiction
WHERE settled_at IS NULL AND (ruling IS NOT NULL) = %(dismissed)s AND (rank, id) < (%(rank)s, %(below)s) AND (
    %(place)s::text = '' OR existing_path = %(place)s OR new_path = %(place)s
    OR substr(existing_path, 1, length(%(place)s) + 1) = %(place)s || '/'
    OR substr(new_path, 1, length(%(place)s) + 1) = %(place)s || '/'
) ORDER BY rank DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608 - constants
_ONE_FLAG = f"SELECT {_FLAG_COLUMNS} FROM forge.contradiction WHERE id = %s"  # noqa: S608 - constants
_DISMISSALS = """
SELECT pair, ruling, ruled_by, ruled_at, reason FROM forge.contradiction
WHERE settled_at IS NULL AND ruling IS NOT NULL AND existing_path = %(path)s AND new_path = %(path)s ORDER BY ruled_at, id
"""
_DISMISS = """
UPDATE forge.contradiction SET ruling = %(ruling)s, ruled_by = %(by)s, ruled_at = %(at)s, reason = %(reason)s, pair = %(pair)s
WHERE id = %(id)s AND settled_at IS NULL AND ruling IS NULL RETURNING id
"""
_REOPEN = """
UPDATE forge.contradiction SET ruling = NULL, ruled_by = NULL, ruled_at = NULL, reason = NULL
WHERE id = %s AND settled_at IS NULL AND ruling IS NOT NULL RETURNING id
"""
# A settled row has its settlement in the columns of a dismissal.
_SETTLE = """
UPDATE forge.contradiction SET settled_at = %(at)s, ruling = %(how)s, ruled_by = %(by)s, ruled_at = %(at)s, reason = %(reason)s
WHERE id = ANY(%(ids)s::bigint[]) AND (
    (settled_at IS NULL AND ruling IS NULL) OR (settled_at IS NOT NULL AND ruling = 'changed' AND %(how)s::text <> 'changed')
)
"""
_SETTLED = f"""
SELECT {_FLAG_COLUMNS} FROM forge.contradiction
WHERE settled_at IS NOT NULL AND ruling IS NOT NULL AND (
    %(place)s::text = '' OR existing_path = %(place)s OR new_path = %(place)s
    OR substr(existing_path, 1, length(%(place)s) + 1) = %(place)s || '/'
    OR substr(new_path, 1, length(%(place)s) + 1) = %(place)s || '/'
) ORDER BY settled_at DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608 - constants
_REVIVE = """
UPDATE forge.contradiction AS c SET settled_at = NULL, ruling = NULL, ruled_by = NULL, ruled_at = NULL, reason = NULL
WHERE c.id = %s AND c.settled_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM forge.contradiction AS o WHERE o.settled_at IS NULL AND (
        o.same = c.same OR (o.pair = c.pair AND (
            (o.existing_path = c.existing_path AND o.new_path = c.new_path)
            OR (o.existing_path = c.new_path AND o.new_path = c.existing_path)
        ))
    )
) RETURNING id
"""


def _move_contradictions_in_sqlite(c: apsw.Connection, old: Sequence[str], new: Sequence[str]) -> list[Row]:
    moved = dict(zip(old, new, strict=True))
    # All are read before the first is changed: two pages may change places.
    found: Any = c.execute(
        "SELECT id, existing_path, new_path FROM contradiction WHERE settled_us IS NULL OR ruling IS NOT NULL"
    ).fetchall()
    rows = [row for row in found if moved.keys() & {row[1], row[2]}]
    # `same` names the former paths, where another page may be by now. From here on the row is known by `pair` and its paths.
    c.executemany(
        "UPDATE contradiction SET existing_path = ?, new_path = ?, same = CAST('moved ' || id AS BLOB) WHERE id = ?",
        [(moved.get(existing, existing), moved.get(other, other), id_) for id_, existing, other in rows],
    )
    return []


_MOVE_CONTRADICTIONS = SqlPair(
    _move_contradictions_in_sqlite,
    """
WITH moved (old, new) AS (SELECT * FROM unnest(%s::text[], %s::text[]))
UPDATE forge.contradiction AS c SET
    existing_path = coalesce((SELECT new FROM moved WHERE old = c.existing_path), c.existing_path),
    new_path = coalesce((SELECT new FROM moved WHERE old = c.new_path), c.new_path),
    same = convert_to('moved ' || c.id, 'UTF8')
WHERE (settled_at IS NULL OR ruling IS NOT NULL)
    AND (existing_path IN (SELECT old FROM moved) OR new_path IN (SELECT old FROM moved))
""",
)
# Every path that the page had, the present one first. At each path, only lines below `below` are the page's; it left at `until`.
# For a former path, `below` is the first line of the act that moved the page, because that act may also record the old path as gone.
_NAMES = """
WITH RECURSIVE name (path_key, below, until) AS (
    SELECT %(path_key)s::bytea, %(ever)s::bigint, 'infinity'::timestamptz
    UNION
    SELECT r.moved_from_key, (SELECT min(f.id) FROM forge.revision AS f WHERE f.seq = r.seq), r.made_at
    FROM name JOIN forge.revision AS r
    ON r.path_key = name.path_key AND r.id < name.below AND r.moved_from_key IS NOT NULL
), ends AS (
    SELECT path_key, max(below) AS below FROM name GROUP BY path_key
)
"""
_STATE_NOW = f"""{_NAMES}
SELECT c.digest, c.packed FROM name
JOIN forge.page_state AS s ON s.path_key = name.path_key AND s.since_at <= name.until
JOIN forge.content AS c ON c.digest = s.digest
WHERE s.digest BETWEEN %(low)s AND %(high)s ORDER BY name.below DESC, s.seen_at DESC LIMIT 1
"""  # noqa: S608 - constants
_LINE_COLUMNS = """r.id, r.path, r.revision, r.before, r.made_at, r.how, r.principal, r.tool, r.source, r.confidence, r.proposal,
    r.intent, r.lines_added, r.lines_removed, r.moved_from, r.seq"""
_ENDS = f"{_NAMES} SELECT path_key, below FROM ends"  # noqa: S608 - constants
_LINES = f"SELECT {_LINE_COLUMNS} FROM forge.revision AS r WHERE r.path = ? AND r.id < ? ORDER BY r.id DESC LIMIT ?"  # noqa: S608 - constants


def _history_in_sqlite(c: apsw.Connection, before: int, limit: int, **named: Any) -> list[Row]:
    ends: Any = c.execute(in_sqlite(_ENDS), named).fetchall()
    found: list[Row] = []
    for path, below in ends:
        found += c.execute(in_sqlite(_LINES), (path, min(below, before), limit)).fetchall()
    return sorted(found, key=lambda row: -int(row[0]))[:limit]


_HISTORY = SqlPair(
    _history_in_sqlite,
    f"""{_NAMES}
SELECT line.* FROM ends CROSS JOIN LATERAL (
    SELECT {_LINE_COLUMNS} FROM forge.revision AS r
    WHERE r.path_key = ends.path_key AND r.id < least(ends.below, %(before)s) ORDER BY r.id DESC LIMIT %(limit)s
) AS line ORDER BY line.id DESC LIMIT %(limit)s
""",  # noqa: S608 - constants
)
_SEEN_LAST = """
SELECT digest, seen_at FROM forge.page_state WHERE path_key = %(path_key)s ORDER BY seen_at DESC, digest DESC LIMIT 1
"""
_NEWEST_LINES = f"""
SELECT {_LINE_COLUMNS} FROM (SELECT max(id) AS id FROM forge.revision GROUP BY path_key) AS newest
JOIN forge.revision AS r ON r.id = newest.id
"""  # noqa: S608 - constants
_LINES_AFTER = f"""
SELECT {_LINE_COLUMNS} FROM forge.revision AS r
WHERE r.id > %(after)s AND r.made_at >= %(since)s AND (r.moved_from IS NOT NULL OR NOT %(moves)s)
ORDER BY r.id LIMIT %(limit)s
"""  # noqa: S608 - constants
# A timeline finds acts by their first lines. With each comes the act's audit record, which alone has its decision.
_FIRST_LINES = f"""SELECT {_LINE_COLUMNS}, a.seq, a.body, a.digest FROM forge.revision AS r
LEFT JOIN forge.audit AS a ON a.seq = r.seq
WHERE (r.seq IS NULL OR NOT EXISTS (SELECT 1 FROM forge.revision AS f WHERE f.seq = r.seq AND f.id < r.id))
"""  # noqa: S608 - constants
_OF_PAGE = f"""AND r.id IN (
    {_NAMES}
    SELECT coalesce((SELECT min(f.id) FROM forge.revision AS f WHERE f.seq = l.seq), l.id)
    FROM ends JOIN forge.revision AS l ON l.path_key = ends.path_key AND l.id < ends.below
)"""  # noqa: S608 - constants
_IN_FOLDER = """AND (
    substr(r.path, 1, length(%(folder)s::text)) = %(folder)s::text OR EXISTS (
        SELECT 1 FROM forge.revision AS l WHERE l.seq = r.seq AND (
            substr(l.path, 1, length(%(folder)s::text)) = %(folder)s::text
            OR substr(l.moved_from, 1, length(%(folder)s::text)) = %(folder)s::text
        )
    )
)"""
# Names have no line ends, so these mark where a name begins or ends. The record is canonical JSON, in which a quote inside a value
# is escaped, so `approved` is found in nothing but a decision.
_BY_SOMEBODY = """AND (
    r.principal = ANY(%(who)s::text[]) OR strpos(r.principal || %(line)s::text, %(host)s) > 0
    OR strpos(%(line)s::text || r.principal, %(person)s) > 0 OR strpos(a.body, %(approved)s) > 0
)"""
_BY_EDITORS = f"AND (r.how = 'outside' OR r.tool = '{FOLLOW}')"
_SINCE, _UNTIL, _AFTER = (
    "AND r.made_at >= %(since)s",
    "AND r.made_at < %(until)s",
    "AND (r.made_at, r.id) < (%(last_time)s, %(last_id)s)",
)
_NEWEST_FIRST = "ORDER BY r.made_at DESC, r.id DESC LIMIT %(limit)s"
_LINES_OF_ACTS = f"""
SELECT {_LINE_COLUMNS} FROM forge.revision AS r WHERE r.seq = ANY(%s::bigint[]) ORDER BY r.id
"""  # noqa: S608 - constants
_ACT_WITH_RECORD, _ACT_OUTSIDE = (
    f"{_FIRST_LINES} AND {part}" for part in ("r.seq = %s", "r.seq IS NULL AND r.id = %s")
)
# By `seq`, which all lines of an act share, so that two pages that swap places in it are one step.
_TOLD_BY = SqlPair(
    """
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
""",
    # A percent sign is doubled, because a single one marks a value.
    """
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
""",
)
_ONLY_SEEN = """
SELECT path, path_key, digest FROM forge.page_state WHERE NOT in_history AND seen_at < %s
ORDER BY seen_at, path COLLATE "C", digest LIMIT %s
"""


# The body is canonical JSON: no text in it can look like this key, because a quote inside a value is escaped.
_BODY_AT = """substr(body, strpos(body, '"at":"') + 6, 32) COLLATE "C\""""
_IN_TIME = f"""(strpos(body, '"at":"') = 0 OR ({_BODY_AT} >= %s AND {_BODY_AT} < %s))"""
_HAS_PART = "strpos(body, %s) > 0"
_HAS_WORD = 'strpos(lower(body COLLATE "C"), %s) > 0'


def _forget_in_sqlite(
    c: apsw.Connection, paths: Sequence[str], digests: Sequence[bytes], before: datetime
) -> list[Row]:
    sql = "DELETE FROM page_state WHERE path = ? AND digest = ? AND NOT in_history AND at_us < ?"
    states = [(path, digest, micros(before)) for path, digest in zip(paths, digests, strict=True)]
    changed = c.total_changes()
    c.executemany(sql, states)
    dropped = c.total_changes() - changed
    c.executemany(
        "DELETE FROM content WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM page_state WHERE digest = ?1) "
        "AND NOT EXISTS (SELECT 1 FROM stored_file WHERE digest = ?1)",
        {(digest,) for digest in digests},
    )
    return [(dropped,)]


# States that were seen again since they were selected stay.
_FORGET = SqlPair(_forget_in_sqlite, "SELECT forge.forget(%s::bytea[], %s::bytea[], %s)")

ASIDE_BYTES = 64 * 1024
"""Packing or unpacking fewer bytes takes no longer than handing them to another thread."""


class SqlLedger:
    """Revisions, provenance, contradictions and the audit chain, shared by all processes that use the state database."""

    def __init__(self, tables: StateTables) -> None:
        self._tables = tables

    async def keep(self, path: str, raw: bytes, *, how: Found, at: datetime) -> str:
        """Keep these bytes as a state of the page and return their revision."""
        digest, outside = content_digest(raw), how == "outside"
        storing = await self.storing({digest: raw})
        if outside:
            parts = [(HOLD_THE_END, ()), *storing, *outside_parts(path, raw, aware(at))]
        else:
            parts = [*storing, state_part(path, digest, aware(at), in_history=False)]
        await self._tables.write(*parts, durable=outside)
        return revision_of(digest)

    async def storing(self, contents: Mapping[bytes, bytes]) -> list[Part]:
        """Return the statements that store the contents, compressed before the transaction, so that others wait for less."""
        # In a fixed order, so that two callers never wait for each other.
        digests = sorted(contents)
        known = {digest for (digest,) in await self._tables.read(_KEPT, (digests,))}
        new = [digest for digest in digests if digest not in known]
        size = sum(len(contents[digest]) for digest in new)
        packed = await _aside(lambda: {digest: pack(contents[digest]) for digest in new}, size)
        return [
            (_STORE, {"digest": digest, "size": len(raw), "packed": packed.get(digest), "raw": raw})
            for digest, raw in sorted(contents.items())
        ]

    async def seen_last(self, path: str) -> KeptState | None:
        """Return the state of the page that was seen last."""
        rows = await self._tables.read(_SEEN_LAST, _named(path))
        return KeptState(revision_of(rows[0][0]), moment(rows[0][1]), "seen") if rows else None

    async def removed(self, path: str, *, at: datetime) -> None:
        """Record that somebody removed the page outside the server."""
        await self._tables.write((HOLD_THE_END, ()), *outside_parts(path, None, aware(at)))

    async def newest_lines(self) -> Sequence[Revision]:
        """Return the newest line of every path that has a history."""
        return [Revision(*with_moments(row, 4)) for row in await self._tables.read(_NEWEST_LINES, long=True)]

    async def begun(self) -> datetime | None:
        """Return when the first state of a page was kept."""
        rows = await self._tables.read("SELECT min(since_at) FROM forge.page_state", long=True)
        return moment_if_any(rows[0][0])

    async def content(self, path: str, revision: str) -> bytes | None:
        """Return the bytes of that state of the page, including states from before it was moved."""
        between = digests_between(revision)
        if between is None:
            return None
        low, high = between
        rows = await self._tables.read(_STATE_NOW, {**_named(path), "ever": FOR_EVER, "low": low, "high": high})
        for digest, packed in rows:
            try:
                return await _aside(partial(unpacked_content, digest, packed), len(packed))
            except ValueError as error:
                raise CorruptDatabase(self._tables.place, str(error)) from error
        return None

    async def content_sizes(self) -> Mapping[str, int]:
        """Return the size of every state that is kept, by revision."""
        return {revision_of(digest): size for digest, size in await self._tables.read(_SIZES, long=True)}

    async def recent(self, path: str, *, limit: int) -> Sequence[KeptState]:
        """Return the states of the page's history, newest first, each once."""
        found: dict[str, KeptState] = {}
        before = None
        while len(found) < limit:
            lines = await self.history(path, limit=limit, before=before)
            for line in lines:
                if line.revision is not None:
                    found.setdefault(line.revision, KeptState(line.revision, line.at, line.how))
            if len(lines) < limit:
                break
            before = lines[-1].id
        return list(found.values())[:limit]

    async def intend(self, intent: Intent, contents: Sequence[bytes]) -> None:
        """Record that an act begins, and keep the bytes before and after."""
        by_digest = {content_digest(raw): raw for raw in contents}
        digests = {revision_of(digest): digest for digest in by_digest}
        given = states_given(intent, {revision: by_digest[digest] for revision, digest in digests.items()})
        states = sorted((path_key(path), path, digests[revision]) for path, revision in given)
        await self._tables.write(
            *await self.storing(by_digest),
            *(state_part(path, digest, intent.at, in_history=False) for _, path, digest in states),
            (_PUT_INTENT, (intent.id, intent.at, packed_intent(intent))),
            durable=False,
        )

    async def intents(self) -> Sequence[Intent]:
        """Return every act that was begun and neither committed nor dropped, oldest first."""
        return [unpacked_intent(packed) for (packed,) in await self._tables.read(_INTENTS)]

    async def drop(self, intent_id: str) -> None:
        """Delete the intent of an act that did not happen."""
        await self._tables.write(("DELETE FROM forge.intent WHERE id = %s", (intent_id,)), durable=False)

    async def commit(self, entry: HistoryEntry, *, intent_id: str | None = None) -> AuditRecord:
        """Record the act and end its intent, durably."""
        first = [] if intent_id is None else [(_END_INTENT, (intent_id,))]
        rows = await self._tables.write(*first, *committing(entry), (APPENDED, ()))
        return AuditRecord(*rows[0])

    async def history(self, path: str, *, limit: int, before: int | None = None) -> Sequence[Revision]:
        """Return the page's history, newest first, from the line after `before`, including lines from before it was moved."""
        below = FOR_EVER if before is None else before
        values = {**_named(path), "ever": FOR_EVER, "before": below, "limit": limit}
        return [Revision(*with_moments(row, 4)) for row in await self._tables.read(_HISTORY, values)]

    async def lines_after(
        self, after: int, *, limit: int, since: datetime | None = None, moves: bool = False
    ) -> Sequence[Revision]:
        """Return the lines of all pages' histories after the line `after`, oldest first."""
        start = FROM_THE_BEGINNING if since is None else aware(since)
        values = {"after": after, "since": start, "moves": moves, "limit": limit}
        return [Revision(*with_moments(row, 4)) for row in await self._tables.read(_LINES_AFTER, values)]

    async def timeline(
        self, wanted: ActsWanted, *, limit: int, after: tuple[datetime, int] | None = None
    ) -> Sequence[RecordedAct]:
        """Return the acts on all pages, newest first."""
        statement, values = _timeline(wanted, after)
        return await self._acts(await self._tables.read(statement, {**values, "limit": limit}, long=True))

    async def act(self, name: str) -> RecordedAct | None:
        """Return the act with this name."""
        number = named_act(name)
        if number is None:
            return None
        seq, line = number
        statement = _ACT_OUTSIDE if seq is None else _ACT_WITH_RECORD
        acts = await self._acts(await self._tables.read(statement, (line if seq is None else seq,)))
        return acts[0] if acts else None

    async def _acts(self, rows: Sequence[Row]) -> Sequence[RecordedAct]:
        """Return the acts with these first lines. Lines are never changed, so a second read finds the same acts."""
        firsts = [(Revision(*with_moments(row[:-3], 4)), AuditRecord(*row[-3:])) for row in rows]
        seqs = [line.seq for line, _ in firsts if line.seq is not None]
        found = await self._tables.read(_LINES_OF_ACTS, (seqs,)) if seqs else []
        lines: dict[int | None, list[Revision]] = {}
        for row in found:
            line = Revision(*with_moments(row, 4))
            lines.setdefault(line.seq, []).append(line)
        return [
            recorded_act([line], None)
            if line.seq is None
            else recorded_act(lines[line.seq], record if record.body else None)
            for line, record in firsts
        ]

    async def tracked(self, path: str) -> Tracked | None:
        """Return the origins of the page's units, if they are known."""
        rows = await self._tables.read(_TRACKED, _named(path))
        return Tracked(rows[0][0], unpacked_origins(rows[0][1])) if rows else None

    async def told_by(self, sources: Collection[str], *, limit: int) -> Sequence[str]:
        """Return the current paths of pages in whose history an act has one of these sources, newest act first."""
        rows = await self._tables.read(_TOLD_BY, {"sources": list(sources), "limit": limit})
        return [path for path, _ in rows]

    async def flags(
        self, path: str | None, *, limit: int, after: tuple[int, int] | None = None, dismissed: bool = False
    ) -> Sequence[Flag]:
        """Return open or dismissed contradictions with a side at or below `path`, those of the highest rank first."""
        rank, below = after or (ABOVE_ALL_RANKS, FOR_EVER)
        values = {"place": path or "", "rank": rank, "below": below, "limit": limit, "dismissed": dismissed}
        return [_flag(row) for row in await self._tables.read(_FLAGS, values)]

    async def flag(self, flag_id: int) -> Flag | None:
        """Return the contradiction, whether it is open or not."""
        rows = await self._tables.read(_ONE_FLAG, (flag_id,))
        return _flag(rows[0]) if rows else None

    async def dismissals(self, path: str) -> Mapping[bytes, Dismissal]:
        """Return the newest dismissal of each pair of statements of this page."""
        rows = await self._tables.read(_DISMISSALS, {"path": path})
        return {pair: Dismissal(ruling, by, moment(at), reason) for pair, ruling, by, at, reason in rows}

    async def dismiss(self, flag_id: int, dismissal: Dismissal, entry: HistoryEntry) -> bool:
        """Dismiss an open contradiction and record the act."""
        found = await self.flag(flag_id)
        if found is None:
            return False
        values = {
            "id": flag_id,
            "ruling": dismissal.ruling,
            "by": storable(dismissal.by),
            "at": aware(dismissal.at),
            "reason": storable(dismissal.reason),
            # Rows that were recorded before there was `pair` get it now.
            "pair": found.contradiction.pair,
        }
        return await self._rule((_DISMISS, values), entry)

    async def reopen(self, flag_id: int, entry: HistoryEntry) -> bool:
        """Undo a dismissal and record that."""
        return await self._rule((_REOPEN, (flag_id,)), entry)

    async def _rule(self, ruling: Part, entry: HistoryEntry) -> bool:
        """Run a statement that changes one contradiction, and record the act if it did."""
        proposal = carries_out(entry)

        async def work(t: StateTransaction) -> bool:
            await t.execute(HOLD_THE_END)
            if not await t.execute(*ruling):
                return False
            await t.execute(*appending(entry))
            if proposal is not None:
                await t.execute(CARRY_OUT, (proposal, entry.at))
            return True

        return await self._tables.transact(work)

    async def settle(self, flag_ids: Sequence[int], settlement: Settlement) -> None:
        """Close these contradictions."""
        values = {
            "ids": list(flag_ids),
            "how": settlement.how,
            "by": storable(settlement.by),
            "at": aware(settlement.at),
            "reason": storable(settlement.reason),
        }
        await self._tables.write((_SETTLE, values))

    async def settled(self, path: str | None, *, limit: int) -> Sequence[Flag]:
        """Return settled contradictions with a side at or below `path`, newest first."""
        return [_flag(row) for row in await self._tables.read(_SETTLED, {"place": path or "", "limit": limit})]

    async def revive(self, flag_id: int, entry: HistoryEntry) -> bool:
        """Open a settled contradiction again and record that."""
        return await self._rule((_REVIVE, (flag_id,)), entry)

    async def records(self, *, after: int = 0, limit: int = 1000) -> Sequence[AuditRecord]:
        """Return audit records, oldest first."""
        sql = "SELECT seq, body, digest FROM forge.audit WHERE seq > %s ORDER BY seq LIMIT %s"
        return [AuditRecord(*row) for row in await self._tables.read(sql, (after, limit), long=True)]

    async def scan(self, wanted: AuditScan, *, limit: int) -> Sequence[AuditRecord]:
        """Return the newest records that match, newest first."""
        conditions, asked = ["seq >= %s", "seq < %s"], list[object]([wanted.down_to, wanted.before])
        if wanted.since is not None or wanted.until is not None:
            conditions.append(_IN_TIME)
            asked += [utc_text(wanted.since or EARLIEST), utc_text(wanted.until or LATEST)]
        for part in wanted.parts:
            conditions.append(f"({' OR '.join([_HAS_PART] * len(part))})")
            asked += part
        for word in wanted.words:
            conditions.append(f"({' OR '.join([_HAS_WORD] * len(word))})")
            asked += [text.lower() for text in word]
        sql = f"SELECT seq, body, digest FROM forge.audit WHERE {' AND '.join(conditions)} ORDER BY seq DESC LIMIT %s"  # noqa: S608 - constants
        return [AuditRecord(*row) for row in await self._tables.read(sql, (*asked, limit), long=True)]

    async def chain_end(self) -> tuple[int, bytes]:
        """Return `seq` and digest of the newest record as kept beside the chain."""
        rows = await self._tables.read("SELECT seq, digest FROM forge.chain_end")
        return (rows[0][0], rows[0][1]) if rows else (0, b"")

    async def forget(self, *, seen_before: datetime, limit: int = 1000) -> int:
        """Delete states that were only `seen`, and not since then, the oldest first; return how many were deleted."""
        begun = {
            (change.path, revision)
            for intent in await self.intents()
            for change in intent.entry.changes
            for revision in (change.before, change.after)
        }
        # States of acts under way must stay, and are left out below, so as many more rows are read.
        rows = await self._tables.read(_ONLY_SEEN, (aware(seen_before), limit + len(begun)))
        old = [(key, digest) for path, key, digest in rows if (path, revision_of(digest)) not in begun][:limit]
        if not old:
            return 0
        values = ([key for key, _ in old], [digest for _, digest in old], seen_before)
        return int((await self._tables.write((_FORGET, values), durable=False))[0][0])


async def _aside(work: Callable[[], T], size_bytes: int) -> T:
    """Return the result of `work`, which runs on another thread if it would hold up other calls."""
    return await anyio.to_thread.run_sync(work) if size_bytes > ASIDE_BYTES else work()


def path_key(path: str) -> bytes:
    """Return the hash of a path, which PostgreSQL's indexes hold because a path may be too long for them."""
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).digest()


def committing(entry: HistoryEntry, *, kept: Sequence[Part] = (), files: Sequence[Part] = ()) -> list[Part]:
    """Return the statements that record the act; `kept` store contents and states of pages, `files` exchange stored files.

    Raises:
        ValueError: the entry can't be recorded.
    """
    require_sound(entry)
    changed, proposal = paths_to_tell(entry), carries_out(entry)
    parts = [appending(entry), *kept, *_remembering(entry), *_tracking(entry)]
    parts += [_flagging(entry, found) for found in entry.contradictions]
    # Last except for the events: every change of a proposal locks the end of the chain, then the proposal, then the counter.
    if proposal is not None:
        parts.append((CARRY_OUT, (proposal, entry.at)))
    parts += files
    if changed:
        parts.append((PUBLISH, ("doc", list(changed))))
    return parts


def outside_parts(path: str, raw: bytes | None, at: datetime) -> list[Part]:
    """Return the statements that record a page as somebody else left it.

    Earlier statements must have stored its content.
    """
    digest = None if raw is None else content_digest(raw)
    state = [] if digest is None else [state_part(path, digest, at, in_history=True)]
    revision = None if digest is None else revision_of(digest)
    return [*state, (_OUTSIDE, _columns(outside_line(0, path, revision, None, at)))]


def _named(path: str) -> dict[str, Any]:
    return {"path": path, "path_key": path_key(path)}


def _timeline(wanted: ActsWanted, after: tuple[datetime, int] | None) -> tuple[str, dict[str, Any]]:
    """Return the statement that lists these acts, and its values except for the limit.

    A condition that is not wanted is left out of the statement, because it would only cost time.
    """
    parts, values = [_FIRST_LINES], dict[str, Any]()
    if wanted.page is not None:
        parts.append(_OF_PAGE)
        values |= {**_named(wanted.page), "ever": FOR_EVER}
    if wanted.folder:
        parts.append(_IN_FOLDER)
        values["folder"] = f"{wanted.folder}/"
    if wanted.who:
        parts.append(_BY_SOMEBODY)
        who = storable(wanted.who)
        names = [who, *(f"{who}@{place}" for place in PERSONS)]
        values |= {"who": names, "line": "\n", "host": f"@{who}\n", "person": f"\n{who} ("}
        values["approved"] = f'"decision":"{APPROVED_BY}{canonical(who)[1:-1]} ('
    elif wanted.who is not None:
        parts.append(_BY_EDITORS)
    for statement, name, at in ((_SINCE, "since", wanted.since), (_UNTIL, "until", wanted.until)):
        if at is not None:
            parts.append(statement)
            values[name] = aware(at)
    if after is not None:
        parts.append(_AFTER)
        values |= {"last_time": aware(after[0]), "last_id": after[1]}
    return "\n".join([*parts, _NEWEST_FIRST]), values


def state_part(path: str, digest: bytes, at: datetime, *, in_history: bool) -> Part:
    """Return the statement that keeps the state of a page."""
    return _STATE, {**_named(path), "digest": digest, "at": at, "in_history": in_history}


def _remembering(entry: HistoryEntry) -> list[Part]:
    parts: list[Part] = []
    for change in pages_changed(entry):
        parts.append((_LINE, _columns(history_line(0, entry, change, 0))))
        for revision in (change.before, change.after):
            between = None if revision is None else digests_between(revision)
            if between is not None:
                low, high = between
                parts.append((_IN_HISTORY, {**_named(change.path), "low": low, "high": high}))
    return parts


def _columns(line: Revision) -> dict[str, Any]:
    columns = {name: getattr(line, name) for name in (*_COLUMNS.split(", "), "before", "at")}
    from_key = None if line.moved_from is None else path_key(line.moved_from)
    return {**columns, "path_key": path_key(line.path), "moved_from_key": from_key}


def _flag(row: Row) -> Flag:
    id_, at, principal, text, existing, new, rank, settled, ruling, by, ruled_at, reason = row
    found = contradiction(text)
    # The columns are updated when pages move; the stored text still has the old paths.
    found = replace(found, existing=replace(found.existing, path=existing), new=replace(found.new, path=new))
    flag = Flag(id_, moment(at), principal, found, rank, moment_if_any(settled))
    if ruling is None:
        return flag
    if settled is None:
        return replace(flag, dismissal=Dismissal(ruling, by, moment(ruled_at), reason))
    return replace(flag, settlement=Settlement(ruling, by, moment(ruled_at), reason))


def _flagging(entry: HistoryEntry, found: Contradiction) -> Part:
    return _FLAG, {
        "at": entry.at,
        "by": storable(entry.actor.principal),
        "existing": found.existing.path,
        "new": found.new.path,
        "same": contradiction_key(found),
        "told": contradiction_text(found),
        "rank": rank_of(found),
        "pair": found.pair,
    }


def _tracking(entry: HistoryEntry) -> list[Part]:
    parts: list[Part] = []
    if moved := moves(entry):
        parts.append((_MOVE_CONTRADICTIONS, (list(moved.values()), list(moved))))
        old, new = [path_key(path) for path in moved.values()], [path_key(path) for path in moved]
        parts.append((_CARRY, {"moved": moved, "old": old, "new": new, "paths": list(moved)}))
    for path, revision in origins_at(entry).items():
        packed = packed_origins(entry.origins[path])
        parts.append((_ORIGIN, {**_named(path), "revision": revision, "packed": packed}))
    return parts
