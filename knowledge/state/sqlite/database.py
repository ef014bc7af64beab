"""Opens, migrates and shares one SQLite file, with the SQLite that apsw brings: those of distributions may corrupt a shared WAL."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import apsw

from knowledge.errors import (
    CorruptDatabase,
    DatabaseUnavailable,
    ForeignDatabase,
    NewerDatabase,
    StorageError,
    UnsafeDatabaseEngine,
)
from knowledge.private_files import private_folder
from knowledge.state.sqlite.process_lock import exclusively
from knowledge.telemetry.operations import recorded

T = TypeVar("T")
Value = None | int | float | str | bytes
Row = tuple[Value, ...]

OLDEST_SAFE_SQLITE = "3.51.3"
HEADER = b"SQLite format 3\x00"
MIGRATIONS = Path(__file__).parent / "migrations"
BUSY_MS = 10_000
LONGEST_LOG = 32_000_000
"""Bytes to which the write-ahead log is truncated after a checkpoint."""
RETRY_S = 0.005
CACHE_KB, BULK_CACHE_KB = 4_000, 1_000
"""The sizes of a connection's page cache in kilobytes. A reader finds pages in the system's cache as well, and a long read seldom
comes back to a page."""


@dataclass(frozen=True, slots=True)
class SqliteSchema:
    """The application id that identifies our files, and the migrations, oldest first."""

    name: str
    application_id: int
    migrations: tuple[str, ...]
    durable: bool
    """Whether acknowledged writes survive a power cut (`synchronous=FULL`), or only a killed process."""


@cache
def load_schema(name: str, application_id: int, *, durable: bool) -> SqliteSchema:
    """Return the schema with the migrations in the folder of that name."""
    scripts = sorted((MIGRATIONS / name).glob("*.sql"))
    return SqliteSchema(name, application_id, tuple(s.read_text(encoding="utf-8") for s in scripts), durable)


def require_safe_engine(found: str) -> None:
    """Check that processes may share a WAL database with SQLite version `found`.

    Raises:
        UnsafeDatabaseEngine: it is older than the version that fixed the WAL-reset bug.
    """
    version, oldest = (tuple(map(int, text.split("."))) for text in (found, OLDEST_SAFE_SQLITE))
    if version < oldest:
        raise UnsafeDatabaseEngine(found, OLDEST_SAFE_SQLITE)


class Database:
    """One open file and its four connections.

    `read` is for short reads on the caller's thread. The others are used on worker threads: `bulk` for long reads, `write`, and
    `light` for writes that need not survive a power cut.
    """

    def __init__(self, path: Path, schema: SqliteSchema) -> None:
        self.path, self.schema = path, schema
        writing = threading.RLock()
        self._guards = {"read": threading.RLock(), "bulk": threading.RLock(), "write": writing, "light": writing}
        self._connections: dict[str, apsw.Connection] = {}
        self._identity = (0, 0)
        self._damaged: tuple[int, int] | None = None

    @classmethod
    def open(cls, path: Path, schema: SqliteSchema, *, engine: str | None = None) -> Database:
        """Return the database at `path`, created with mode 0600 and migrated if necessary. May wait for other processes doing that.

        Raises:
            UnsafeDatabaseEngine, ForeignDatabase, NewerDatabase, CorruptDatabase, DatabaseUnavailable: it was not touched.
        """
        require_safe_engine(engine or apsw.sqlite_lib_version())
        database = cls(path, schema)
        database.reopen()
        return database

    def reopen(self) -> None:
        """Connect to the file that is at `path` now."""
        self.close()
        if self.path.exists() and not self.path.is_file():
            raise ForeignDatabase(str(self.path), "it is not a file")
        try:
            private_folder(self.path.parent)
            with exclusively(lock_path(self.path)):
                self._open_locked()
        except OSError as error:
            raise DatabaseUnavailable(str(self.path), error.strerror or type(error).__name__) from error

    def _open_locked(self) -> None:
        create_private(self.path)
        self._identity = file_identity(self.path)
        if self._damaged != self._identity:
            self._damaged = None  # that file is gone, and its inode may be given to a sound one
        try:
            _require_header(self.path)
            connection = self._connections["write"] = self._connect("write")
            prepare(connection, self.path, self.schema)
        except apsw.Error as error:
            self.close()
            raise self.named(error) from error
        except StorageError as error:
            self.close()
            if isinstance(error, ForeignDatabase):
                self._damaged = self._identity
            raise

    def discard_damaged(self) -> None:
        """Delete the file that this process found damaged, unless another process has replaced it."""
        self.close()
        with exclusively(lock_path(self.path)):
            if self._damaged is not None and not self._is_other(self._damaged):
                discard(self.path)
        self._damaged = None

    def _connect(self, use: str) -> apsw.Connection:
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(BUSY_MS)
        # Closing would delete the log by its name, which may by then belong to the file that replaced this one.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        # Turns off the SQL features that can corrupt a file. Source: SQLite, "Database Connection Configuration Options".
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        full = self.schema.durable and use != "light"
        connection.execute(f"PRAGMA synchronous={'FULL' if full else 'NORMAL'}").fetchall()
        connection.execute(f"PRAGMA cache_size={-(BULK_CACHE_KB if use == 'bulk' else CACHE_KB)}").fetchall()
        # Indexing writes the same pages again and again: they need not reach the main file each time.
        connection.execute("PRAGMA wal_autocheckpoint=4000").fetchall()
        # Otherwise the log would keep the size of the largest burst.
        connection.execute(f"PRAGMA journal_size_limit={LONGEST_LOG}").fetchall()
        return connection

    def _connection(self, use: str) -> apsw.Connection:
        connection = self._connections.get(use)
        if connection is None:
            connection = self._connections[use] = self._connect(use)
        return connection

    @property
    def replaced(self) -> bool:
        """Whether the file at `path` is now another one, or gone. Costs one `stat`."""
        return self._is_other(self._identity)

    @property
    def damaged(self) -> bool:
        """Whether this process found damage in the file that is at `path` now."""
        return self._damaged is not None and not self._is_other(self._damaged)

    def _is_other(self, identity: tuple[int, int]) -> bool:
        try:
            return file_identity(self.path) != identity
        except FileNotFoundError:
            return True

    def query(self, sql: str, args: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """Return all rows of a short read, on the caller's thread."""
        with self._guards["read"]:
            try:
                return self._connection("read").execute(sql, args).fetchall()
            except apsw.Error as error:
                raise self.named(error) from error

    def read(self, work: Callable[[apsw.Connection], T], *, use: str = "read") -> T:
        """Return the result of `work` in one snapshot."""
        with self._guards[use]:
            try:
                connection = self._connection(use)
                connection.execute("BEGIN")
                try:
                    return work(connection)
                finally:
                    connection.execute("ROLLBACK")
            except apsw.Error as error:
                raise self.named(error) from error

    async def bulk(self, work: Callable[[apsw.Connection], T]) -> T:
        """Return the result of a long read, on another thread."""
        return await anyio.to_thread.run_sync(partial(self.read, work, use="bulk"))

    @recorded("database", backend="sqlite")
    async def write(self, work: Callable[[apsw.Connection], T], *, durable: bool = True) -> T:
        """Return what `work` returns once everything it did is committed; if it raises, nothing was done.

        A write that is not `durable` survives a killed process, and a power cut only if a later durable write does. If the caller is
        cancelled, either all of it is done or nothing: the transaction begins and ends in its own thread.
        """
        return await anyio.to_thread.run_sync(partial(self.write_now, work, durable=durable))

    def write_now(self, work: Callable[[apsw.Connection], T], *, durable: bool = True) -> T:
        """Do the same as `write`, on this thread."""
        with self._guards["write"]:
            use = "write" if durable or not self.schema.durable else "light"
            try:
                connection = self._connection(use)
                # Immediate, because a transaction that begins by reading fails at once if another one writes, without waiting.
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self._require_ours(connection)
                    result = work(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    # Some failures have ended the transaction already.
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            except apsw.Error as error:
                raise self.named(error) from error
            return result

    def alone(self, work: Callable[[apsw.Connection], object]) -> None:
        """Run statements that a transaction does not allow, such as VACUUM."""
        with self._guards["write"]:
            try:
                self._require_ours(self._connection("write"))
                work(self._connection("write"))
            except apsw.Error as error:
                raise self.named(error) from error

    def shorten_log(self) -> None:
        """Write the log back into the file and truncate it, unless another process is using it."""
        with self._guards["write"], suppress(apsw.Error):
            connection = self._connection("write")
            connection.set_busy_timeout(0)
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                connection.set_busy_timeout(BUSY_MS)

    def _require_ours(self, connection: apsw.Connection) -> None:
        if self.replaced:
            raise DatabaseUnavailable(str(self.path), "it was moved, deleted or replaced while in use")
        known, found = len(self.schema.migrations), user_version(connection)
        if found > known:
            raise NewerDatabase(str(self.path), found, known)

    def named(self, error: apsw.Error) -> StorageError:
        """Return the domain's error for `error`."""
        if isinstance(error, apsw.NotADBError | apsw.CorruptError):
            self._damaged = self._identity
            return CorruptDatabase(str(self.path), str(error))
        return DatabaseUnavailable(str(self.path), str(error) or type(error).__name__)

    def check(self) -> list[str]:
        """Return the faults that SQLite finds in the file; none if it is sound. Reads all of it."""
        with self._guards["bulk"]:
            try:
                found = self._connection("bulk").execute("PRAGMA integrity_check").fetchall()
            except (apsw.NotADBError, apsw.CorruptError) as error:
                self._damaged = self._identity
                return [str(error)]
        wrong = [str(line) for (line,) in found if line != "ok"]
        if wrong:
            self._damaged = self._identity
        return wrong

    def close(self) -> None:
        """Close the connections, after the transaction that is under way."""
        for use, guard in self._guards.items():
            with guard:
                connection = self._connections.pop(use, None)
                if connection is not None:
                    with suppress(apsw.Error):
                        if use == "write" and not self.replaced:
                            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                    connection.close()


def lock_path(path: Path) -> Path:
    """Return the path of the lock file for creating, migrating or replacing the database at `path`."""
    return path.with_name(path.name + ".lock")


def file_identity(path: Path) -> tuple[int, int]:
    """Return an identity that differs between the file at `path` and one that replaces it while it is open."""
    found = os.stat(path)  # noqa: PTH116 - measurably faster than Path.stat, and called all the time
    return found.st_dev, found.st_ino


def create_private(path: Path) -> None:
    """Create the file, for its owner only, unless it exists and is not empty. The log of an older file is removed."""
    if path.exists() and path.stat().st_size:
        return
    discard(path)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def discard(path: Path) -> None:
    """Remove the database with its log. Processes that have it open keep using the removed file, separate from a new one."""
    # The log first: one that is left over would be replayed into the next file of this name.
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def user_version(connection: apsw.Connection) -> int:
    """Return how many migrations the database has had."""
    return _number(connection, "PRAGMA user_version")


def _number(connection: apsw.Connection, sql: str) -> int:
    ((value,),) = connection.execute(sql).fetchall()
    if not isinstance(value, int):
        raise TypeError(sql)
    return value


def prepare(connection: apsw.Connection, path: Path, schema: SqliteSchema) -> None:
    """Create or migrate the database; if it is not ours, raise and leave it unchanged."""
    owner, found, known = _number(connection, "PRAGMA application_id"), user_version(connection), len(schema.migrations)
    empty = not _number(connection, "SELECT count(*) FROM sqlite_schema")
    if owner != schema.application_id and (owner or found or not empty):
        raise ForeignDatabase(str(path), f"its application id is {owner}")
    if found > known:
        raise NewerDatabase(str(path), found, known)
    if empty and schema.durable:
        # Only an empty file can have it without a VACUUM. An index does not need it: it is deleted instead.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL").fetchall()
    _use_wal(connection)
    if found < known:
        _migrate(connection, schema)


def _require_header(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(len(HEADER))
    if head and head != HEADER:
        raise ForeignDatabase(str(path), "it does not begin as an SQLite file does")


def _use_wal(connection: apsw.Connection) -> None:
    # SQLite does not call the busy handler for this statement.
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
        else:
            return


def _migrate(connection: apsw.Connection, schema: SqliteSchema) -> None:
    # In one transaction: a new database waits for the disk once, not once for each of twenty scripts.
    connection.execute("BEGIN IMMEDIATE")
    try:
        done, known = user_version(connection), len(schema.migrations)
        if done < known:
            for script in schema.migrations[done:]:
                # A statement that returns rows would end the script there if they were not fetched.
                connection.execute(script).fetchall()
            connection.execute(f"PRAGMA application_id={schema.application_id}").fetchall()
            connection.execute(f"PRAGMA user_version={known}").fetchall()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
