"""Where a model's lines of maps are stored: in the database of the state store."""

from __future__ import annotations

from knowledge.search.map_lines import RememberedLines
from knowledge.search.summaries.ports import Summaries
from knowledge.search.summaries.sqlite import SqliteSummaries
from knowledge.state.ports import StateStore
from knowledge.state.sqlite.store import SqliteStateStore


def summaries_in(state: StateStore) -> Summaries:
    """Return the lines in the database of that state store."""
    if isinstance(state, SqliteStateStore):
        return SqliteSummaries(state.database)
    from knowledge.search.summaries.postgres import PostgresSummaries
    from knowledge.state.postgres.store import PostgresStateStore

    if isinstance(state, PostgresStateStore):
        return PostgresSummaries(state.tables)
    raise TypeError(f"a {type(state).__name__} has no lines of maps")


def remembered_lines(state: StateStore) -> RememberedLines:
    """Return the lines in that database, with a cache for maps to read."""
    return RememberedLines(summaries_in(state))
