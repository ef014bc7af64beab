"""Review in a terminal, without drawing: the waiting proposals, one in full, and a person's decision on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from knowledge.errors import KnowledgeError
from knowledge.state.ports import StateStore
from knowledge.trust.ports import AskerLine, Proposal, ProposalLine
from mcp_server.app.knowledge_base import utc_now
from mcp_server.approvals.approvers import Approvals, Approver, CannotDecide, must_sign, requirement
from mcp_server.approvals.page_notice import Review
from mcp_server.cli.review.view import Word
from mcp_server.cli.terminal import keyboard
from mcp_server.gate.host_registration import os_user
from mcp_server.presenters.proposal import Asker, ProposalSummary, askers_of, proposal_summary
from mcp_server.toolsets.spec import BadArguments

if TYPE_CHECKING:
    from mcp_server.app.composition import App

MOST_LISTED = 500
CONFIRMED = 6
"""Characters of the hash that a person types to decide: enough that no mistaken key decides."""
NOT_CONFIRMED = "nothing was decided: that is not the beginning of the hash"
_ACTS: Mapping[Word | Literal["renew"], str] = {
    "approve": "approve",
    "reject": "reject",
    "harmful": "reject as harmful and freeze {hosts}",
    "changes": "request changes",
    "renew": "propose it with the page as it is now",
}


class NoSuchProposal(KnowledgeError):
    """There is no proposal with that id."""


@dataclass(frozen=True, slots=True)
class ReviewSession:
    """One person at a terminal. `review` serves the page on which a passkey can sign."""

    state: StateStore
    approvals: Approvals
    person: Approver
    now: Callable[[], datetime]
    review: Review

    @classmethod
    def of(cls, app: App) -> ReviewSession:
        """Return a session of the account that runs this process."""
        return cls(app.services.state, app.approvals, Approver(os_user(), "terminal"), utc_now, app.review)

    async def waiting(self) -> Sequence[ProposalLine]:
        """Return the proposals that wait for a person, newest first."""
        found = await self.state.trust.lines(states=("pending",), limit=MOST_LISTED)
        return [proposal for proposal in found if proposal.expires_at > self.now()]

    async def one(self, proposal_id: str) -> Proposal:
        """Return the proposal, whatever its state.

        Raises:
            NoSuchProposal: it does not exist.
        """
        proposal = await self.state.trust.proposal(proposal_id)
        if proposal is None:
            open_ones = "knowledge-forge review --list shows the open ones"
            raise NoSuchProposal(f"there is no proposal {proposal_id!r}; {open_ones}")
        return proposal

    async def about(self, proposal: Proposal) -> ProposalSummary:
        """Return the proposal with everything that a person is shown about it."""
        present = await self.approvals.present(proposal)
        return await proposal_summary(self.state, proposal, "terminal", now=self.now(), present=present)

    async def askers(self, proposal: Proposal) -> Sequence[Asker]:
        """Return everybody who asks for the proposal, in the order in which they asked."""
        return await askers_of(self.state, proposal, now=self.now())

    async def asking(self, proposals: Sequence[ProposalLine]) -> Mapping[str, Sequence[AskerLine]]:
        """Return who joined each of these proposals, by the proposal's id; only for those that somebody joined."""
        return await self.state.trust.asking([one.id for one in proposals])

    async def refusal(self, proposal: Proposal, word: Word) -> str:
        """Return a sentence that says why this can't be decided in a terminal, and where it can; "" if it can be decided here."""
        if word == "harmful" and proposal.kind == "admin":
            return "nothing was decided: a person requested this, so there is no host to freeze; reject it instead"
        if word != "approve":
            return ""
        if (present := await self.approvals.present(proposal)) is not None:
            if present.outcome == "impossible":
                return f"not approved: {present.why}. Reject it"
            if present.outcome == "different":
                return (
                    "not approved: the page has changed, so this would do something else. Propose it with the page as it is now "
                    f"(w, or knowledge-forge review --renew {proposal.id} --hash {proposal.hash})"
                )
        if not await self._needs_page(proposal):
            return ""
        return f"not approved: this needs a passkey; sign it {await self.where(proposal)}"

    async def where(self, proposal: Proposal) -> str:
        """Return where the proposal can be signed, as the end of a sentence."""
        page = await self.review.address()
        at = f"at {page}/proposals/{proposal.id}" if page else "on the review page"
        return f"{at} (knowledge-forge review --web opens it)"

    async def decide(self, proposal: Proposal | ProposalLine, word: Word, note: str) -> Proposal:
        """Decide on the proposal as it was shown, and return its final state.

        Raises:
            CannotDecide: the decision does not count; nothing was changed.
        """
        if word == "approve":
            return await self.approvals.approve(proposal.id, proposal.hash, self.person, note)
        if word == "changes":
            return await self.approvals.request_changes(proposal.id, proposal.hash, self.person, note)
        return await self.approvals.reject(proposal.id, proposal.hash, self.person, note, harmful=word == "harmful")

    async def renew(self, proposal: Proposal) -> Proposal:
        """Replace the proposal with one that has its effect on the current pages, and return the new one.

        Raises:
            CannotDecide: that is not possible; nothing was changed.
        """
        try:
            return await self.approvals.renew(proposal.id, proposal.hash, self.person)
        except BadArguments as error:
            raise CannotDecide(str(error)) from None

    async def trust(self, place: str) -> str:
        """Trust the place, or serve the page on which a passkey must sign that; return the outcome as one sentence.

        Raises: CannotDecide: it can't be done.
        """
        proposal = await self.approvals.ask("place.trust", {"place": place}, self.person)
        if await self._needs_page(proposal):
            await self.review.wanted(proposal)
            return f"this needs a passkey: sign it {await self.where(proposal)}"
        done = await self.approvals.approve(proposal.id, proposal.hash, self.person)
        return f"{place} is now trusted" if done.state == "executed" else f"{place} is not trusted: {done.error}"

    async def _needs_page(self, proposal: Proposal) -> bool:
        passkeys = await must_sign(self.state.trust, self.person.name)
        return requirement(proposal, "terminal", passkeys=passkeys) == "elsewhere"


async def confirms(proposal: Proposal | ProposalLine, word: Word | Literal["renew"], *, hosts: int = 1) -> bool:
    """Return whether the person confirms the decision by typing the beginning of the proposal's hash. `hosts` ask for it."""
    beginning = proposal.hash[:CONFIRMED]
    act = _ACTS[word].format(hosts=f"all {hosts} hosts" if hosts > 1 else "the host")
    return await keyboard.line(f"to {act} type {beginning}: ") == beginning


def who_asks(proposal: ProposalLine, joined: Sequence[AskerLine]) -> str:
    """Return who asks for the proposal, as text for a list; if there are several, with the time at which each asked."""
    if not joined:
        return proposal.principal
    asked = [(proposal.principal, proposal.created_at), *((one.principal, one.asked_at) for one in joined)]
    return ", ".join(f"{principal} ({at:%Y-%m-%d %H:%M})" for principal, at in asked)
