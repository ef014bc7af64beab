"""What reviewing in a terminal needs to know and may do: proposals that wait, who asks for them, and a person's word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from knowledge.errors import KnowledgeError
from knowledge.merge.model import Contradiction
from knowledge.state.ports import StateStore
from knowledge.trust.ports import Proposal, ProposalLine, State
from mcp_server.approvals.approvers import Approvals, Approver, Requirement, requirement
from mcp_server.approvals.page_notice import Review
from mcp_server.approvals.proposals import AGAINST, calls_of, principal_of
from mcp_server.cli.review.card import Asker, CardContext, counted
from mcp_server.cli.review.view import Word
from mcp_server.gate.trust.scores import grant_of, trust_record_of

MOST_LISTED = 500
MOST_FLAGS = 200
MOST_REMEMBERED = 200
"""Of what a principal proposed before; the counts say no more than that."""

WAITING: tuple[State, ...] = ("pending",)


class NoSuchProposal(KnowledgeError):
    """There is no proposal with that id."""

    def __init__(self, asked: str) -> None:
        self.asked = asked
        super().__init__(f"there is no proposal {asked!r}; knowledge-forge review --list shows the open ones")


@dataclass(frozen=True, slots=True)
class ReviewSession:
    """One person's approvals, in a terminal. `review` shows the page where a passkey can sign."""

    state: StateStore
    approvals: Approvals
    person: Approver
    now: Callable[[], datetime]
    review: Review

    async def waiting(self) -> Sequence[ProposalLine]:
        """Return what waits for a person, newest first."""
        found = await self.state.trust.lines(states=WAITING, limit=MOST_LISTED)
        return [proposal for proposal in found if proposal.expires_at > self.now()]

    async def one(self, proposal_id: str) -> Proposal:
        """Return the proposal, however it stands with it.

        Raises:
            NoSuchProposal: there is none.
        """
        proposal = await self.state.trust.proposal(proposal_id)
        if proposal is None:
            raise NoSuchProposal(proposal_id)
        return proposal

    async def about(self, proposal: Proposal) -> CardContext:
        """Return what a person is shown beside the proposal itself."""
        found = await self._contradictions(proposal) if proposal.kind == "flag" else ()
        return CardContext(await self._asker(proposal), await self._needs(proposal), self.now(), found)

    async def refusal(self, proposal: Proposal, word: Word) -> str:
        """Return why that cannot be said in a terminal, as a sentence that says where it can; "" where nothing speaks against it."""
        if word == "harmful" and proposal.kind == "admin":
            return "nothing was decided: a person requested this, so there is no host to freeze; reject it instead"
        if word != "approve" or await self._needs(proposal) != "elsewhere":
            return ""
        return f"not approved: this needs a passkey; sign it {await self.where(proposal)}"

    async def where(self, proposal: Proposal) -> str:
        """Return where the proposal can be signed, as the end of a sentence."""
        page = await self.review.address()
        at = f"at {page}/proposals/{proposal.id}" if page else "on the review page"
        return f"{at} (knowledge-forge review --web opens it)"

    async def decide(self, proposal: Proposal, word: Word, note: str) -> Proposal:
        """Say the word about the proposal as it was shown, and return how it ended.

        Raises:
            CannotDecide: the word does not count; nothing was changed.
        """
        if word == "approve":
            return await self.approvals.approve(proposal.id, proposal.hash, self.person, note)
        return await self.approvals.reject(proposal.id, proposal.hash, self.person, note, harmful=word == "harmful")

    async def trust(self, place: str) -> str:
        """Vouch for the place, or say where a passkey signs it; return what came of it as one sentence.

        Raises:
            CannotDecide: it cannot be done.
        """
        asked = await self.approvals.ask("place.trust", {"place": place}, self.person)
        if await self._needs(asked) == "elsewhere":
            await self.review.wanted(asked)
            return f"this needs a passkey: sign it {await self.where(asked)}"
        done = await self.approvals.approve(asked.id, asked.hash, self.person)
        return f"{place} is now trusted" if done.state == "executed" else f"{place} is not trusted: {done.error}"

    async def _needs(self, proposal: Proposal) -> Requirement:
        return requirement(proposal, "terminal", passkeys=bool(await self.state.trust.passkeys()))

    async def _contradictions(self, proposal: Proposal) -> Sequence[Contradiction]:
        against = {text for call in calls_of(proposal) for text in call.get(AGAINST, ())}
        flags = [flag for path in proposal.documents for flag in await self.state.ledger.flags(path, limit=MOST_FLAGS)]
        return [flag.contradiction for flag in flags if flag.contradiction.existing.text in against]

    async def _asker(self, proposal: Proposal) -> Asker:
        holds = grant_of(await trust_record_of(self.state, principal_of(proposal), now=self.now()))
        earlier = await self.state.trust.lines(principal=proposal.principal, limit=MOST_REMEMBERED)
        past = counted(earlier, besides=proposal.id)
        return Asker(proposal.principal, holds.score, int(holds.level), holds.frozen, past)
