"""The trust toolset: what the caller may do, and what would be needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp_server.gate.policy import Trust
from mcp_server.gate.scores import held, standing_of
from mcp_server.services import Call, Services
from mcp_server.tools.spec import Arguments, ToolSpec


class NoArguments(Arguments):
    """It takes none."""


@dataclass(frozen=True, slots=True)
class TrustStatus:
    """How far the caller is trusted. `cap` is the highest score it can have; `needs` the level of every tool."""

    principal: str
    score: float
    level: int
    cap: float
    frozen: bool
    needs: Mapping[str, int]
    pending: Sequence[str]


async def status(services: Services, call: Call, _asked: NoArguments) -> TrustStatus:
    """Return the caller's own standing."""
    standing = await standing_of(services.state, call.principal, now=services.now())
    grant = held(standing)
    return TrustStatus(
        principal=call.principal.id,
        score=round(grant.score, 2),
        level=int(grant.level),
        cap=standing.ceiling,
        frozen=standing.frozen,
        needs={spec.name: int(spec.needs) for spec in services.tools()},
        pending=[],
    )


TRUST_STATUS = ToolSpec[NoArguments, None, TrustStatus](
    name="trust_status",
    title="How far you are trusted",
    level=Trust.NONE,
    toolset="trust",
    description="Shows your trust score and level and what level each tool needs. Only a person can raise it.",
    arguments=NoArguments,
    result=TrustStatus,
    answer=status,
    read_only=True,
    idempotent=True,
)

TOOLS = (TRUST_STATUS,)
