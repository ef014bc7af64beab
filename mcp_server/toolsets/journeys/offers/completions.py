"""Completions for journeys and agents: journeys by id or words of their title, agents and their phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from knowledge.errors import KnowledgeError
from mcp_server.gate.caller import caller
from mcp_server.late_module import LateModule
from mcp_server.ports import JourneyServices
from mcp_server.toolsets.journeys.offers.agent_list import listed_agents
from mcp_server.toolsets.journeys.offers.prompts import CONTINUE, JOURNEY_ID, leads_journeys
from mcp_server.toolsets.journeys.offers.resources import (
    AGENT_TEMPLATE,
    EVENTS_TEMPLATE,
    JOURNEY_TEMPLATE,
    MEMORY_TEMPLATE,
    PHASE_TEMPLATE,
    REPORT_TEMPLATE,
)

if TYPE_CHECKING:
    from agents.store.ports import JourneyLine
    from mcp_server.toolsets.journeys.offers import resource_texts
else:
    resource_texts = LateModule("mcp_server.toolsets.journeys.offers.resource_texts")

MOST_LOOKED_AT = 500
"""How many of the newest journeys are searched."""
_OF_JOURNEYS = (JOURNEY_TEMPLATE, EVENTS_TEMPLATE, REPORT_TEMPLATE)
_OF_AGENTS = (AGENT_TEMPLATE, PHASE_TEMPLATE)


async def in_template(
    services: JourneyServices, template: str, argument: str, typed: str, chosen: Mapping[str, str]
) -> Sequence[str] | None:
    """Return values for a variable of an address; `chosen` has the values of its other variables. None for other addresses."""
    if (template in _OF_JOURNEYS and argument == JOURNEY_ID) or (template == MEMORY_TEMPLATE and argument == "task"):
        return await journeys(services, typed)
    if template == MEMORY_TEMPLATE and argument == "agent":
        return _beginning(typed, await resource_texts.memory_names(services, chosen.get("task", "")))
    if template in _OF_AGENTS and argument == "agent":
        return _beginning(typed, [agent.name for agent in await listed_agents(services)])
    if template == PHASE_TEMPLATE and argument == "phase":
        try:
            agent = await services.journeys.catalogue.agent(chosen.get("agent", ""))
        except KnowledgeError:
            return []
        return _beginning(typed, [phase.name for phase in agent.graph.phases])
    return None


async def in_prompt(services: JourneyServices, prompt: str, argument: str, typed: str) -> Sequence[str] | None:
    """Return values for an argument of a prompt; None if it is not a prompt of journeys, or its value is free text."""
    if argument != JOURNEY_ID or not leads_journeys(services):
        return None
    if prompt == CONTINUE:
        return await journeys(services, typed, over=False)
    if any(agent.name == prompt for agent in await listed_agents(services)):
        return await journeys(services, typed, agent=prompt, over=False)
    return None


async def journeys(services: JourneyServices, typed: str, *, agent: str | None = None, over: bool = True) -> list[str]:
    """Return the ids of matching journeys, newest first; without `over`, only those that can be continued.

    A caller over HTTP without a token gets none: to such a caller an id is the right to read the journey.
    """
    if (who := caller.get()) is None or who.by_handle:
        return []
    lines = await services.journeys.store.journeys(agent=agent, limit=MOST_LOOKED_AT)
    return [line.id for line in lines if (over or line.status in ("active", "waiting")) and _matches(line, typed)]


def _matches(line: JourneyLine, typed: str) -> bool:
    """Return whether the id begins with the typed text, or each typed word begins a word of the title."""
    wanted = typed.casefold().split()
    words = line.title.casefold().split()
    return line.id.startswith(typed.strip()) or all(any(word.startswith(w) for word in words) for w in wanted)


def _beginning(typed: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.casefold().startswith(typed.casefold())]
