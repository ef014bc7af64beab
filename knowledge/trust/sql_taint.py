"""The untrusted text that principals read, in the state database: its origins, and the fingerprints of its sentences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from knowledge.history.acts import storable
from knowledge.history.timestamps import aware, moment
from knowledge.state.retention.passages import MOST_PASSAGES, PASSAGES_KEPT
from knowledge.state.tables import ManyRows, SqlPair, StateTables
from knowledge.trust.codec import (
    TAINT_KEPT,
)

_PASSAGE = SqlPair(
    """
INSERT INTO read_passage VALUES (?, ?, ?, ?)
ON CONFLICT (principal, digest) DO UPDATE SET origin = excluded.origin, at_us = excluded.at_us
""",
    """
INSERT INTO forge.read_passage (principal, digest, origin, read_at)
SELECT * FROM unnest(%s::text[], %s::bytea[], %s::text[], %s::timestamptz[])
ON CONFLICT (principal, digest) DO UPDATE SET origin = excluded.origin, read_at = excluded.read_at
""",
)
_FORGET_PASSAGES = SqlPair(
    """
DELETE FROM read_passage WHERE at_us < :oldest OR (principal = :principal AND digest IN (
    SELECT digest FROM read_passage WHERE principal = :principal ORDER BY at_us DESC, digest DESC LIMIT -1 OFFSET :most))
""",
    # Only the caller's own: those of others may be under way, and two that forget at once would wait for each other.
    """
DELETE FROM forge.read_passage WHERE principal = %(principal)s AND (read_at < %(oldest)s OR digest IN (
    SELECT digest FROM forge.read_passage WHERE principal = %(principal)s ORDER BY read_at DESC, digest DESC OFFSET %(most)s))
""",
)
_PASSAGES = SqlPair(
    # The plus keeps it from the index on times, by which it would go through all passages of the caller.
    """
SELECT digest, origin FROM read_passage
WHERE principal = :principal AND +at_us >= :since AND digest IN (SELECT unhex(value) FROM json_each(:digests))
""",
    """
SELECT digest, origin FROM forge.read_passage
WHERE principal = %(principal)s AND read_at >= %(since)s AND digest = ANY(%(digests)s::bytea[])
""",
)
_TAINT = SqlPair(
    """
INSERT INTO taint VALUES (?, ?, ?, ?)
ON CONFLICT (principal, journey, origin) DO UPDATE SET at_us = max(at_us, excluded.at_us)
""",
    """
INSERT INTO forge.taint AS known (principal, journey, origin_key, origin, read_at)
SELECT principal, journey, sha256(convert_to(origin, 'UTF8')), origin, at
FROM unnest(%s::text[], %s::text[], %s::text[], %s::timestamptz[]) AS read (principal, journey, origin, at)
ON CONFLICT (principal, journey, origin_key) DO UPDATE SET read_at = greatest(known.read_at, excluded.read_at)
""",
)
_FORGET_TAINT = SqlPair(
    "DELETE FROM taint WHERE journey = '' AND at_us < :oldest",
    # Only the caller's own, as for passages above.
    "DELETE FROM forge.taint WHERE principal = %(principal)s AND journey = '' AND read_at < %(oldest)s",
)
_TAINTS = """
SELECT origin, max(read_at) FROM forge.taint
WHERE principal = %(principal)s
AND ((journey = '' AND read_at >= %(since)s) OR (journey <> '' AND journey = %(journey)s)) GROUP BY origin
"""


class SqlTaint:
    """Taint and read sentences, shared by all processes that use the state database."""

    def __init__(self, tables: StateTables) -> None:
        self._tables = tables

    async def note_taint(self, principal: str, journey: str, origins: Collection[str], *, at: datetime) -> None:
        """Record that the caller has read text from these origins; of each the newest time is kept."""
        # In a fixed order, so that two callers never wait for each other.
        once = sorted({storable(origin) for origin in origins})
        if once:
            rows = [(principal, journey, origin, aware(at)) for origin in once]
            forget = (_FORGET_TAINT, {"principal": principal, "oldest": at - TAINT_KEPT})
            # Not durable: every read of untrusted text writes here and must not wait for the disk.
            await self._tables.write_each((_TAINT, ManyRows(rows)), forget, durable=False)

    async def taints(self, principal: str, journey: str, *, since: datetime) -> Mapping[str, datetime]:
        """Return the untrusted origins that the caller read in this journey, or outside any since then, with the last time of each."""
        values = {"principal": principal, "journey": journey, "since": aware(since)}
        return {origin: moment(at) for origin, at in await self._tables.read(_TAINTS, values)}

    async def note_passages(self, principal: str, passages: Mapping[bytes, str], *, at: datetime) -> None:
        """Record the fingerprints of the sentences that the caller was shown."""
        if passages:
            # In a fixed order, so that two calls of one caller never wait for each other.
            rows = [(principal, digest, storable(origin), aware(at)) for digest, origin in sorted(passages.items())]
            old = {"principal": principal, "oldest": at - PASSAGES_KEPT, "most": MOST_PASSAGES}
            await self._tables.write_each((_PASSAGE, ManyRows(rows)), (_FORGET_PASSAGES, old), durable=False)

    async def passages(self, principal: str, digests: Collection[bytes], *, since: datetime) -> Mapping[bytes, str]:
        """Return the sentences among these that the caller was shown since then."""
        values = {"principal": principal, "since": aware(since), "digests": list(digests)}
        return dict(await self._tables.read(_PASSAGES, values))
