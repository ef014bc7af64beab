"""Where runs lie: in the database of their state store."""

from __future__ import annotations

from agents.loop.store import RunStore
from agents.loop.store_memory import MemoryRuns
from agents.loop.store_sqlite import SqliteRuns
from knowledge.storage.memory import MemoryStateStore
from knowledge.storage.ports import StateStore
from knowledge.storage.sqlite_state import SqliteStateStore


def runs_in(state: StateStore) -> RunStore:
    """Return the runs that lie in the same database as the state. Ask once: in memory each answer begins with none."""
    if isinstance(state, SqliteStateStore):
        return SqliteRuns(state.database)
    if isinstance(state, MemoryStateStore):
        return MemoryRuns(state.publish, state.ledger.append)
    from agents.loop.store_postgres import PostgresRuns
    from knowledge.storage.postgres_state import PostgresStateStore

    if isinstance(state, PostgresStateStore):
        return PostgresRuns(state.tables)
    raise TypeError(f"no runs are known to lie in a {type(state).__name__}")
