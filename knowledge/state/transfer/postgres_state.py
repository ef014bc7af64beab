"""A whole state database in a schema of a PostgreSQL database."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from psycopg.errors import LockNotAvailable

from knowledge.errors import StateInUse
from knowledge.leases import MACHINE_LEASE
from knowledge.state.postgres.database import Connection, PostgresAddress
from knowledge.state.postgres.schema import LOCK_WAIT, PostgresSchema
from knowledge.state.transfer.layout import PostgresColumn, StateTable, matched, tables
from knowledge.state.transfer.marks import MARK_LEASE, USED, Mark, mark_of, marked_version
from knowledge.state.transfer.ports import ROWS_AT_ONCE, Row

_COLUMNS = """
SELECT c.relname, a.attname, format_type(a.atttypid, NULL), a.attidentity <> ''
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE n.nspname = %s AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.relname, a.attnum
"""
# Connections that wait for change events show the channel's name, which is the schema's, to the same role.
_LISTENING = """
SELECT pid, coalesce(host(client_addr), 'this machine') FROM pg_stat_activity
WHERE datname = current_database() AND query = %s AND pid <> pg_backend_pid() ORDER BY pid
"""
_LEASES = """
SELECT name, holder FROM forge.lease WHERE holder IS NOT NULL AND expires_at > now() AND name <> %s ORDER BY name
"""
_EVENTS = "event"
"""The table that is numbered by the row of `counter`."""


class PostgresWholeState:
    """The state in the schema of that name, which a store of this program has migrated."""

    def __init__(self, server: PostgresAddress, schema: str) -> None:
        self._server, self._schema = server, PostgresSchema(schema)
        self._connection: Connection | None = None
        self._columns: Mapping[str, tuple[PostgresColumn, ...]] = {}
        self._identities: Mapping[str, str] = {}

    @property
    def place(self) -> str:
        """The server, the database and the schema."""
        return self._server.place

    async def begin(self, *, alone: bool) -> None:
        """Begin a transaction."""
        if self._connection is None:
            self._connection = await self._server.connect()
        mode = "READ COMMITTED" if alone else "REPEATABLE READ READ ONLY"
        await self._ask(f"BEGIN ISOLATION LEVEL {mode}")
        # A whole state takes longer than a call may.
        await self._ask("SET LOCAL statement_timeout = 0")
        await self._ask("SET LOCAL idle_in_transaction_session_timeout = 0")
        if alone:
            await self._shut_others_out()
        rows = await self._ask(_COLUMNS, (self._schema.name,))
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for table, column, type_, _ in rows:
            found[table].append((column, type_))
        self._columns = matched(found)
        self._identities = {table: column for table, column, _, identity in rows if identity}

    async def _shut_others_out(self) -> None:
        await self._ask(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'")
        try:
            await self._executed("SELECT pg_advisory_xact_lock(%s)", (self._schema.lock,))
        except LockNotAvailable:
            await self.close()
            raise StateInUse(self.place, ["a session that writes"]) from None
        # A process that only reads holds no lock, but every server listens for change events.
        listening = await self._ask(_LISTENING, (f'LISTEN "{self._schema.name}"',))
        held = await self._ask(_LEASES, (MARK_LEASE,))
        users = [f"session {pid} from {address}" for pid, address in listening]
        users += [
            f"process {holder.partition('-')[0]} (lease {name!r})" for name, holder in held if name != MACHINE_LEASE
        ]
        if users:
            await self.close()
            raise StateInUse(self.place, users)
        await self._ask("UPDATE forge.lease SET holder = NULL WHERE name <> %s", (MARK_LEASE,))

    async def commit(self) -> None:
        """Commit."""
        with self._server.translating(writing=True):
            await self._executed("COMMIT")

    async def mark(self) -> Mark:
        """Return the mark."""
        version = (await self._ask("SELECT version FROM forge.meta"))[0][0]
        rows = await self._ask("SELECT holder FROM forge.lease WHERE name = %s", (MARK_LEASE,))
        return mark_of(version, rows[0][0] if rows else "")

    async def set_mark(self, mark: Mark) -> None:
        """Replace the mark."""
        await self._ask("DELETE FROM forge.lease WHERE name = %s", (MARK_LEASE,))
        if mark != USED:
            await self._ask("INSERT INTO forge.lease VALUES (%s, %s, 0, 'epoch')", (MARK_LEASE, mark.other))
        version = (await self._ask("SELECT version FROM forge.meta"))[0][0]
        await self._ask("UPDATE forge.meta SET version = %s", (marked_version(version, mark),))

    async def rows(self, table: StateTable) -> AsyncIterator[Sequence[Row]]:
        """Yield all rows in batches."""
        sources = {column.source: column for column in self._columns[table.name] if not column.key}
        columns = ", ".join(sources[name].as_sqlite for name in table.columns)
        where = f"WHERE name <> '{MARK_LEASE}'" if table.name == "lease" else ""
        with self._server.translating():
            async with self._open.cursor(name="whole") as cursor:
                await cursor.execute(self._sql(f"SELECT {columns} FROM forge.{table.name} {where} ORDER BY 1"))  # noqa: S608 - our names
                while batch := await cursor.fetchmany(ROWS_AT_ONCE):
                    yield batch

    async def clear(self) -> None:
        """Delete all rows."""
        whole = ", ".join(f"forge.{table.name}" for table in tables() if table.name != "lease")
        await self._ask(f"TRUNCATE {whole}")
        await self._ask("DELETE FROM forge.lease WHERE name <> %s", (MARK_LEASE,))

    async def add(self, table: StateTable, rows: Sequence[Row]) -> None:
        """Add rows."""
        columns = self._columns[table.name]
        given = dict(zip(table.columns, map(list, zip(*rows, strict=True)), strict=True))
        names = ", ".join(f'"{column.name}"' for column in columns)
        values = ", ".join(column.stored(f"r.v{n}") for n, column in enumerate(columns))
        arrays = ", ".join(f"%s::{column.array}" for column in columns)
        aliases = ", ".join(f"v{n}" for n in range(len(columns)))
        await self._ask(
            f"INSERT INTO forge.{table.name} ({names}) OVERRIDING SYSTEM VALUE "  # noqa: S608 - our own names
            f"SELECT {values} FROM unnest({arrays}) AS r ({aliases})",
            [_keys(given[column.source]) if column.key else given[column.source] for column in columns],
        )

    async def sequences(self) -> Mapping[str, int]:
        """Return the highest number given in each numbered table."""
        numbers = {_EVENTS: int((await self._ask("SELECT seq FROM forge.counter"))[0][0])}
        for table, column in self._identities.items():
            sequence = (await self._ask("SELECT pg_get_serial_sequence(%s, %s)", (self._named(table), column)))[0][0]
            last, called = (await self._ask(f"SELECT last_value, is_called FROM {sequence}"))[0]  # noqa: S608 - as above
            numbers[table] = int(last) if called else 0
        return {table.name: numbers[table.name] for table in tables() if table.numbered}

    async def set_sequences(self, numbers: Mapping[str, int]) -> None:
        """Continue after these numbers."""
        await self._ask("UPDATE forge.counter SET seq = %s", (numbers[_EVENTS],))
        for table, column in self._identities.items():
            last = numbers[table]
            await self._ask(
                "SELECT setval(pg_get_serial_sequence(%s, %s), %s, %s)",
                (self._named(table), column, max(last, 1), last > 0),
            )

    async def close(self) -> None:
        """End without a commit."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    @property
    def _open(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("no transaction was begun")
        return self._connection

    def _named(self, table: str) -> str:
        return f'"{self._schema.name}"."{table}"'

    def _sql(self, statement: str) -> bytes:
        return statement.replace("forge.", f'"{self._schema.name}".').encode()

    async def _ask(self, statement: str, arguments: Sequence[Any] | None = None) -> list[Row]:
        with self._server.translating():
            return await self._executed(statement, arguments)

    async def _executed(self, statement: str, arguments: Sequence[Any] | None = None) -> list[Row]:
        cursor = await self._open.execute(self._sql(statement), arguments)
        return await cursor.fetchall() if cursor.description else []


def _keys(texts: Sequence[str | None]) -> list[bytes | None]:
    return [None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
