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
from knowledge.trust.ports import StandingChange, TrustRecord
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.gate.host_registration import UNENROLLED, Principal
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.admin import checked_place
from mcp_server.gate.trust.scores import held, is_person, standing_of, sunk
from mcp_server.web.access.sessions import Session
from mcp_server.web.page_context import Form, House, see
from mcp_server.web.text.sanitize import inert_line
from mcp_server.web.text.values import Moment, moment

MOST_CHANGES = 200


@dataclass(frozen=True, slots=True)
class StandingView:
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


async def standings(house: House, _request: Request, session: Session) -> Response:
    """Show what every host holds, also those that were let in and never came."""
    known, hosts, places = await _known(house, session.user), await _hosts(house), await _places(house)
    return await house.show(
        "trust.html",
        session,
        lambda: {"here": "/trust", "standings": [_view(one, hosts) for one in known], "places": places},
    )


async def _places(house: House) -> Sequence[TrustedPlaceView]:
    now, recorded = house.services.now(), await house.services.state.trust.trusted_places()
    views = [TrustedPlaceView(p.place, inert_line(p.place), inert_line(p.by), moment(p.at, now)) for p in recorded]
    by_setting = sorted(set(await house.services.taints.trusted()) - {p.place for p in recorded})
    return [*(TrustedPlaceView(place, inert_line(place), Markup(), None) for place in by_setting), *views]


async def trust_place(house: House, _request: Request, session: Session, form: Form) -> Response:
    """Vouch for a place, at once; once there is a passkey it signs that on the page that is shown next."""
    trust, person = house.services.state.trust, house.person(session)
    asked = await house.desk.ask("place.trust", {"place": checked_place(form.get("place", ""))}, person)
    if await trust.passkeys():
        return see(f"/proposals/{asked.id}")
    await house.desk.approve(asked.id, asked.hash, person)
    held_up = await trust.proposal(form.get("proposal", ""))
    return see(f"/proposals/{held_up.id}#why" if held_up else "/trust#places")


async def distrust_place(house: House, _request: Request, session: Session, form: Form) -> Response:
    """Take that back, at once."""
    await house.desk.distrust(form.get("place", ""), house.person(session))
    return see("/trust#places")


async def standing(house: House, request: Request, session: Session) -> Response:
    """Show one host, its history, and what can be done about it."""
    name = request.query_params.get("principal", "")
    known = await _one(house, session.user, name)
    if known is None:
        return await house.message(session, "Unknown host", "This host was never registered or seen.", "/trust", 404)
    changes, now = await house.services.state.history(name, limit=MOST_CHANGES), house.services.now()
    keys, hosts = bool(await house.services.state.trust.passkeys()), await _hosts(house)
    return await house.show(
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


async def grant(house: House, _request: Request, session: Session, form: Form) -> Response:
    """Put a grant to whoever may approve it, which may be the same person with their passkey."""
    name = await _named(house, session.user, form)
    if form.get("level") not in {str(int(level)) for level in Trust}:
        raise CannotDecide("choose a level from 0 to 5")
    arguments = {"principal": name, "level": int(form["level"])}
    asked = await house.desk.ask("trust.grant", arguments, house.person(session))
    return see(f"/proposals/{asked.id}")


async def thaw(house: House, _request: Request, session: Session, form: Form) -> Response:
    """Likewise, lifting a freeze."""
    name = await _named(house, session.user, form)
    asked = await house.desk.ask("trust.thaw", {"principal": name}, house.person(session))
    return see(f"/proposals/{asked.id}")


async def freeze(house: House, _request: Request, session: Session, form: Form) -> Response:
    """Take all trust away, at once."""
    name = await _named(house, session.user, form)
    reason = form.get("reason", "").strip() or "frozen on the review page"
    await house.desk.freeze(name, house.person(session), reason)
    return see(address_of(name))


async def allow_forms(house: House, _request: Request, session: Session, form: Form) -> Response:
    """Ask for forms of a host to count, or let them count no more at once."""
    name = await _named(house, session.user, form)
    host = (await _hosts(house)).get(principal_named(name).host)
    if host is None:
        raise CannotDecide("this host is not registered")
    if form.get("forms") != "on":
        await house.desk.forbid_forms(host.host, house.person(session))
        return see(address_of(name))
    arguments = {"host": host.host, "secret_digest": host.secret_digest.hex()}
    asked = await house.desk.ask("host.forms", arguments, house.person(session))
    return see(f"/proposals/{asked.id}")


async def _hosts(house: House) -> Mapping[str, Enrolment]:
    return {one.host: one for one in await house.services.state.enrolments()}


def address_of(principal: str) -> str:
    """Return where a principal's history is."""
    return "/trust/host?" + urlencode({"principal": principal})


async def _named(house: House, user: str, form: Form) -> str:
    name = form.get("principal", "")
    if await _one(house, user, name) is None:
        raise CannotDecide("this host is unknown")
    return name


async def _one(house: House, user: str, name: str) -> TrustRecord | None:
    return next((one for one in await _known(house, user) if one.principal == name), None)


async def _known(house: House, user: str) -> Sequence[TrustRecord]:
    """Return what everybody holds by now, by name; a host also through its person."""
    state, now = house.services.state, house.services.now()
    recorded = {one.principal: one for one in await state.standings()}
    hosts = [Principal(user, host) for host in [*(one.host for one in await state.enrolments()), UNENROLLED]]
    named = {one.id: one for one in [*hosts, *(principal_named(name) for name in recorded)]}
    return [
        sunk(recorded[name], now=now) if is_person(name) else await standing_of(state, named[name], now=now)
        for name in sorted(named)
    ]


def principal_named(name: str) -> Principal:
    """Return the principal of that name, `user@host`."""
    user, _, host = name.rpartition("@")
    return Principal(user, host)


def _view(one: TrustRecord, hosts: Mapping[str, Enrolment]) -> StandingView:
    grant, host = held(one), hosts.get(principal_named(one.principal).host)
    return StandingView(
        raw=one.principal,
        name=inert_line(one.principal),
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


def _change(change: StandingChange, now: datetime) -> ChangeView:
    return ChangeView(
        at=moment(change.at, now),
        before=round(change.score_before, 2),
        after=round(change.score_after, 2),
        reason=inert_line(change.reason),
        by=inert_line(change.by),
    )
