"""Prompts of journeys: one for each agent, and `continue`. Agents of the team come and go while the server runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, PromptArgument

from knowledge.errors import KnowledgeError
from mcp_server.gate.caller import caller
from mcp_server.gate.handles import require_handle
from mcp_server.ports import HasTaints, JourneyServices
from mcp_server.protocol.server import OfferedPrompt
from mcp_server.protocol.wire_errors import short, without_surrogates
from mcp_server.toolsets.journeys.offers.sentences import beginning, continuing

if TYPE_CHECKING:
    from datetime import datetime

    from agents.catalogue import AgentListing, CatalogueEntry
    from agents.engine.agent import Agent
    from agents.engine.graph import PhaseGraph
    from agents.engine.progress.position import JourneyPosition

logger = logging.getLogger("knowledge_forge.journeys")

CONTINUE = "continue"
BRIEF, JOURNEY_ID = "brief", "journey_id"
LEADING = frozenset({"journey_start", "journey_submit"})
"""The tools that what these prompts say needs."""

_BRIEF = PromptArgument(name=BRIEF, description="The task, for a new journey.")
_JOURNEY_ID = PromptArgument(name=JOURNEY_ID, description="To continue a journey.")


@runtime_checkable
class WithTeam(Protocol):
    """A catalogue that can tell the team's agents without loading this program's."""

    async def team(self) -> Sequence[AgentListing]:
        """Return the team's agents and skills that can be used now."""
        ...


def leads_journeys(services: JourneyServices) -> bool:
    """Return whether the tools are listed with which a model leads journeys."""
    return {spec.name for spec in services.tools()} >= LEADING


def own_entries() -> Sequence[CatalogueEntry]:
    """Return the built-in agents' entries for lists; their descriptions are loaded with the first list."""
    from agents import catalogue

    return catalogue.entries()


async def team_agents(services: JourneyServices) -> Sequence[AgentListing]:
    """Return the agents and skills beside this program's; none while they cannot be read.

    This program's are not loaded for it: lists are asked for while a host starts.
    """
    # The first caller loads the code for journeys in a thread, so that the host's handshake continues in the meantime.
    await anyio.to_thread.run_sync(import_module, "mcp_server.app.factories.journey_store")
    from agents.catalogue import BuiltIn

    catalogue = services.journeys.catalogue
    if isinstance(catalogue, BuiltIn):
        return ()
    own = {entry.name for entry in own_entries()}
    try:
        found = await catalogue.team() if isinstance(catalogue, WithTeam) else await catalogue.agents()
    except KnowledgeError:
        logger.warning("the team's own agents cannot be listed now", exc_info=True)
        return ()
    return [agent for agent in found if agent.name not in own]


async def agent_lines(services: JourneyServices) -> Sequence[tuple[str, str]]:
    """Return name and summary of every agent, the built-in ones first, without loading any that is only listed."""
    from agents.catalogue import BuiltIn

    catalogue = services.journeys.catalogue
    if not isinstance(catalogue, BuiltIn | WithTeam):
        return [(agent.name, agent.summary) for agent in await catalogue.agents()]
    team = await team_agents(services)
    return [*((entry.name, entry.summary) for entry in own_entries()), *((one.name, one.summary) for one in team)]


