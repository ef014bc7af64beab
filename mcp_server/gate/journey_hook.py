"""Calls that belong to a journey: the check that its phase allows the tool, and the journey's record of the call."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from knowledge.errors import StorageError
from mcp_server.gate.caller import Call
from mcp_server.late_module import LateModule
from mcp_server.ports import GateServices, ListedTool

if TYPE_CHECKING:
    from agents.engine import events
    from agents.engine.evidence import shown
    from agents.engine.progress.position import JourneyPosition
    from agents.prompts import ahead as prompts
    from knowledge.trust.ports import Proposal
else:
    events = LateModule("agents.engine.events")
    shown = LateModule("agents.engine.evidence.shown")
    prompts = LateModule("agents.prompts.ahead")

logger = logging.getLogger("knowledge_forge.gate")

LONGEST_ERROR = 300
SUBJECT_ARGUMENTS = ("path", "task", "project", "channel")
"""Arguments that name the subject of a call, the most specific first."""
SHOWN_ARGUMENTS = ("section", "view", "offset", "query")
"""Arguments that say which part of a page a call shows, or what it searches for."""
_COUNTED = ("children", "hits", "outline", "blocks", "conflicts", "revisions", "contradictions", "tasks", "messages")
_FACTS = ("path", "revision", "status", "key")


@dataclass(frozen=True, slots=True)
class JourneyCall:
    """A call that a journey's phase allowed: its id among the journey's events, the phase, when it began, facts of the request."""

    id: str
    tool: str
    phase: str
    began: float
    asked: Mapping[str, Any] = field(default_factory=dict)


class JourneyHook:
    """Admits calls to journeys and records their start and end there."""

    def __init__(self, services: GateServices, clock: Callable[[], float] = time.monotonic) -> None:
        self._services, self._clock = services, clock

    async def begin(
        self,
        call: Call,
        tool: str,
        arguments_hash: str,
        summary: str,
        arguments: Mapping[str, Any],
        *,
        position: JourneyPosition,
    ) -> JourneyCall:
        """Record the start of the call in the journey at that position. A call that the phase doesn't allow is recorded as failed.

        The record keeps only those arguments that say which part of a page was read, and of a search only its fingerprint.

        Raises:
            ToolOutsidePhase, JourneyOver, WaitsForPerson: the call is not allowed.
        """
        from agents.errors import AgentError

        begun = JourneyCall(
            secrets.token_hex(4), tool, position.state.phase, self._clock(), shown.request_facts(tool, arguments)
        )
        start = events.ToolStart(begun.id, tool, arguments_hash, begun.phase, summary)
        try:
            require_in_phase(position, tool, self._services.tools())
        except AgentError as error:
            await self._note(call, start, events.ToolError(begun.id, tool, 0.0, str(error)[:LONGEST_ERROR]))
            raise
        await self._note(call, start)
        return begun

    async def succeeded(self, call: Call, begun: JourneyCall, content: Mapping[str, Any]) -> None:
        """Record that the call was answered."""
        facts = {**begun.asked, **facts_of(content)}
        success = events.ToolSuccess(
            begun.id, begun.tool, self._took_ms(begun), summary_of(content), facts, begun.phase
        )
        await self._note_end(call, success)

    async def failed(self, call: Call, begun: JourneyCall, why: str) -> None:
        """Record that the call was refused or failed."""
        await self._note_end(call, events.ToolError(begun.id, begun.tool, self._took_ms(begun), why[:LONGEST_ERROR]))

    async def carried_out(self, proposal: Proposal, content: Mapping[str, Any]) -> None:
        """Record in the proposal's journey that an approved act was executed."""
        from agents.errors import AgentError

        facts = {**facts_of(content), "proposal": proposal.id}
        success = events.ToolSuccess(proposal.id, proposal.tool, 0.0, f"approved, {summary_of(content)}", facts)
        store = self._services.journeys.store
        try:
            await store.note(proposal.journey, (success,), by=proposal.principal, at=self._services.now())
        except (AgentError, StorageError):  # the act itself is on the audit chain; only the journey's note is missing
            logger.warning(
                "cannot record in journey %s that %s was executed", proposal.journey, proposal.id, exc_info=True
            )

    def _took_ms(self, begun: JourneyCall) -> float:
        return round((self._clock() - begun.began) * 1000, 2)

    async def _note(self, call: Call, *notes: events.Note) -> None:
        store = self._services.journeys.store
        await store.note(call.journey, notes, by=call.principal.id, at=self._services.now())

    async def _note_end(self, call: Call, note: events.Note) -> None:
        # The act is done. It must not be reported as failed because the journal can't be written right now.
        try:
            await self._note(call, note)
        except StorageError:
            logger.warning("cannot record the end of a call in journey %s", call.journey, exc_info=True)


def require_in_phase(position: JourneyPosition, tool: str, specs: Sequence[ListedTool]) -> None:
    """Check that the journey's phase allows the tool now, or one of the phases that can be submitted with it.

    `specs` are the tools of this server.

    Raises:
        ToolOutsidePhase, JourneyOver, WaitsForPerson: it doesn't.
    """
    from agents.errors import JourneyOver, ToolOutsidePhase, WaitsForPerson

    state, journey, phase = position.state, position.journey, position.phase
    # An agent may allow tools in its last phase, to save findings after the journey is complete.
    if state.over and (state.status == "cancelled" or tool not in phase.tools):
        raise JourneyOver(journey, state.status)
    if tool not in phase.tools:
        listed, acting = [spec.name for spec in specs], [spec.name for spec in specs if not spec.read_only]
        allowed = prompts.tools_here(position.agent, phase.name, listed, acting)
        if tool not in allowed:
            raise ToolOutsidePhase(journey, phase.name, tool, allowed)
    if state.status == "waiting":
        raise WaitsForPerson(journey, phase.name)


def facts_of(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the few facts of an answer that agents' conditions read; never the text of a page."""
    facts = {name: value for name in _FACTS if isinstance(value := content.get(name), str)}
    proposal, scent = content.get("proposal"), content.get("scent")
    if isinstance(proposal, Mapping) and proposal.get("id"):
        facts["proposal"] = str(proposal["id"])
    if isinstance(scent, Mapping) and scent.get("level"):
        facts["scent"] = str(scent["level"])
    if isinstance(children := content.get("children"), list) and "path" in facts:
        facts["listing"] = shown.listing((str(child["path"]) for child in children), facts["path"])
    if isinstance(diff := content.get("diff"), str):
        # Without the two headings, which begin like removed and added lines.
        facts["lines"] = str(sum(line.startswith(("+", "-")) for line in diff.split("\n")[2:]))
    return facts


def summary_of(content: Mapping[str, Any]) -> str:
    """Summarise an answer in a few words, without the text of any page."""
    counts = [f"{len(content[name])} {name}" for name in _COUNTED if isinstance(content.get(name), list)]
    facts = facts_of(content)
    named = [f"{name} {facts[name]}" for name in ("status", "key", "scent") if name in facts]
    return ", ".join([*named, *counts])


def subject_of(arguments: Mapping[str, Any]) -> str:
    """Return the page, task, project or channel that the arguments name, or ""."""
    named = (arguments.get(name) for name in SUBJECT_ARGUMENTS)
    return next((subject[:200] for subject in named if isinstance(subject, str)), "")
