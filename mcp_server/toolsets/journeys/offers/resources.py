"""Agents and journeys by address: `agent://{agent}`, its phases, `journey://{id}`, its events, its report, and `memory://`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp_types import Resource

from knowledge.errors import KnowledgeError
from mcp_server.gate.caller import caller
from mcp_server.gate.handles import require_handle
from mcp_server.ports import JourneyServices
from mcp_server.protocol.server import ForgeServer
from mcp_server.protocol.wire_errors import without_surrogates
from mcp_server.toolsets.journeys.offers.prompts import note_reading, own_entries, team_agents
from mcp_server.toolsets.spec import JOURNEYS

if TYPE_CHECKING:
    from agents.engine.agent import Agent
    from agents.engine.graph import Phase

AGENT_URI, JOURNEY_URI, MEMORY_URI = "agent://", "journey://", "memory://"
AGENT_TEMPLATE = AGENT_URI + "{agent}"
PHASE_TEMPLATE = AGENT_URI + "{agent}/{phase}"
JOURNEY_TEMPLATE = JOURNEY_URI + "{journey_id}"
EVENTS_TEMPLATE, REPORT_TEMPLATE = JOURNEY_TEMPLATE + "/events", JOURNEY_TEMPLATE + "/report"
MEMORY_TEMPLATE = MEMORY_URI + "{task}/{agent}"
MOST_EVENTS = 5_000
JSON = "application/json"
T = TypeVar("T")


def addresses(journey: str) -> list[str]:
    """Return the addresses under which something else is read once the journey has moved."""
    return [JOURNEY_URI + journey, f"{JOURNEY_URI}{journey}/events", f"{JOURNEY_URI}{journey}/report"]


def memories(journey: str) -> str:
    """Return the prefix of the addresses of the journey's documents."""
    return f"{MEMORY_URI}{journey}/"


def add_journey_resources(server: ForgeServer, services: JourneyServices) -> None:
    """Make agents and journeys readable by their addresses, and list the agents, where the journeys toolset is listed."""
    if all(spec.toolset != JOURNEYS for spec in services.tools()):
        return
    _add_agents(server, services)
    _add_journeys(server, services)


def _add_agents(server: ForgeServer, services: JourneyServices) -> None:
    async def agent_of(agent: str) -> str:
        return _json(definition(await _found(services.journeys.catalogue.agent(agent))))

    async def phase_of(agent: str, phase: str) -> str:
        found = await _found(services.journeys.catalogue.agent(agent))
        there = {one.name: one for one in found.graph.phases}
        if phase not in there:
            raise ResourceNotFoundError(f"{found.name} has no phase {phase[:60]!r}; it has {', '.join(there)}")
        return _json(phase_definition(found, there[phase], [spec.name for spec in services.tools()]))

    async def listed() -> Sequence[Resource]:
        team = [(agent.name, agent.title, agent.summary) for agent in await team_agents(services)]
        return [
            Resource(uri=AGENT_URI + name, name=name, title=title, description=summary, mime_type=JSON)
            for name, title, summary in [*((one.name, one.title, one.summary) for one in own_entries()), *team]
        ]

    server.resource(
        AGENT_TEMPLATE,
        name="agent",
        title="An agent",
        description="The phases of an agent, the transitions between them, and a diagram (Mermaid).",
        mime_type=JSON,
    )(agent_of)
    server.resource(
        PHASE_TEMPLATE,
        name="agent_phase",
        title="A phase of an agent",
        description="A phase: its prompts for the first and later visits, its tools, and the JSON Schema of its work.",
        mime_type=JSON,
    )(phase_of)
    server.offer(resources=listed)


def _add_journeys(server: ForgeServer, services: JourneyServices) -> None:
    async def journey_of(journey_id: str) -> str:
        return _json(await _found(_whole(services, journey_id)))

    async def events_of(journey_id: str) -> str:
        return _json(await _found(_events(services, journey_id)))

    async def report_of(journey_id: str) -> str:
        return await _found(_report(services, journey_id))

    async def memory_of(task: str, agent: str) -> str:
        return await _found(_memory(services, task, agent))

    server.resource(
        JOURNEY_TEMPLATE,
        name="journey",
        title="A journey",
        description="The full state of a journey with all recorded work, and its graph (Mermaid).",
        mime_type=JSON,
    )(journey_of)
    server.resource(
        EVENTS_TEMPLATE,
        name="journey_events",
        title="Events of a journey",
        description="The events of a journey, oldest first, without the recorded work.",
        mime_type=JSON,
    )(events_of)
    server.resource(
        REPORT_TEMPLATE,
        name="journey_report",
        title="Report of a journey",
        description="A readable report: status, path through the phases, cost and recorded work.",
        mime_type="text/markdown",
    )(report_of)
    server.resource(
        MEMORY_TEMPLATE,
        name="memory",
        title="A memory document",
        description="The memory document that an agent left in a journey (task): overview, findings, directives.",
        mime_type="text/markdown",
    )(memory_of)


