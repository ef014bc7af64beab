"""One schema of a PostgreSQL database for each knowledge base: made, migrated, and told from other people's."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.errors import UndefinedColumn

from knowledge.errors import ForeignDatabase, NewerDatabase

if TYPE_CHECKING:
    from knowledge.storage.postgres import Connection

APPLICATION = "knowledge-forge state"
MIGRATIONS = Path(__file__).parent / "migrations" / "postgres"
OTHER = "name another one with FORGE_DATABASE_SCHEMA"

_LAYOUT = """
SELECT n.oid IS NOT NULL, to_regclass('forge.meta') IS NOT NULL,
       EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid)
FROM (SELECT to_regnamespace(%s) AS oid) AS n
"""


class Schema:
    """The part of a database that belongs to one knowledge base, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        digest = hashlib.blake2b(f"knowledge-forge {name}".encode(), digest_size=8).digest()
        self.lock = int.from_bytes(digest, "big", signed=True)
        """The advisory lock that every write shares and a migration has alone."""
        self.sql = cache(self._sql)

    def _sql(self, statement: str) -> bytes:
        """Return `statement`, in which `forge.` stands for the schema, for this one.

        Tables are named in full, because a connection's search path may be another's behind a pooler.
        """
        return statement.replace("forge.", f'"{self.name}".').encode()

    async def prepare(self, connection: Connection, place: str) -> int:
        """Make the schema ours and current, or raise and leave it as it is; return its version. May wait for others who do so.

        Raises:
            ForeignDatabase, NewerDatabase: nothing was changed.
        """
        known = len(migrations())
        if await self._version(connection, place) != known:
            async with connection.transaction():
                await connection.execute("SET LOCAL statement_timeout = '60s'")
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", (self.lock,))
                await self._migrate(connection, await self._version(connection, place))
        return known

    async def _version(self, connection: Connection, place: str) -> int:
        """Return how many migrations the schema has seen; -1 where there is none."""
        cursor = await connection.execute(self.sql(_LAYOUT), (f'"{self.name}"',))
        there, marked, used = await cursor.fetchone() or (False, False, False)
        if not marked:
            if used:
                raise ForeignDatabase(place, "the schema holds other tables", OTHER)
            return 0 if there else -1
        try:
            cursor = await connection.execute(self.sql("SELECT application, version FROM forge.meta"))
            application, version = await cursor.fetchone() or ("", 0)
        except UndefinedColumn:
            application, version = "", 0
        if application != APPLICATION:
            raise ForeignDatabase(place, "the schema belongs to another program", OTHER)
        if version > len(migrations()):
            raise NewerDatabase(place, version, len(migrations()), "another schema with FORGE_DATABASE_SCHEMA")
        return int(version)

    async def _migrate(self, connection: Connection, found: int) -> None:
        if found < 0:
            await connection.execute(f'CREATE SCHEMA "{self.name}"'.encode())
        for script in migrations()[max(found, 0) :]:
            await connection.execute(self.sql(script))
        await connection.execute(
            self.sql(
                "INSERT INTO forge.meta (application, version) VALUES (%s, %s) "
                "ON CONFLICT (only_row) DO UPDATE SET version = excluded.version"
            ),
            (APPLICATION, len(migrations())),
        )


@cache
def migrations() -> tuple[str, ...]:
    """Return the scripts that make the newest schema, oldest first; they only ever go forward."""
    return tuple(script.read_text(encoding="utf-8") for script in sorted(MIGRATIONS.glob("*.sql")))
