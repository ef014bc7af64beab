"""The arguments and answers of the trust and proposal tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from mcp_server.toolsets.spec import Arguments

LONGEST_WAIT_S = 300


class NoArguments(Arguments):
    """Arguments of a tool that takes none."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A proposal of the caller that nobody has decided on yet."""

    id: str
    tool: str
    needs: int
    expires_at: str


@dataclass(frozen=True, slots=True)
class TrustStatus:
    """How far the caller is trusted. `cap` is the highest score it can have; `needs` the level of every tool."""

    principal: str
    score: float
    level: int
    cap: float
    frozen: bool
    needs: Mapping[str, int]
    pending: Sequence[Pending]


class ProposalStatusArguments(Arguments):
    """Arguments of proposal_status."""

    proposal_id: Annotated[
        str | None, Field(description="proposal.id of the proposed call. Omit it to list your pending proposals.")
    ] = None
    wait_seconds: Annotated[int, Field(ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for a decision.")] = 0


class WithdrawArguments(Arguments):
    """Arguments of proposal_withdraw."""

    proposal_id: Annotated[str, Field(description="proposal.id of the proposed call.")]


@dataclass(frozen=True, slots=True)
class ProposalStatus:
    """One proposal of the caller in full, and a list of the caller's waiting proposals."""

    proposal: Mapping[str, Any] | None
    pending: Sequence[Pending]
