"""The handlers of the trust and proposal tools. Imported with the first call."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from knowledge.errors import KnowledgeError
from knowledge.trust.ports import Proposal, State
from mcp_server.approvals.proposals import scopes_of
from mcp_server.approvals.summary import summary
from mcp_server.approvals.wait import closed, has_room
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.scores import grant_of, trust_record_of
from mcp_server.ports import TrustServices
from mcp_server.toolsets.trust.schemas import (
    NoArguments,
    Pending,
    ProposalStatus,
    ProposalStatusArguments,
    TrustStatus,
    WithdrawArguments,
)

MOST_LISTED = 100


PENDING: tuple[State, ...] = ("pending",)


async def status(services: TrustServices, call: Call, _arguments: NoArguments) -> TrustStatus:
    """Return the caller's own trust record."""
    trust_record = await trust_record_of(services.state, call.principal, now=services.now())
    grant = grant_of(trust_record)
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
    """Return the caller's waiting proposals; over HTTP without a token it is unknown whose they are, so none is listed."""
    if call.principal.by_handle:
        return []
    found = await services.state.trust.lines(principal=call.principal.id, states=PENDING, limit=MOST_LISTED)
    return [Pending(one.id, one.tool, one.level_needed, one.expires_at.isoformat(timespec="seconds")) for one in found]


class NoSuchOwnProposal(KnowledgeError):
    """The caller made no such proposal."""

    def __init__(self, asked: str) -> None:
        self.asked = asked
        super().__init__(f"you made no proposal {asked[:40]!r}; call proposal_status() to list your pending proposals")


async def proposal_status(services: TrustServices, call: Call, arguments: ProposalStatusArguments) -> ProposalStatus:
    """Return the outcome of a proposal, waiting for it if requested and not too many others wait."""
    if arguments.proposal_id is None:
        return ProposalStatus(None, await _pending(services, call))
    proposal = await _own(services, call, arguments.proposal_id)
    if arguments.wait_seconds and proposal.open and has_room(services):
        with anyio.move_on_after(arguments.wait_seconds):
            await closed(services, proposal.id)
        proposal = await _own(services, call, arguments.proposal_id)
    return await _told(services, call, proposal)


async def withdraw(services: TrustServices, call: Call, arguments: WithdrawArguments) -> ProposalStatus:
    """Take a proposal of the caller back, if nobody has decided about it yet."""
    proposal = await _own(services, call, arguments.proposal_id)
    trust = services.state.trust
    taken = await trust.withdraw(proposal.id, call.principal.id, at=services.now())
    proposal = taken or await _own(services, call, arguments.proposal_id)
    return await _told(services, call, proposal)


async def _told(services: TrustServices, call: Call, proposal: Proposal) -> ProposalStatus:
    """Return the proposal; what it shows and answered, which is text of pages, only to who may read by now."""
    grant = grant_of(await trust_record_of(services.state, call.principal, now=services.now()))
    told = await summary(proposal, services.review_address, whole=grant.level >= Trust.READ)
    return ProposalStatus(told, await _pending(services, call))


async def read_in(services: TrustServices, told: ProposalStatus) -> Sequence[str]:
    """Return the origins of untrusted text that it may contain: those read in the run or journey it belongs to."""
    proposal = await services.state.trust.proposal(str(told.proposal["id"])) if told.proposal else None
    if proposal is None:
        return ()
    return tuple({origin for scope in scopes_of(proposal) for origin in await services.taints.of_journey(scope)})


async def _own(services: TrustServices, call: Call, proposal_id: str) -> Proposal:
    proposal = await services.state.trust.proposal(proposal_id)
    if proposal is None or proposal.principal != call.principal.id:
        raise NoSuchOwnProposal(proposal_id)
    return proposal
