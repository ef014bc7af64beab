"""One schema of a PostgreSQL database for each knowledge base: created, migrated, and checked to be ours alone."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.errors import UndefinedColumn

from knowledge.errors import DatabaseRefused, ForeignDatabase, NewerDatabase
from knowledge.state.transfer.marks import MARK_LEASE, unusable

if TYPE_CHECKING:
    from knowledge.state.postgres.database import Connection

APPLICATION = "knowledge-forge state"
MIGRATIONS = Path(__file__).parent / "migrations" / "postgres"
ONLY_ADDS = "-- It only adds: older programs may still write."
"""The first line of some migrations. A program that does not know such a migration may still write: for it, the tables
work as before."""
OTHER = "name another schema with FORGE_DATABASE_SCHEMA"

_LAYOUT = """
SELECT n.oid IS NOT NULL, to_regclass('forge.meta') IS NOT NULL,
       EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid)
FROM (SELECT to_regnamespace(%s) AS oid) AS n
"""

# The owner of a schema can replace any table in it, and a role that may create in it can add a function that fits our arguments better
# than our own, and is then called with our rights. Superusers and the owner of the database can do anything anyway.
_OTHERS = """
WITH RECURSIVE mine AS (
    SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
    UNION SELECT m.roleid FROM pg_catalog.pg_auth_members m JOIN mine ON m.member = mine.oid
), trusted AS (
    SELECT oid FROM mine
    UNION SELECT oid FROM pg_catalog.pg_roles WHERE rolsuper OR rolname = 'pg_database_owner'
    UNION SELECT datdba FROM pg_catalog.pg_database WHERE datname = current_database()
), ours AS (SELECT oid, nspowner, nspacl FROM pg_catalog.pg_namespace WHERE nspname = %s)
SELECT what, pg_catalog.pg_get_userbyid(role) FROM (
    SELECT 1 AS place, 'it belongs to' AS what, nspowner AS role FROM ours
    UNION ALL SELECT 2, 'the table or index "' || c.relname || '" in it belongs to', c.relowner
        FROM pg_catalog.pg_class c JOIN ours ON c.relnamespace = ours.oid
    UNION ALL SELECT 2, 'the function "' || p.proname || '" in it belongs to', p.proowner
        FROM pg_catalog.pg_proc p JOIN ours ON p.pronamespace = ours.oid
    UNION ALL SELECT 3, 'objects in it may be created by', a.grantee
        FROM ours, LATERAL pg_catalog.aclexplode(ours.nspacl) a WHERE a.privilege_type = 'CREATE'
) found WHERE role NOT IN (SELECT oid FROM trusted) ORDER BY place LIMIT 1
"""
LOCK_WAIT = "20s"
"""How long to wait for another process that creates or migrates the schema, or for any other holder of its lock."""


class PostgresSchema:
    """The schema of one knowledge base, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        # The key of an advisory lock has 64 bits.
        digest = hashlib.blake2b(f"knowledge-forge {name}".encode(), digest_size=8).digest()
        self.lock = int.from_bytes(digest, "big", signed=True)
        """The advisory lock that all writes share and a migration holds alone."""
        self.sql = cache(self._sql)

    def _sql(self, statement: str) -> bytes:
        """Return `statement` with this schema in place of `forge.`, and its name in place of the literal `'forge'`.

        Tables are named in full, because behind a pooler the connection may have the search path of another client.
        """
        return statement.replace("forge.", f'"{self.name}".').replace("'forge'", f"'{self.name}'").encode()

    async def prepare(self, connection: Connection, place: str) -> int:
        """Create or migrate the schema and return its version. May wait for another process doing that.

        Raises:
            ForeignDatabase, NewerDatabase, DatabaseRefused: nothing was changed.
        """
        known = len(migrations())
        await self._require_ours(connection, place)
        if await self._version(connection, place) != known:
            async with connection.transaction():
                await connection.execute(
                    # A migration of large tables takes longer than the 4 s that a session allows.
                    f"SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '{LOCK_WAIT}'".encode()
                )
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", (self.lock,))
                # Again under the lock: another process may have made or migrated the schema in the meantime.
                await self._require_ours(connection, place)
                await self._migrate(connection, await self._version(connection, place))
        return known

    async def _require_ours(self, connection: Connection, place: str) -> None:
        """Check that no other role owns the schema or anything in it, or may add to it.

        Raises:
            DatabaseRefused: another role does.
        """
        cursor = await connection.execute(_OTHERS.encode(), (self.name,))
        if row := await cursor.fetchone():
            what, role = row
            whose = "anybody" if role.startswith("unknown (OID=0)") else f"the role {role!r}"
            raise DatabaseRefused(
                place,
                f"the schema is not safe from other roles: {what} {whose}",
                'make the schema with "create schema ... authorization" your own role and "revoke create ... from" all others, or '
                f"{OTHER}",
            )

    async def _version(self, connection: Connection, place: str) -> int:
        """Return how many migrations the schema has had; -1 if there is no schema."""
        cursor = await connection.execute(self.sql(_LAYOUT), (f'"{self.name}"',))
        there, marked, used = await cursor.fetchone() or (False, False, False)
        if not marked:
            if used:
                raise ForeignDatabase(place, "the schema holds other tables", OTHER)
            return 0 if there else -1
        try:
            cursor = await connection.execute(self.sql("SELECT application, version FROM forge.meta"))
            application, version = await cursor.fetchone() or ("", 0)
        # Another program's table of the same name.
        except UndefinedColumn:
            application, version = "", 0
        if application != APPLICATION:
            raise ForeignDatabase(place, "the schema belongs to another program", OTHER)
        if version > len(migrations()):
            cursor = await connection.execute(self.sql("SELECT holder FROM forge.lease WHERE name = %s"), (MARK_LEASE,))
            row = await cursor.fetchone()
            if marked := unusable(place, int(version), row[0] if row else ""):
                raise marked
            raise NewerDatabase(place, version, len(migrations()), "another schema with FORGE_DATABASE_SCHEMA")
        return int(version)

    async def _migrate(self, connection: Connection, found: int) -> None:
        if found < 0:
            await connection.execute(f'CREATE SCHEMA "{self.name}"'.encode())
        for script in migrations()[max(found, 0) :]:
            await connection.execute(self.sql(script))
        await connection.execute(
            self.sql(
                "INSERT INTO forge.meta (application, version, writers) VALUES (%s, %s, %s) "
                "ON CONFLICT (only_row) DO UPDATE SET version = excluded.version, writers = excluded.writers"
            ),
            (APPLICATION, len(migrations()), oldest_writer()),
        )


@cache
def migrations() -> tuple[str, ...]:
    """Return the scripts that make the newest schema, oldest first. Migrations only go forward."""
    return tuple(script.read_text(encoding="utf-8") for script in sorted(MIGRATIONS.glob("*.sql")))


def oldest_writer() -> int:
    """Return the version of the oldest program that may write to the newest schema."""
    return max(number for number, script in enumerate(migrations(), 1) if not script.startswith(ONLY_ADDS))
