"""Changes of trust from the command line.

They apply at once while no passkey is registered; later they must be signed on the review page.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import anyio

from knowledge.errors import KnowledgeError
from knowledge.trust.ports import Proposal
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import AdminAct, must_sign
from mcp_server.cli.review.review import open_review
from mcp_server.cli.review.session import ReviewSession
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.output import say
from mcp_server.gate.host_registration import digest
from mcp_server.presenters.proposal import ending

ADVISORY = "not protected by a passkey; to add one: knowledge-forge review --web"


class NotCarriedOut(KnowledgeError):
    """A person did not agree, or the change could not be made. Nothing was changed."""


async def act(
    review: ReviewSession, what: AdminAct, arguments: Mapping[str, Any], *, only_here: bool = False
) -> Proposal:
    """Make the change and return the executed proposal. If this is interrupted, the proposal still waits for its signature.

    `only_here`: the change is of use to this process only, so an interruption withdraws the proposal.

    Raises:
        NotCarriedOut: nobody signed it, or it could not be made.
        KnowledgeError: it cannot be made at all.
    """
    proposal = await review.approvals.ask(what, arguments, review.person)
    if await must_sign(review.state.trust, review.person.name):
        done = await _signed(review, proposal, only_here=only_here)
    else:
        done = await review.approvals.approve(proposal.id, proposal.hash, review.person)
        say(ADVISORY)
    if done.state != "executed":
        raise NotCarriedOut(f"{done.tool} was not done ({done.id}): {visible(ending(done))}")
    return done


async def act_once(
    settings: Settings, what: AdminAct, arguments: Mapping[str, Any], *, only_here: bool = False
) -> None:
    """Open the server's parts and make the change, as `act`."""
    async with open_review(settings) as review:
        await act(review, what, arguments, only_here=only_here)


async def _signed(review: ReviewSession, proposal: Proposal, *, only_here: bool) -> Proposal:
    """Print where to sign the proposal, wait until it is closed, and return it. This process serves the page if no other does."""
    await review.review.wanted(proposal)
    say(f"this needs a passkey: sign {proposal.id} {await review.where(proposal)}")
    try:
        return await ended(review, proposal)
    except BaseException:
        # Shielded, because Ctrl-C is just cancelling this.
        with anyio.CancelScope(shield=True):
            if only_here:
                await review.state.trust.withdraw(proposal.id, proposal.principal, at=review.now())
                say(f"{proposal.id} was withdrawn")
            else:
                say(f"{proposal.id} stays open until {proposal.expires_at:%Y-%m-%d %H:%M} UTC")
        raise


async def ended(review: ReviewSession, proposal: Proposal) -> Proposal:
    """Return the proposal once it is closed, whichever process closes it."""
    while True:
        # Taken first, so a change in between ends the wait below at once.
        seen = await review.state.last_event()
        now = await review.one(proposal.id)
        if not now.open:
            return now
        with anyio.move_on_after(max(0.0, (now.expires_at - review.now()).total_seconds())) as waiting:
            await review.state.changed(seen)
        if waiting.cancelled_caught:
            # There may be no server that would close it.
            await review.state.trust.expire(now=review.now())


async def enrol(settings: Settings, host: str, *, forms: bool = False) -> str:
    """Open the server's parts and register `host`, as `enrol_host`."""
    async with open_review(settings) as review:
        return await enrol_host(review, host, forms=forms)


async def enrol_host(review: ReviewSession, host: str, *, forms: bool = False) -> str:
    """Register `host` and return its new secret, which only this process knows. An earlier secret stops working.

    With `forms`, forms that the host shows can approve. Without it they can't, even if they could with an earlier
    secret.

    Raises:
        BadHostName, NotCarriedOut: nothing was changed.
    """
    secret = secrets.token_urlsafe(32)
    arguments = {"host": host, "secret_digest": digest(secret).hex(), "forms": forms}
    await act(review, "host.enrol", arguments, only_here=True)
    return secret
