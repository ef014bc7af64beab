"""Agents and journeys by address: `agent://{agent}`, its phases, `journey://{id}`, its events, its report, and `memory://`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_types import Resource

from mcp_server.late_module import LateModule
from mcp_server.ports import JourneyServices
from mcp_server.protocol.server import ForgeServer
from mcp_server.toolsets.journeys.offers.agent_list import listed_agents
from mcp_server.toolsets.spec import JOURNEYS

if TYPE_CHECKING:
    from mcp_server.toolsets.journeys.offers import resource_texts
else:
    resource_texts = LateModule("mcp_server.toolsets.journeys.offers.resource_texts")

AGENT_URI, JOURNEY_URI, MEMORY_URI = "agent://", "journey://", "memory://"
AGENT_TEMPLATE = AGENT_URI + "{agent}"
PHASE_TEMPLATE = AGENT_URI + "{agent}/{phase}"
JOURNEY_TEMPLATE = JOURNEY_URI + "{journey_id}"
EVENTS_TEMPLATE, REPORT_TEMPLATE = JOURNEY_TEMPLATE + "/events", JOURNEY_TEMPLATE + "/report"
MEMORY_TEMPLATE = MEMORY_URI + "{task}/{agent}"
JSON, MARKDOWN = "application/json", "text/markdown"


def journey_addresses(journey: str) -> list[str]:
    """Return the addresses whose content changes when the journey moves."""
    return [JOURNEY_URI + journey, f"{JOURNEY_URI}{journey}/events", f"{JOURNEY_URI}{journey}/report"]


def memory_prefix(journey: str) -> str:
    """Return the beginning of the addresses of the journey's memory documents."""
    return f"{MEMORY_URI}{journey}/"


def add_journey_resources(server: ForgeServer, services: JourneyServices) -> None:
    """Make agents and journeys readable by address and list the agents, if the journeys toolset is listed."""
    if all(spec.toolset != JOURNEYS for spec in services.tools()):
        return

    async def agents() -> Sequence[Resource]:
        return [
            Resource(
                uri=AGENT_URI + agent.name,
                name=agent.name,
                title=agent.title,
                description=agent.summary,
                mime_type=JSON,
            )
            for agent in await listed_agents(services)
        ]

    server.offer(resources=agents)

    # The SDK reads a template's variables from the names of the function's parameters.
    @server.resource(
        AGENT_TEMPLATE,
        name="agent",
        title="An agent",
        description="The phases of an agent, the transitions between them, and a diagram (Mermaid).",
        mime_type=JSON,
    )
    async def agent_of(agent: str) -> str:
        return await resource_texts.agent_json(services, agent)

    @server.resource(
        PHASE_TEMPLATE,
        name="agent_phase",
        title="A phase of an agent",
        description="A phase: its prompts for the first and later visits, its tools, and the JSON Schema of its work.",
        mime_type=JSON,
    )
    async def phase_of(agent: str, phase: str) -> str:
        return await resource_texts.phase_json(services, agent, phase)

    @server.resource(
        JOURNEY_TEMPLATE,
        name="journey",
        title="A journey",
        description="The full state of a journey with all recorded work, and its graph (Mermaid).",
        mime_type=JSON,
    )
    async def journey_of(journey_id: str) -> str:
        return await resource_texts.journey_json(services, journey_id)

    @server.resource(
        EVENTS_TEMPLATE,
        name="journey_events",
        title="Events of a journey",
        description="The events of a journey, oldest first, without the recorded work.",
        mime_type=JSON,
    )
    async def events_of(journey_id: str) -> str:
        return await resource_texts.events_json(services, journey_id)

    @server.resource(
        REPORT_TEMPLATE,
        name="journey_report",
        title="Report of a journey",
        description="A readable report: status, path through the phases, cost and recorded work.",
        mime_type=MARKDOWN,
    )
    async def report_of(journey_id: str) -> str:
        return await resource_texts.report_text(services, journey_id)

    @server.resource(
        MEMORY_TEMPLATE,
        name="memory",
        title="A memory document",
        description="The memory document that an agent left in a journey (task): overview, findings, directives.",
        mime_type=MARKDOWN,
    )
    async def memory_of(task: str, agent: str) -> str:
        return await resource_texts.memory_text(services, task, agent)
