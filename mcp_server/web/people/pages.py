"""The page of people: adds and removes them, creates their tokens, and sets groups, rules and reviewers.

Every change here needs what a change of trust needs: the right to manage, and a passkey's signature once there is one.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from starlette.responses import Response

from knowledge.access.changes import checked_folder, checked_name
from knowledge.access.directory import Directory
from knowledge.access.rules import GROUP_MARK
from knowledge.trust.ports import BearerToken, Proposal
from mcp_server.approvals.approvers import AdminAct, CannotDecide, must_sign
from mcp_server.gate.host_registration import digest
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.people import PeopleAct, token_holder
from mcp_server.gate.trust.tokens import minted, state_of
from mcp_server.presenters.proposal import ending
from mcp_server.web.page_context import Form, PageRequest, see

HERE: Final = "/people"
FIRST_DAYS, MOST_DAYS = 90, 3650
MOST_FOLDERS = 500
"""Folders at the top that a field offers."""

RIGHT_MEANINGS: Final[Mapping[str, str]] = {
    "none": "nothing: its pages don't exist for them",
    "read": "read",
    "propose": "read and propose",
    "write": "read and write, as far as they are trusted",
}


@dataclass(frozen=True, slots=True)
class PersonCard:
    """One person as the page shows them. `can_have_token`: the principal of a token with this `name` belongs to the person."""

    name: str
    principals: Sequence[str]
    groups: Sequence[str]
    tokens: Sequence[BearerToken]
    can_have_token: bool


async def people(request: PageRequest) -> Response:
    """Show everybody, their groups, and the rules and reviewers of folders."""
    directory = await request.services.state.people.directory()
    tokens = [one for one in await request.trust.tokens() if state_of(one, now=request.now) == "valid"]
    folders, _ = await request.services.index.children("", limit=MOST_FOLDERS)
    values = {
        "here": HERE,
        "people": [_card(directory, name, tokens) for name in directory.people],
        "groups": directory.groups,
        "rules": _by_folder(directory),
        "rights": RIGHT_MEANINGS,
        "reviewers": directory.reviewers,
        "nobody_decides": [folder for folder, names in directory.reviewers.items() if not directory.people_in(names)],
        "names": [*directory.people, *(f"{GROUP_MARK}{group}" for group in directory.groups)],
        "folders": [one.path for one in folders],
        "levels": [(int(level), level.meaning) for level in Trust if level >= Trust.READ],
        "usual_level": int(Trust.EDIT),
        "days": FIRST_DAYS,
        "most_days": MOST_DAYS,
        "passkeys": await must_sign(request.trust, request.session.user),
        "account": request.session.user,
    }
    return await request.show("people.html", values)


def _by_folder(directory: Directory) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Return who has which right in each folder that has rules."""
    found: dict[str, list[tuple[str, str]]] = {}
    for one in directory.rules:
        found.setdefault(one.folder, []).append((one.who, ", ".join(one.names)))
    return dict(sorted(found.items()))


def _card(directory: Directory, name: str, tokens: Sequence[BearerToken]) -> PersonCard:
    principals, holder = directory.people[name], token_holder(name)
    return PersonCard(
        name,
        principals,
        sorted(directory.groups_of(name)),
        [one for one in tokens if one.name == name],
        directory.person_of(holder) == name,
    )


async def add_person(request: PageRequest, form: Form) -> Response:
    """Add a person, or further principals of one."""
    name = form.get("name", "").strip()
    principals = form.get("principals", "").split() or [token_holder(name)]
    return await _changed(request, "person.add", {"name": name, "principals": principals}, "people")


async def remove_person(request: PageRequest, form: Form) -> Response:
    """Take a principal from a person, or remove the person."""
    principals = [form["principal"]] if form.get("principal") else []
    return await _changed(request, "person.remove", {"name": form.get("name", ""), "principals": principals}, "people")


async def join_group(request: PageRequest, form: Form) -> Response:
    """Put a person into a group, which is made if it doesn't exist."""
    people = [form["person"]] if form.get("person") else []
    return await _changed(request, "group.add", {"name": form.get("name", "").strip(), "people": people}, "groups")


async def leave_group(request: PageRequest, form: Form) -> Response:
    """Take a person out of a group, or remove the group."""
    people = [form["person"]] if form.get("person") else []
    return await _changed(request, "group.remove", {"name": form.get("name", ""), "people": people}, "groups")


async def set_rule(request: PageRequest, form: Form) -> Response:
    """Say what a person, a group or everybody may do in a folder."""
    folder = checked_folder(form.get("folder", "").strip())
    arguments = {"who": form.get("who", ""), "folder": folder, "right": form.get("right", "")}
    return await _changed(request, "rule.set", arguments, "rules")


