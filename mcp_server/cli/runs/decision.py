"""A person at the terminal decides about the proposal of a run, as with `knowledge-forge review`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_server.approvals.approvers import CannotDecide
from mcp_server.cli.review.screen import print_card
from mcp_server.cli.review.session import NOT_CONFIRMED, ReviewSession, confirms
from mcp_server.cli.review.view import Word
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.console import stderr_console
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.output import say
from mcp_server.cli.trust.acts import ended
from mcp_server.presenters.proposal import ending

if TYPE_CHECKING:
    from knowledge.trust.ports import Proposal
    from mcp_server.app.composition import App

WORDS: dict[str, Word] = {"a": "approve", "r": "reject", "h": "harmful"}
QUESTION = "approve, reject, reject as harmful, or leave it waiting? [a/r/h/L] "


async def decided(app: App, proposal_id: str) -> bool:
    """Show the whole proposal, and return whether it was decided, here or elsewhere; False if it is left waiting."""
    review = ReviewSession.of(app)
    proposal = await review.one(proposal_id)
    while proposal.state == "superseded" and proposal.successor:
        proposal = await review.one(proposal.successor)
    if proposal.state == "pending":
        screen = stderr_console()
        screen.print()
        print_card(screen, await review.about(proposal))
        if not await review.refusal(proposal, "approve"):
            return await _asked(review, proposal)
        # Only a passkey may approve it, and only the page can ask for one. If no process shows the page, this one does.
        await review.review.wanted(proposal)
        say(f"approving needs a passkey: sign or reject it {await review.where(proposal)}; this command then continues")
        say(visible(ending(await ended(review, proposal))))
    elif proposal.underway:
        say(f"{proposal.id}: {visible(ending(proposal))}")
        await ended(review, proposal)
    return True


async def _asked(review: ReviewSession, proposal: Proposal) -> bool:
    """Ask until the proposal is decided, here or elsewhere; return False if the person leaves it waiting."""
    while (await review.one(proposal.id)).state == "pending":
        word = WORDS.get((await keyboard.line(QUESTION)).lower()[:1])
        if word is None:
            return False
        note = "" if word == "approve" else await keyboard.line("why? ")
        if not await confirms(proposal, word):
            say(NOT_CONFIRMED)
            continue
        try:
            say(visible(ending(await review.decide(proposal, word, note))))
        except CannotDecide as error:
            say(visible(str(error)))
    return True
