"""The trust ledger: what each host holds and why, granting, thawing, freezing; and the places that are trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from knowledge.state.ports import Enrolment
from knowledge.trust.ports import TrustChange, TrustRecord
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.gate.host_registration import UNENROLLED, Principal
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.admin import checked_place
from mcp_server.gate.trust.scores import decayed, grant_of, is_person, trust_record_of
from mcp_server.web.access.sessions import Session
from mcp_server.web.page_context import Form, PageContext, see
from mcp_server.web.text.sanitize import sanitize_line
from mcp_server.web.text.values import Moment, moment

MOST_CHANGES = 200


@dataclass(frozen=True, slots=True)
class TrustRecordView:
    """What one principal holds. `raw` is its name as forms send it back.

    `host`: it is one registered host, of which `forms` says whether forms that it shows count.
    """

    raw: str
    name: Markup
    person: bool
    address: str
    score: float
    level: int
    meaning: str
    floor: float
    ceiling: float
    frozen: bool
    host: bool
    forms: bool


@dataclass(frozen=True, slots=True)
class ChangeView:
    """One line of a history."""

    at: Moment
    before: float
    after: float
    reason: Markup
    by: Markup


@dataclass(frozen=True, slots=True)
class TrustedPlaceView:
    """A place that is trusted. `raw` is its name as forms send it back; `by` is empty where a setting says so."""

    raw: str
    name: Markup
    by: Markup
    at: Moment | None


async def trust_records(page_context: PageContext, _request: Request, session: Session) -> Response:
    """Show what every host holds, also those that were let in and never came."""
    known, hosts, places = (
        await _known(page_context, session.user),
        await _hosts(page_context),
        await _places(page_context),
    )
    return await page_context.show(
        "trust.html",
        session,
        lambda: {"here": "/trust", "standings": [_view(one, hosts) for one in known], "places": places},
    )


async def _places(page_context: PageContext) -> Sequence[TrustedPlaceView]:
    now, recorded = page_context.services.now(), await page_context.services.state.trust.trusted_places()
    views = [
        TrustedPlaceView(p.place, sanitize_line(p.place), sanitize_line(p.by), moment(p.at, now)) for p in recorded
    ]
    by_setting = sorted(set(await page_context.services.taints.trusted()) - {p.place for p in recorded})
    return [*(TrustedPlaceView(place, sanitize_line(place), Markup(), None) for place in by_setting), *views]


async def trust_place(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Vouch for a place, at once; once there is a passkey it signs that on the page that is shown next."""
    trust, person = page_context.services.state.trust, page_context.person(session)
    asked = await page_context.approvals.ask("place.trust", {"place": checked_place(form.get("place", ""))}, person)
    if await trust.passkeys():
        return see(f"/proposals/{asked.id}")
    await page_context.approvals.approve(asked.id, asked.hash, person)
    held_up = await trust.proposal(form.get("proposal", ""))
    return see(f"/proposals/{held_up.id}#why" if held_up else "/trust#places")