async def remove_rule(request: PageRequest, form: Form) -> Response:
    """Remove a rule."""
    arguments = {"who": form.get("who", ""), "folder": checked_folder(form.get("folder", ""))}
    return await _changed(request, "rule.remove", arguments, "rules")


async def add_reviewer(request: PageRequest, form: Form) -> Response:
    """Add a person or group to the reviewers of a folder."""
    folder, names = await _reviewers(request, form)
    return await _changed(
        request, "reviewers.set", {"folder": folder, "names": [*names, form.get("who", "")]}, "reviewers"
    )


async def remove_reviewer(request: PageRequest, form: Form) -> Response:
    """Remove a person or group from the reviewers of a folder; without a name, remove them all."""
    folder, names = await _reviewers(request, form)
    left = [one for one in names if one != form["who"]] if form.get("who") else []
    if form.get("who") and not left:
        raise CannotDecide(
            f"{form['who'][:100]} is the only reviewer of {folder}/; add another one first, or remove its reviewers"
        )
    return await _changed(request, "reviewers.set", {"folder": folder, "names": left}, "reviewers")


async def create_token(request: PageRequest, form: Form) -> Response:
    """Create a token for a person and show it, this once. If there is a passkey, the token is valid once the passkey has signed."""
    name, (token_id, secret) = checked_name(form.get("name", ""), "a person"), minted()
    if (await request.services.state.people.directory()).person_of(token_holder(name)) != name:
        raise CannotDecide(f"{token_holder(name)} is not a principal of {name}; add it to the person first")
    days, level = form.get("days", "").strip(), form.get("level", "")
    if not (days.isdecimal() and 1 <= int(days) <= MOST_DAYS) or level not in {str(int(one)) for one in Trust}:
        raise CannotDecide(f"choose a level, and a number of days from 1 to {MOST_DAYS}")
    expires_at = request.now + timedelta(days=int(days))
    arguments = {
        "name": name,
        "id": token_id,
        "secret_digest": digest(secret).hex(),
        "ceiling": int(level),
        "toolsets": None,
        "expires_at": expires_at.isoformat(timespec="seconds"),
    }
    proposal, to_sign = await _asked(request, "token.create", arguments)
    values = {
        "here": HERE,
        "name": name,
        "holder": token_holder(name),
        "secret": secret,
        "expires_at": expires_at,
        "clients": request.page.client_url or "",
        "proposal": proposal.id if to_sign else "",
    }
    return await request.show("people_token.html", values)


async def make_login(request: PageRequest, form: Form) -> Response:
    """Make a login link for a person and show it, this once. If there is a passkey, the link works once the passkey has signed."""
    name, secret = checked_name(form.get("name", ""), "a person"), secrets.token_urlsafe(32)
    arguments = {"principal": token_holder(name), "secret_digest": digest(secret).hex()}
    proposal, to_sign = await _asked(request, "person.login", arguments)
    address = request.page.public_url or f"http://localhost:{request.page.port}"
    values = {
        "here": HERE,
        "name": name,
        "link": f"{address}/login/{secret}",
        "local": request.page.public_url is None,
        "proposal": proposal.id if to_sign else "",
    }
    return await request.show("people_login.html", values)


async def revoke_token(request: PageRequest, form: Form) -> Response:
    """Revoke a token, at once."""
    await request.page.approvals.revoke_token(form.get("id", ""), request.person())
    return see(f"{HERE}#people")


async def _reviewers(request: PageRequest, form: Form) -> tuple[str, Sequence[str]]:
    """Return the folder that a form names, and its own reviewers."""
    directory = await request.services.state.people.directory()
    folder = directory.spelled(checked_folder(form.get("folder", "").strip()))
    return folder, directory.reviewers.get(folder, ())


async def _changed(request: PageRequest, act: PeopleAct, arguments: Mapping[str, Any], section: str) -> Response:
    """Make the change at once. If there is a passkey, show the proposal instead, which the passkey must sign."""
    proposal, to_sign = await _asked(request, act, arguments)
    return see(f"/proposals/{proposal.id}" if to_sign else f"{HERE}#{section}")


async def _asked(request: PageRequest, act: AdminAct, arguments: Mapping[str, Any]) -> tuple[Proposal, bool]:
    """Return the proposal of an act on trust, and whether it waits for a passkey's signature. Without one it is carried out.

    Raises:
        CannotDecide: it could not be carried out.
    """
    proposal = await request.page.approvals.ask(act, arguments, request.person())
    if await must_sign(request.trust, request.session.user):
        return proposal, True
    done = await request.page.approvals.approve(proposal.id, proposal.hash, request.person())
    if done.state != "executed":
        raise CannotDecide(f"nothing was changed: {ending(done)}")
    return done, False
