"""Where lines of maps lie: in the database of their state store."""

from __future__ import annotations

from knowledge.storage.memory import MemoryStateStore
from knowledge.storage.ports import StateStore
from knowledge.storage.sqlite_state import SqliteStateStore
from knowledge.summaries.memory import MemorySummaries
from knowledge.summaries.ports import Summaries
from knowledge.summaries.sqlite import SqliteSummaries


def summaries_in(state: StateStore) -> Summaries:
    """Return the lines that lie in the same database as the state. Ask once: in memory each answer begins with none."""
    if isinstance(state, SqliteStateStore):
        return SqliteSummaries(state.database)
    if isinstance(state, MemoryStateStore):
        return MemorySummaries()
    from knowledge.storage.postgres_state import PostgresStateStore
    from knowledge.summaries.postgres import PostgresSummaries

    if isinstance(state, PostgresStateStore):
        return PostgresSummaries(state.tables)
    raise TypeError(f"no lines of maps are known to lie in a {type(state).__name__}")
