"""The gate: every tool call passes here, whichever way it came. It decides, then answers; it fails closed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowledge.errors import KnowledgeError
from mcp_server.gate.enrolment import REMEMBERED_S, Principal
from mcp_server.gate.policy import Allow, Grant, Refuse, Trust, decide
from mcp_server.gate.scores import held, standing_of
from mcp_server.services import Call, Services
from mcp_server.tools.registry import AnySpec
from mcp_server.tools.spec import BadArguments
from mcp_server.wire_errors import short

logger = logging.getLogger("knowledge_forge.gate")

CLOSED = "refused: the state database cannot be read, so trust is unknown; try again in a moment"
CRASHED = "failed inside the server; nothing was changed. `knowledge-forge doctor` may say why"


class UnknownTool(Exception):
    """No tool of that name is listed."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        shown = name if len(name) <= 60 else name[:57] + "..."
        super().__init__(f"unknown tool {shown!r}; there are {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class Answered:
    """The tool ran; `content` fits its output schema."""

    content: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The call was refused or could not be answered; `why` is one plain sentence for the caller."""

    why: str


Outcome = Answered | Failed


class Gate:
    """Decides on calls by what the caller holds at that moment."""

    def __init__(
        self, specs: Sequence[AnySpec], services: Services, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._specs: Mapping[str, AnySpec] = {spec.name: spec for spec in specs}
        self._services, self._clock = services, clock
        self._remembered: dict[str, tuple[Grant, float]] = {}

    async def dispatch(self, name: str, arguments: dict[str, Any], call: Call) -> Outcome:
        """Answer the call, or say why not.

        Raises:
            UnknownTool: no tool of that name is listed.
        """
        spec = self._specs.get(name)
        if spec is None:
            raise UnknownTool(name, list(self._specs))
        try:
            asked = spec.parse(arguments)
            return await (self._answer(spec, call, asked) if spec.answer else self._act(spec, call, asked))
        except (BadArguments, KnowledgeError) as error:
            return Failed(short(str(error) if isinstance(error, BadArguments) else f"{name}: {error}"))
        except Exception:
            logger.exception("tool %s failed", name)
            return Failed(f"{name} {CRASHED}")

    async def _answer(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        decision = await self.decide(spec.name, spec.needs, call.principal)
        if isinstance(decision, Refuse):
            return Failed(decision.why)
        if spec.answer is None:  # `check` saw to it when the server started
            raise TypeError(f"{spec.name} cannot answer")
        return Answered(spec.as_json(await spec.answer(self._services, call, asked)))

    async def _act(self, spec: AnySpec, call: Call, asked: Any) -> Outcome:
        """Plan, decide on that plan, and only then act."""
        if spec.plan is None or spec.apply is None:
            raise TypeError(f"{spec.name} cannot act")
        decision = await self.decide(spec.name, Trust.READ, call.principal)  # a plan shows what is written there
        if isinstance(decision, Refuse):
            return Failed(decision.why)
        usual = await self.decide(spec.name, spec.needs, call.principal)
        call = replace(call, trusted=isinstance(usual, Allow))
        plan = await spec.plan(self._services, call, asked)
        shown = spec.rehearsed(plan) if spec.rehearsed else None
        if shown is not None:
            return Answered(spec.as_json(shown))
        decision = await self.decide(spec.name, spec.level_for(plan), call.principal)
        if isinstance(decision, Refuse):
            return Failed(decision.why)
        return Answered(spec.as_json(await spec.apply(self._services, call, plan)))

    async def decide(self, what: str, needed: Trust, principal: Principal) -> Allow | Refuse:
        """Return whether `principal` may do `what` now. Whatever goes wrong while deciding is a refusal."""
        try:
            return decide(await self._grant(principal, needed), what, needed)
        except Exception:
            logger.exception("cannot decide on %s", what)
            return Refuse(f"{what} is {CLOSED}")

    async def _grant(self, principal: Principal, needed: Trust) -> Grant:
        try:
            grant = held(await standing_of(self._services.state, principal, now=self._services.now()))
        except Exception:
            known, at = self._remembered.get(principal.id, (None, 0.0))
            if known is None or needed > Trust.READ or self._clock() - at > REMEMBERED_S:
                raise
            logger.warning("state database unreachable: reading goes on with what %s held before", principal.id)
            return known
        self._remembered[principal.id] = (grant, self._clock())
        return grant