async def distrust_place(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Take that back, at once."""
    await page_context.approvals.distrust(form.get("place", ""), page_context.person(session))
    return see("/trust#places")


async def trust_record(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show one host, its history, and what can be done about it."""
    name = request.query_params.get("principal", "")
    known = await _one(page_context, session.user, name)
    if known is None:
        return await page_context.message(
            session, "Unknown host", "This host was never registered or seen.", "/trust", 404
        )
    changes, now = await page_context.services.state.history(name, limit=MOST_CHANGES), page_context.services.now()
    keys, hosts = bool(await page_context.services.state.trust.passkeys()), await _hosts(page_context)
    return await page_context.show(
        "standing.html",
        session,
        lambda: {
            "here": "/trust",
            "s": _view(known, hosts),
            "changes": [_change(change, now) for change in changes],
            "levels": [(int(level), level.meaning) for level in Trust],
            "passkeys": keys,
        },
    )


async def grant(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Put a grant to whoever may approve it, which may be the same person with their passkey."""
    name = await _named(page_context, session.user, form)
    if form.get("level") not in {str(int(level)) for level in Trust}:
        raise CannotDecide("choose a level from 0 to 5")
    arguments = {"principal": name, "level": int(form["level"])}
    asked = await page_context.approvals.ask("trust.grant", arguments, page_context.person(session))
    return see(f"/proposals/{asked.id}")


async def thaw(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Likewise, lifting a freeze."""
    name = await _named(page_context, session.user, form)
    asked = await page_context.approvals.ask("trust.thaw", {"principal": name}, page_context.person(session))
    return see(f"/proposals/{asked.id}")


async def freeze(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Take all trust away, at once."""
    name = await _named(page_context, session.user, form)
    reason = form.get("reason", "").strip() or "frozen on the review page"
    await page_context.approvals.freeze(name, page_context.person(session), reason)
    return see(address_of(name))


async def allow_forms(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Ask for forms of a host to count, or let them count no more at once."""
    name = await _named(page_context, session.user, form)
    host = (await _hosts(page_context)).get(principal_named(name).host)
    if host is None:
        raise CannotDecide("this host is not registered")
    if form.get("forms") != "on":
        await page_context.approvals.forbid_forms(host.host, page_context.person(session))
        return see(address_of(name))
    arguments = {"host": host.host, "secret_digest": host.secret_digest.hex()}
    asked = await page_context.approvals.ask("host.forms", arguments, page_context.person(session))
    return see(f"/proposals/{asked.id}")


async def _hosts(page_context: PageContext) -> Mapping[str, Enrolment]:
    return {one.host: one for one in await page_context.services.state.enrolments()}


def address_of(principal: str) -> str:
    """Return where a principal's history is."""
    return "/trust/host?" + urlencode({"principal": principal})


async def _named(page_context: PageContext, user: str, form: Form) -> str:
    name = form.get("principal", "")
    if await _one(page_context, user, name) is None:
        raise CannotDecide("this host is unknown")
    return name


async def _one(page_context: PageContext, user: str, name: str) -> TrustRecord | None:
    return next((one for one in await _known(page_context, user) if one.principal == name), None)


async def _known(page_context: PageContext, user: str) -> Sequence[TrustRecord]:
    """Return what everybody holds by now, by name; a host also through its person."""
    state, now = page_context.services.state, page_context.services.now()
    recorded = {one.principal: one for one in await state.trust_records()}
    hosts = [Principal(user, host) for host in [*(one.host for one in await state.enrolments()), UNENROLLED]]
    named = {one.id: one for one in [*hosts, *(principal_named(name) for name in recorded)]}
    return [
        decayed(recorded[name], now=now) if is_person(name) else await trust_record_of(state, named[name], now=now)
        for name in sorted(named)
    ]


def principal_named(name: str) -> Principal:
    """Return the principal of that name, `user@host`."""
    user, _, host = name.rpartition("@")
    return Principal(user, host)


def _view(one: TrustRecord, hosts: Mapping[str, Enrolment]) -> TrustRecordView:
    grant, host = grant_of(one), hosts.get(principal_named(one.principal).host)
    return TrustRecordView(
        raw=one.principal,
        name=sanitize_line(one.principal),
        person=is_person(one.principal),
        address=address_of(one.principal),
        score=round(grant.score, 2),
        level=int(grant.level),
        meaning=grant.level.meaning,
        floor=round(one.floor, 2),
        ceiling=round(one.ceiling, 2),
        frozen=one.frozen,
        host=host is not None,
        forms=host is not None and host.forms,
    )


def _change(change: TrustChange, now: datetime) -> ChangeView:
    return ChangeView(
        at=moment(change.at, now),
        before=round(change.score_before, 2),
        after=round(change.score_after, 2),
        reason=sanitize_line(change.reason),
        by=sanitize_line(change.by),
    )
