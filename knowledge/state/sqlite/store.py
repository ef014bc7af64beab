"""The state database on SQLite: acknowledged writes survive a power cut."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import apsw

from knowledge.errors import CorruptDatabase, NewerDatabase, StorageError
from knowledge.state.ports import StateSize
from knowledge.state.sql_store import SqlStateStore
from knowledge.state.sqlite import space
from knowledge.state.sqlite.database import Database, SqliteSchema, load_schema, user_version
from knowledge.state.sqlite.tables import SqliteTables
from knowledge.state.transfer.marks import MARK_LEASE, unusable

APPLICATION_ID = 0x4B464753  # "KFGS"
LOOK_S = 0.08
"""Seconds between checks of the change counter, because a file can't notify: less than the 100 ms that `publish` promises."""


class SqliteStateStore(SqlStateStore):
    """A state store in one file that several processes share."""

    def __init__(self, database: Database) -> None:
        super().__init__(SqliteTables(database))
        self._database = database
        self._data_version = -1
        self._last_event = 0

    @classmethod
    async def open(cls, path: Path, *, engine: str | None = None) -> SqliteStateStore:
        """Return the store at `path`, created private and migrated if necessary.

        Raises:
            UnsafeDatabaseEngine, ForeignDatabase, NewerDatabase, CorruptDatabase, DatabaseUnavailable: nothing was changed.
        """
        schema = load_schema("state", APPLICATION_ID, durable=True)
        return cls(await anyio.to_thread.run_sync(partial(_opened, path, schema, engine)))

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._database.path

    @property
    def place(self) -> str:
        """Where the state is and which engine keeps it."""
        return f"{self.path} (SQLite {apsw.sqlite_lib_version()})"

    @property
    def database(self) -> Database:
        """The open file."""
        return self._database

    async def last_event(self) -> int:
        """Return the newest `seq`, 0 if there never was an event. It is read again only after a commit."""
        ((version,),) = self._database.query("PRAGMA data_version")
        if version != self._data_version:
            # The version was read before: a commit between the two statements is then seen next time.
            rows = await self._tables.read("SELECT seq FROM sqlite_sequence WHERE name = 'event'")
            self._last_event, self._data_version = (rows[0][0] if rows else 0), int(str(version))
        return self._last_event

    async def changed(self, seq: int) -> None:
        """Return as soon as the newest event is not `seq`."""
        while await self.last_event() == seq:  # noqa: ASYNC110 - the event may be another process's
            await anyio.sleep(LOOK_S)

    async def size(self) -> StateSize:
        """Return the size of the file with its log."""
        return space.size(self._database)

    async def give_back(self, *, spare: bool = True) -> bool:
        """Give some free pages back to the file system, and at the end shorten the log."""
        more = await anyio.to_thread.run_sync(partial(space.give_back_some, self._database, spare=spare))
        if not more:
            await anyio.to_thread.run_sync(self._database.shorten_log)
        return more

    async def rewrite(self) -> bool:
        """Rewrite the whole file without free pages."""
        await anyio.to_thread.run_sync(space.vacuum, self._database)
        return True

    @property
    def gives_back(self) -> bool:
        """Whether free pages can be given back without rewriting the whole file."""
        return space.gives_back(self._database)

    async def check(self) -> Sequence[str]:
        """Return the faults of the file; none if it is sound. Reads all of it."""
        return await anyio.to_thread.run_sync(self._database.check)

    async def close(self) -> None:
        """Close the file."""
        await anyio.to_thread.run_sync(self._database.close)


def _opened(path: Path, schema: SqliteSchema, engine: str | None) -> Database:
    """Return the database after a quick check, because damage should show at the start, not at a later decision about trust."""
    try:
        database = Database.open(path, schema, engine=engine)
    except NewerDatabase as error:
        raise _marked(path) or error from error
    try:
        found = database.query("PRAGMA quick_check(1)")
    except StorageError:
        database.close()
        raise
    if found != [("ok",)]:
        database.close()
        raise CorruptDatabase(str(path), "its pages contradict each other")
    return database


def _marked(path: Path) -> StorageError | None:
    """Return the error if the state was moved away or has not fully arrived; None if the schema is just too new."""
    with suppress(apsw.Error), closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        rows = connection.execute("SELECT holder FROM lease WHERE name = ?", (MARK_LEASE,)).fetchall()
        return unusable(str(path), user_version(connection), str(rows[0][0]) if rows else "")
    return None
