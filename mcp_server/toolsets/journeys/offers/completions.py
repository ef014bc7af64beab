"""Completions for journeys and agents: journeys by id or words of their title, agents and their phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from knowledge.errors import KnowledgeError
from mcp_server.gate.caller import caller
from mcp_server.gate.handles import require_handle
from mcp_server.ports import JourneyServices
from mcp_server.toolsets.journeys.offers.prompts import CONTINUE, JOURNEY_ID, leads_journeys, own_entries, team_agents
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

MOST_LOOKED_AT = 500
"""So many of the newest journeys are looked at."""
_OF_JOURNEYS = (JOURNEY_TEMPLATE, EVENTS_TEMPLATE, REPORT_TEMPLATE)
_OF_AGENTS = (AGENT_TEMPLATE, PHASE_TEMPLATE)


async def in_template(
    services: JourneyServices, template: str, argument: str, typed: str, chosen: Mapping[str, str]
) -> Sequence[str] | None:
    """Return the possible values of that part of an address, given the `chosen` other parts; None if the part is unknown."""
    if template in _OF_JOURNEYS and argument == JOURNEY_ID:
        return await journeys(services, typed)
    if template == MEMORY_TEMPLATE and argument == "task":
        return await journeys(services, typed)
    if template == MEMORY_TEMPLATE and argument == "agent":
        return _beginning(typed, await _documents(services, chosen.get("task", "")))
    if template in _OF_AGENTS and argument == "agent":
        return _beginning(typed, await agent_names(services))
    if template == PHASE_TEMPLATE and argument == "phase":
        return _beginning(typed, await _phases(services, chosen.get("agent", "")))
    return None


async def in_prompt(services: JourneyServices, prompt: str, argument: str, typed: str) -> Sequence[str] | None:
    """Return the possible values of a prompt's argument; None if they are unknown."""
    if not leads_journeys(services) or prompt not in (CONTINUE, *await agent_names(services)):
        return None
    if argument == JOURNEY_ID:
        return await journeys(services, typed, agent=None if prompt == CONTINUE else prompt, over=False)
    return None


async def agent_names(services: JourneyServices) -> list[str]:
    """Return the names of all agents, this program's first."""
    team = [agent.name for agent in await team_agents(services)]
    return [*(entry.name for entry in own_entries()), *team]


async def journeys(services: JourneyServices, typed: str, *, agent: str | None = None, over: bool = True) -> list[str]:
    """Return the ids of journeys that fit, newest first; without `over`, only those that can be gone on with.

    A caller over HTTP without a token gets none: their ids are all that it needs.
    """
    if (who := caller.get()) is None or who.by_handle:
        return []
    lines = await services.journeys.store.journeys(agent=agent, limit=MOST_LOOKED_AT)
    return [line.id for line in lines if (over or line.status in ("active", "waiting")) and _fits(line, typed)]


def _fits(line: JourneyLine, typed: str) -> bool:
    """Return whether the id begins so, or words of the title begin with each word typed."""
    wanted = typed.casefold().split()
    words = line.title.casefold().split()
    return line.id.startswith(typed.strip()) or all(any(word.startswith(w) for word in words) for w in wanted)


async def _phases(services: JourneyServices, agent: str) -> list[str]:
    try:
        found = await services.journeys.catalogue.agent(agent)
    except KnowledgeError:
        return []
    return [phase.name for phase in found.graph.phases]


async def _documents(services: JourneyServices, journey: str) -> list[str]:
    from agents.memory_documents import documents

    try:
        require_handle(caller.get(), journey)
        position = await services.journeys.position(journey)
    except KnowledgeError:
        return []
    return list(documents(position.agent, position.state))


def _beginning(typed: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.casefold().startswith(typed.casefold())]
