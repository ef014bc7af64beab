"""Notes to a run about the proposal that it waited for. Pure, except for following a proposal to its replacements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_server.approvals.proposals import one_line

if TYPE_CHECKING:
    from knowledge.trust.ports import Proposal, TrustRecords

LONGEST_NOTE, LONGEST_ERROR, LONGEST_RESULT = 2_000, 2_000, 4_000
"""Characters. These texts are never left out of the history to save room."""
MOST_FOLLOWED = 50

GONE = "it is no longer on record, and its decision is unknown. Assume it was not done"
NOT_DONE = "nothing was done"
REFUSED = "Do not try to get the same result in another way"


async def chain_of(trust: TrustRecords, proposal: str) -> Sequence[Proposal]:
    """Return the proposal and, in order, those that replaced it; empty if there is no such proposal."""
    chain: list[Proposal] = []
    following: str | None = proposal
    # In a state that was edited by hand, the replacements could form a circle.
    while following and len(chain) < MOST_FOLLOWED and following not in {one.id for one in chain}:
        found = await trust.proposal(following)
        if found is None:
            break
        chain.append(found)
        following = found.successor
    return chain


def became(chain: Sequence[Proposal]) -> str:
    """Return the outcome of a closed proposal, for the run; `chain` is the proposal and those that replaced it."""
    if not chain:
        return GONE
    last, replaced = chain[-1], ""
    if len(chain) > 1:
        why = f" ({one_line(chain[0].error, LONGEST_ERROR)})" if chain[0].error else ""
        replaced = f"proposal {last.id} replaced it{why}; the outcome of that proposal: "
    # The person's own words, marked as theirs and in quotes that they cannot close.
    note = last.verdict.note if last.verdict else ""
    said = f". The person says: “{one_line(note, LONGEST_NOTE)}”" if note.strip() else ""
    answer = ""
    if last.state == "executed" and last.result and last.result != "null":
        more = len(last.result) - LONGEST_RESULT
        cut = f"\n(the rest is left out: {more} more characters)" if more > 0 else ""
        answer = f". It answered:\n{last.result[:LONGEST_RESULT]}{cut}"
    return f"{replaced}{_outcome(last)}{said}{answer}"


def _outcome(last: Proposal) -> str:
    approved = "a person approved it, and " if last.verdict and last.verdict.approved else ""
    match last.state:
        case "executed":
            return f"{approved}it was carried out"
        case "failed":
            error = one_line(last.error or "nobody knows why", LONGEST_ERROR).rstrip(".")
            return f"{approved}it failed: {error}"
        case "rejected" if last.verdict and last.verdict.changes:
            return f"a person asks for changes before they approve it, so {NOT_DONE}. Change the call as they say, and make it again"
        case "rejected":
            return f"a person rejected it, so {NOT_DONE}. {REFUSED}"
        case "expired":
            return f"nobody decided on it in time, so {NOT_DONE}"
        case "withdrawn":
            return f"it was withdrawn, so {NOT_DONE}"
        case "superseded":
            return f"a later proposal replaced it and is no longer on record; {NOT_DONE} by this one"
        case "pending" | "approved":
            return f"it is {last.state}, and {NOT_DONE} so far"
