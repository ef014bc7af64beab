"""Builds the parts that use a PostgreSQL database. Loaded only if the settings name one, because it needs psycopg."""

from __future__ import annotations

from typing import cast

from knowledge.state.ports import StateStore
from knowledge.state.postgres.database import PostgresAddress
from knowledge.state.postgres.store import PostgresStateStore
from knowledge.state.transfer.ports import WholeState
from knowledge.state.transfer.postgres_state import PostgresWholeState
from knowledge.writing.locks.page_locks import Locks
from knowledge.writing.locks.postgres_locks import PostgresLocks


async def open_state(url: str, schema: str) -> StateStore:
    """Open the state store in that schema of the database."""
    return await PostgresStateStore.open(url, schema)


def whole_state(url: str, schema: str) -> WholeState:
    """Return the state in that schema, which `open_state` has migrated, to move or save it as a whole."""
    return PostgresWholeState(PostgresAddress(url, schema), schema)


async def has_state(url: str, schema: str) -> bool:
    """Return whether the schema has a state. Nothing is created."""
    server = PostgresAddress(url, schema)
    connection = await server.connect()
    try:
        with server.translating():
            cursor = await connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f'"{schema}".meta',))
            return bool((await cursor.fetchall())[0][0])
    finally:
        await connection.close()


def locks_on(state: StateStore, here: Locks, *, of: str = "") -> PostgresLocks:
    """Return locks among all machines that share the database. `here` are those among the processes of this machine."""
    server, schema = cast("PostgresStateStore", state).shared
    return PostgresLocks(here, server, schema + of, longest_wait_s=here.longest_wait_s)
