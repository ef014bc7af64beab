"""The pending proposals that ask for a side of a contradiction. They are answered when a person settles it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from knowledge.errors import KnowledgeError
from knowledge.history.ports import Flag
from knowledge.merge.model import CUT_MARK, Contradiction
from knowledge.state.ports import StateStore
from knowledge.trust.ports import Proposal, ProposalLine
from mcp_server.approvals.approvers import Approvals, Approver, CannotDecide
from mcp_server.approvals.proposals import AGAINST, calls_of
from mcp_server.toolsets.spec import BadArguments

MOST_LOOKED_AT = 200
"""Pending proposals, newest first, among which claims are looked for."""
MOST_FLAGS = 500


@dataclass(frozen=True, slots=True)
class PendingClaim:
    """A pending proposal of a claim, and each principal that asks for it, in the order in which they asked."""

    proposal: Proposal
    askers: Sequence[tuple[str, datetime]]


def is_claim_of(proposal: Proposal, found: Contradiction) -> bool:
    """Return whether the proposal asks to write the new side of this contradiction over the existing one."""
    return _claims(proposal)(found)


def _claims(proposal: Proposal) -> Callable[[Contradiction], bool]:
    """Return a function that answers `is_claim_of` for this proposal: it reads the proposal once for many contradictions."""
    call = calls_of(proposal)[-1]
    against, content = call.get(AGAINST, ()), _folded(str(call.get("content", "")))

    def asks_for(found: Contradiction) -> bool:
        return found.existing.text in against and _folded(found.new.text.removesuffix(CUT_MARK)) in content

    return asks_for


async def pending_claims(state: StateStore, found: Contradiction) -> Sequence[PendingClaim]:
    """Return the pending proposals of the contradiction's new side, oldest first; usually one, however many hosts ask."""
    lines = await state.trust.lines(states=("pending",), limit=MOST_LOOKED_AT)
    near = [line.id for line in lines if line.kind == "flag" and found.new.path in line.documents]
    proposals = [await state.trust.proposal(proposal_id) for proposal_id in reversed(near)]
    claims = [one for one in proposals if one is not None and is_claim_of(one, found)]
    joined = await state.trust.asking([one.id for one in claims])
    return [
        PendingClaim(
            one,
            [(one.principal, one.created_at), *((more.principal, more.asked_at) for more in joined.get(one.id, ()))],
        )
        for one in claims
    ]


def settled_note(flag_id: int) -> str:
    """Return the beginning of the note with which the proposals of a settled contradiction are closed."""
    return f"contradiction {flag_id} was settled: "


def both_hold(reason: str) -> str:
    """Return the message to a host whose proposal was closed because both statements hold."""
    return f"both statements hold ({reason}); repeat the call to add the new one next to the existing one"


async def answered_claims(state: StateStore, flag_id: int) -> Sequence[ProposalLine]:
    """Return the proposals that were closed when a person settled the contradiction, among the newest rejected ones."""
    lines = await state.trust.lines(states=("rejected",), limit=MOST_LOOKED_AT)
    return [line for line in lines if line.verdict and line.verdict.note.startswith(settled_note(flag_id))]


async def answer_claims(
    state: StateStore, approvals: Approvals, found: Contradiction, person: Approver, note: str
) -> Sequence[str]:
    """Close the proposals that asked for nothing but the settled contradiction, and return their ids; `note` goes to their hosts.

    They are rejected, because nothing is left to approve. One that also asks for other claims keeps waiting.
    """
    closed: list[str] = []
    for claim in await pending_claims(state, found):
        proposal = claim.proposal
        flags = [flag for path in proposal.documents for flag in await state.ledger.flags(path, limit=MOST_FLAGS)]
        if any(is_claim_of(proposal, flag.contradiction) for flag in flags):
            continue
        with suppress(CannotDecide):  # somebody has decided on it in the meantime
            await approvals.reject(proposal.id, proposal.hash, person, note)
            closed.append(proposal.id)
    return closed


async def decided_claims(state: StateStore, found: Contradiction) -> Sequence[ProposalLine]:
    """Return the newest decided proposals of the contradiction's new side, newest first."""
    lines = await state.trust.lines(states=("executed", "rejected", "failed"), limit=MOST_LOOKED_AT)
    near = [line for line in lines if line.kind == "flag" and found.new.path in line.documents]
    loaded = [(line, await state.trust.proposal(line.id)) for line in near]
    return [line for line, proposal in loaded if proposal is not None and is_claim_of(proposal, found)]


async def contradictions_of(state: StateStore, proposal: Proposal) -> Sequence[Flag]:
    """Return the contradictions of the proposed claims, open or not, oldest first."""
    if proposal.kind != "flag":
        return ()
    asks_for = _claims(proposal)
    found: dict[int, Flag] = {}
    for path in proposal.documents:
        for flag in (
            *await state.ledger.flags(path, limit=MOST_FLAGS),
            *await state.ledger.flags(path, limit=MOST_FLAGS, dismissed=True),
            *await state.ledger.settled(path, limit=MOST_LOOKED_AT),
        ):
            if asks_for(flag.contradiction):
                found[flag.id] = flag
    return [found[number] for number in sorted(found)]


async def closed_claims(state: StateStore, flag: Flag) -> Sequence[ProposalLine]:
    """Return the proposals that a settlement closed and nobody has made again, the newest of each principal."""
    waiting = {who for claim in await pending_claims(state, flag.contradiction) for who, _ in claim.askers}
    newest: dict[str, ProposalLine] = {}
    for line in await answered_claims(state, flag.id):
        newest.setdefault(line.principal, line)
    return [line for principal, line in newest.items() if principal not in waiting]


async def renew_claims(
    state: StateStore, approvals: Approvals, flag: Flag, person: Approver
) -> tuple[Sequence[str], Mapping[str, str]]:
    """Propose again what the settlement of a contradiction closed, now that it is open again.

    Returns the ids of the new proposals, and the reason for each closed one that can't be proposed again, by its id.
    """
    renewed: list[str] = []
    failed: dict[str, str] = {}
    why = f"contradiction {flag.id} was reopened by {person.name}"
    for line in await closed_claims(state, flag):
        try:
            renewed.append((await approvals.propose_again(line.id, person, why)).id)
        except (BadArguments, KnowledgeError) as error:
            failed[line.id] = str(error)
    return list(dict.fromkeys(renewed)), failed


def _folded(text: str) -> str:
    return " ".join(text.split())
