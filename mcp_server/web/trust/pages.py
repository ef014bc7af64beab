"""The pages of trust: what each host may do and why, changing that, and the trusted places."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from mcp_server.approvals.approvers import CannotDecide
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.admin import checked_place
from mcp_server.presenters.trust import known_principals, principal_named, trust_summary
from mcp_server.web.access.sessions import Session
from mcp_server.web.page_context import Form, PageContext, see

MOST_CHANGES = 200


async def trust_records(page_context: PageContext, _request: Request, session: Session) -> Response:
    """Show the trust of every host, also of those that were registered and never called, and the trusted places."""
    state, now = page_context.services.state, page_context.services.now()
    hosts = [await trust_summary(state, name, now=now) for name in await known_principals(state, session.user)]
    places = await state.trust.trusted_places()
    by_setting = sorted(set(await page_context.services.taints.trusted()) - {p.place for p in places})
    values = {"here": "/trust", "hosts": hosts, "places": places, "by_setting": by_setting}
    return await page_context.show("trust.html", session, lambda: values)


async def trust_place(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Trust a place: at once, or, if there is a passkey, once it signs on the page that is shown next."""
    trust, person = page_context.services.state.trust, page_context.person(session)
    proposal = await page_context.approvals.ask("place.trust", {"place": checked_place(form.get("place", ""))}, person)
    if await trust.passkeys():
        return see(f"/proposals/{proposal.id}")
    await page_context.approvals.approve(proposal.id, proposal.hash, person)
    held_up = await trust.proposal(form.get("proposal", ""))
    return see(f"/proposals/{held_up.id}#why" if held_up else "/trust#places")


async def distrust_place(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Stop trusting a place, at once."""
    await page_context.approvals.distrust(form.get("place", ""), page_context.person(session))
    return see("/trust#places")


async def trust_record(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show one host, its history, and what can be done about it."""
    state, now, name = (
        page_context.services.state,
        page_context.services.now(),
        request.query_params.get("principal", ""),
    )
    if name not in await known_principals(state, session.user):
        return await page_context.message(
            session, "Unknown host", "This host was never registered or seen.", "/trust", 404
        )
    values = {
        "here": "/trust",
        "s": await trust_summary(state, name, now=now),
        "changes": await state.history(name, limit=MOST_CHANGES),
        "levels": [(int(level), level.meaning) for level in Trust],
        "passkeys": bool(await state.trust.passkeys()),
    }
    return await page_context.show("trust_host.html", session, lambda: values)


async def grant(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Propose a grant, which a person then approves: the same one, with their passkey if there is one."""
    name = await _named(page_context, session, form)
    if form.get("level") not in {str(int(level)) for level in Trust}:
        raise CannotDecide("choose a level from 0 to 5")
    arguments = {"principal": name, "level": int(form["level"])}
    proposal = await page_context.approvals.ask("trust.grant", arguments, page_context.person(session))
    return see(f"/proposals/{proposal.id}")


async def thaw(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Propose to unfreeze a host, as `grant`."""
    name = await _named(page_context, session, form)
    proposal = await page_context.approvals.ask("trust.thaw", {"principal": name}, page_context.person(session))
    return see(f"/proposals/{proposal.id}")


async def freeze(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Freeze a host, at once."""
    name = await _named(page_context, session, form)
    reason = form.get("reason", "").strip() or "frozen on the review page"
    await page_context.approvals.freeze(name, page_context.person(session), reason)
    return see(address_of(name))


async def allow_forms(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Propose that forms of a host can approve, or turn them off at once."""
    name = await _named(page_context, session, form)
    hosts = {one.host: one for one in await page_context.services.state.enrolments()}
    host = hosts.get(principal_named(name).host)
    if host is None:
        raise CannotDecide("this host is not registered")
    if form.get("forms") != "on":
        await page_context.approvals.forbid_forms(host.host, page_context.person(session))
        return see(address_of(name))
    arguments = {"host": host.host, "secret_digest": host.secret_digest.hex()}
    proposal = await page_context.approvals.ask("host.forms", arguments, page_context.person(session))
    return see(f"/proposals/{proposal.id}")


def address_of(principal: str) -> str:
    """Return the address of a principal's page."""
    return "/trust/host?" + urlencode({"principal": principal})


async def _named(page_context: PageContext, session: Session, form: Form) -> str:
    """Return the principal that the form is about.

    Raises:
        CannotDecide: it is unknown here.
    """
    name = form.get("principal", "")
    if name not in await known_principals(page_context.services.state, session.user):
        raise CannotDecide("this host is unknown")
    return name
