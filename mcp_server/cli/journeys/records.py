"""The journeys on record, for the verbs that show or lead them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agents.errors import NoSuchAgent
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.terminal.output import say

if TYPE_CHECKING:
    from agents.engine.agent import Agent
    from agents.engine.runner import Runner
    from agents.engine.state import JourneyState, Status
    from agents.store.ports import JourneyLine, JourneyStore


MOST_LISTED = 10_000


@asynccontextmanager
async def stored(settings: Settings) -> AsyncIterator[JourneyStore]:
    """Yield the journeys on record, for which neither agents nor pages need to be opened."""
    from mcp_server.app.factories.journey_store import journeys_in
    from mcp_server.app.knowledge_base import open_state

    async with open_state(settings) as state:
        yield journeys_in(state)


@asynccontextmanager
async def led(settings: Settings) -> AsyncIterator[Runner]:
    """Yield what leads journeys. An error in there comes out as itself."""
    from mcp_server.app.composition import open_app

    try:
        async with open_app(settings, indexing=False, announcing=False) as app:
            yield app.services.journeys
    except BaseExceptionGroup as group:
        raise (group.exceptions[0] if len(group.exceptions) == 1 else group) from None


async def head(runner: Runner, journey: str) -> tuple[Agent | None, JourneyState]:
    """Return where the journey stands, and its agent; without that, why it is not there is said.

    Raises:
        NoSuchJourney: there is none.
    """
    try:
        here = await runner.position(journey)
    except NoSuchAgent as gone:
        say(f"{gone}; the recorded work is shown without it")
        return None, await runner.store.journey(journey)
    return here.agent, here.state


async def listing(
    store: JourneyStore, *, state: Status | None = None, agent: str | None = None, limit: int = MOST_LISTED
) -> list[JourneyLine]:
    """Return up to so many journeys, newest first."""
    return list(await store.journeys(status=state, agent=agent, limit=limit))
