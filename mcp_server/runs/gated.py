"""The tools of a run: those of this server, each call of which passes the gate as that of the principal whose run it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.loop.provider import ToolDefinition
from agents.loop.tools import Outcome
from mcp_server.gate.dispatch import Answered, Failed
from mcp_server.gate.enrolment import Principal
from mcp_server.services import Call

if TYPE_CHECKING:
    from agents.events import Json
    from agents.loop.frames import Header
    from mcp_server.gate.dispatch import Gate
    from mcp_server.services import Services
    from mcp_server.tools.registry import AnySpec

WITHHELD = frozenset(("agent_run", "agent_trace", "journey_decide", "proposal_withdraw"))
"""Not for a run: it begins no other one, nobody is beside it whose word it could relay, and what waits for a person stays."""


class GatedTools:
    """What one run may call: the tools that are listed, of the toolsets that it was given, or of all."""

    def __init__(self, gate: Gate, services: Services, header: Header) -> None:
        self._gate, self._services, self._header = gate, services, header

    def definitions(self) -> Sequence[ToolDefinition]:
        """Return what the model may call, in the order in which hosts are shown it."""
        return [ToolDefinition(spec.name, spec.description, spec.input_schema) for spec in self._offered()]

    async def call(self, name: str, arguments: Mapping[str, Json], key: str) -> Outcome:
        """Let the call pass the gate under that key, and return what came of it."""
        call = Call(principal_of(self._header), origin="inner", run=self._header.id, key=key)
        answer = await self._gate.dispatch(name, dict(arguments), call)
        if isinstance(answer, Failed):
            return Outcome(success=False, text=answer.why, unsure=answer.unsure)
        return told(answer)

    async def recalled(self, name: str, key: str) -> Outcome | None:
        """Return what came of the call with that key; None where nobody can tell."""
        del name, key
        return None

    def _offered(self) -> list[AnySpec]:
        wanted = set(self._header.toolsets)
        return [
            spec
            for spec in self._services.tools()
            if spec.name not in WITHHELD and (not wanted or spec.toolset in wanted)
        ]


def principal_of(header: Header) -> Principal:
    """Return whose run it is."""
    user, _, host = header.principal.rpartition("@")
    return Principal(user, host)


def told(answer: Answered) -> Outcome:
    """Return an answer of the gate as a run is told of it."""
    content: dict[str, Any] = answer.content
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    waits = answer.waits.id if answer.waits else ""
    return Outcome(
        success=True, text=text, structured=content, proposal=waits, unsure=content.get("status") == "unsure"
    )