def definition(agent: Agent) -> dict[str, Any]:
    """Return the description of an agent, without its prompts and schemas, which its phases have."""
    from agents.engine.graph import mermaid

    graph = agent.graph
    return {
        "agent": agent.name,
        "title": agent.title,
        "summary": agent.summary,
        "origin": agent.origin,
        "inputs": dict(agent.inputs),
        "profile": dict(agent.profile),
        "models": {
            whose: {"class": advice.model_class, "example": advice.example, "reason": advice.reason}
            for whose, advice in agent.models.items()
        },
        "initial": graph.initial,
        "complete": list(graph.complete),
        "phases": [_phase(agent, phase) for phase in graph.phases],
        "transitions": _ways(agent),
        "diagram": mermaid(graph),
    }


def phase_definition(agent: Agent, phase: Phase, listed: Sequence[str]) -> dict[str, Any]:
    """Return a phase's prompts and the form of its work. Its texts have `{{ placeholders }}`, which a journey fills in."""
    from agents.prompts.prompt import ONLY, RETURNING, tools_at

    form = agent.forms.get(phase.name)
    ends = phase.name in agent.graph.complete
    # Where the server itself does the work, there are no instructions.
    again = "" if ends or phase.automatic else RETURNING + agent.texts.get(phase.prompt_again, "").strip() + ONLY
    return {
        "agent": agent.name,
        **_phase(agent, phase),
        "allowed_tools": tools_at(phase, listed),
        "prompt": agent.texts.get(phase.prompt, "").strip(),
        "prompt_again": again,
        "work_schema": form.schema if form else None,
        "transitions": [way for way in _ways(agent) if way["from"] == phase.name],
    }


def _phase(agent: Agent, phase: Phase) -> dict[str, Any]:
    budget = agent.budgets.get(phase.name)
    return {
        "phase": phase.name,
        "title": phase.title,
        "purpose": phase.purpose,
        "entry": phase.entry,
        "exit": phase.exit,
        "checkpoint": phase.checkpoint,
        "verified": phase.own_hand,
        "question": agent.questions.get(phase.name, ""),
        "tools": list(phase.tools),
        "automatic": phase.automatic,
        "speaker": phase.speaker,
        "fresh": phase.fresh,
        "feedback": list(phase.feedback),
        "budget": {"input": budget.tokens_in or None, "output": budget.tokens_out or None} if budget else None,
    }


def _ways(agent: Agent) -> list[dict[str, Any]]:
    """Return the transitions, phase by phase in the order in which they are tried."""
    from agents.engine.graph import transitions_from

    return [
        {
            "from": t.source,
            "to": t.target,
            "condition": t.condition,
            "is_backward": t.is_backward,
            "priority": t.priority,
            "asks": t.asks,
            "anew": t.anew,
            "checkpoint": t.checkpoint or None,
        }
        for phase in agent.graph.phases
        for t in transitions_from(agent.graph, phase.name)
    ]


async def _whole(services: JourneyServices, journey: str) -> Mapping[str, Any]:
    """Return all of a journey, also of one whose agent is gone."""
    from agents.engine.graph import mermaid
    from agents.engine.state import get_state
    from agents.errors import NoSuchAgent

    require_handle(caller.get(), journey)
    state = await services.journeys.store.journey(journey)
    await note_reading(services, journey)
    told: dict[str, Any] = {"journey_id": journey, "agent": None, "diagram": None, "problem": None}
    try:
        agent = await services.journeys.catalogue.agent(state.agent)
        told["agent"] = {
            "name": agent.name,
            "title": agent.title,
            "summary": agent.summary,
            "uri": AGENT_URI + agent.name,
        }
        told["diagram"] = mermaid(agent.graph, state.phase, state.phase_visits)
    except NoSuchAgent as error:
        told["problem"] = str(error)
    return {**told, "state": get_state(state)}


async def _events(services: JourneyServices, journey: str) -> Mapping[str, Any]:
    """Return the events of a journey, the newest of very many."""
    from mcp_server.toolsets.journeys.answers import event_line

    require_handle(caller.get(), journey)
    state = await services.journeys.store.journey(journey)
    await note_reading(services, journey)
    left_out = max(0, state.seq - MOST_EVENTS)
    log = await services.journeys.store.events(journey, after=left_out)
    note = f"The first {left_out} events are left out; `knowledge-forge journeys events {journey}` has all of them."
    return {
        "journey_id": journey,
        "version": state.version,
        "left_out": left_out,
        "note": note if left_out else None,
        "events": [event_line(logged) for logged in log],
    }


async def _report(services: JourneyServices, journey: str) -> str:
    from agents.report.journey_report import report

    require_handle(caller.get(), journey)
    position = await services.journeys.position(journey)
    await note_reading(services, journey)
    text: str = without_surrogates(report(position, await services.journeys.store.events(journey), services.now()))
    return text


async def _memory(services: JourneyServices, journey: str, name: str) -> str:
    from agents.memory_documents import document

    require_handle(caller.get(), journey)
    position = await services.journeys.position(journey)
    text: str = without_surrogates(document(position.agent, position.state, journey, name))
    await note_reading(services, journey)
    return text


async def _found(reading: Awaitable[T]) -> T:
    """Return the content.

    Raises:
        ResourceNotFoundError: it is not there; ResourceError: it cannot be read now. Both say why.
    """
    from agents.errors import AgentError

    try:
        return await reading
    except AgentError as error:
        raise ResourceNotFoundError(str(error)) from error
    except KnowledgeError as error:
        raise ResourceError(str(error)) from error


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(without_surrogates(dict(value)), ensure_ascii=False, separators=(",", ":"))
