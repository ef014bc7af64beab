"""The part of a state store that is the same in both databases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from knowledge.history.timestamps import aware, moment, with_moments
from knowledge.leases import holds, latest_end
from knowledge.state.change_events import PUBLISH
from knowledge.state.ports import Enrolment, Event, Held, Lease, ReadingMark
from knowledge.state.tables import ManyRows, SqlPair, StateTables, StateTransaction

if TYPE_CHECKING:
    from knowledge.access.sql import SqlPeople
    from knowledge.history.sql import SqlLedger
    from knowledge.outbox.sql import SqlOutbox
    from knowledge.trust.ports import TrustChange, TrustRecord
    from knowledge.trust.sql import SqlTrust

LOOKS_KEPT = timedelta(days=30)
PRUNE_EVERY = timedelta(hours=1)

# The length of a text is in the head of its row: a long text is not read for it.
KINDS = {
    "proposals": """
        SELECT principal, count(*), sum(octet_length(told) + coalesce(octet_length(result), 0))
        FROM forge.proposal GROUP BY principal
    """,
    "journeys": """
        SELECT principal, count(*), sum(octet_length(folded) + coalesce((
            SELECT sum(octet_length(body)) FROM forge.journey_event e WHERE e.journey = j.number
        ), 0)) FROM forge.journey j GROUP BY principal
    """,
    "runs": """
        SELECT principal, count(*), sum(octet_length(header) + coalesce((
            SELECT sum(octet_length(body)) FROM forge.run_frame f WHERE f.run = r.number
        ), 0)) FROM forge.run r GROUP BY principal
    """,
    "errands": """
        SELECT principal, count(*), sum(octet_length(marks) + coalesce(octet_length(result), 0))
        FROM forge.errand GROUP BY principal
    """,
    "revisions of pages": "SELECT NULL, count(*), sum(octet_length(packed)) FROM forge.content",
    "stored pages and attachments": "SELECT NULL, count(*), sum(octet_length(path) + 60) FROM forge.stored_file",
    "origins of pages": "SELECT NULL, count(*), sum(octet_length(packed)) FROM forge.origin",
    "contradictions": "SELECT NULL, count(*), sum(octet_length(told)) FROM forge.contradiction",
    "audit records": "SELECT NULL, count(*), sum(octet_length(body)) FROM forge.audit",
    "commits of acts": "SELECT NULL, count(*), sum(octet_length(reason) + 200) FROM forge.act_commit",
    "map lines": "SELECT NULL, count(*), sum(octet_length(key) + octet_length(text)) FROM forge.map_line",
    "what was read": "SELECT principal, count(*), sum(octet_length(path) + 60) FROM forge.look GROUP BY principal",
    "sentences of others": """
        SELECT principal, count(*), sum(octet_length(digest) + octet_length(origin) + 60) FROM forge.read_passage GROUP BY principal
    """,
    "HTTP sessions": "SELECT NULL, count(*), sum(octet_length(name) + coalesce(octet_length(body), 0) + 100) FROM forge.client_note",
    "people and rules": "SELECT NULL, count(*), sum(octet_length(names) + octet_length(folder) + 60) FROM forge.directory",
    "change events": "SELECT NULL, count(*), sum(octet_length(key) + 30) FROM forge.event",
}
_ENROL = """
INSERT INTO forge.enrolment (host, secret_digest, created_at) VALUES (%s, %s, %s)
ON CONFLICT (host) DO UPDATE SET secret_digest = excluded.secret_digest, created_at = excluded.created_at
"""
_ENROLMENTS = """
SELECT host, secret_digest, created_at, coalesce(allowed, false) FROM forge.enrolment
LEFT JOIN forge.host_forms USING (host, secret_digest) ORDER BY host
"""
_HOST_OF = "SELECT host FROM forge.enrolment WHERE secret_digest = %s ORDER BY host LIMIT 1"
# A lease that ends after `latest` was given before the clock was set back.
_TAKE = """
INSERT INTO forge.lease AS held (name, holder, fence, expires_at) VALUES (%(name)s, %(holder)s, %(first)s, %(expires)s)
ON CONFLICT (name) DO UPDATE SET
    holder = excluded.holder,
    fence = CASE WHEN held.holder = excluded.holder THEN held.fence ELSE greatest(held.fence + 1, excluded.fence) END,
    expires_at = excluded.expires_at
