"""The port under every store in the state database: statements in transactions, the same for SQLite and PostgreSQL.

A statement is written once, in PostgreSQL's dialect, and `sqlite/dialect.py` translates it for SQLite. Where the two databases need
different statements, an `SqlPair` holds both. Where PostgreSQL has a stored function, to save round trips, SQLite has one in
Python.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

Row = tuple[Any, ...]
Arguments = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class SqlPair:
    """A statement in both dialects. `sqlite` may be a function, which gets the connection and the arguments and returns rows."""

    sqlite: str | Callable[..., list[Row]]
    postgres: str


@dataclass(frozen=True, slots=True)
class ManyRows:
    """Arguments of a statement that runs once for each of these rows. In PostgreSQL it takes each column as an array (`unnest`)."""

    rows: Sequence[Sequence[Any]]


SqlText = str | SqlPair
Part = tuple[SqlText, Arguments | ManyRows]


class StateTransaction(Protocol):
    """One transaction. Times are passed as aware `datetime`; `timestamps.moment` reads them from a row of either database."""

    async def execute(self, statement: SqlText, arguments: Arguments | ManyRows = ()) -> list[Row]:
        """Run the statement and return its rows, none if it has no result."""
        ...


TransactionBody = Callable[[StateTransaction], Awaitable[T]]
"""The body of a transaction. In SQLite it runs in a thread without interruption, so it may await nothing but the transaction."""


class StateTables(Protocol):
    """The tables of one knowledge base."""

    @property
    def place(self) -> str:
        """Where the tables are, for display to a person."""
        ...

    async def read(self, statement: SqlText, arguments: Arguments = (), *, long: bool = False) -> list[Row]:
        """Return all rows. Pass `long` for a read that would hold up the event loop where the database is a file."""
        ...

    async def inspect(self, work: TransactionBody[T], *, long: bool = False) -> T:
        """Return the result of `work`, which reads several times.

        In SQLite they see one snapshot. In PostgreSQL each sees its own moment: ask in one statement for rows that must agree.
        """
        ...

    async def write(self, *parts: Part, durable: bool = True) -> list[Row]:
        """Run all statements in one transaction, in one round trip, and return the rows of the last one.

        A write that is not `durable` survives a killed process, but perhaps not a power cut.
        """
        ...

    async def write_each(self, *parts: Part, durable: bool) -> None:
        """Run the statements one after the other. In PostgreSQL each is its own transaction and releases its locks before the next."""
        ...

    async def transact(self, work: TransactionBody[T]) -> T:
        """Return what `work` returns once everything it did is committed. If it raises, nothing was done."""
        ...


def only_in_postgres(statement: str) -> SqlPair:
    """Return a statement, without result rows, that SQLite skips: there a writing transaction locks the whole file."""
    return SqlPair(lambda *_: [], statement)


LOCK = only_in_postgres("SELECT pg_advisory_xact_lock(hashtext('forge'), hashtext(%s))")
"""Wait for the lock with this name, held until the transaction ends. Two names rarely have the same hash, which only costs time."""

NO_LIMIT = 2**62
"""The LIMIT of a statement that is to return all rows."""
