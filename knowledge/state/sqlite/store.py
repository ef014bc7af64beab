"""The state database on SQLite: what was acknowledged survives a power cut."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import apsw

from knowledge.errors import CorruptDatabase, StorageError
from knowledge.history.sql import SqlLedger
from knowledge.history.timestamps import micros, moment
from knowledge.leases import latest_end
from knowledge.outbox.sql import SqlOutbox
from knowledge.state.ports import Enrolment, Event, Held, Lease, ReadingMark, StateSize
from knowledge.state.sqlite import space
from knowledge.state.sqlite.database import Database, SqliteSchema, Value, load_schema
from knowledge.state.sqlite.events import publish
from knowledge.state.sqlite.tables import SqliteTables
from knowledge.trust.ports import TrustChange, TrustRecord
from knowledge.trust.sql import CHANGE, STANDING, SqlTrust, trust_change, trust_record

APPLICATION_ID = 0x4B464753  # "KFGS"
LOOK_S = 0.08
"""How often the change counter is looked at: a file cannot ring."""
LOOKS_KEPT = timedelta(days=30)

_TAKE = """
INSERT INTO lease (name, holder, fence, expires_us) VALUES (:name, :holder, :first_fence, :expires)
ON CONFLICT (name) DO UPDATE SET
    holder = excluded.holder,
    fence = CASE WHEN holder IS excluded.holder THEN fence ELSE max(fence + 1, excluded.fence) END,
    expires_us = excluded.expires_us
