"""The stores in a state database of any engine, memory included."""

from __future__ import annotations

from agents.loop.store.ports import RunStore
from agents.store.ports import JourneyStore
from knowledge.search.summaries.ports import Summaries
from knowledge.state.ports import StateStore
from knowledge.state.quota.bounds import Quotas
from mcp_server.app.factories import journey_store
from mcp_server.models import locations as line_locations
from mcp_server.runs import locations as run_locations
from tests.support.state.memory.journeys import MemoryJourneys
from tests.support.state.memory.runs import MemoryRuns
from tests.support.state.memory.state import MemoryStateStore
from tests.support.state.memory.summaries import MemorySummaries


def journeys_in(state: StateStore, quotas: Quotas | None = None) -> JourneyStore:
    """Return the journeys in the same database as the state. In memory each call starts with none."""
    if isinstance(state, MemoryStateStore):
        return MemoryJourneys(state.publish, quotas)
    return journey_store.journeys_in(state, quotas)


def runs_in(state: StateStore, quotas: Quotas | None = None) -> RunStore:
    """Return the runs in the same database as the state. In memory each call starts with none."""
    if isinstance(state, MemoryStateStore):
        return MemoryRuns(state.publish, state.ledger.append, quotas)
    return run_locations.runs_in(state, quotas)


def summaries_in(state: StateStore) -> Summaries:
    """Return the map lines in the same database as the state. In memory each call starts with none."""
    if isinstance(state, MemoryStateStore):
        return MemorySummaries()
    return line_locations.summaries_in(state)
