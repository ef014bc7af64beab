"""Where lines of maps lie: in the database of their state store."""

from __future__ import annotations

from knowledge.search.summaries.ports import Summaries
from knowledge.search.summaries.sqlite import SqliteSummaries
from knowledge.state.ports import StateStore
from knowledge.state.sqlite.store import SqliteStateStore


def summaries_in(state: StateStore) -> Summaries:
    """Return the lines that lie in the same database as the state."""
    if isinstance(state, SqliteStateStore):
        return SqliteSummaries(state.database)
    from knowledge.search.summaries.postgres import PostgresSummaries
    from knowledge.state.postgres.store import PostgresStateStore

    if isinstance(state, PostgresStateStore):
        return PostgresSummaries(state.tables)
    raise TypeError(f"no lines of maps are known to lie in a {type(state).__name__}")
