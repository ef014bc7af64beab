"""The tables of one knowledge base in an SQLite file."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import apsw

from knowledge.history.timestamps import micros
from knowledge.state.sqlite.database import Database
from knowledge.state.sqlite.dialect import in_sqlite
from knowledge.state.tables import Arguments, ManyRows, Part, Row, SqlPair, SqlText, StateTransaction, TransactionBody

T = TypeVar("T")


class SqliteTransaction:
    """A transaction on a connection. No statement waits, so that `completed` can run the whole coroutine at once."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def execute(self, statement: SqlText, arguments: Arguments | ManyRows = ()) -> list[Row]:
        """Run the statement and return its rows."""
        if isinstance(arguments, ManyRows):
            return self._connection.executemany(_text(statement), map(bindings, arguments.rows)).fetchall()
        if isinstance(statement, SqlPair) and callable(statement.sqlite):
            if isinstance(arguments, Mapping):
                return statement.sqlite(self._connection, **arguments)
            return statement.sqlite(self._connection, *arguments)
        return self._connection.execute(_text(statement), bindings(arguments)).fetchall()


class SqliteTables:
    """The tables in one file that several processes share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def place(self) -> str:
        """The path of the database file, for messages."""
        return str(self._database.path)

    async def read(self, statement: SqlText, arguments: Arguments = (), *, long: bool = False) -> list[Row]:
        """Return all rows."""
        if long or (isinstance(statement, SqlPair) and callable(statement.sqlite)):
            return await self.inspect(lambda t: t.execute(statement, arguments), long=long)
        return self._database.query(_text(statement), bindings(arguments))

    async def inspect(self, work: TransactionBody[T], *, long: bool = False) -> T:
        """Return the result of `work` in one snapshot."""
        if long:
            return await self._database.bulk(lambda c: completed(work(SqliteTransaction(c))))
        return self._database.read(lambda c: completed(work(SqliteTransaction(c))))

    async def write(self, *parts: Part, durable: bool = True) -> list[Row]:
        """Run all statements in one transaction and return the rows of the last one."""

        async def work(t: StateTransaction) -> list[Row]:
            rows: list[Row] = []
            for statement, arguments in parts:
                rows = await t.execute(statement, arguments)
            return rows

        return await self._database.write(lambda c: completed(work(SqliteTransaction(c))), durable=durable)

    async def write_each(self, *parts: Part, durable: bool) -> None:
        """Run the statements one after the other: in one transaction, which is quicker here."""
        await self.write(*parts, durable=durable)

    async def transact(self, work: TransactionBody[T]) -> T:
        """Return what `work` returns once everything it did is committed. If it raises, nothing was done."""
        return await self._database.write(lambda c: completed(work(SqliteTransaction(c))))


def _text(statement: SqlText) -> str:
    text = statement.sqlite if isinstance(statement, SqlPair) else in_sqlite(statement)
    if callable(text):
        raise TypeError("a function runs in a transaction, once for its arguments")
    return text


def bindings(arguments: Arguments) -> Arguments:
    """Return the arguments as SQLite keeps them: times as microseconds, lists as JSON."""
    if isinstance(arguments, Mapping):
        return {name: _binding(value) for name, value in arguments.items()}
    return [_binding(value) for value in arguments]


def _binding(value: Any) -> Any:
    if isinstance(value, datetime):
        return micros(value)
    return json.dumps(value, default=bytes.hex) if isinstance(value, list) else value


def completed(work: Awaitable[T]) -> T:
    """Run `work` on this thread and return its result. Everything that it awaits must complete at once.

    Bodies of transactions are coroutines because PostgreSQL is asked over a network. SQLite answers without waiting, so the same body
    runs from start to end in the one thread that holds the write lock, without an event loop.

    Raises:
        RuntimeError: it awaits something else.
    """
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as finished:
        result: T = finished.value
        return result
    raise RuntimeError("a transaction in SQLite may not wait for anything but its statements")