WHERE held.holder IS NULL OR held.holder = excluded.holder OR held.expires_at <= %(now)s
    OR held.expires_at > %(latest)s
RETURNING name, holder, fence, expires_at
"""
_EXTEND = """
UPDATE forge.lease SET expires_at = %s WHERE name = %s AND holder = %s RETURNING name, holder, fence, expires_at
"""
_RELEASE = "UPDATE forge.lease SET holder = NULL WHERE name = %s AND holder = %s"
# Columns by name: a program that was overtaken by a migration still reads tables that may have more of them.
_LEASE = "SELECT name, holder, fence, expires_at FROM forge.lease WHERE name = %s AND holder IS NOT NULL"
_EVENTS = "SELECT seq, topic, key FROM forge.event WHERE seq > %s ORDER BY seq LIMIT %s"
_LOOK = SqlPair(
    """
INSERT INTO look VALUES (?, ?, ?, ?, ?)
ON CONFLICT (principal, journey, path, circle) DO UPDATE SET at_us = max(at_us, excluded.at_us)
""",
    """
INSERT INTO forge.look AS known (principal, journey, path, circle, seen_at)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::timestamptz[])
ON CONFLICT (principal, journey, path, circle) DO UPDATE SET seen_at = excluded.seen_at
WHERE known.seen_at < excluded.seen_at
""",
)
_LOOKS = "SELECT path, circle, seen_at FROM forge.look WHERE principal = %s AND journey = %s AND path = ANY(%s::text[])"
_FORGET_LOOKS = "DELETE FROM forge.look WHERE seen_at < %s"
_FORGET_NUDGES = "DELETE FROM forge.nudge WHERE given_at < %s"
_NUDGE = """
INSERT INTO forge.nudge AS known (principal, journey, path, given_at) VALUES (%(principal)s, %(journey)s, %(path)s, %(now)s)
ON CONFLICT (principal, journey, path) DO UPDATE SET given_at = excluded.given_at
WHERE known.given_at <= %(quiet_since)s
RETURNING 1
"""


class SqlStateStore:
    """Trust, leases, events and the reading ledger of one knowledge base.

    Its larger parts are loaded when they are first needed: a host waits for the start of its server, which needs none of them.
    """

    def __init__(self, tables: StateTables) -> None:
        self._tables = tables
        self._pruned_at = datetime.min.replace(tzinfo=UTC)

    @cached_property
    def ledger(self) -> SqlLedger:
        """The ledger in the same database."""
        from knowledge.history.sql import SqlLedger

        return SqlLedger(self._tables)

    @cached_property
    def trust(self) -> SqlTrust:
        """The trust records in the same database."""
        from knowledge.trust.sql import SqlTrust

        return SqlTrust(self._tables)

    @cached_property
    def outbox(self) -> SqlOutbox:
        """The outbox in the same database."""
        from knowledge.outbox.sql import SqlOutbox

        return SqlOutbox(self._tables)

    @cached_property
    def people(self) -> SqlPeople:
        """The people, groups, rules and reviewers in the same database."""
        from knowledge.access.sql import SqlPeople

        return SqlPeople(self._tables, self)

    @property
    def tables(self) -> StateTables:
        """The tables of the database, for stores of other things of the same knowledge base."""
        return self._tables

    async def enrol(self, host: str, secret_digest: bytes, *, at: datetime) -> None:
        """Register the host with its secret, which replaces an older one."""
        await self._tables.write((_ENROL, (host, secret_digest, aware(at))))

    async def enrolments(self) -> Sequence[Enrolment]:
        """Return all registered hosts, by name."""
        rows = await self._tables.read(_ENROLMENTS)
        return [Enrolment(host, digest, moment(at), forms=bool(forms)) for host, digest, at, forms in rows]

    async def host_of(self, secret_digest: bytes) -> str | None:
        """Return the host whose secret has that digest, or None."""
        rows = await self._tables.read(_HOST_OF, (secret_digest,))
        return rows[0][0] if rows else None

    async def trust_record(self, principal: str) -> TrustRecord | None:
        """Return the principal's record, or None if it was never seen."""
        return await self.trust.trust_record(principal)

    async def trust_records(self) -> Sequence[TrustRecord]:
        """Return all records, by principal."""
        return await self.trust.trust_records()

    async def history(self, principal: str, *, limit: int) -> Sequence[TrustChange]:
        """Return the newest `limit` changes, newest first."""
        return await self.trust.trust_changes(principal, limit=limit)

    async def acquire_lease(self, name: str, holder: str, *, now: datetime, ttl_s: float) -> Lease | None:
        """Take or extend the lease, or return None if another holder has it."""
        expires = aware(now) + timedelta(seconds=ttl_s)
        # Nearly always its holder extends it, which need not wait for a disk, or another one has it.
        rows = await self._tables.write((_EXTEND, (expires, name, holder)), durable=False)
        if rows:
            return Lease(*with_moments(rows[0], 3))
        held = await self.lease(name)
        if held is not None and holds(held.expires_at, now, ttl_s):
            return None
        values = {
            "name": name,
            "holder": holder,
            # Based on the clock, so that fences keep growing when the state is lost or restored from a backup but the index, which
            # remembers the highest fence it has seen, is not.
            "first": max(1, int(now.timestamp())),
            "now": now,
            "latest": latest_end(now, ttl_s),
            "expires": expires,
        }
        rows = await self._tables.write((_TAKE, values))
        return Lease(*with_moments(rows[0], 3)) if rows else None

    async def release_lease(self, name: str, holder: str) -> None:
        """Free the lease if `holder` has it; the fence is kept for the next holder."""
        await self._tables.write((_RELEASE, (name, holder)))

    async def lease(self, name: str) -> Lease | None:
        """Return the lease as last taken, expired or not; None if it was never taken, or released."""
        rows = await self._tables.read(_LEASE, (name,))
        return Lease(*with_moments(rows[0], 3)) if rows else None

    async def publish(self, topic: str, keys: Iterable[str]) -> int:
        """Add one event for each key and return the newest `seq`."""
        added = list(keys)
        return int((await self._tables.write((PUBLISH, (topic, added))))[0][0]) if added else await self.last_event()

    async def last_event(self) -> int:
        """Return the newest `seq`, 0 if there never was an event."""
        raise NotImplementedError

    async def events_after(self, seq: int, *, limit: int = 1000) -> Sequence[Event]:
        """Return the events after `seq`, oldest first."""
        return [Event(*row) for row in await self._tables.read(_EVENTS, (seq, limit))]

    async def note_looks(self, principal: str, journey: str, looks: Collection[ReadingMark], *, at: datetime) -> None:
        """Remember that the caller has just seen these; the newest time is kept."""
        if not looks:
            return
        # In a fixed order, so that two callers never wait for each other.
        once = sorted({(look.path, look.circle) for look in looks})
        rows = [(principal, journey, path, circle, aware(at)) for path, circle in once]
        await self._tables.write((_LOOK, ManyRows(rows)), durable=False)
        if at - self._pruned_at > PRUNE_EVERY:
            self._pruned_at, oldest = at, (at - LOOKS_KEPT,)
            await self._tables.write_each((_FORGET_LOOKS, oldest), (_FORGET_NUDGES, oldest), durable=False)

    async def looks(self, principal: str, journey: str, paths: Collection[str]) -> Mapping[ReadingMark, datetime]:
        """Return the paths among these that the caller has seen, in which circle, and when last."""
        rows = await self._tables.read(_LOOKS, (principal, journey, list(paths)))
        return {ReadingMark(path, circle): moment(at) for path, circle, at in rows}

    async def give_nudge(self, principal: str, journey: str, path: str, *, now: datetime, quiet_s: float) -> bool:
        """Return True, and remember it, unless the caller got this nudge less than `quiet_s` ago."""
        values = {
            "principal": principal,
            "journey": journey,
            "path": path,
            "now": aware(now),
            "quiet_since": now - timedelta(seconds=quiet_s),
        }
        return bool(await self._tables.write((_NUDGE, values), durable=False))

    async def held(self) -> Sequence[Held]:
        """Return the kinds of records by the space they take, largest first."""

        async def work(t: StateTransaction) -> list[Held]:
            found = []
            for kind, sql in KINDS.items():
                rows = await t.execute(sql)
                found += [Held(kind, whose, count, int(size or 0)) for whose, count, size in rows if count]
            return found

        return sorted(await self._tables.inspect(work, long=True), key=lambda one: -one.size_bytes)
