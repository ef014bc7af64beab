"""Prompts of journeys: one for each agent, and `continue`. The team's agents come and go while the server runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PromptArgument

from mcp_server.late_module import LateModule
from mcp_server.ports import JourneyServices
from mcp_server.protocol.server import OfferedPrompt
from mcp_server.toolsets.journeys.offers.agent_list import listed_agents

if TYPE_CHECKING:
    from mcp_server.toolsets.journeys.offers import prompt_texts
else:
    prompt_texts = LateModule("mcp_server.toolsets.journeys.offers.prompt_texts")

CONTINUE = "continue"
BRIEF, JOURNEY_ID = "brief", "journey_id"
LEADING = frozenset({"journey_start", "journey_submit"})
"""The tools that the texts of these prompts tell a model to call."""

_BRIEF = PromptArgument(name=BRIEF, description="The task, for a new journey.")
_JOURNEY_ID = PromptArgument(name=JOURNEY_ID, description="To continue a journey.")


def leads_journeys(services: JourneyServices) -> bool:
    """Return whether the tools with which a model leads journeys are listed."""
    return {spec.name for spec in services.tools()} >= LEADING


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
                agent.name,
                agent.title,
                agent.summary,
                (_BRIEF, _JOURNEY_ID),
                partial(self._lead, agent.name),
                getattr(agent, "origin", ""),
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
