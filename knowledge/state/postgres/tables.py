"""Reading and writing the tables of one knowledge base in PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from knowledge.state.postgres.database import Ask as RawAsk
from knowledge.state.postgres.database import Pool, Statement
from knowledge.state.postgres.schema import PostgresSchema

T = TypeVar("T")

_ENTER = "SELECT forge.enter(%s, %s, %s)"

Part = tuple[str, Any]
"""A statement, in which `forge.` stands for the schema, and its arguments."""
Ask = Callable[[Part], Awaitable[list[tuple[Any, ...]]]]
"""Asks a statement within a transaction and returns its rows."""


class Tables:
    """The schema of one knowledge base as seen through a pool; `known` is its version that this program knows."""

    def __init__(self, pool: Pool, schema: PostgresSchema, known: int) -> None:
        self._pool, self._schema, self._known = pool, schema, known

    @property
    def place(self) -> str:
        """Return where the tables are, for a person."""
        return self._pool.server.place

    @property
    def schema(self) -> str:
        """Return the schema's name, which is also that of the channel of its change events."""
        return self._schema.name

    async def read(self, sql: str, arguments: Any = ()) -> list[tuple[Any, ...]]:
        """Return all rows."""
        return await self._pool.read(self._schema.sql(sql), arguments)

    async def write(self, *parts: Part, light: bool = False) -> list[tuple[Any, ...]]:
        """Do all of it or nothing, and return the rows of the last statement.

        What is `light` survives a killed process, and a crash of the server perhaps.
        """
        return await self._pool.write(
            self._begin(light=light), *((self._schema.sql(sql), arguments) for sql, arguments in parts)
        )

    @property
    def entry(self) -> tuple[int, int]:
        """Return the first arguments of each function of the schema that begins with `enter`."""
        return self._schema.lock, self._known

    async def act(self, part: Part) -> list[tuple[Any, ...]]:
        """Do what one function does that begins with `enter`, and return its rows: a transaction in one round trip."""
        return await self._pool.act((self._schema.sql(part[0]), part[1]))

    async def decide(self, work: Callable[[Ask], Awaitable[T]]) -> T:
        """Return what `work` returns once everything it asked for is committed; if it raises, nothing was done."""

        async def looking(asked: RawAsk) -> T:
            return await work(lambda part: asked(self._schema.sql(part[0]), part[1]))

        return await self._pool.decide(self._begin(light=False), looking)

    def _begin(self, *, light: bool) -> Statement:
        return self._schema.sql(_ENTER), (self._schema.lock, self._known, light)
