"""The trust toolset: what the caller may do, and what would be needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import anyio
from pydantic import Field

from knowledge.errors import KnowledgeError
from knowledge.trust.ports import Proposal, State
from mcp_server.approvals.summary import summary
from mcp_server.approvals.wait import ended, there_is_room
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.scores import held, trust_record_of
from mcp_server.ports import TrustServices
from mcp_server.toolsets.spec import Arguments, ToolSpec

LONGEST_WAIT_S = 300
MOST_LISTED = 100
PENDING: tuple[State, ...] = ("pending",)


class NoArguments(Arguments):
    """It takes none."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A proposal of the caller that waits."""

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


async def status(services: TrustServices, call: Call, _asked: NoArguments) -> TrustStatus:
    """Return the caller's own trust record."""
    trust_record = await trust_record_of(services.state, call.principal, now=services.now())
    grant = held(trust_record)
    return TrustStatus(
        principal=call.principal.id,
        score=round(grant.score, 2),
        level=int(grant.level),
        cap=trust_record.ceiling,
        frozen=trust_record.frozen,
        needs={spec.name: int(spec.needs) for spec in services.tools()},
        pending=await _pending(services, call),
    )


async def _pending(services: TrustServices, call: Call) -> list[Pending]:
    """Return what waits of the caller; over HTTP without a token nobody knows which of it is whose, so nothing is listed."""
    if call.principal.by_handle:
        return []
    found = await services.state.trust.lines(principal=call.principal.id, states=PENDING, limit=MOST_LISTED)
    return [Pending(one.id, one.tool, one.level_needed, one.expires_at.isoformat(timespec="seconds")) for one in found]


class ProposalStatusArguments(Arguments):
    """Arguments of proposal_status."""

    proposal_id: Annotated[
        str | None, Field(description="proposal.id of the proposed call. Omit it to list your pending proposals.")
    ] = None
    wait_seconds: Annotated[int, Field(ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for a decision.")] = 0


class WithdrawArguments(Arguments):
    """Arguments of proposal_withdraw."""

    proposal_id: str


@dataclass(frozen=True, slots=True)
class ProposalStatus:
    """One proposal of the caller, whole; and all of them that wait."""

    proposal: Mapping[str, Any] | None
    pending: Sequence[Pending]


class NoSuchOwnProposal(KnowledgeError):
    """The caller made no such proposal."""

    def __init__(self, asked: str) -> None:
        self.asked = asked
        super().__init__(f"you made no proposal {asked[:40]!r}; call proposal_status() to list your pending proposals")


async def proposal_status(services: TrustServices, call: Call, asked: ProposalStatusArguments) -> ProposalStatus:
    """Return what became of a proposal, waiting for it if asked and as long as not too many others wait."""
    if asked.proposal_id is None:
        return ProposalStatus(None, await _pending(services, call))
    proposal = await _own(services, call, asked.proposal_id)
    if asked.wait_seconds and proposal.open and there_is_room(services):
        with anyio.move_on_after(asked.wait_seconds):
            await ended(services, proposal.id)
        proposal = await _own(services, call, asked.proposal_id)
    return await _told(services, call, proposal)


async def withdraw(services: TrustServices, call: Call, asked: WithdrawArguments) -> ProposalStatus:
    """Take a proposal of the caller back, if nobody has decided about it yet."""
    proposal = await _own(services, call, asked.proposal_id)
    trust = services.state.trust
    taken = await trust.withdraw(proposal.id, call.principal.id, at=services.now())
    proposal = taken or await _own(services, call, asked.proposal_id)
    return await _told(services, call, proposal)


async def _told(services: TrustServices, call: Call, proposal: Proposal) -> ProposalStatus:
    """Return the proposal; what it shows and answered, which is text of pages, only to who may read by now."""
    grant = held(await trust_record_of(services.state, call.principal, now=services.now()))
    told = await summary(proposal, services.review_address, whole=grant.level >= Trust.READ)
    return ProposalStatus(told, await _pending(services, call))


async def read_in(services: TrustServices, told: ProposalStatus) -> Sequence[str]:
    """Return where text in it may come from that nobody vouches for: that which was read in the run or journey it belongs to."""
    from mcp_server.approvals.proposals import scopes_of  # which loads all tools

    proposal = await services.state.trust.proposal(str(told.proposal["id"])) if told.proposal else None
    if proposal is None:
        return ()
    return tuple({origin for scope in scopes_of(proposal) for origin in await services.taints.of_journey(scope)})


async def _own(services: TrustServices, call: Call, proposal_id: str) -> Proposal:
    proposal = await services.state.trust.proposal(proposal_id)
    if proposal is None or proposal.principal != call.principal.id:
        raise NoSuchOwnProposal(proposal_id)
    return proposal


TRUST_STATUS = ToolSpec[TrustServices, NoArguments, TrustStatus](
    name="trust_status",
    title="How far you are trusted",
    level=Trust.NONE,
    toolset="trust",
    description=(
        "Shows your trust score and level, the level each tool needs, and your pending proposals. Use it when a call was "
        "refused or proposed. cap is the highest score you can reach. Only a person can raise your level."
    ),
    arguments=NoArguments,
    result=TrustStatus,
    answer=status,
    read_only=True,
    idempotent=True,
)

PROPOSAL_STATUS = ToolSpec[TrustServices, ProposalStatusArguments, ProposalStatus](
    name="proposal_status",
    title="Status of a proposal",
    level=Trust.NONE,
    toolset="trust",
    description=(
        "When a call returned status 'proposed': shows what a person decided about it and, once approved, its result. "
        "You cannot approve a proposal yourself."
    ),
    arguments=ProposalStatusArguments,
    result=ProposalStatus,
    answer=proposal_status,
    taints=read_in,
    read_only=True,
    idempotent=True,
)

PROPOSAL_WITHDRAW = ToolSpec[TrustServices, WithdrawArguments, ProposalStatus](
    name="proposal_withdraw",
    title="Withdraw a proposal",
    level=Trust.NONE,
    toolset="trust",
    description="Withdraws one of your proposals before a person decides on it. It is then never carried out.",
    arguments=WithdrawArguments,
    result=ProposalStatus,
    answer=withdraw,
    taints=read_in,
    idempotent=True,
)

TOOLS = (TRUST_STATUS, PROPOSAL_STATUS, PROPOSAL_WITHDRAW)
