"""What a run is told of the proposal that it waited for. Pure, but for the way from a proposal to those that took its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_server.approvals.proposals import one_line

if TYPE_CHECKING:
    from knowledge.trust.ports import Proposal, TrustRecords

LONGEST_NOTE, LONGEST_ERROR, LONGEST_RESULT = 2_000, 2_000, 4_000
"""Characters. What a run is told of a decision is never left out to save room."""
MOST_FOLLOWED = 50

GONE = "it is no longer on record and no decision is known. Assume it was not done"
NOT_DONE = "nothing was done"
REFUSED = "Do not try to get the same in another way"


async def chain_of(trust: TrustRecords, proposal: str) -> Sequence[Proposal]:
    """Return the proposal and, in order, those that took its place; nothing where there is none."""
    chain: list[Proposal] = []
    following: str | None = proposal
    while following and len(chain) < MOST_FOLLOWED and following not in {one.id for one in chain}:
        found = await trust.proposal(following)
        if found is None:
            break
        chain.append(found)
        following = found.successor
    return chain


def became(chain: Sequence[Proposal]) -> str:
    """Return what a run is told of a proposal that nothing happens to any more; `chain` is it and those that took its place."""
    if not chain:
        return GONE
    last = chain[-1]
    said = _said(last)
    return f"{_followed(chain)}{_ended(last)}{f'. {said}' if said else ''}{_answered(last)}"


def _followed(chain: Sequence[Proposal]) -> str:
    if len(chain) == 1:
        return ""
    why = f" ({one_line(chain[0].error, LONGEST_ERROR)})" if chain[0].error else ""
    return f"proposal {chain[-1].id} took its place{why}; of that one: "


def _ended(last: Proposal) -> str:
    match last.state:
        case "executed":
            return f"{_by(last)}it was carried out"
        case "failed":
            error = one_line(last.error or "nobody knows why", LONGEST_ERROR).rstrip(".")
            return f"{_by(last)}it ended as failed: {error}"
        case "rejected":
            return f"a person said no, so {NOT_DONE}. {REFUSED}"
        case "expired":
            return f"nobody decided about it in time, so {NOT_DONE}"
        case "withdrawn":
            return f"it was withdrawn, so {NOT_DONE}"
        case "superseded":
            return f"another one took its place that is not on record any more, and {NOT_DONE} by this one"
        case "pending" | "approved":
            return f"it is {last.state}, and {NOT_DONE} so far"


def _by(last: Proposal) -> str:
    return "a person said yes, and " if last.verdict and last.verdict.approved else ""


def _said(last: Proposal) -> str:
    """Return the person's own words, as theirs."""
    note = last.verdict.note if last.verdict else ""
    return f"The person says: “{one_line(note, LONGEST_NOTE)}”" if note.strip() else ""


def _answered(last: Proposal) -> str:
    if last.state != "executed" or not last.result or last.result == "null":
        return ""
    cut = len(last.result) > LONGEST_RESULT
    more = f"\n(the rest is left out: {len(last.result) - LONGEST_RESULT} more characters)" if cut else ""
    return f". It answered:\n{last.result[:LONGEST_RESULT]}{more}"
