"""Reading and writing the tables of one knowledge base in PostgreSQL."""

from __future__ import annotations

from typing import Any

from knowledge.storage.postgres import Pool, Statement
from knowledge.storage.postgres_schema import Schema

_ENTER = "SELECT forge.enter(%s, %s, %s)"

Part = tuple[str, Any]
"""A statement, in which `forge.` stands for the schema, and its arguments."""


class Tables:
    """The schema of one knowledge base as seen through a pool; `known` is its version that this program knows."""

    def __init__(self, pool: Pool, schema: Schema, known: int) -> None:
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
        begin: Statement = (self._schema.sql(_ENTER), (self._schema.lock, self._known, light))
        return await self._pool.write(begin, *((self._schema.sql(sql), arguments) for sql, arguments in parts))
