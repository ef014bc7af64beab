"""Runs are stored in the database of the state store."""

from __future__ import annotations

from agents.loop.store.ports import RunStore
from agents.loop.store.sql import SqlRuns
from knowledge.state.ports import StateStore
from knowledge.state.quota.bounds import Quotas


def runs_in(state: StateStore, quotas: Quotas | None = None) -> RunStore:
    """Return the runs in the database of the state.

    With `quotas` nobody can begin more than those allow; a person at a terminal has no quotas.
    """
    return SqlRuns(state.tables, quotas)
