"""The handlers of the trust and proposal tools. Imported with the first call."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from knowledge.errors import KnowledgeError
from knowledge.trust.ports import Proposal, State
from mcp_server.approvals.proposals import scopes_of
from mcp_server.approvals.summary import summary
from mcp_server.approvals.views.askers import own_proposal
from mcp_server.approvals.wait import closed, has_room
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust, limited
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


class NoSuchOwnProposal(KnowledgeError):
    """The caller made no such proposal."""

    def __init__(self, asked: str) -> None:
        self.asked = asked
        super().__init__(f"you made no proposal {asked[:40]!r}; call proposal_status() to list your pending proposals")


class OthersAsk(KnowledgeError):
    """Other hosts ask for the proposal too, so the one that made it can't withdraw it."""

    def __init__(self, proposal: str) -> None:
        self.proposal = proposal
        super().__init__(
            f"{proposal} was not withdrawn: another host asks for the same change, so a person still decides on it"
        )


async def status(services: TrustServices, call: Call, _arguments: NoArguments) -> TrustStatus:
    """Return the caller's own trust record."""
    trust_record = await trust_record_of(services.state, call.principal, now=services.now())
    reach = call.principal.reach
    grant = limited(grant_of(trust_record), reach)
    return TrustStatus(
        principal=call.principal.id,
        score=round(grant.score, 2),
        level=int(grant.level),
        cap=trust_record.ceiling if reach is None else min(trust_record.ceiling, float(reach.ceiling())),
        frozen=trust_record.frozen,
        needs={spec.name: int(spec.needs) for spec in services.tools()},
        pending=await _pending(services, call),
    )


async def proposal_status(services: TrustServices, call: Call, arguments: ProposalStatusArguments) -> ProposalStatus:
    """Return a proposal, after waiting for a decision if the caller wants to and there is room for another waiting call."""
    if arguments.proposal_id is None:
        return ProposalStatus(None, await _pending(services, call))
    proposal = await _own(services, call, arguments.proposal_id)
    if arguments.wait_seconds and proposal.open and has_room(services):
        with anyio.move_on_after(arguments.wait_seconds):
            await closed(services, proposal.id)
        proposal = await _own(services, call, arguments.proposal_id)
    return await _answer(services, call, proposal)


async def withdraw(services: TrustServices, call: Call, arguments: WithdrawArguments) -> ProposalStatus:
    """Withdraw a proposal of the caller that nobody has decided on yet. One that it joined keeps waiting for the other hosts.

    Raises:
        OthersAsk: the caller made it, and other hosts joined.
    """
    proposal = await _own(services, call, arguments.proposal_id)
    withdrawn = await services.state.trust.withdraw(proposal.id, call.principal.id, at=services.now())
    proposal = await _own(services, call, arguments.proposal_id)
    if withdrawn is None and proposal.state == "pending":
        raise OthersAsk(proposal.id)
    # Somebody may have decided first: the answer then shows that decision.
    return await _answer(services, call, proposal)


async def read_in(services: TrustServices, call: Call, answer: ProposalStatus) -> Sequence[str]:
    """Return the untrusted origins that the proposal may repeat: those read in the run or journey of the caller's own call."""
    trust, asked = services.state.trust, str(answer.proposal["id"]) if answer.proposal else ""
    proposal = await own_proposal(trust, asked, call.principal.id) if asked else None
    if proposal is None:
        return ()
    return tuple({origin for scope in scopes_of(proposal) for origin in await services.taints.of_journey(scope)})


async def _own(services: TrustServices, call: Call, proposal_id: str) -> Proposal:
    proposal = await own_proposal(services.state.trust, proposal_id, call.principal.id)
    if proposal is None:
        raise NoSuchOwnProposal(proposal_id)
    return proposal


async def _pending(services: TrustServices, call: Call) -> list[Pending]:
    """Return the caller's pending proposals; none over HTTP without a token, where all callers share one principal."""
    if call.principal.by_handle:
        return []
    lines = await services.state.trust.lines(principal=call.principal.id, states=PENDING, limit=MOST_LISTED)
    return [Pending(one.id, one.tool, one.level_needed, one.expires_at.isoformat(timespec="seconds")) for one in lines]


async def _answer(services: TrustServices, call: Call, proposal: Proposal) -> ProposalStatus:
    """Return the proposal. Its diffs and its result quote pages, so they are left out for a caller that may not read now."""
    record = await trust_record_of(services.state, call.principal, now=services.now())
    grant = limited(grant_of(record), call.principal.reach)
    shown = await summary(proposal, services.review_address, whole=grant.level >= Trust.READ)
    return ProposalStatus(shown, await _pending(services, call))
