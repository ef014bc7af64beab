"""The state database on PostgreSQL: one schema for each knowledge base, shared by processes on any number of machines."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from knowledge.state.ports import StateSize
from knowledge.state.postgres.database import Pool, PostgresAddress
from knowledge.state.postgres.listener import UNASKED_S, Listener
from knowledge.state.postgres.schema import PostgresSchema
from knowledge.state.postgres.tables import PostgresTables
from knowledge.state.sql_store import SqlStateStore

TABLES = (
    *("meta", "enrolment", "standing", "standing_change", "lease", "counter", "event", "look", "nudge"),
    *("content", "page_state", "revision", "intent", "origin", "contradiction", "audit", "chain_end"),
    *("proposal", "passkey", "secret", "taint", "journey", "journey_event", "errand", "mention"),
    *("run", "run_frame", "map_line", "host_forms", "trusted_place", "read_passage"),
    *("quota", "proposal_line", "proposal_asker", "journey_cut", "run_cut", "act_commit", "token", "sealing_key"),
    *("directory", "client_note", "stored_file"),
)
_RIGHTS = "SELECT has_table_privilege(%s, 'SELECT') AND has_table_privilege(%s, 'INSERT, UPDATE, DELETE')"
_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'
"""


class PostgresStateStore(SqlStateStore):
    """A state store in one schema of a database."""

    def __init__(self, server: PostgresAddress, schema: PostgresSchema, known: int, version: str) -> None:
        self._server, self._schema, self._version = server, schema, version
        self._pool = Pool(server)
        self._postgres = PostgresTables(self._pool, schema, known)
        super().__init__(self._postgres)
        self._listener, self._one_waits = Listener(server, schema.name), anyio.Lock()

    @classmethod
    async def open(cls, url: str, schema: str) -> PostgresStateStore:
        """Return the store in that schema of the database at `url`; the schema is created and migrated if necessary.

        Raises:
            DatabaseRefused, DatabaseUnavailable, ForeignDatabase, NewerDatabase: nothing was changed.
        """
        server, ours = PostgresAddress(url, schema), PostgresSchema(schema)
        connection = await server.connect()
        try:
            with server.translating():
                known = await ours.prepare(connection, server.place)
            version = connection.info.parameter_status("server_version") or "of unknown version"
        finally:
            await connection.close()
        return cls(server, ours, known, version)

    @property
    def shared(self) -> tuple[PostgresAddress, str]:
        """The server and the name of the schema, for locks that all machines share."""
        return self._server, self._schema.name

    @property
    def place(self) -> str:
        """Where the state is and which engine keeps it."""
        return f"{self._server.place} (version {self._version.split()[0]})"

    @property
    def tables(self) -> PostgresTables:
        """The tables of the schema, for stores of other things of the same knowledge base."""
        return self._postgres

    async def last_event(self) -> int:
        """Return the newest `seq`, 0 if there never was an event."""
        return int((await self._tables.read("SELECT seq FROM forge.counter"))[0][0])

    async def changed(self, seq: int) -> None:
        """Return as soon as the newest event is not `seq`."""
        async with self._one_waits:  # one caller waits on the connection; the next one looks first, as all do
            looked = False
            while True:
                await self._listener.open()
                # Checked after listening has begun, so that an event published after this check is heard.
                if await self.last_event() != seq:
                    return
                if looked:
                    await anyio.sleep(UNASKED_S)  # events published in the meantime are heard afterwards
                looked = True
                await self._listener.wait()

    async def size(self) -> StateSize:
        """Return the size of the tables with their indexes."""
        return StateSize(int((await self._tables.read(_SIZE, (self._schema.name,)))[0][0]))

    async def give_back(self, *, spare: bool = True) -> bool:
        """Do nothing and return False: the server's autovacuum makes room for new rows."""
        del spare
        return False

    @property
    def gives_back(self) -> bool:
        """True: no rewriting is needed."""
        return True

    async def rewrite(self) -> bool:
        """Do nothing and return False: the server's autovacuum is enough."""
        return False

    async def check(self) -> Sequence[str]:
        """Return a sentence for each table that is missing, or that the user may not read or write."""
        wrong = []
        for table in TABLES:
            named = f'"{self._schema.name}".{table}'
            if not (await self._tables.read("SELECT to_regclass(%s) IS NOT NULL", (named,)))[0][0]:
                wrong.append(f"there is no table {named}")
            elif not (await self._tables.read(_RIGHTS, (named, named)))[0][0]:
                wrong.append(f"the user may not read or write {named}")
        return wrong

    async def close(self) -> None:
        """Close all connections."""
        await self._listener.close()
        await self._pool.close()
