"""Connections to one PostgreSQL database: a pool, and the translation of its errors into errors of the domain."""

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
    StoredFileChanged,
    UnknownIntent,
    Unstorable,
)
from knowledge.history.timestamps import EARLIEST, LATEST, within_reach
from knowledge.state.tables import Arguments
from knowledge.state.transfer.marks import unusable
from knowledge.telemetry.operations import recorded
from knowledge.wire.addresses import shown_address

logging.getLogger("psycopg").setLevel(logging.ERROR)  # its warnings are about errors that our callers get

T = TypeVar("T")
Connection = AsyncConnection[tuple[Any, ...]]
Statement = tuple[bytes, Arguments]
Ask = Callable[[bytes, Any], Awaitable[list[tuple[Any, ...]]]]

PATIENCE_S = 5.0
"""Seconds that one call may take, including the network; the server cancels a statement a little earlier."""
SLOW_FAILURE_S = 1.0
QUIET_S = 4.0
"""Seconds for which calls fail at once after a slow failure, so that an answer that needs three reads does not wait three times."""
MOST_CONNECTIONS = 4
IDLE_S = 300.0
"""Seconds after which an idle connection is not used again, because firewalls drop idle connections."""

DEFAULTS = {
    "application_name": "knowledge-forge",
    "client_encoding": "utf8",
    "connect_timeout": "4",
    # Of several hosts the one that accepts writes is used, and not a replica.
    "target_session_attrs": "read-write",
    # A server that is gone is noticed after 45 s on an idle connection, and after 15 s while it owes an answer.
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
"""Our tables and functions are named with their schema. With `public` in the path, a function that another role puts there would
be called with our rights where its arguments fit better than those of PostgreSQL's own (CVE-2018-1058)."""

OVERTAKEN = "KF001"
"""Raised by our function `enter`, with the version found and the one known, if a newer program has migrated the schema."""

NOT_UNDER_WAY = "KF002"
"""Raised by our function `end_intent`, with the id, if there is no such intent."""

SETTLED = "KF003"
"""Raised by our function `carry_out`, with the id, if the proposal is not, or no longer, approved."""

NO_ROOM = "KF004"
"""Raised by our function `charge`, with the kind, if a principal would use more than its quota."""

FILE_CHANGED = "KF005"
"""Raised by our function `exchange_file`, with the path, if the file is no longer as the caller expects."""

WAITED = (
    "the server took too long, or another session holds a lock that is needed; `select * from pg_locks` shows which, and "
    "`select pg_terminate_backend(PID)` ends it"
)
_REFUSALS = (
    (r"password authentication failed|no password supplied|authentication failed", "check user and password"),
    (r"pg_hba\.conf", "allow this machine and user on the server (pg_hba.conf), or change sslmode"),
    (r'role ".*" does not exist|role ".*" is not permitted', "check the user in FORGE_DATABASE_URL"),
    (r'database ".*" does not exist', "create it (createdb), or check the name in FORGE_DATABASE_URL"),
    (r"certificate|SSL|sslmode", "check sslmode, sslrootcert and the server's certificate"),
    (r"permission denied", "grant that right to the user in FORGE_DATABASE_URL"),
    (r"ProactorEventLoop", "on Windows, keep the state in a file: unset FORGE_DATABASE_URL"),
)
_RAISED = {
    NOT_UNDER_WAY: UnknownIntent,
    SETTLED: ProposalSettled,
    NO_ROOM: QuotaReached,
    FILE_CHANGED: StoredFileChanged,
}
_FINAL_STATES = {"28", "3D", "42"}
"""Classes of SQLSTATEs that a retry can't fix: sign-in, missing database, permissions and names."""
_LOST_STATES = {"08", "57P01", "57P02", "57P03", "57P05", "25P03"}
"""SQLSTATEs after which it is unknown whether a commit in progress happened."""


class _Reachable(TimestamptzLoader):
    """Reads a time outside the range of `datetime` as the nearest possible one, so that one bad row does not break a list."""

    def load(self, data: Buffer) -> datetime:
        """Return the time."""
        try:
            return within_reach(super().load(data))
        except DataError:
            text = bytes(data)
            # `-infinity` and years before Christ; anything else is too late.
            return EARLIEST if text.startswith(b"-") or text.endswith(b"BC") else LATEST


class PostgresAddress:
    """The address of one database. No message contains its password, even if libpq's does."""

    def __init__(self, url: str, schema: str) -> None:
        try:
            parts = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
        except ProgrammingError:  # its text quotes the part that cannot be read, which may be the password
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
            DatabaseRefused, DatabaseUnavailable: there can be no connection, permanently or for now.
        """
        try:
            # No prepared statements: behind a pooler each transaction may run on another connection of the server.
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
        # Also on cancellation, since nobody else would close the connection.
        except BaseException:
            await connection.close()
            raise
        return connection

    @contextmanager
    def translating(self, *, writing: bool = False) -> Iterator[None]:
        """Turn errors inside into errors of the domain: a StorageError, or one of `_RAISED`."""
        try:
            yield
        except Error as error:
            raise self.named(error, writing=writing) from None
        except UnicodeEncodeError:  # half a surrogate pair, which psycopg finds before it sends anything
            raise Unstorable(self.place) from None

    def named(self, error: Error | OSError, *, writing: bool = False) -> KnowledgeError:
        """Return the domain's error for `error`. It is not chained: a log would show libpq's own words."""
        state = getattr(error, "sqlstate", None) or ""
        reason = self._said(error)
        # Data or an index is corrupted.
        if state in ("XX001", "XX002"):
            return CorruptDatabase(self.place, reason)
        # There is no such table, schema or function.
        if state in ("42P01", "3F000", "42883"):
            return DatabaseUnavailable(self.place, "its tables no longer exist; was the schema dropped?")
        if state == OVERTAKEN:
            return self._overtaken(*map(int, reason.split()))
        # Cancelled by `statement_timeout`, or a lock was not free in time.
        if state in ("57014", "55P03"):
            return DatabaseUnavailable(self.place, WAITED)
        if state in _RAISED:
            return _RAISED[state](reason)
        if state == "25006":
            return DatabaseUnavailable(self.place, "the server is read-only now (a replica, or in recovery)")
        # Class 22: invalid data; 54: too large for an index or a row. psycopg itself finds a NUL, without a state.
        if state[:2] in ("22", "54") or isinstance(error, DataError):
            return Unstorable(self.place)
        way_out = next((mend for pattern, mend in _REFUSALS if re.search(pattern, reason)), "")
        if state[:2] in _FINAL_STATES or (not state and way_out):
            return DatabaseRefused(self.place, reason, way_out or "see what the server's log says")
        if writing and (not state or state[:2] in _LOST_STATES or state in _LOST_STATES):
            return OutcomeUnknown(self.place, reason)
        return DatabaseUnavailable(self.place, reason)

    def _overtaken(self, found: int, known: int) -> KnowledgeError:
        newer = NewerDatabase(self.place, found, known, "another schema with FORGE_DATABASE_SCHEMA")
        return unusable(self.place, found, "") or newer

    def _said(self, error: Error | OSError) -> str:
        """Return the message of libpq or the server on one line, without secrets."""
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
    """A few connections that calls share. If no connection can be opened, the call fails at once with the reason.

    A connection that the server closed while it was idle is detected before it is used, without a round trip.
    """

    def __init__(self, server: PostgresAddress, *, most: int = MOST_CONNECTIONS) -> None:
        self.server = server
        self._places = anyio.Semaphore(most, fast_acquire=True)  # no yield to other tasks while there is a free place
        self._idle: list[tuple[Connection, float]] = []
        self._closed = False
        self._quiet_until, self._trouble = 0.0, ""

    @recorded("database", backend="postgresql")
    async def read(self, statement: bytes, arguments: Arguments = ()) -> list[tuple[Any, ...]]:
        """Return all rows. If the connection is lost, the read is repeated once on another."""
        with self._patience("reading"):
            for last in (False, True):
                async with self.connection() as connection:
                    try:
                        return await (await connection.execute(statement, arguments)).fetchall()
                    except Error as error:
                        if last or not connection.closed:
                            raise self.server.named(error) from None
        raise AssertionError("unreachable")

    @recorded("database", backend="postgresql")
    async def write(self, *statements: Statement) -> list[tuple[Any, ...]]:
        """Run the statements in one transaction, sent in one batch, and return the rows of the last one.

        If the caller is cancelled, either all of it is done or nothing.

        Raises:
            OutcomeUnknown: the connection was lost during the commit, so either is possible.
        """
        with self._patience("writing", writing=True):
            async with self.connection() as connection:
                with self.server.translating(writing=True):
                    async with connection.pipeline(), connection.transaction():
                        for statement, arguments in statements:
                            cursor = await connection.execute(statement, arguments)
                    return await cursor.fetchall() if cursor.description else []

    @recorded("database", backend="postgresql")
    async def act(self, statement: Statement) -> list[tuple[Any, ...]]:
        """Return all rows of one statement that writes, in its own transaction.

        Raises:
            OutcomeUnknown: as `write`.
        """
        with self._patience("writing", writing=True):
            async with self.connection() as connection:
                with self.server.translating(writing=True):
                    return await (await connection.execute(*statement)).fetchall()

    @recorded("database", backend="postgresql")
    async def decide(self, begin: Statement, work: Callable[[Ask], Awaitable[T]]) -> T:
        """Return what `work` returns once everything it did is committed; if it raises, nothing was done.

        Each statement is a round trip, so that the work can depend on earlier rows; `write` sends all in one batch.

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
        """Limit the time of the block; after a slow failure, fail at once for a while."""
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
        # After a quick failure the next call may try at once, because that costs no time.
        if now - began > SLOW_FAILURE_S:
            self._quiet_until, self._trouble = now + QUIET_S, trouble

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection. One that comes back in the middle of a transaction is not used again."""
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
        """Close all connections; those that are lent are closed when they come back."""
        self._closed = True
        while self._idle:
            await self._idle.pop()[0].close()


def is_sound(connection: Connection) -> bool:
    """Return whether an idle connection can be used: if the server closed it, or sent anything, there is something to read."""
    try:
        listening = select.poll()
        listening.register(connection.fileno(), select.POLLIN)
        return not listening.poll(0)
    except (InterfaceError, Error, OSError):
        return False
