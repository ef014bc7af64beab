"""A whole state database in an SQLite file."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from knowledge.errors import DatabaseUnavailable, StateInUse
from knowledge.state.sqlite.database import user_version
from knowledge.state.transfer.layout import StateTable, tables
from knowledge.state.transfer.marks import MARK_LEASE, USED, Mark, mark_of, marked_version
from knowledge.state.transfer.ports import ROWS_AT_ONCE, Row

_OTHERS = "SELECT name, holder FROM lease WHERE holder IS NOT NULL AND name != ?"
_LOCKS = Path("/proc/locks")
_SHARED_BYTES = "1073741826"
"""The first of the bytes on which SQLite holds its shared lock. Source: SQLite, `os.h`, SHARED_FIRST."""
WAIT_MS = 1_000
"""How long to wait for a command that is about to end."""


class SqliteWholeState:
    """The state in the file at `path`, which a store of this program has migrated."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: apsw.Connection | None = None

    @property
    def place(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def _open(self) -> apsw.Connection:
        if self._connection is None:
            raise RuntimeError("no transaction was begun")
        return self._connection

    async def begin(self, *, alone: bool) -> None:
        """Begin a transaction."""
        try:
            with self._named():
                if self._connection is None:
                    self._connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
                    self._connection.set_busy_timeout(WAIT_MS)
                    self._connection.execute("PRAGMA synchronous=FULL").fetchall()
                    if alone:
                        # Every process that has the file open holds a shared lock on it, even between its transactions.
                        self._connection.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()
                self._connection.execute("BEGIN IMMEDIATE" if alone else "BEGIN")
                if alone:
                    self._connection.execute("UPDATE lease SET holder = NULL WHERE name != ?", (MARK_LEASE,))
                else:
                    user_version(self._connection)  # the snapshot begins with the first read
        except apsw.BusyError:
            await self.close()
            raise StateInUse(self.place, self._users()) from None

    async def commit(self) -> None:
        """Commit."""
        with self._named():
            self._open.execute("COMMIT")

    async def mark(self) -> Mark:
        """Return the mark."""
        with self._named():
            rows = self._open.execute("SELECT holder FROM lease WHERE name = ?", (MARK_LEASE,)).fetchall()
            return mark_of(user_version(self._open), str(rows[0][0]) if rows else "")

    async def set_mark(self, mark: Mark) -> None:
        """Replace the mark."""
        with self._named():
            self._open.execute("DELETE FROM lease WHERE name = ?", (MARK_LEASE,))
            if mark != USED:
                self._open.execute("INSERT INTO lease VALUES (?, ?, 0, 0)", (MARK_LEASE, mark.other))
            self._open.execute(f"PRAGMA user_version={marked_version(user_version(self._open), mark)}").fetchall()

    async def rows(self, table: StateTable) -> AsyncIterator[Sequence[Row]]:
        """Yield all rows in batches."""
        columns = ", ".join(f'"{name}"' for name in table.columns)
        where = f"WHERE name != '{MARK_LEASE}'" if table.name == "lease" else ""
        with self._named():
            cursor = self._open.execute(f"SELECT {columns} FROM {table.name} {where} ORDER BY 1")  # noqa: S608 - our own names
            batch: list[Row] = []
            for row in cursor:
                batch.append(row)
                if len(batch) == ROWS_AT_ONCE:
                    yield batch
                    batch = []
        if batch:
            yield batch

    async def clear(self) -> None:
        """Delete all rows."""
        with self._named():
            for table in tables():
                where = f"WHERE name != '{MARK_LEASE}'" if table.name == "lease" else ""
                self._open.execute(f"DELETE FROM {table.name} {where}")  # noqa: S608 - as above

    async def add(self, table: StateTable, rows: Sequence[Row]) -> None:
        """Add rows."""
        columns = ", ".join(f'"{name}"' for name in table.columns)
        places = ", ".join("?" * len(table.columns))
        with self._named():
            self._open.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", rows)  # noqa: S608 - as above

    async def sequences(self) -> Mapping[str, int]:
        """Return the highest number given in each numbered table."""
        with self._named():
            found = {str(name): seq for name, seq in self._open.execute("SELECT name, seq FROM sqlite_sequence")}
        return {table.name: int(str(found.get(table.name, 0))) for table in tables() if table.numbered}

    async def set_sequences(self, numbers: Mapping[str, int]) -> None:
        """Continue after these numbers."""
        with self._named():
            self._open.execute("DELETE FROM sqlite_sequence")
            self._open.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", list(numbers.items()))

    async def close(self) -> None:
        """End without a commit."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(apsw.Error):
                connection.close()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except apsw.BusyError:
            raise
        except apsw.Error as error:
            raise DatabaseUnavailable(self.place, str(error) or type(error).__name__) from error

    def _users(self) -> list[str]:
        """Return the other processes with the file open, as far as the system tells, or else the holders of leases."""
        if numbers := processes_with(self.path):
            return [f"process {number}" for number in sorted(numbers)]
        with suppress(apsw.Error):
            with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)) as reader:
                held = reader.execute(_OTHERS, (MARK_LEASE,)).fetchall()
            return [f"process {str(holder).partition('-')[0]} (lease {str(name)!r})" for name, holder in held]
        return []


def processes_with(path: Path) -> frozenset[int]:
    """Return the processes that have the state's file open, as far as the system tells."""
    with suppress(OSError):
        end = f":{os.stat(path).st_ino}"  # noqa: PTH116 - as elsewhere
        rows = [line.split() for line in _LOCKS.read_text(encoding="ascii").splitlines()]
        locked = [row for row in rows if len(row) > 6 and row[5].endswith(end) and row[6] == _SHARED_BYTES]
        return frozenset(int(row[4]) for row in locked if int(row[4]) > 0)
    return frozenset()
