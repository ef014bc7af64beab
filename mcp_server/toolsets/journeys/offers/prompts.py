"""Prompts of journeys: one for each agent, and `continue`. The team's agents come and go while the server runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PromptArgument

from knowledge.errors import KnowledgeError
from mcp_server.late_module import LateModule
from mcp_server.ports import JourneyServices
from mcp_server.protocol.server import OfferedPrompt

if TYPE_CHECKING:
    from agents import catalogue as built_in
    from agents.catalogue import AgentListing, CatalogueEntry
    from mcp_server.toolsets.journeys.offers import prompt_texts
else:
    # Hosts list prompts while they start, and need no agent for that.
    built_in = LateModule("agents.catalogue")
    prompt_texts = LateModule("mcp_server.toolsets.journeys.offers.prompt_texts")

logger = logging.getLogger("knowledge_forge.journeys")

CONTINUE = "continue"
BRIEF, JOURNEY_ID = "brief", "journey_id"
LEADING = frozenset({"journey_start", "journey_submit"})
"""The tools that the texts of these prompts tell a model to call."""

_BRIEF = PromptArgument(name=BRIEF, description="The task, for a new journey.")
_JOURNEY_ID = PromptArgument(name=JOURNEY_ID, description="To continue a journey.")


@runtime_checkable
class WithTeam(Protocol):
    """A catalogue that can list the team's agents without loading the built-in ones."""

    async def team(self) -> Sequence[AgentListing]:
        """Return the team's agents and skills that can be used now."""
        ...


def leads_journeys(services: JourneyServices) -> bool:
    """Return whether the tools with which a model leads journeys are listed."""
    return {spec.name for spec in services.tools()} >= LEADING


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


class JourneyPrompts:
    """The prompts of journeys, listed and answered."""

    def __init__(self, services: JourneyServices) -> None:
        self._services = services

    async def listed(self) -> Sequence[OfferedPrompt]:
        """Return `continue`, then one prompt for each agent."""
        continuing = OfferedPrompt(
            CONTINUE,
            "Continue a journey",
            "Continue any journey, whichever host started it.",
            (PromptArgument(name=JOURNEY_ID, description="The journey to continue.", required=True),),
            self._continue,
        )
        agents = [
            OfferedPrompt(
                agent.name, agent.title, agent.summary, (_BRIEF, _JOURNEY_ID), partial(self._lead, agent.name)
            )
            for agent in await listed_agents(self._services)
        ]
        return [continuing, *agents]

    async def _continue(self, given: Mapping[str, str]) -> str:
        return await prompt_texts.continuing_text(self._services, "", given[JOURNEY_ID].strip())

    async def _lead(self, agent: str, given: Mapping[str, str]) -> str:
        """Return how to begin, or how to continue the given journey. Hosts' forms send an empty field as empty text."""
        journey, brief = given.get(JOURNEY_ID, "").strip(), given.get(BRIEF, "").strip()
        if journey:
            return await prompt_texts.continuing_text(self._services, agent, journey, brief)
        if not brief:
            raise MCPError(
                INVALID_PARAMS,
                f"prompt {agent}: give the task in 'brief', or the journey to continue in 'journey_id'",
            )
        return await prompt_texts.beginning_text(self._services, agent, brief)