WHERE holder IS NULL OR holder = excluded.holder OR expires_us <= :now OR expires_us > :latest
RETURNING name, holder, fence, expires_us
"""

_ENROLMENTS = """
SELECT host, secret_digest, created_us, allowed FROM enrolment
LEFT JOIN host_forms USING (host, secret_digest) ORDER BY host
"""
_LOOK = """
INSERT INTO look VALUES (?, ?, ?, ?, ?)
ON CONFLICT (principal, journey, path, circle) DO UPDATE SET at_us = max(at_us, excluded.at_us)
"""
_LOOKS = """
SELECT path, circle, at_us FROM look
WHERE principal = ? AND journey = ? AND path IN (SELECT value FROM json_each(?))
"""
_NUDGE = """
INSERT INTO nudge VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (principal, journey, path) DO UPDATE SET at_us = excluded.at_us WHERE at_us <= ?5
RETURNING 1
"""


class SqliteStateStore:
    """Trust, leases and events in one file that several processes share."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tables = SqliteTables(database)
        self._ledger = SqlLedger(self._tables)
        self._trust = SqlTrust(self._tables)
        self._outbox = SqlOutbox(self._tables)
        self._data_version = -1
        self._last_event = 0

    @classmethod
    async def open(cls, path: Path, *, engine: str | None = None) -> SqliteStateStore:
        """Return the store at `path`, created private and migrated if need be.

        Raises:
            UnsafeDatabaseEngine, ForeignDatabase, NewerDatabase, CorruptDatabase, DatabaseUnavailable: nothing was changed.
        """
        schema = load_schema("state", APPLICATION_ID, durable=True)
        return cls(await anyio.to_thread.run_sync(partial(_opened, path, schema, engine)))

    @property
    def path(self) -> Path:
        """Return where the database lies."""
        return self._database.path

    @property
    def place(self) -> str:
        """Return where the state is and what keeps it."""
        return f"{self.path} (SQLite {apsw.sqlite_lib_version()})"

    @property
    def database(self) -> Database:
        """Return the open file, for who keeps other things of the same knowledge base in it."""
        return self._database

    @property
    def tables(self) -> SqliteTables:
        """Return the tables of the file, for stores of other things of the same knowledge base."""
        return self._tables

    @property
    def ledger(self) -> SqlLedger:
        """Return the ledger in the same file."""
        return self._ledger

    @property
    def trust(self) -> SqlTrust:
        """Return the records of trust in the same file."""
        return self._trust

    @property
    def outbox(self) -> SqlOutbox:
        """Return the outbox in the same file."""
        return self._outbox

    async def enrol(self, host: str, secret_digest: bytes, *, at: datetime) -> None:
        """Remember the host's secret, replacing an older one."""
        row = (host, secret_digest, micros(at))
        await self._database.write(
            lambda c: c.execute("INSERT OR REPLACE INTO enrolment VALUES (?, ?, ?)", row).fetchall()
        )

    async def enrolments(self) -> Sequence[Enrolment]:
        """Return all of them by host name."""
        rows: Any = self._database.query(_ENROLMENTS)
        return [Enrolment(host, digest, moment(at), forms=bool(forms)) for host, digest, at, forms in rows]

    async def host_of(self, secret_digest: bytes) -> str | None:
        """Return the host whose secret has that digest, or None."""
        sql = "SELECT host FROM enrolment WHERE secret_digest = ? ORDER BY host LIMIT 1"
        rows: Any = self._database.query(sql, (secret_digest,))
        return rows[0][0] if rows else None

    async def trust_record(self, principal: str) -> TrustRecord | None:
        """Return what is recorded, or None for a principal that was never seen."""
        rows: Any = await self._tables.read(f"{STANDING} WHERE principal = %s", (principal,))
        return trust_record(rows[0]) if rows else None

    async def trust_records(self) -> Sequence[TrustRecord]:
        """Return all, by principal."""
        return [trust_record(row) for row in await self._tables.read(f"{STANDING} ORDER BY principal")]

    async def history(self, principal: str, *, limit: int) -> Sequence[TrustChange]:
        """Return the newest `limit` changes, newest first."""
        rows = await self._tables.read(f"{CHANGE} WHERE principal = %s ORDER BY id DESC LIMIT %s", (principal, limit))
        return [trust_change(row) for row in rows]

    async def acquire_lease(self, name: str, holder: str, *, now: datetime, ttl_s: float) -> Lease | None:
        """Take or extend the lease, or return None if another holder has it."""
        values: dict[str, Value] = {
            "name": name,
            "holder": holder,
            # The clock keeps fences growing when the state is lost or restored while the index, which remembers the
            # highest fence it met, is not.
            "first_fence": max(1, int(now.timestamp())),
            "now": micros(now),
            "latest": micros(latest_end(now, ttl_s)),
            "expires": micros(now + timedelta(seconds=ttl_s)),
        }
        rows: Any = await self._database.write(lambda c: c.execute(_TAKE, values).fetchall())
        return _lease(*rows[0]) if rows else None

    async def release_lease(self, name: str, holder: str) -> None:
        """Free it if `holder` has it; the fence is kept for the next one."""
        sql = "UPDATE lease SET holder = NULL WHERE name = ? AND holder = ?"
        await self._database.write(lambda c: c.execute(sql, (name, holder)).fetchall())

    async def lease(self, name: str) -> Lease | None:
        """Return the lease as last taken, expired or not; None if never taken or released."""
        rows: Any = self._database.query("SELECT * FROM lease WHERE name = ? AND holder IS NOT NULL", (name,))
        return _lease(*rows[0]) if rows else None

    async def publish(self, topic: str, keys: Iterable[str]) -> int:
        """Add one event a key and return the newest `seq`."""
        rows = [(topic, key) for key in keys]
        return await self._database.write(partial(publish, rows)) if rows else await self.last_event()

    async def events_after(self, seq: int, *, limit: int = 1000) -> Sequence[Event]:
        """Return what came after `seq`, oldest first."""
        sql = "SELECT seq, topic, key FROM event WHERE seq > ? ORDER BY seq LIMIT ?"
        rows: Any = self._database.query(sql, (seq, limit))
        return [Event(*row) for row in rows]

    async def last_event(self) -> int:
        """Return the newest `seq`, 0 when nothing ever happened; looks only after something was committed."""
        ((version,),) = self._database.query("PRAGMA data_version")
        if version != self._data_version:
            # Asked before the query: a commit between the two is then seen next time.
            rows: Any = self._database.query("SELECT seq FROM sqlite_sequence WHERE name = 'event'")
            self._last_event, self._data_version = (rows[0][0] if rows else 0), int(str(version))
        return self._last_event

    async def changed(self, seq: int) -> None:
        """Return as soon as the newest event is another one than `seq`."""
        while await self.last_event() == seq:  # noqa: ASYNC110 - the event may be another process's
            await anyio.sleep(LOOK_S)

    async def note_looks(self, principal: str, journey: str, looks: Collection[ReadingMark], *, at: datetime) -> None:
        """Remember that the caller has just seen these; the newest time is kept."""
        rows = [(principal, journey, look.path, look.circle, micros(at)) for look in looks]
        if rows:
            await self._database.write(partial(_note_looks, rows, micros(at - LOOKS_KEPT)), durable=False)

    async def looks(self, principal: str, journey: str, paths: Collection[str]) -> Mapping[ReadingMark, datetime]:
        """Return what the caller has seen of these paths, in any circle, and when last."""
        rows: Any = self._database.query(_LOOKS, (principal, journey, json.dumps(list(paths))))
        return {ReadingMark(path, circle): moment(at) for path, circle, at in rows}

    async def give_nudge(self, principal: str, journey: str, path: str, *, now: datetime, quiet_s: float) -> bool:
        """Return True, and remember it, unless the caller got this nudge less than `quiet_s` ago."""
        row = (principal, journey, path, micros(now), micros(now - timedelta(seconds=quiet_s)))
        given = await self._database.write(lambda c: c.execute(_NUDGE, row).fetchall(), durable=False)
        return bool(given)

    async def held(self) -> Sequence[Held]:
        """Return what takes the space, the most first."""
        return await anyio.to_thread.run_sync(space.held, self._database)

    async def size(self) -> StateSize:
        """Return how large the file is, with its log."""
        return space.size(self._database)

    async def give_back(self, *, spare: bool = True) -> bool:
        """Give some free pages back to the file system; at the end the log is shortened, too."""
        more = await anyio.to_thread.run_sync(partial(space.give_back_some, self._database, spare=spare))
        if not more:
            await anyio.to_thread.run_sync(self._database.shorten_log)
        return more

    async def rewrite(self) -> bool:
        """Write the whole file anew without free pages."""
        await anyio.to_thread.run_sync(space.vacuum, self._database)
        return True

    @property
    def gives_back(self) -> bool:
        """Return whether free pages can be given back without writing the whole file anew."""
        return space.gives_back(self._database)

    async def check(self) -> Sequence[str]:
        """Return what is wrong with the file; nothing when it is sound. Reads all of it."""
        return await anyio.to_thread.run_sync(self._database.check)

    async def close(self) -> None:
        """Give everything back."""
        await anyio.to_thread.run_sync(self._database.close)


def _opened(path: Path, schema: SqliteSchema, engine: str | None) -> Database:
    """Return the database, looked through: damage must stop the start, not a decision about trust later on."""
    database = Database.open(path, schema, engine=engine)
    try:
        found = database.query("PRAGMA quick_check(1)")
    except StorageError:
        database.close()
        raise
    if found != [("ok",)]:
        database.close()
        raise CorruptDatabase(str(path), "its pages contradict each other")
    return database


def _note_looks(rows: Sequence[tuple[str, str, str, str, int]], oldest_us: int, c: apsw.Connection) -> None:
    c.executemany(_LOOK, rows)
    for table in ("look", "nudge"):
        c.execute(f"DELETE FROM {table} WHERE at_us < ?", (oldest_us,))  # noqa: S608 - two constants


def _lease(name: str, holder: str, fence: int, expires_us: int) -> Lease:
    return Lease(name, holder, fence, moment(expires_us))
