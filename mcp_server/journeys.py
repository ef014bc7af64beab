"""The part of the composition root that knows where journeys lie: in the database of their state store."""

from __future__ import annotations

from agents.store import JourneyStore
from agents.store_memory import MemoryJourneys
from agents.store_sqlite import SqliteJourneys
from knowledge.storage.memory import MemoryStateStore
from knowledge.storage.ports import StateStore
from knowledge.storage.sqlite_state import SqliteStateStore


def journeys_in(state: StateStore) -> JourneyStore:
    """Return the journeys that lie in the same database as the state. Ask once: in memory each answer begins with none."""
    if isinstance(state, SqliteStateStore):
        return SqliteJourneys(state.database)
    if isinstance(state, MemoryStateStore):
        return MemoryJourneys(state.publish)
    from agents.store_postgres import PostgresJourneys
    from knowledge.storage.postgres_state import PostgresStateStore

    if isinstance(state, PostgresStateStore):
        return PostgresJourneys(state.tables)
    raise TypeError(f"no journeys are known to lie in a {type(state).__name__}")
