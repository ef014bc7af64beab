"""Calls that belong to a journey: whether its phase uses the tool, and what the journey remembers of the call."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from knowledge.errors import StorageError
from knowledge.trust.ports import Proposal
from mcp_server.gate.caller import Call
from mcp_server.ports import GateServices

if TYPE_CHECKING:
    from agents.engine.events import Note
    from agents.engine.progress.position import JourneyPosition

logger = logging.getLogger("knowledge_forge.gate")

LONGEST_ERROR = 300
_COUNTED = ("children", "hits", "outline", "blocks", "conflicts", "revisions", "contradictions", "tasks", "messages")
_TOLD = ("path", "revision", "status", "key")
ABOUT = ("path", "task", "project", "channel")
"""Arguments that say in a word what a call is about."""


@dataclass(frozen=True, slots=True)
class Accompanied:
    """A call that was let in: its id among the events of the journey, the phase it was made in, when it began."""

    id: str
    tool: str
    phase: str
    began: float


class JourneyHook:
    """Lets calls into journeys and records them there, start and end."""

    def __init__(self, services: GateServices, clock: Callable[[], float] = time.monotonic) -> None:
        self._services, self._clock = services, clock

    async def begin(self, call: Call, tool: str, arguments_hash: str, summary: str) -> Accompanied:
        """Record that the call begins.

        Raises:
            ToolOutsidePhase, JourneyOver, WaitsForPerson, NoSuchJourney: it is not let in, which is recorded where there is a journey.
        """
        from agents.engine.events import ToolError, ToolStart
        from agents.errors import AgentError

        position = await self._services.journeys.position(call.journey)
        begun = Accompanied(secrets.token_hex(4), tool, position.state.phase, self._clock())
        start = ToolStart(begun.id, tool, arguments_hash, begun.phase, summary)
        try:
            require_in_phase(position, tool, [spec.name for spec in self._services.tools()])
        except AgentError as error:
            await self._note(call, start, ToolError(begun.id, tool, 0.0, str(error)[:LONGEST_ERROR]))
            raise
        await self._note(call, start)
        return begun

    async def succeeded(self, call: Call, begun: Accompanied, content: Mapping[str, Any]) -> None:
        """Record that the call was answered."""
        from agents.engine.events import ToolSuccess

        told = ToolSuccess(
            begun.id, begun.tool, self._took_ms(begun), summary_of(content), facts_of(content), begun.phase
        )
        await self._note_if_possible(call, told)

    async def carried_out(self, proposal: Proposal, content: Mapping[str, Any]) -> None:
        """Record in the journey of a proposal that a person's yes was carried out."""
        from agents.engine.events import ToolSuccess
        from agents.errors import AgentError

        facts = {**facts_of(content), "proposal": proposal.id}
        told = ToolSuccess(proposal.id, proposal.tool, 0.0, f"approved, {summary_of(content)}", facts)
        store = self._services.journeys.store
        try:
            await store.note(proposal.journey, (told,), by=proposal.principal, at=self._services.now())
        except (AgentError, StorageError):
            logger.warning("journey %s cannot be told what became of %s", proposal.journey, proposal.id, exc_info=True)

    async def failed(self, call: Call, begun: Accompanied, why: str) -> None:
        """Record that the call was refused, or failed."""
        from agents.engine.events import ToolError

        await self._note_if_possible(call, ToolError(begun.id, begun.tool, self._took_ms(begun), why[:LONGEST_ERROR]))

    def _took_ms(self, begun: Accompanied) -> float:
        return round((self._clock() - begun.began) * 1000, 2)

    async def _note(self, call: Call, *notes: Note) -> None:
        store = self._services.journeys.store
        await store.note(call.journey, notes, by=call.principal.id, at=self._services.now())

    async def _note_if_possible(self, call: Call, note: Note) -> None:
        """Record it; what is done is done, and is not told as failed because that cannot be noted now."""
        try:
            await self._note(call, note)
        except StorageError:
            logger.warning("the end of a call of journey %s cannot be noted now", call.journey, exc_info=True)


def require_in_phase(position: JourneyPosition, tool: str, listed: Sequence[str]) -> None:
    """Return if a call with that tool may be made for the journey now; `listed` are the tools that there are.

    Raises:
        ToolOutsidePhase, JourneyOver, WaitsForPerson: it may not.
    """
    from agents.errors import JourneyOver, ToolOutsidePhase, WaitsForPerson
    from agents.prompts.prompt import tools_at

    state, journey, phase = position.state, position.journey, position.phase
    # What was found may still be kept in the knowledge base, where the agent says so.
    if state.over and (state.status == "cancelled" or tool not in phase.tools):
        raise JourneyOver(journey, state.status)
    if tool not in phase.tools:
        raise ToolOutsidePhase(journey, phase.name, tool, tools_at(phase, listed))
    if state.status == "waiting":
        raise WaitsForPerson(journey, phase.name)


def facts_of(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the few facts of an answer that conditions look at; never text of a page."""
    facts = {name: value for name in _TOLD if isinstance(value := content.get(name), str)}
    proposal, scent = content.get("proposal"), content.get("scent")
    if isinstance(proposal, Mapping) and proposal.get("id"):
        facts["proposal"] = str(proposal["id"])
    if isinstance(scent, Mapping) and scent.get("level"):
        facts["scent"] = str(scent["level"])
    return facts


def summary_of(content: Mapping[str, Any]) -> str:
    """Return an answer in a few words, without any of its text."""
    counts = [f"{len(content[name])} {name}" for name in _COUNTED if isinstance(content.get(name), list)]
    facts = facts_of(content)
    named = [f"{name} {facts[name]}" for name in ("status", "key", "scent") if name in facts]
    return ", ".join([*named, *counts])


def asked_of(asked: Mapping[str, Any]) -> str:
    """Return what is asked about, in a few words: the page, task, project or channel, if the call names one."""
    named = (asked.get(name) for name in ABOUT)
    return next((about[:200] for about in named if isinstance(about, str)), "")
