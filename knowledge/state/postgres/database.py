"""Reaching one PostgreSQL database: connections, a pool of them, and its errors in the words of the domain."""

from __future__ import annotations

import logging
import re
import select
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, TypeVar

import anyio
from psycopg import AsyncConnection, DataError, Error, InterfaceError, ProgrammingError
from psycopg.abc import Buffer
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.datetime import TimestamptzLoader

from knowledge.errors import (
    CorruptDatabase,
    DatabaseRefused,
    DatabaseUnavailable,
    KnowledgeError,
    NewerDatabase,
    OutcomeUnknown,
    ProposalSettled,
    QuotaReached,
    UnknownIntent,
    Unstorable,
)
from knowledge.history.timestamps import EARLIEST, LATEST, within_reach
from knowledge.state.tables import Arguments
from knowledge.wire.addresses import shown_address

logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of what our callers are told anyway

T = TypeVar("T")
Connection = AsyncConnection[tuple[Any, ...]]
Statement = tuple[bytes, Arguments]
Ask = Callable[[bytes, Any], Awaitable[list[tuple[Any, ...]]]]

PATIENCE_S = 5.0
"""The longest that one call may take, whatever the network does; the server gives up on a statement a little earlier."""
SLOW_FAILURE_S = 1.0
QUIET_S = 4.0
"""After a failure that took long, calls fail at once for so long: a read that asks three things must not wait thrice."""
MOST_CONNECTIONS = 4
IDLE_S = 300.0
"""Firewalls forget connections that say nothing; an older one is not used again."""

