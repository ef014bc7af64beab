"""The agents that journeys can follow: the built-in ones and the team's, which come and go while the server runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import anyio

from knowledge.errors import KnowledgeError
from mcp_server.late_module import LateModule
from mcp_server.ports import JourneyServices

if TYPE_CHECKING:
    from agents import catalogue as built_in
    from agents.catalogue import AgentListing, CatalogueEntry
else:
    # Hosts list prompts while they start, and need no agent for that.
    built_in = LateModule("agents.catalogue")

logger = logging.getLogger("knowledge_forge.journeys")


@runtime_checkable
class WithTeam(Protocol):
    """A catalogue that can list the team's agents without loading the built-in ones."""

    async def team(self) -> Sequence[AgentListing]:
        """Return the team's agents and skills that can be used now."""
        ...


async def team_agents(services: JourneyServices) -> Sequence[AgentListing]:
    """Return the team's agents and skills; none while they cannot be read. The built-in agents are not loaded for it."""
    # The first caller loads the code for journeys in a thread, so that the host's handshake continues in the meantime.
    await anyio.to_thread.run_sync(import_module, "mcp_server.app.factories.journey_store")
    catalogue = services.journeys.catalogue
    try:
        found = await catalogue.team() if isinstance(catalogue, WithTeam) else await catalogue.agents()
    except KnowledgeError:
        logger.warning("the team's own agents cannot be listed now", exc_info=True)
        return ()
    own = {entry.name for entry in built_in.entries()}
    return [agent for agent in found if agent.name not in own]


async def listed_agents(services: JourneyServices) -> Sequence[CatalogueEntry | AgentListing]:
    """Return every agent as lists show it, the built-in ones first."""
    team = await team_agents(services)
    return [*built_in.entries(), *team]


async def agent_lines(services: JourneyServices) -> Sequence[tuple[str, str]]:
    """Return name and summary of every agent that journeys can follow, the built-in ones first."""
    catalogue = services.journeys.catalogue
    agents = await (listed_agents(services) if isinstance(catalogue, WithTeam) else catalogue.agents())
    return [(agent.name, agent.summary) for agent in agents]
