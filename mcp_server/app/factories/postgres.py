"""Builds the parts that use a PostgreSQL database. Loaded only if the settings name one, because it needs psycopg."""

from __future__ import annotations

from typing import cast

from knowledge.state.ports import StateStore
from knowledge.state.postgres.store import PostgresStateStore
from knowledge.writing.locks.page_locks import Locks
from knowledge.writing.locks.postgres_locks import PostgresLocks


async def open_state(url: str, schema: str) -> StateStore:
    """Open the state store in that schema of the database."""
    return await PostgresStateStore.open(url, schema)


def locks_on(state: StateStore, here: Locks, *, of: str = "") -> PostgresLocks:
    """Return locks among all machines that share the database. `here` are those among the processes of this machine."""
    server, schema = cast("PostgresStateStore", state).shared
    return PostgresLocks(here, server, schema + of, longest_wait_s=here.longest_wait_s)
