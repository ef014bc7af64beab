"""The tables of one knowledge base in a schema of a PostgreSQL database."""

from __future__ import annotations

from typing import TypeVar

from knowledge.state.postgres.database import Ask, Pool, Statement
from knowledge.state.postgres.schema import PostgresSchema
from knowledge.state.tables import Arguments, ManyRows, Part, Row, SqlPair, SqlText, TransactionBody

T = TypeVar("T")

_ENTER = "SELECT forge.enter(%s, %s, %s)"


class PostgresTransaction:
    """A transaction on a connection: one round trip for each statement."""

    def __init__(self, ask: Ask, schema: PostgresSchema) -> None:
        self._ask, self._schema = ask, schema

    async def execute(self, statement: SqlText, arguments: Arguments | ManyRows = ()) -> list[Row]:
        """Run the statement and return its rows."""
        return await self._ask(*_prepared(self._schema, statement, arguments))


class PostgresTables:
    """The schema of one knowledge base, reached through a pool. `known` is the schema version that this program knows."""

    def __init__(self, pool: Pool, schema: PostgresSchema, known: int) -> None:
        self._pool, self._schema, self._known = pool, schema, known

    @property
    def place(self) -> str:
        """Where the tables are, for a person."""
        return self._pool.server.place

    @property
    def schema(self) -> str:
        """The schema's name, which is also that of the channel of its change events."""
        return self._schema.name

    async def read(self, statement: SqlText, arguments: Arguments = (), *, long: bool = False) -> list[Row]:
        """Return all rows."""
        del long  # the event loop never waits
        return await self._pool.read(*_prepared(self._schema, statement, arguments))

    async def inspect(self, work: TransactionBody[T], *, long: bool = False) -> T:
        """Return the result of `work`; each of its reads sees its own snapshot."""
        del long

        async def ask(statement: bytes, arguments: Arguments) -> list[Row]:
            return await self._pool.read(statement, arguments)

        return await work(PostgresTransaction(ask, self._schema))

    async def write(self, *parts: Part, durable: bool = True) -> list[Row]:
        """Run all statements in one transaction, in one round trip, and return the rows of the last one."""
        statements = [_prepared(self._schema, statement, arguments) for statement, arguments in parts]
        return await self._pool.write(self._begin(durable=durable), *statements)

    async def write_each(self, *parts: Part, durable: bool) -> None:
        """Run the statements one after the other, each in its own transaction."""
        for part in parts:
            await self.write(part, durable=durable)

    @property
    def entry(self) -> tuple[int, int]:
        """The first arguments of those functions of the schema that call `enter` themselves."""
        return self._schema.lock, self._known

    async def call(self, function: str, arguments: Arguments) -> list[Row]:
        """Call a function that calls `enter` itself, and return its rows: a whole transaction in one round trip."""
        return await self._pool.act((self._schema.sql(function), arguments))

    async def transact(self, work: TransactionBody[T]) -> T:
        """Return what `work` returns once everything it did is committed. If it raises, nothing was done."""
        return await self._pool.decide(
            self._begin(durable=True), lambda ask: work(PostgresTransaction(ask, self._schema))
        )

    def _begin(self, *, durable: bool) -> Statement:
        return self._schema.sql(_ENTER), (self._schema.lock, self._known, not durable)


def _prepared(schema: PostgresSchema, statement: SqlText, arguments: Arguments | ManyRows) -> Statement:
    text = statement.postgres if isinstance(statement, SqlPair) else statement
    if isinstance(arguments, ManyRows):
        arguments = [list(column) for column in zip(*arguments.rows, strict=True)]
    return schema.sql(text), arguments
