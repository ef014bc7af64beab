"""The state database on PostgreSQL: one schema a knowledge base, shared by processes on any number of machines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio

from knowledge.history.sql import SqlLedger
from knowledge.history.timestamps import aware
from knowledge.leases import holds, latest_end
from knowledge.outbox.sql import SqlOutbox
from knowledge.state.ports import Enrolment, Event, Held, Lease, ReadingMark, StateSize
from knowledge.state.postgres.database import Pool, PostgresAddress
from knowledge.state.postgres.events import publishing
from knowledge.state.postgres.listener import UNASKED_S, Ear
from knowledge.state.postgres.schema import PostgresSchema
from knowledge.state.postgres.tables import Tables
from knowledge.trust.ports import TrustChange, TrustRecord
from knowledge.trust.sql import CHANGE, STANDING, SqlTrust

LOOKS_KEPT = timedelta(days=30)
PRUNE_EVERY = timedelta(hours=1)
TABLES = (
    *("meta", "enrolment", "standing", "standing_change", "lease", "counter", "event", "look", "nudge"),
    *("content", "page_state", "revision", "intent", "origin", "contradiction", "audit", "chain_end"),
    *("proposal", "passkey", "secret", "taint", "journey", "journey_event", "errand", "mention"),
    *("run", "run_frame", "map_line", "host_forms", "trusted_place", "read_passage"),
    *("quota", "proposal_line", "journey_cut", "run_cut"),
)

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
    "origins of pages": "SELECT NULL, count(*), sum(octet_length(packed)) FROM forge.origin",
    "contradictions": "SELECT NULL, count(*), sum(octet_length(told)) FROM forge.contradiction",
    "audit records": "SELECT NULL, count(*), sum(octet_length(body)) FROM forge.audit",
    "map lines": "SELECT NULL, count(*), sum(octet_length(key) + octet_length(text)) FROM forge.map_line",
    "what was read": "SELECT principal, count(*), sum(octet_length(path) + 60) FROM forge.look GROUP BY principal",
    "sentences of others": """
        SELECT principal, count(*), sum(octet_length(digest) + octet_length(origin) + 60) FROM forge.read_passage GROUP BY principal
    """,
    "change events": "SELECT NULL, count(*), sum(octet_length(key) + 30) FROM forge.event",
}
_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'
"""
_ENROL = """
INSERT INTO forge.enrolment VALUES (%s, %s, %s)
ON CONFLICT (host) DO UPDATE SET secret_digest = excluded.secret_digest, created_at = excluded.created_at
"""
_ENROLMENTS = """
SELECT host, secret_digest, created_at, coalesce(allowed, false) FROM forge.enrolment
LEFT JOIN forge.host_forms USING (host, secret_digest) ORDER BY host
"""
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
_LOOK = """
INSERT INTO forge.look AS seen
SELECT %(principal)s, %(journey)s, path, circle, %(at)s
FROM unnest(%(paths)s::text[], %(circles)s::text[]) AS looked (path, circle)
ON CONFLICT (principal, journey, path, circle) DO UPDATE SET seen_at = excluded.seen_at
WHERE seen.seen_at < excluded.seen_at
"""
# Columns by name: a program that was overtaken reads on in tables that may have more of them.
_LEASE = "SELECT name, holder, fence, expires_at FROM forge.lease WHERE name = %s AND holder IS NOT NULL"
_LOOKS = "SELECT path, circle, seen_at FROM forge.look WHERE principal = %s AND journey = %s AND path = ANY(%s::text[])"
_NUDGE = """
INSERT INTO forge.nudge AS given VALUES (%(principal)s, %(journey)s, %(path)s, %(now)s)
ON CONFLICT (principal, journey, path) DO UPDATE SET given_at = excluded.given_at
WHERE given.given_at <= %(quiet_since)s
RETURNING 1
"""


