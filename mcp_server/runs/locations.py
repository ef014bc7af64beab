"""Where runs lie: in the database of their state store."""

from __future__ import annotations

from agents.loop.store.ports import RunStore
from agents.loop.store.sqlite import SqliteRuns
from knowledge.state.ports import StateStore
from knowledge.state.quota.bounds import Quotas
from knowledge.state.sqlite.store import SqliteStateStore


def runs_in(state: StateStore, quotas: Quotas | None = None) -> RunStore:
    """Return the runs that lie in the same database as the state.

    With `quotas` nobody begins more than they allow; a person at a terminal has none.
    """
    if isinstance(state, SqliteStateStore):
        return SqliteRuns(state.database, quotas)
    from agents.loop.store.postgres import PostgresRuns
    from knowledge.state.postgres.store import PostgresStateStore

    if isinstance(state, PostgresStateStore):
        return PostgresRuns(state.tables, quotas)
    raise TypeError(f"no runs are known to lie in a {type(state).__name__}")
