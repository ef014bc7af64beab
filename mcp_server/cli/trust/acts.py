"""Acts on trust itself from the command line: done at once until a passkey is enrolled, from then on signed on the review page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from knowledge.errors import KnowledgeError
from knowledge.trust.ports import Proposal
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import AdminAct
from mcp_server.cli.terminal.output import say

if TYPE_CHECKING:
    from mcp_server.cli.review.session import Office

ADVISORY = "advisory: nothing proves that a person did this; once a passkey is enrolled (knowledge-forge review --web) it takes one"


class NotCarriedOut(KnowledgeError):
    """A person did not agree, or it could not be done. Nothing was changed."""

    def __init__(self, proposal: Proposal, how: str) -> None:
        self.proposal = proposal
        super().__init__(f"{proposal.tool} was not done ({proposal.id}): {how}")


async def act(office: Office, what: AdminAct, arguments: Mapping[str, Any], *, only_here: bool = False) -> Proposal:
    """Have it done, and return the proposal that it was done by. Interrupted, it goes on waiting for its signature.

    `only_here`: it is of use only to this process, so it is taken back when that is interrupted.

    Raises:
        NotCarriedOut: nobody signed it, or it could not be done.
        KnowledgeError: it cannot be done at all.
    """
    proposal = await office.desk.ask(what, arguments, office.person)
    if await office.state.trust.passkeys():
        done = await _signed(office, proposal, only_here=only_here)
    else:
        done = await office.desk.approve(proposal.id, proposal.hash, office.person)
        say(ADVISORY)
    if done.state != "executed":
        from mcp_server.cli.review.card import ending

        raise NotCarriedOut(done, ending(done))
    return done


async def _signed(office: Office, proposal: Proposal, *, only_here: bool) -> Proposal:
    """Say where to sign it and return it as it ended. The page is shown from here if nobody shows it."""
    await office.review.wanted(proposal)
    say(f"this takes a passkey now: sign {proposal.id} {await office.where(proposal)}")
    try:
        return await ended(office, proposal)
    except BaseException:
        with anyio.CancelScope(shield=True):
            if only_here:
                await office.state.trust.withdraw(proposal.id, proposal.principal, at=office.now())
                say(f"{proposal.id} was taken back")
            else:
                say(f"{proposal.id} goes on waiting until {proposal.expires_at:%Y-%m-%d %H:%M} UTC")
        raise


async def ended(office: Office, proposal: Proposal) -> Proposal:
    """Return the proposal once nothing is to happen to it any more, in whichever process that comes about."""
    while True:
        seen = await office.state.last_event()
        now = await office.one(proposal.id)
        if not now.open:
            return now
        with anyio.move_on_after(max(0.0, (now.expires_at - office.now()).total_seconds())) as waiting:
            await office.state.changed(seen)
        if waiting.cancelled_caught:
            await office.state.trust.expire(now=office.now())


async def enrol(settings: Settings, host: str, *, forms: bool = False) -> str:
    """Let `host` in and return its secret, which only this process knows. An earlier secret stops working.

    `forms`: forms that it shows count as its person's word. Without, they do not, whatever was allowed with an earlier secret.

    Raises:
        BadHostName, NotCarriedOut: nothing was changed.
    """
    import secrets

    from mcp_server.cli.review.review import open_office
    from mcp_server.gate.host_registration import digest

    secret = secrets.token_urlsafe(32)
    async with open_office(settings) as office:
        arguments = {"host": host, "secret_digest": digest(secret).hex(), "forms": forms}
        await act(office, "host.enrol", arguments, only_here=True)
    return secret


async def trust_place(settings: Settings, place: str) -> None:
    """Vouch for the place.

    Raises:
        CannotDecide, NotCarriedOut: nothing was changed.
    """
    from mcp_server.cli.review.review import open_office

    async with open_office(settings) as office:
        await act(office, "place.trust", {"place": place})


async def grant(settings: Settings, principal: str, level: float) -> None:
    """Set the principal's floor.

    Raises:
        BadGrant, NotCarriedOut: nothing was changed.
    """
    from mcp_server.cli.review.review import open_office

    async with open_office(settings) as office:
        await act(office, "trust.grant", {"principal": principal, "level": level})
