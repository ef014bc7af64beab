"""Where runs lie: in the database of their state store."""

from __future__ import annotations

from agents.loop.store.ports import RunStore
from agents.loop.store.sql import SqlRuns
from knowledge.state.ports import StateStore
from knowledge.state.quota.bounds import Quotas


def runs_in(state: StateStore, quotas: Quotas | None = None) -> RunStore:
    """Return the runs that lie in the same database as the state.

    With `quotas` nobody begins more than they allow; a person at a terminal has none.
    """
    return SqlRuns(state.tables, quotas)