DEFAULTS = {
    "application_name": "knowledge-forge",
    "client_encoding": "utf8",
    "connect_timeout": "4",
    # A replica can answer, but not keep what a person decided; of several hosts the one that can is taken.
    "target_session_attrs": "read-write",
    "keepalives_idle": "30",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
SESSION = b"""
SET statement_timeout = '4s';
SET idle_in_transaction_session_timeout = '10s';
SET default_transaction_isolation = 'read committed';
SET timezone = 'UTC';
SET search_path = pg_catalog, pg_temp
"""
"""Every table and function of ours is named with its schema. With `public` in the path, a function that another role puts there would
be called with our rights where its arguments fit better than those of PostgreSQL's own (CVE-2018-1058)."""

OVERTAKEN = "KF001"
"""What our function `enter` raises, with the version found and the one known, when a newer program has migrated."""

NOT_UNDER_WAY = "KF002"
"""What our function `end_intent` raises, with the id, when there is no such act."""

SETTLED = "KF003"
"""What our function `carry_out` raises, with the id, when the proposal is not approved (any more)."""

NO_ROOM = "KF004"
"""What our function `charge` raises, with the kind, when a principal would use more than its quota."""

WAITED = (
    "the server took too long, or another session holds a lock that is needed; `select * from pg_locks` shows which, and "
    "`select pg_terminate_backend(PID)` ends it"
)
_REFUSALS = (
    (r"password authentication failed|no password supplied|authentication failed", "check user and password"),
    (r"pg_hba\.conf", "let this machine and user in on the server (pg_hba.conf), or change sslmode"),
    (r'role ".*" does not exist|role ".*" is not permitted', "check the user in FORGE_DATABASE_URL"),
    (r'database ".*" does not exist', "create it (createdb), or check the name in FORGE_DATABASE_URL"),
    (r"certificate|SSL|sslmode", "check sslmode, sslrootcert and the server's certificate"),
    (r"permission denied", "grant that right to the user in FORGE_DATABASE_URL"),
    (r"ProactorEventLoop", "keep the state in a file on Windows: leave FORGE_DATABASE_URL out"),
)
_RAISED = {NOT_UNDER_WAY: UnknownIntent, SETTLED: ProposalSettled, NO_ROOM: QuotaReached}
_FINAL_STATES = {"28", "3D", "42"}
"""Classes of SQLSTATEs that asking again does not mend: sign-in, no such database, rights and names."""
_LOST_STATES = {"08", "57P01", "57P02", "57P03", "57P05", "25P03"}
"""SQLSTATEs after which nobody can say whether a commit that was under way has happened."""


class _Reachable(TimestamptzLoader):
    """Reads a time that no `datetime` holds as the nearest one: one bad row must not make a list unreadable."""

    def load(self, data: Buffer) -> datetime:
        """Return the time."""
        try:
            return within_reach(super().load(data))
        except DataError:
            told = bytes(data)
            return EARLIEST if told.startswith(b"-") or told.endswith(b"BC") else LATEST


class PostgresAddress:
    """How to connect to one database. No message holds the password, whatever libpq says."""

    def __init__(self, url: str, schema: str) -> None:
        try:
            parts = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
        except ProgrammingError:  # its text quotes what it could not read, which may be the password
            raise DatabaseRefused(
                "the database that FORGE_DATABASE_URL names",
                "that URL cannot be read",
                "see kb/guides/run-as-a-service",
            ) from None
        self._secrets = [parts[name] for name in ("password", "sslpassword") if parts.get(name)]
        self._parts = {**DEFAULTS, **parts}
        host = parts.get("host") or parts.get("hostaddr") or "a local socket"
        port = f":{parts['port']}" if "port" in parts else ""
        # A database's name can itself be an address with a password.
        database = shown_address(parts.get("dbname", ""))
        self.place = f"PostgreSQL at {host}{port}/{database}, schema {schema}"

    async def connect(self) -> Connection:
        """Return a new connection, each statement its own transaction.

        Raises:
            DatabaseRefused, DatabaseUnavailable: it cannot be had, for ever or for now.
        """
        try:
            # Nothing is prepared: behind a pooler each transaction may run on another of the server's connections.
            connection = await AsyncConnection.connect(
                **self._parts,  # type: ignore[arg-type]  # libpq's options by name
                autocommit=True,
                prepare_threshold=None,
            )
        except (Error, OSError) as error:
            raise self.named(error) from None
        connection.adapters.register_loader("timestamptz", _Reachable)
        try:
            with self.translating():
                await connection.execute(SESSION)
        except BaseException:
            await connection.close()
            raise
        return connection

    @contextmanager
    def translating(self, *, writing: bool = False) -> Iterator[None]:
        """Turn what goes wrong inside into an error of the domain: a StorageError, or a ProposalSettled."""
        try:
            yield
        except Error as error:
            raise self.named(error, writing=writing) from None
        except UnicodeEncodeError:  # half a character, which psycopg meets before anything is sent
            raise Unstorable(self.place) from None

    def named(self, error: Error | OSError, *, writing: bool = False) -> KnowledgeError:
        """Return `error` in the words of the domain. It is not chained: a log would show libpq's own words."""
        state = getattr(error, "sqlstate", None) or ""
        reason = self._said(error)
        if state in ("XX001", "XX002"):
            return CorruptDatabase(self.place, reason)
        if state in ("42P01", "3F000", "42883"):
            return DatabaseUnavailable(self.place, "its tables are not there any more; was the schema dropped?")
        if state == OVERTAKEN:
            found, known = map(int, reason.split())
            return NewerDatabase(self.place, found, known, "another schema with FORGE_DATABASE_SCHEMA")
        if state in ("57014", "55P03"):
            return DatabaseUnavailable(self.place, WAITED)
        if state in _RAISED:
            return _RAISED[state](reason)
        if state == "25006":
            return DatabaseUnavailable(self.place, "the server only reads now (a replica, or in recovery)")
        # Class 22: wrong data; 54: larger than an index or a row may be. psycopg itself finds a NUL, without a state.
        if state[:2] in ("22", "54") or isinstance(error, DataError):
            return Unstorable(self.place)
        way_out = next((mend for pattern, mend in _REFUSALS if re.search(pattern, reason)), "")
        if state[:2] in _FINAL_STATES or (not state and way_out):
            return DatabaseRefused(self.place, reason, way_out or "see what the server's log says")
        if writing and (not state or state[:2] in _LOST_STATES or state in _LOST_STATES):
            return OutcomeUnknown(self.place, reason)
        return DatabaseUnavailable(self.place, reason)

    def _said(self, error: Error | OSError) -> str:
        """Return the last thing that libpq or the server said, on one line, without secrets."""
        diag = getattr(error, "diag", None)
        text = (diag.message_primary if diag else None) or str(error) or type(error).__name__
        for secret in self._secrets:
            text = text.replace(secret, "***")
        lines = [
            " ".join(line.split()) for line in text.splitlines() if line.strip() and not line.startswith("Multiple")
        ]
        said = lines[0] if lines else type(error).__name__
        said = re.sub(r"^(connection failed: )?(connection to server .*? failed: )?", "", said)
        return said.removeprefix("FATAL: ").removeprefix("ERROR: ").strip(" ,;.")[:200]


class Pool:
    """A few connections that calls share. Who cannot be given one is told why, without waiting for a better time.

    A connection that the server ended while it lay idle is noticed before it is used, without asking the server.
    """

    def __init__(self, server: PostgresAddress, *, most: int = MOST_CONNECTIONS) -> None:
        self.server = server
        self._places = anyio.Semaphore(most, fast_acquire=True)  # who must not wait goes on at once
        self._idle: list[tuple[Connection, float]] = []
        self._closed = False
        self._quiet_until, self._trouble = 0.0, ""

    async def read(self, statement: bytes, arguments: Arguments = ()) -> list[tuple[Any, ...]]:
        """Return all rows. A connection that is lost meanwhile is replaced, once."""
        with self._patience("reading"):
            for last in (False, True):
                async with self.connection() as connection:
                    try:
                        return await (await connection.execute(statement, arguments)).fetchall()
                    except Error as error:
                        if last or not connection.closed:
                            raise self.server.named(error) from None
        raise AssertionError("unreachable")

    async def write(self, *statements: Statement) -> list[tuple[Any, ...]]:
        """Do all of it in one transaction, sent in one go, and return the rows of the last statement.

        A cancelled caller finds it done or not done, never half.

        Raises:
            OutcomeUnknown: the server was lost on the way, and nobody can say which of the two.
        """
        with self._patience("writing", writing=True):
            async with self.connection() as connection:
                with self.server.translating(writing=True):
                    async with connection.pipeline(), connection.transaction():
                        for statement, arguments in statements:
                            cursor = await connection.execute(statement, arguments)
                    return await cursor.fetchall() if cursor.description else []

    async def act(self, statement: Statement) -> list[tuple[Any, ...]]:
        """Return all rows of one statement that writes, which is a transaction of its own.

        Raises:
            OutcomeUnknown: as `write`.
        """
        with self._patience("writing", writing=True):
            async with self.connection() as connection:
                with self.server.translating(writing=True):
                    return await (await connection.execute(*statement)).fetchall()

    async def decide(self, begin: Statement, work: Callable[[Ask], Awaitable[T]]) -> T:
        """Return what `work` returns once everything it asked for is committed; if it raises, nothing was done.

        For what must look before it writes; a statement a round trip, where `write` sends all in one go.

        Raises:
            OutcomeUnknown: as `write`.
        """
        with self._patience("writing", writing=True):
            async with self.connection() as connection:

                async def ask(statement: bytes, arguments: Any) -> list[tuple[Any, ...]]:
                    cursor = await connection.execute(statement, arguments)
                    return await cursor.fetchall() if cursor.description else []

                with self.server.translating(writing=True):
                    async with connection.transaction():
                        await ask(*begin)
                        return await work(ask)

    @contextmanager
    def _patience(self, doing: str, *, writing: bool = False) -> Iterator[None]:
        """Bound what happens inside, and do not begin while it is known to fail slowly."""
        began = time.monotonic()
        if began < self._quiet_until:
            raise DatabaseUnavailable(self.server.place, self._trouble)
        try:
            with anyio.fail_after(PATIENCE_S):
                yield
        except TimeoutError:
            self._heed(began, f"{doing} took longer than {PATIENCE_S:.0f} s")
            lost = OutcomeUnknown if writing else DatabaseUnavailable
            raise lost(self.server.place, self._trouble) from None
        except DatabaseUnavailable as error:
            self._heed(began, error.reason)
            raise

    def _heed(self, began: float, trouble: str) -> None:
        now = time.monotonic()
        if now - began > SLOW_FAILURE_S:
            self._quiet_until, self._trouble = now + QUIET_S, trouble

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection. One that comes back in the middle of something is not used again."""
        async with self._places:
            connection = await self._sound() or await self.server.connect()
            try:
                yield connection
            finally:
                idle = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
                if idle and not self._closed:
                    self._idle.append((connection, time.monotonic()))
                else:
                    await connection.close()

    async def _sound(self) -> Connection | None:
        while self._idle:
            connection, since = self._idle.pop()
            if time.monotonic() - since < IDLE_S and is_sound(connection):
                return connection
            await connection.close()
        return None

    async def close(self) -> None:
        """Give all connections back; those that are lent follow when they come."""
        self._closed = True
        while self._idle:
            await self._idle.pop()[0].close()


def is_sound(connection: Connection) -> bool:
    """Return whether an idle connection can be used: a server that goes away, or says something unasked, can be heard."""
    try:
        listening = select.poll()
        listening.register(connection.fileno(), select.POLLIN)
        return not listening.poll(0)
    except (InterfaceError, Error, OSError):
        return False
