"""`trust list|grant|forms|freeze|thaw|history|places`: show and set how far each host is trusted, and which places are trusted."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio

from knowledge.errors import KnowledgeError
from knowledge.pages.claim_source import PLACE_FORMS
from knowledge.state.ports import StateStore
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import AdminAct
from mcp_server.cli.review.review import open_review
from mcp_server.cli.terminal.console import print_table
from mcp_server.cli.terminal.options import WronglyAsked, add_actions, nonempty
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.cli.trust.acts import act
from mcp_server.gate.host_registration import PERSONS, TOKEN_HOLDER, UNENROLLED, UNREGISTERED, Principal, os_user
from mcp_server.gate.trust.admin import checked_place
from mcp_server.gate.trust.scores import ANY_HOST
from mcp_server.presenters.trust import known_principals, principal_named, trust_summary

Rows = list[dict[str, object]]


class UnknownHost(KnowledgeError):
    """No host of that name is registered; `known` are the registered ones."""

    def __init__(self, asked: str, known: Sequence[str]) -> None:
        self.asked, self.known = asked, tuple(known)
        there = f"registered are {', '.join(known)}" if known else "none is yet"
        super().__init__(f"no host {asked!r} is registered; {there} (knowledge-forge enroll NAME)")


class NotFrozen(KnowledgeError):
    """The principal is not frozen, so it cannot be unfrozen."""


class NotTrusted(KnowledgeError):
    """The place is not trusted, so it cannot be removed."""


class InSettings(KnowledgeError):
    """The place is trusted by a setting, which no command changes."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = add_actions(parser, ACTIONS)
    for name in ("grant", "freeze", "thaw", "history"):
        actions[name].add_argument(
            "name",
            metavar="NAME",
            type=nonempty,
            help=f"a registered host, the name of a token, {UNENROLLED}, USER@HOST, or 'USER@*' for all hosts",
        )
    forms, places = actions["forms"], actions["places"]
    actions["grant"].add_argument("level", metavar="LEVEL", type=float, help="0 to 5; 3 lets it edit")
    actions["freeze"].add_argument("--reason", metavar="TEXT", default="", help="the reason, for the audit log")
    forms.add_argument("name", metavar="NAME", type=nonempty, help="a registered host")
    forms.add_argument(
        "counts", metavar="on|off", choices=("on", "off"), help="on: up to level 3; off needs no passkey"
    )
    places.add_argument("what", metavar="list|add|remove", nargs="?", choices=("list", "add", "remove"), default="list")
    places.add_argument("place", metavar="PLACE", nargs="?", type=nonempty, help=", ".join(PLACE_FORMS))


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action and print its outcome; exit code 1 if it needed a passkey and nobody signed."""
    _, action = ACTIONS[args.action]
    rows = anyio.run(action, settings, args)
    if settings.json:
        print_json(rows)
        return 0
    if rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        print("nothing recorded")
    without_forms = [
        principal
        for row in rows
        if args.action == "list"
        and not row["forms"]
        and not (principal := principal_named(str(row["principal"]))).signed_in
    ]
    if any(principal.enrolled and principal.host != ANY_HOST for principal in without_forms):
        say("a form in a host approves nothing until you allow it for that host: knowledge-forge trust forms NAME on")
    return 0


async def _list(settings: Settings, _args: argparse.Namespace) -> Rows:
    async with open_state(settings) as state:
        return [await _row(state, name) for name in await known_principals(state, os_user())]


async def _grant(settings: Settings, args: argparse.Namespace) -> Rows:
    level = int(args.level) if args.level.is_integer() else args.level  # the proposal says "level 3", not "level 3.0"
    return await _signed(settings, args.name, "trust.grant", {"level": level})


async def _forms(settings: Settings, args: argparse.Namespace) -> Rows:
    async with open_review(settings) as review:
        principal = _principal(args.name)
        hosts = {one.host: one for one in await review.state.enrolments()}
        host = hosts.get(principal_named(principal).host)
        if host is None:
            raise UnknownHost(principal_named(principal).host, list(hosts))
        if args.counts == "off":
            await review.approvals.forbid_forms(host.host, review.person)
        elif not host.forms:
            await act(review, "host.forms", {"host": host.host, "secret_digest": host.secret_digest.hex()})
        return [await _row(review.state, principal)]


async def _thaw(settings: Settings, args: argparse.Namespace) -> Rows:
    return await _signed(settings, args.name, "trust.thaw", {})


async def _signed(settings: Settings, name: str, what: AdminAct, more: Mapping[str, object]) -> Rows:
    async with open_review(settings) as review:
        principal = await _known(review.state, name)
        if what == "trust.thaw":
            record = await review.state.trust_record(principal)
            if record is None or not record.frozen:
                raise NotFrozen(f"{principal} is not frozen; nothing was changed")
        await act(review, what, {"principal": principal, **more})
        return [await _row(review.state, principal)]


async def _freeze(settings: Settings, args: argparse.Namespace) -> Rows:
    async with open_review(settings) as review:
        principal = await _known(review.state, args.name)
        # Not a proposal, as a grant is: taking trust away needs no passkey and works at once.
        await review.approvals.freeze(principal, review.person, args.reason or "frozen on the command line")
        return [await _row(review.state, principal)]


async def _history(settings: Settings, args: argparse.Namespace) -> Rows:
    async with open_state(settings) as state:
        changes = await state.history(_principal(args.name), limit=100)
        # A host without changes is no mistake; a name that no host has is one, and raises.
        if not changes:
            changes = await state.history(await _known(state, args.name), limit=100)
    return [
        {
            "at": c.at.isoformat(timespec="seconds"),
            "from": round(c.score_before, 2),
            "to": round(c.score_after, 2),
            "by": c.by,
            "reason": c.reason,
        }
        for c in changes
    ]


async def _places(settings: Settings, args: argparse.Namespace) -> Rows:
    """Add or remove a place if the arguments say so, and return all trusted places."""
    if (args.what == "list") == bool(args.place):
        raise WronglyAsked("trust places takes no argument, or add PLACE, or remove PLACE")
    async with open_review(settings) as review:
        if args.what == "add":
            await act(review, "place.trust", {"place": checked_place(args.place)})
        elif args.what == "remove" and not await review.approvals.distrust(args.place, review.person):
            place = checked_place(args.place)
            if place in settings.trusted_places:
                raise InSettings(f"{place} is trusted by FORGE_TRUSTED_PLACES; remove it from that setting")
            raise NotTrusted(f"{place} is not trusted; knowledge-forge trust places lists the trusted places")
        found = await review.state.trust.trusted_places()
    rows: Rows = [{"place": place, "by": "", "at": "FORGE_TRUSTED_PLACES"} for place in settings.trusted_places]
    rows += [{"place": p.place, "by": p.by, "at": p.at.isoformat(timespec="seconds")} for p in found]
    return rows


async def _known(state: StateStore, name: str) -> str:
    """Return the full name of the principal that `name` refers to.

    Raises:
        UnknownHost: that host is not registered, and has no trust record.
    """
    principal = _principal(name)
    host = principal_named(principal).host
    hosts = [one.host for one in await state.enrolments()]
    holders = {one.name: Principal(one.name, TOKEN_HOLDER).id for one in await state.trust.tokens()}
    named = principal_named(principal)
    # Somebody who signs in elsewhere has no record before their first proposal is decided.
    if principal in holders.values() or (named.signed_in and named.host != TOKEN_HOLDER):
        return principal
    if name in holders and name not in hosts:
        return holders[name]
    if host not in (*hosts, *UNREGISTERED, *PERSONS, ANY_HOST) and await state.trust_record(principal) is None:
        raise UnknownHost(host, hosts)
    return principal


def _principal(name: str) -> str:
    return name if "@" in name else Principal(os_user(), name).id


async def _row(state: StateStore, name: str) -> dict[str, object]:
    one = await trust_summary(state, name, now=utc_now())
    return {
        "principal": one.principal,
        "score": one.score,
        "level": one.level,
        "may": f"every registered host: {one.meaning}" if one.is_person else one.meaning,
        "floor": one.floor,
        "ceiling": one.ceiling,
        "frozen": one.frozen,
        "forms": bool(one.forms),
    }


ACTIONS: Mapping[str, tuple[str, Callable[[Settings, argparse.Namespace], Awaitable[Rows]]]] = {
    "list": ("list every host and its trust", _list),
    "grant": ("grant a host a level, below which its score can't fall", _grant),
    "forms": ("choose whether forms in a host count as your approval", _forms),
    "freeze": ("freeze a host: it can do nothing until you unfreeze it", _freeze),
    "thaw": ("unfreeze a host", _thaw),
    "history": ("show who changed a host's score, when and why", _history),
    "places": ("list, add or remove places whose text you trust", _places),
}
"""The actions with their help texts."""
