"""The contents of agents, journeys and memory documents by address. Imported with the first read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from agents.engine.agent import Agent
from agents.engine.graph import Phase, mermaid, transitions_from
from agents.engine.state import get_state
from agents.errors import AgentError, NoSuchAgent
from agents.memory_documents import document, documents
from agents.prompts.prompt import ONLY, RETURNING, recorded_result, tools_at
from agents.report.journey_report import report
from agents.report.result import result_fields
from knowledge.errors import KnowledgeError
from mcp_server.gate.caller import caller
from mcp_server.gate.handles import require_handle
from mcp_server.ports import JourneyServices
from mcp_server.protocol.wire_errors import without_surrogates
from mcp_server.toolsets.journeys.answers import event_fields

MOST_EVENTS = 5_000


async def agent_json(services: JourneyServices, name: str) -> str:
    """Return the agent with its phases, transitions and diagram."""
    with _resource_errors():
        return _json(definition(await services.journeys.catalogue.agent(name)))


async def phase_json(services: JourneyServices, name: str, phase_name: str) -> str:
    """Return one phase of the agent."""
    with _resource_errors():
        agent = await services.journeys.catalogue.agent(name)
    phases = {phase.name: phase for phase in agent.graph.phases}
    if phase_name not in phases:
        raise ResourceNotFoundError(f"{agent.name} has no phase {phase_name[:60]!r}; it has {', '.join(phases)}")
    return _json(phase_definition(agent, phases[phase_name], [spec.name for spec in services.tools()]))


async def journey_json(services: JourneyServices, journey: str) -> str:
    """Return the full state of a journey, also if its agent is gone."""
    with _resource_errors():
        require_handle(caller.get(), journey)
        state = await services.journeys.store.journey(journey)
        await _note_shown(services, journey)
        about: dict[str, Any] = {"journey_id": journey, "result": None, "agent": None, "diagram": None, "problem": None}
        try:
            agent = await services.journeys.catalogue.agent(state.agent)
            about["result"] = result_fields(recorded_result(agent, state), state)
            about["agent"] = {
                "name": agent.name,
                "title": agent.title,
                "summary": agent.summary,
                "uri": f"agent://{agent.name}",
            }
            about["diagram"] = mermaid(agent.graph, state.phase, state.phase_visits)
        except NoSuchAgent as error:
            about["problem"] = str(error)
        return _json({**about, "state": get_state(state)})


async def events_json(services: JourneyServices, journey: str) -> str:
    """Return the events of a journey, oldest first; of more than 5,000 the newest."""
    with _resource_errors():
        require_handle(caller.get(), journey)
        state = await services.journeys.store.journey(journey)
        await _note_shown(services, journey)
        left_out = max(0, state.seq - MOST_EVENTS)
        log = await services.journeys.store.events(journey, after=left_out)
    note = f"The first {left_out} events are left out; `knowledge-forge journeys events {journey}` has all of them."
    return _json(
        {
            "journey_id": journey,
            "version": state.version,
            "left_out": left_out,
            "note": note if left_out else None,
            "events": [event_fields(logged) for logged in log],
        }
    )


async def report_text(services: JourneyServices, journey: str) -> str:
    """Return the report of a journey as Markdown."""
    with _resource_errors():
        require_handle(caller.get(), journey)
        position = await services.journeys.position(journey)
        await _note_shown(services, journey)
        log = await services.journeys.store.events(journey)
    return str(without_surrogates(report(position, log, services.now())))


async def memory_text(services: JourneyServices, journey: str, name: str) -> str:
    """Return the memory document that the agent of that name left in a journey, as Markdown."""
    with _resource_errors():
        require_handle(caller.get(), journey)
        position = await services.journeys.position(journey)
        text = document(position.agent, position.state, journey, name)
        await _note_shown(services, journey)
    return str(without_surrogates(text))


async def memory_names(services: JourneyServices, journey: str) -> list[str]:
    """Return the agents that left memory documents in a journey; none for a journey that cannot be read."""
    try:
        require_handle(caller.get(), journey)
        position = await services.journeys.position(journey)
    except KnowledgeError:
        return []
    return list(documents(position.agent, position.state))


async def _note_shown(services: JourneyServices, journey: str) -> None:
    if (who := caller.get()) is not None:
        await services.taints.note_shown(who.id, journey)


@contextmanager
def _resource_errors() -> Iterator[None]:
    """Turn the errors of agents and of the knowledge base into those of resources: not found, or not readable now."""
    try:
        yield
    except AgentError as error:
        raise ResourceNotFoundError(str(error)) from error
    except KnowledgeError as error:
        raise ResourceError(str(error)) from error


def definition(agent: Agent) -> dict[str, Any]:
    """Return an agent as plain JSON, without texts and schemas, which `phase_definition` has."""
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
        "result": list(agent.result.fields) if agent.result else [],
        "phases": [_phase(agent, phase) for phase in graph.phases],
        "transitions": _transitions(agent),
        "diagram": mermaid(graph),
    }


def phase_definition(agent: Agent, phase: Phase, listed: Sequence[str]) -> dict[str, Any]:
    """Return a phase as plain JSON. Its texts have `{{ placeholders }}`, which a journey fills in."""
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
        "transitions": [transition for transition in _transitions(agent) if transition["from"] == phase.name],
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
        "alone": phase.alone,
        "feedback": list(phase.feedback),
        "budget": {"input": budget.tokens_in or None, "output": budget.tokens_out or None} if budget else None,
    }


def _transitions(agent: Agent) -> list[dict[str, Any]]:
    """Return the transitions, phase by phase in the order in which they are tried."""
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


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(without_surrogates(dict(value)), ensure_ascii=False, separators=(",", ":"))
