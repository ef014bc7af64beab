"""Proposals that several hosts ask for: what each of them sees of one, and who may join.

One host made the proposal, and it is executed as that host's call. A host that joined sees its own call, and nothing of
the other host's call except the change that both ask for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from knowledge.state.ports import StateStore
from knowledge.trust.codec import JOINABLE, as_asked_by
from knowledge.trust.ports import DOCUMENTED, JoinedAsker, Joins, Proposal, TrustRecords

MOST_FOLLOWED = 50
"""Replacements of one proposal that are followed."""
SETTLED = ("status", "revision", "verified")
"""Fields of a result that are the same for everybody who asked for the change."""


async def own_proposal(trust: TrustRecords, proposal_id: str, principal: str) -> Proposal | None:
    """Return the proposal as that principal asked for it; None if it never asked for it."""
    proposal = await trust.proposal(proposal_id)
    if proposal is None or proposal.principal == principal:
        return proposal
    asker = next((one for one in await trust.askers(proposal_id) if one.principal == principal), None)
    if asker is None:
        return None
    own = as_seen_by(proposal, asker)
    if own.successor and await own_proposal(trust, own.successor, principal) is None:
        # The hosts no longer ask for the same, so each has its own proposal.
        lines = await trust.lines(principal=principal, limit=DOCUMENTED)
        return replace(own, successor=next((line.id for line in lines if line.origin == proposal_id), None))
    return own


async def in_journey(trust: TrustRecords, proposal_id: str, journey: str) -> Sequence[Proposal]:
    """Return the proposal as the journey's call asked for it, then those that replaced it; empty if no such call asked."""
    found = await trust.proposal(proposal_id)
    if found is None:
        return ()
    who: str | None = found.principal
    if found.journey != journey:
        joined = await trust.askers(proposal_id) if found.kind == JOINABLE else ()
        who = next((one.principal for one in joined if one.journey == journey), None)
    if who is None:
        return ()
    chain: list[Proposal] = []
    following: str | None = proposal_id
    while following and len(chain) < MOST_FOLLOWED and following not in {one.id for one in chain}:
        own = await own_proposal(trust, following, who)
        if own is None:
            break
        chain.append(own)
        following = own.successor
    return chain


async def of_each_asker(trust: TrustRecords, proposal: Proposal) -> Sequence[Proposal]:
    """Return the proposal as each principal asks for it: first the one that made it, then those that joined and did not withdraw."""
    joined = await trust.askers(proposal.id) if proposal.kind == JOINABLE else ()
    return [proposal, *(as_seen_by(proposal, one) for one in joined if one.left_at is None)]


def as_seen_by(proposal: Proposal, asker: JoinedAsker) -> Proposal:
    """Return the proposal as the asker's own call, with the outcome in the form that this call would have had."""
    own = as_asked_by(proposal, asker)
    if own.result is None:
        return own
    preview, result = json.loads(own.preview), json.loads(own.result)
    answer = preview.get("answer") if isinstance(preview, dict) else None
    if not isinstance(answer, dict) or not isinstance(result, dict):
        return replace(own, result="null")
    shared = {name: result[name] for name in SETTLED if name in result and name in answer}
    return replace(own, result=json.dumps({**answer, **shared, "proposal": None}, ensure_ascii=False))


async def joining(state: StateStore, proposal: Proposal) -> Joins:
    """Return which pending proposals the principal of this one may join instead of making it."""
    frozen = {one.principal for one in await state.trust_records() if one.frozen}

    def joins(pending: Proposal) -> bool:
        same_rules = (pending.tool_hash, pending.policy) == (proposal.tool_hash, proposal.policy)
        waits = pending.expires_at > proposal.created_at and pending.level_needed >= proposal.level_needed
        # One of a frozen host cannot be approved, and would hold up the others.
        return same_rules and waits and pending.principal not in frozen

    return joins
