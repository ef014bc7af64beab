"""Open recorded journeys for the verbs that show or lead them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents.engine.agent import Agent
from agents.engine.runner import Runner
from agents.engine.state import JourneyState
from agents.errors import NoSuchAgent
from agents.store.ports import JourneyStore
from mcp_server.app.factories.journey_store import journeys_in
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.terminal.output import say

MOST_LISTED = 10_000


@asynccontextmanager
async def stored(settings: Settings) -> AsyncIterator[JourneyStore]:
    """Yield the recorded journeys alone, without opening agents or pages."""
    async with open_state(settings) as state:
        yield journeys_in(state)


@asynccontextmanager
async def led(settings: Settings) -> AsyncIterator[Runner]:
    """Yield the runner, which leads journeys with their agents."""
    async with opened_app(settings) as app:
        yield app.services.journeys


async def head(runner: Runner, journey: str) -> tuple[Agent | None, JourneyState]:
    """Return the journey's agent and state. If the agent no longer exists, print that and return None instead of it.

    Raises:
        NoSuchJourney: there is no such journey.
    """
    try:
        here = await runner.position(journey)
    except NoSuchAgent as gone:
        say(f"{gone}; the recorded work is shown without it")
        return None, await runner.store.journey(journey)
    return here.agent, here.state
