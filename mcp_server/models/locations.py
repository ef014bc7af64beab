"""A model's lines of maps are stored in the database of the state store."""

from __future__ import annotations

from knowledge.search.map_lines import RememberedLines
from knowledge.search.summaries.ports import Summaries
from knowledge.search.summaries.sql import SqlSummaries
from knowledge.state.ports import StateStore


def summaries_in(state: StateStore) -> Summaries:
    """Return the lines in the database of that state store."""
    return SqlSummaries(state.tables)


def remembered_lines(state: StateStore) -> RememberedLines:
    """Return the lines in that database, with a cache for maps to read."""
    return RememberedLines(summaries_in(state))
