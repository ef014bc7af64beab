"""Acts on trust itself from the command line: done at once until a passkey is enrolled, from then on signed on the review page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from knowledge.errors import KnowledgeError
from knowledge.trust.ports import Proposal
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import AdminAct
from mcp_server.cli.review.card import ending
from mcp_server.cli.review.review import open_review
from mcp_server.cli.terminal.output import say
from mcp_server.gate.host_registration import digest

if TYPE_CHECKING:
    from mcp_server.cli.review.session import ReviewSession

ADVISORY = "not protected by a passkey; to add one: knowledge-forge review --web"


class NotCarriedOut(KnowledgeError):
    """A person did not agree, or it could not be done. Nothing was changed."""

    def __init__(self, proposal: Proposal, how: str) -> None:
        self.proposal = proposal
        super().__init__(f"{proposal.tool} was not done ({proposal.id}): {how}")


async def act(
    review: ReviewSession, what: AdminAct, arguments: Mapping[str, Any], *, only_here: bool = False
) -> Proposal:
    """Have it done, and return the proposal that it was done by. Interrupted, it goes on waiting for its signature.

    `only_here`: it is of use only to this process, so it is taken back when that is interrupted.

    Raises:
        NotCarriedOut: nobody signed it, or it could not be done.
        KnowledgeError: it cannot be done at all.
    """
    proposal = await review.approvals.ask(what, arguments, review.person)
    if await review.state.trust.passkeys():
        done = await _signed(review, proposal, only_here=only_here)
    else:
        done = await review.approvals.approve(proposal.id, proposal.hash, review.person)
        say(ADVISORY)
    if done.state != "executed":
        raise NotCarriedOut(done, ending(done))
    return done


async def _signed(review: ReviewSession, proposal: Proposal, *, only_here: bool) -> Proposal:
    """Say where to sign it and return it as it ended. The page is shown from here if nobody shows it."""
    await review.review.wanted(proposal)
    say(f"this needs a passkey: sign {proposal.id} {await review.where(proposal)}")
    try:
        return await ended(review, proposal)
    except BaseException:
        with anyio.CancelScope(shield=True):
            if only_here:
                await review.state.trust.withdraw(proposal.id, proposal.principal, at=review.now())
                say(f"{proposal.id} was withdrawn")
            else:
                say(f"{proposal.id} stays open until {proposal.expires_at:%Y-%m-%d %H:%M} UTC")
        raise


async def ended(review: ReviewSession, proposal: Proposal) -> Proposal:
    """Return the proposal once nothing is to happen to it any more, in whichever process that comes about."""
    while True:
        seen = await review.state.last_event()
        now = await review.one(proposal.id)
        if not now.open:
            return now
        with anyio.move_on_after(max(0.0, (now.expires_at - review.now()).total_seconds())) as waiting:
            await review.state.changed(seen)
        if waiting.cancelled_caught:
            await review.state.trust.expire(now=review.now())


async def enrol(settings: Settings, host: str, *, forms: bool = False) -> str:
    """Let `host` in and return its secret, which only this process knows. An earlier secret stops working.

    `forms`: forms that it shows count as its person's word. Without, they do not, whatever was allowed with an earlier secret.

    Raises:
        BadHostName, NotCarriedOut: nothing was changed.
    """
    import secrets

    secret = secrets.token_urlsafe(32)
    async with open_review(settings) as review:
        arguments = {"host": host, "secret_digest": digest(secret).hex(), "forms": forms}
        await act(review, "host.enrol", arguments, only_here=True)
    return secret


async def trust_place(settings: Settings, place: str) -> None:
    """Vouch for the place.

    Raises:
        CannotDecide, NotCarriedOut: nothing was changed.
    """
    async with open_review(settings) as review:
        await act(review, "place.trust", {"place": place})


async def grant(settings: Settings, principal: str, level: float) -> None:
    """Set the principal's floor.

    Raises:
        BadGrant, NotCarriedOut: nothing was changed.
    """
    async with open_review(settings) as review:
        await act(review, "trust.grant", {"principal": principal, "level": level})
