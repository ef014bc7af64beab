"""The texts of journeys' prompts. Imported with the first prompt that a host gets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from agents.bounds import MOST_BRIEF_CHARS
from agents.engine.agent import Agent
from agents.engine.events import Logged, Started
from agents.engine.fold import fold
from agents.engine.graph import ALWAYS, PhaseGraph, transitions_from
from agents.engine.progress.position import JourneyPosition
from agents.errors import AgentError, BadStart
from agents.prompts.prompt import BRIEF_TOKENS, cut
from knowledge.errors import KnowledgeError
from mcp_server.gate.caller import caller
from mcp_server.gate.handles import require_handle
from mcp_server.ports import JourneyServices
from mcp_server.protocol.wire_errors import short, without_surrogates
from mcp_server.toolsets.journeys.answers import journey_answer
from mcp_server.toolsets.journeys.choice import with_cost
from mcp_server.toolsets.journeys.offers.sentences import beginning, continuing

NOT_INPUTS = ("brief", "journey_id")
"""Properties of an agent's inputs that are arguments of the prompt itself."""


async def continuing_text(services: JourneyServices, agent: str, journey: str, brief: str = "") -> str:
    """Return how to continue the journey, and what the person adds in `brief`. `agent` is "" if any agent will do.

    Raises:
        MCPError: there is no such journey, it belongs to another agent, or the database is unreachable.
    """
    prompt = agent or "continue"
    with _protocol_errors(prompt):
        who = caller.get()
        require_handle(who, journey)
        position = await services.journeys.position(journey)
        if agent and position.agent.name != agent:
            other = f"journey {journey} belongs to {position.agent.name}; use that prompt, or continue"
            raise MCPError(INVALID_PARAMS, short(f"prompt {prompt}: {other}"))
        if who is not None:
            await services.taints.note_shown(who.id, journey)
        text = continuing(await journey_answer(services, position))
        if brief:
            added = "The person adds (if it matters for the work, relay it with journey_decide and decision `answer`):"
            text = f"{text}\n\n{added}\n{cut(brief, BRIEF_TOKENS)}"
        return str(without_surrogates(text))


async def beginning_text(services: JourneyServices, name: str, brief: str) -> str:
    """Return how to begin a journey with the agent of that name.

    Raises:
        MCPError: there is no such agent, or the brief is too long.
    """
    with _protocol_errors(name):
        if len(brief) > MOST_BRIEF_CHARS:
            raise BadStart(f"the brief has {len(brief)} characters; at most {MOST_BRIEF_CHARS} are allowed")
        agent = await services.journeys.catalogue.agent(name)
        first = await journey_answer(services, first_position(agent, brief, services.now()))
        first = await with_cost(services, agent, first)
        optional = meanings(agent.inputs)
        required = {n: optional.pop(n, "") for n in agent.inputs.get("required", ()) if n not in NOT_INPUTS}
        text = beginning(
            first,
            agent.title,
            agent.summary,
            {"agent": name, "brief": brief},
            required=required,
            optional=optional,
            by_itself=_automatic_start(agent.graph),
        )
        return str(without_surrogates(text))


@contextmanager
def _protocol_errors(prompt: str) -> Iterator[None]:
    """Turn the errors of agents and of the knowledge base into those of the protocol."""
    try:
        yield
    except AgentError as error:
        raise MCPError(INVALID_PARAMS, short(f"prompt {prompt}: {error}")) from error
    except KnowledgeError as error:
        raise MCPError(INTERNAL_ERROR, short(f"prompt {prompt}: {error}")) from error


def meanings(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return the agent's inputs besides its brief: their descriptions by name."""
    properties = inputs.get("properties", {})
    return {name: str(form.get("description", "")) for name, form in properties.items() if name not in NOT_INPUTS}


def as_input(text: str, form: Mapping[str, Any]) -> Any:
    """Return typed text as a value of the input's type, or as it is if it is not JSON."""
    if form.get("type", "string") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _automatic_start(graph: PhaseGraph) -> list[str]:
    """Return the phases that the server does itself when a journey begins, up to the first transition with a condition."""
    found, phase = list[str](), graph.phase(graph.initial)
    while phase.automatic and phase.name not in found:
        found.append(phase.name)
        transitions = transitions_from(graph, phase.name)
        if len(transitions) != 1 or transitions[0].condition != ALWAYS:
            break
        phase = graph.phase(transitions[0].target)
    return found


def first_position(agent: Agent, brief: str, now: datetime) -> JourneyPosition:
    """Return a journey's position right after its start. Nothing is recorded."""
    begun = Started(agent.name, brief, agent.graph.initial, "")
    return JourneyPosition("", agent, fold([Logged(1, 1, now, "", begun)]))
