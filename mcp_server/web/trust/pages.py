"""The pages of trust: what each host may do and why, changing that, and the trusted places."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from knowledge.pages.claim_source import PLACE_FORMS
from mcp_server.approvals.approvers import CannotDecide, must_sign
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.admin import checked_place
from mcp_server.presenters.trust import known_principals, principal_named, trust_summary
from mcp_server.web.page_context import Form, NotFound, PageRequest, see

MOST_CHANGES = 200


async def trust_records(request: PageRequest) -> Response:
    """Show the trust of every host, including registered ones that never called, and the trusted places."""
    state, now = request.services.state, request.now
    hosts = [await trust_summary(state, name, now=now) for name in await known_principals(state, request.session.user)]
    places = await state.trust.trusted_places()
    by_setting = sorted(set(await request.services.taints.trusted()) - {p.place for p in places})
    values = {"here": "/trust", "hosts": hosts, "places": places, "by_setting": by_setting, "forms": PLACE_FORMS}
    return await request.show("trust.html", values)


async def trust_place(request: PageRequest, form: Form) -> Response:
    """Trust a place: at once, or, if there is a passkey, once it signs on the page that is shown next."""
    trust, person = request.trust, request.person()
    proposal = await request.page.approvals.ask("place.trust", {"place": checked_place(form.get("place", ""))}, person)
    if await must_sign(trust, request.session.user):
        return see(f"/proposals/{proposal.id}")
    await request.page.approvals.approve(proposal.id, proposal.hash, person)
    held_up = await trust.proposal(form.get("proposal", ""))
    return see(f"/proposals/{held_up.id}#why" if held_up else "/trust#places")


async def distrust_place(request: PageRequest, form: Form) -> Response:
    """Stop trusting a place, at once."""
    await request.page.approvals.distrust(form.get("place", ""), request.person())
    return see("/trust#places")


async def trust_record(request: PageRequest) -> Response:
    """Show one host, its history, and what can be done about it."""
    state, now, name = request.services.state, request.now, request.query.get("principal", "")
    if name not in await known_principals(state, request.session.user):
        raise NotFound("Unknown host", "This host was never registered or seen.", "/trust")
    values = {
        "here": "/trust",
        "s": await trust_summary(state, name, now=now),
        "changes": await state.history(name, limit=MOST_CHANGES),
        "levels": [(int(level), level.meaning) for level in Trust],
        "passkeys": await must_sign(state.trust, request.session.user),
    }
    return await request.show("trust_host.html", values)


async def grant(request: PageRequest, form: Form) -> Response:
    """Propose a grant and show the proposal, which the same person can approve: with their passkey, if there is one."""
    name = await _named(request, form)
    if form.get("level") not in {str(int(level)) for level in Trust}:
        raise CannotDecide("choose a level from 0 to 5")
    arguments = {"principal": name, "level": int(form["level"])}
    return await request.propose("trust.grant", arguments)


async def thaw(request: PageRequest, form: Form) -> Response:
    """Propose to unfreeze a host. The person approves the proposal as they approve a grant."""
    name = await _named(request, form)
    return await request.propose("trust.thaw", {"principal": name})


async def freeze(request: PageRequest, form: Form) -> Response:
    """Freeze a host, at once."""
    name = await _named(request, form)
    reason = form.get("reason", "").strip() or "frozen on the review page"
    await request.page.approvals.freeze(name, request.person(), reason)
    return see(address_of(name))


async def allow_forms(request: PageRequest, form: Form) -> Response:
    """Propose that forms of a host can approve, or turn them off at once."""
    name = await _named(request, form)
    hosts = {one.host: one for one in await request.services.state.enrolments()}
    host = hosts.get(principal_named(name).host)
    if host is None:
        raise CannotDecide("this host is not registered")
    if form.get("forms") != "on":
        await request.page.approvals.forbid_forms(host.host, request.person())
        return see(address_of(name))
    arguments = {"host": host.host, "secret_digest": host.secret_digest.hex()}
    return await request.propose("host.forms", arguments)


def address_of(principal: str) -> str:
    """Return the address of a principal's page."""
    return "/trust/host?" + urlencode({"principal": principal})


async def _named(request: PageRequest, form: Form) -> str:
    """Return the principal that the form is about.

    Raises:
        CannotDecide: it is unknown here.
    """
    name = form.get("principal", "")
    if name not in await known_principals(request.services.state, request.session.user):
        raise CannotDecide("this host is unknown")
    return name
