"""The port of a state database that is read or replaced as a whole, in one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from knowledge.state.transfer.layout import StateTable
from knowledge.state.transfer.marks import Mark

Row = tuple[Any, ...]
ROWS_AT_ONCE = 400


class WholeState(Protocol):
    """One state database, with a migrated schema. Rows are as SQLite stores them, in the order of `StateTable.columns`."""

    @property
    def place(self) -> str:
        """Where it is, for display to a person and for marks; never with a password."""
        ...

    async def begin(self, *, alone: bool) -> None:
        """Begin a transaction: with everybody else shut out if `alone`, otherwise as a snapshot that is only read.

        Alone, it releases all leases: a process that ended without releasing its own would otherwise seem to hold it elsewhere.

        Raises:
            StateInUse: others use the database.
        """
        ...

    async def commit(self) -> None:
        """Commit everything at once, as durably as the database can. In SQLite others stay shut out until `close`."""
        ...

    async def mark(self) -> Mark:
        """Return the mark."""
        ...

    async def set_mark(self, mark: Mark) -> None:
        """Replace the mark."""
        ...

    def rows(self, table: StateTable) -> AsyncIterator[Sequence[Row]]:
        """Yield all rows in batches, in the order of the first column, without the row of the mark."""
        ...

    async def clear(self) -> None:
        """Delete all rows of all tables, except for the row of the mark."""
        ...

    async def add(self, table: StateTable, rows: Sequence[Row]) -> None:
        """Add rows.

        If the tables are filled in the order of `tables()`, a table to which others refer comes before them.
        """
        ...

    async def sequences(self) -> Mapping[str, int]:
        """Return the highest number given in each numbered table."""
        ...

    async def set_sequences(self, numbers: Mapping[str, int]) -> None:
        """Continue after these numbers."""
        ...

    async def close(self) -> None:
        """End without a commit, and let others in."""
        ...