class PostgresStateStore:
    """Trust, leases, events and the reading ledger in one schema of a database."""

    def __init__(self, server: PostgresAddress, schema: PostgresSchema, known: int, version: str) -> None:
        self._server, self._schema, self._version = server, schema, version
        self._pool = Pool(server)
        self._tables = Tables(self._pool, schema, known)
        self._ledger = SqlLedger(self._tables)
        self._trust = SqlTrust(self._tables)
        self._outbox = SqlOutbox(self._tables)
        self._ear, self._listening = Ear(server, schema.name), anyio.Lock()
        self._pruned_at = datetime.min.replace(tzinfo=UTC)

    @classmethod
    async def open(cls, url: str, schema: str) -> PostgresStateStore:
        """Return the store in that schema of the database at `url`, which is made and migrated if need be.

        Raises:
            DatabaseRefused, DatabaseUnavailable, ForeignDatabase, NewerDatabase: nothing was changed.
        """
        server, ours = PostgresAddress(url, schema), PostgresSchema(schema)
        connection = await server.connect()
        try:
            with server.translating():
                known = await ours.prepare(connection, server.place)
            version = connection.info.parameter_status("server_version") or "of unknown version"
        finally:
            await connection.close()
        return cls(server, ours, known, version)

    @property
    def shared(self) -> tuple[PostgresAddress, str]:
        """Return the server and the name of the schema, for locks that all machines share."""
        return self._server, self._schema.name

    @property
    def place(self) -> str:
        """Return where the state is and what keeps it."""
        return f"{self._server.place} (version {self._version.split()[0]})"

    @property
    def tables(self) -> Tables:
        """Return the tables of the schema, for who keeps other things of the same knowledge base in it."""
        return self._tables

    @property
    def ledger(self) -> SqlLedger:
        """Return the ledger in the same schema."""
        return self._ledger

    @property
    def trust(self) -> SqlTrust:
        """Return the records of trust in the same schema."""
        return self._trust

    @property
    def outbox(self) -> SqlOutbox:
        """Return the outbox in the same schema."""
        return self._outbox

    async def enrol(self, host: str, secret_digest: bytes, *, at: datetime) -> None:
        """Remember the host's secret, replacing an older one."""
        await self._write(_ENROL, (host, secret_digest, aware(at)))

    async def enrolments(self) -> Sequence[Enrolment]:
        """Return all of them by host name."""
        rows = await self._read(_ENROLMENTS)
        return [Enrolment(*row) for row in rows]

    async def host_of(self, secret_digest: bytes) -> str | None:
        """Return the host whose secret has that digest, or None."""
        sql = "SELECT host FROM forge.enrolment WHERE secret_digest = %s ORDER BY host LIMIT 1"
        rows = await self._read(sql, secret_digest)
        return rows[0][0] if rows else None

    async def trust_record(self, principal: str) -> TrustRecord | None:
        """Return what is recorded, or None for a principal that was never seen."""
        rows = await self._read(f"{STANDING} WHERE principal = %s", principal)
        return TrustRecord(*rows[0]) if rows else None

    async def trust_records(self) -> Sequence[TrustRecord]:
        """Return all, by principal."""
        return [TrustRecord(*row) for row in await self._read(f"{STANDING} ORDER BY principal")]

    async def history(self, principal: str, *, limit: int) -> Sequence[TrustChange]:
        """Return the newest `limit` changes, newest first."""
        return [
            TrustChange(*row)
            for row in await self._read(f"{CHANGE} WHERE principal = %s ORDER BY id DESC LIMIT %s", principal, limit)
        ]

    async def acquire_lease(self, name: str, holder: str, *, now: datetime, ttl_s: float) -> Lease | None:
        """Take or extend the lease, or return None if another holder has it."""
        expires = aware(now) + timedelta(seconds=ttl_s)
        # Nearly always it is asked for by its holder, whose renewal need not wait for a disk, or is taken.
        rows = await self._write(_EXTEND, (expires, name, holder), light=True)
        if rows:
            return Lease(*rows[0])
        held = await self.lease(name)
        if held is not None and holds(held.expires_at, now, ttl_s):
            return None
        values = {
            "name": name,
            "holder": holder,
            # The clock keeps fences growing when the state is lost or restored while the index, which remembers the
            # highest fence it met, is not.
            "first": max(1, int(now.timestamp())),
            "now": now,
            "latest": latest_end(now, ttl_s),
            "expires": expires,
        }
        rows = await self._write(_TAKE, values)
        return Lease(*rows[0]) if rows else None

    async def release_lease(self, name: str, holder: str) -> None:
        """Free it if `holder` has it; the fence is kept for the next one."""
        await self._write("UPDATE forge.lease SET holder = NULL WHERE name = %s AND holder = %s", (name, holder))

    async def lease(self, name: str) -> Lease | None:
        """Return the lease as last taken, expired or not; None if never taken or released."""
        rows = await self._read(_LEASE, name)
        return Lease(*rows[0]) if rows else None

    async def publish(self, topic: str, keys: Iterable[str]) -> int:
        """Add one event a key and return the newest `seq`."""
        told = list(keys)
        if not told:
            return await self.last_event()
        return int((await self._tables.write(publishing(topic, told, self._tables.schema)))[0][0])

    async def events_after(self, seq: int, *, limit: int = 1000) -> Sequence[Event]:
        """Return what came after `seq`, oldest first."""
        sql = "SELECT seq, topic, key FROM forge.event WHERE seq > %s ORDER BY seq LIMIT %s"
        return [Event(*row) for row in await self._read(sql, seq, limit)]

    async def last_event(self) -> int:
        """Return the newest `seq`, 0 when nothing ever happened."""
        return int((await self._read("SELECT seq FROM forge.counter"))[0][0])

    async def changed(self, seq: int) -> None:
        """Return as soon as the newest event is another one than `seq`."""
        async with self._listening:  # one waits on the connection; who comes after it looks first, as everybody does
            looked = False
            while True:
                await self._ear.open()
                # Only now: what is published after this look is heard.
                if await self.last_event() != seq:
                    return
                if looked:
                    await anyio.sleep(UNASKED_S)  # what is published meanwhile is heard after it
                looked = True
                await self._ear.wait()

    async def note_looks(self, principal: str, journey: str, looks: Collection[ReadingMark], *, at: datetime) -> None:
        """Remember that the caller has just seen these; the newest time is kept."""
        if not looks:
            return
        # In one order, so that two callers cannot wait for each other.
        once = sorted({(look.path, look.circle) for look in looks})
        values = {
            "principal": principal,
            "journey": journey,
            "at": aware(at),
            "paths": [path for path, _ in once],
            "circles": [circle for _, circle in once],
        }
        await self._write(_LOOK, values, light=True)
        if at - self._pruned_at > PRUNE_EVERY:
            self._pruned_at = at
            await self._write("DELETE FROM forge.look WHERE seen_at < %s", (at - LOOKS_KEPT,), light=True)
            await self._write("DELETE FROM forge.nudge WHERE given_at < %s", (at - LOOKS_KEPT,), light=True)

    async def looks(self, principal: str, journey: str, paths: Collection[str]) -> Mapping[ReadingMark, datetime]:
        """Return what the caller has seen of these paths, in any circle, and when last."""
        rows = await self._read(_LOOKS, principal, journey, list(paths))
        return {ReadingMark(path, circle): at for path, circle, at in rows}

    async def give_nudge(self, principal: str, journey: str, path: str, *, now: datetime, quiet_s: float) -> bool:
        """Return True, and remember it, unless the caller got this nudge less than `quiet_s` ago."""
        values = {
            "principal": principal,
            "journey": journey,
            "path": path,
            "now": aware(now),
            "quiet_since": now - timedelta(seconds=quiet_s),
        }
        return bool(await self._write(_NUDGE, values, light=True))

    async def held(self) -> Sequence[Held]:
        """Return what takes the space, the most first."""
        found = [
            Held(kind, whose, count, int(size or 0))
            for kind, sql in KINDS.items()
            for whose, count, size in await self._read(sql)
            if count
        ]
        return sorted(found, key=lambda one: -one.size_bytes)

    async def size(self) -> StateSize:
        """Return how large the tables are, with their indexes."""
        return StateSize(int((await self._read(_SIZE, self._schema.name))[0][0]))

    async def give_back(self, *, spare: bool = True) -> bool:
        """Leave it to the server: its autovacuum makes room for what comes next."""
        del spare
        return False

    @property
    def gives_back(self) -> bool:
        """Return that nothing has to be rewritten for it."""
        return True

    async def rewrite(self) -> bool:
        """Leave it as it is."""
        return False

    async def check(self) -> Sequence[str]:
        """Return which tables are missing or may not be written, and whether notifications are swallowed on the way."""
        wrong = []
        for table in TABLES:
            named = f'"{self._schema.name}".{table}'
            rows = await self._read("SELECT to_regclass(%s) IS NOT NULL", named)
            if not rows[0][0]:
                wrong.append(f"there is no table {named}")
                continue
            rights = "SELECT has_table_privilege(%s, 'SELECT') AND has_table_privilege(%s, 'INSERT, UPDATE, DELETE')"
            if not (await self._read(rights, named, named))[0][0]:
                wrong.append(f"the user may not read or write {named}")
        return wrong

    async def close(self) -> None:
        """Give everything back."""
        await self._ear.close()
        await self._pool.close()

    async def _read(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        return await self._tables.read(sql, arguments)

    async def _write(self, sql: str, arguments: Any, *, light: bool = False) -> list[tuple[Any, ...]]:
        return await self._tables.write((sql, arguments), light=light)