class JourneyPrompts:
    """The prompts for journeys."""

    def __init__(self, services: JourneyServices) -> None:
        self._services = services

    async def listed(self) -> Sequence[OfferedPrompt]:
        """Return `continue`, this program's agents, and the team's."""
        going_on = OfferedPrompt(
            CONTINUE,
            "Continue a journey",
            "Continue any journey, whichever host started it.",
            (PromptArgument(name=JOURNEY_ID, description="The journey to continue.", required=True),),
            self._continued,
        )
        own = [self._of(entry.name, entry.title, entry.summary) for entry in own_entries()]
        team = [self._of(agent.name, agent.title, agent.summary) for agent in await team_agents(self._services)]
        return [going_on, *own, *team]

    def _of(self, name: str, title: str, summary: str) -> OfferedPrompt:
        return OfferedPrompt(name, title, summary, (_BRIEF, _JOURNEY_ID), partial(self._led, name))

    async def _continued(self, given: Mapping[str, str]) -> str:
        return await self._told(CONTINUE, self._going_on("", given[JOURNEY_ID].strip()))

    async def _led(self, agent: str, given: Mapping[str, str]) -> str:
        """Return how to start a journey, or to continue the named one. Hosts' forms send an empty field as empty text."""
        journey, brief = given.get(JOURNEY_ID, "").strip(), given.get(BRIEF, "").strip()
        if journey:
            return await self._told(agent, self._going_on(agent, journey, brief))
        if not brief:
            raise MCPError(
                INVALID_PARAMS,
                f"prompt {agent}: give the task in 'brief', or the journey to continue in 'journey_id'",
            )
        return await self._told(agent, self._begun(agent, brief))

    async def _told(self, prompt: str, text: Awaitable[str]) -> str:
        """Return the text, whole characters only.

        Raises:
            MCPError: there is no such journey or agent, or the database is away.
        """
        from agents.errors import AgentError

        try:
            told: str = without_surrogates(await text)
        except AgentError as error:
            raise MCPError(INVALID_PARAMS, short(f"prompt {prompt}: {error}")) from error
        except KnowledgeError as error:
            raise MCPError(INTERNAL_ERROR, short(f"prompt {prompt}: {error}")) from error
        return told

    async def _going_on(self, agent: str, journey: str, brief: str = "") -> str:
        from agents.prompts.prompt import BRIEF_TOKENS, cut
        from mcp_server.toolsets.journeys.answers import told

        require_handle(caller.get(), journey)
        position = await self._services.journeys.position(journey)
        if agent and position.agent.name != agent:
            raise MCPError(
                INVALID_PARAMS,
                short(
                    f"prompt {agent}: journey {journey} belongs to {position.agent.name}; use that prompt, or {CONTINUE}"
                ),
            )
        await note_reading(self._services, journey)
        text = continuing(await told(self._services, position))
        if not brief:
            return text
        added = "The person adds (if it matters for the work, relay it with journey_decide and decision `answer`):"
        return f"{text}\n\n{added}\n{cut(brief, BRIEF_TOKENS)}"

    async def _begun(self, name: str, brief: str) -> str:
        from agents.bounds import MOST_BRIEF_CHARS
        from agents.errors import BadStart
        from mcp_server.toolsets.journeys.answers import told

        if len(brief) > MOST_BRIEF_CHARS:
            raise BadStart(f"the brief has {len(brief)} characters; at most {MOST_BRIEF_CHARS} are allowed")
        agent = await self._services.journeys.catalogue.agent(name)
        first = await told(self._services, foreseen(agent, brief, self._services.now()))
        known = meanings(agent.inputs)
        required = {n: known.pop(n, "") for n in agent.inputs.get("required", ()) if n not in (BRIEF, JOURNEY_ID)}
        done = done_by_itself(agent.graph)
        return beginning(
            first,
            agent.title,
            agent.summary,
            {"agent": name, BRIEF: brief},
            required=required,
            optional=known,
            by_itself=done,
        )


async def note_reading(services: HasTaints, journey: str) -> None:
    """Remember that the caller sees a journey's content: its works may repeat text from unverified sources."""
    who = caller.get()
    origins = await services.taints.of_journey(journey)
    if who is not None and origins:
        await services.taints.note(who.id, "", tuple(origins))


def meanings(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return an agent's inputs besides its brief, by name, and what each is."""
    properties = inputs.get("properties", {})
    return {
        name: str(form.get("description", "")) for name, form in properties.items() if name not in (BRIEF, JOURNEY_ID)
    }


def as_input(text: str, form: Mapping[str, Any]) -> Any:
    """Return a person's typed text as the type that an input takes, or unchanged if it does not fit."""
    if form.get("type", "string") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def done_by_itself(graph: PhaseGraph) -> list[str]:
    """Return the phases that the server does when a journey begins, as far as no condition decides about it."""
    from agents.engine.graph import ALWAYS, transitions_from

    found, phase = list[str](), graph.phase(graph.initial)
    while phase.automatic and phase.name not in found:
        found.append(phase.name)
        ways = transitions_from(graph, phase.name)
        if len(ways) != 1 or ways[0].condition != ALWAYS:
            break
        phase = graph.phase(ways[0].target)
    return found


def foreseen(agent: Agent, brief: str, now: datetime) -> JourneyPosition:
    """Return a journey's position right after its start. Nothing is recorded."""
    from agents.engine.events import Logged, Started
    from agents.engine.fold import fold
    from agents.engine.progress.position import JourneyPosition

    begun = Started(agent.name, brief, agent.graph.initial, "")
    return JourneyPosition("", agent, fold([Logged(1, 1, now, "", begun)]))
