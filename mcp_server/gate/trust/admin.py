"""Acts on trust itself: grants, thaws, host registration, passkeys, trusted places, people.

They are decided like proposals, and no tool makes them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from knowledge.access.changes import Changing
from knowledge.pages.claim_source import trusted_place
from knowledge.state.ports import Enrolment, StateStore
from knowledge.trust.ports import Note, Passkey, Proposal, ProposalVerdict
from mcp_server.approvals.approvers import AdminAct, Approver, CannotDecide
from mcp_server.approvals.proposals import calls_of
from mcp_server.gate.canonical_json import canonical
from mcp_server.gate.host_registration import TOKEN_HOLDER, Principal, checked_host_name, is_signed_in
from mcp_server.gate.policy import Limits, Reach, Trust
from mcp_server.gate.trust.people import (
    PEOPLE_FIELDS,
    is_people_act,
    perform_change,
    require_change,
    sentence_of_act,
)
from mcp_server.gate.trust.scores import grant, granted, thaw
from mcp_server.gate.trust.tokens import token_of, token_principal
from mcp_server.ports import HasState
from mcp_server.toolsets.spec import CallPreview

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "trust.grant": ("principal", "level"),
    "trust.thaw": ("principal",),
    "host.enrol": ("host", "secret_digest", "forms"),
    "host.forms": ("host", "secret_digest"),
    "token.create": ("name", "id", "secret_digest", "ceiling", "toolsets", "expires_at"),
    "passkey.add": ("id", "public_key", "sign_count", "name"),
    "passkey.remove": ("id",),
    "place.trust": ("place",),
    "person.login": ("principal", "secret_digest"),
    "pages.undo": ("changes", "take", "take_at"),
    **PEOPLE_FIELDS,
}


LINK_LIFETIME = timedelta(days=1)
"""How long a login link that was made for somebody else works. It works once."""
FORMS = ", and let forms that it shows approve acts up to level 3"


def asking(person: Approver) -> Principal:
    """Return the principal of an act that a person asks for themselves.

    Somebody who signed in has the same principal as over MCP. On the site their level reaches no further than editing pages.
    """
    if person.signed_in:
        user, _, host = person.name.rpartition("@")
        return Principal(user, host, limits=Limits((Reach(Trust.EDIT),), "the site itself only edits pages"))
    return Principal(person.name, person.channel)


def definition(act: AdminAct | Literal["pages.undo"]) -> str:
    """Return a hash of the act's definition; it changes if the act takes other arguments."""
    return hashlib.sha256(canonical([act, list(_FIELDS[act])])).hexdigest()


async def shown(services: HasState, act: AdminAct, arguments: Mapping[str, Any]) -> CallPreview:
    """Return the preview of the act.

    Raises:
        CannotDecide: an argument is missing or unknown.
        KnowledgeError: the act is not possible.
    """
    if set(arguments) != set(_FIELDS[act]):
        raise CannotDecide(f"{act} takes {', '.join(_FIELDS[act])}; got {', '.join(arguments) or 'none'}")
    named_arguments = dict(arguments)
    if act == "passkey.remove":
        named = {packed(one.id): one.name for one in await services.state.trust.passkeys()}
        named_arguments["name"] = named.get(str(arguments["id"]), f"with the id {arguments['id']}")
    if is_people_act(act):
        await require_change(services.state, act, arguments, Changing("", services.now()))
        sentence = sentence_of_act(act, arguments)
    else:
        sentence = _sentence(act, named_arguments)
    if act == "trust.grant":
        granted(str(arguments["principal"]), float(arguments["level"]), now=services.now())
    if act == "host.enrol":
        checked_host_name(str(arguments["host"]))
    if act == "host.forms":
        _require_enrolled(await services.state.enrolments(), arguments)
    if act == "token.create":
        token_of(arguments, by="", now=services.now())
    if act == "person.login":
        await _require_on_record(services.state, str(arguments["principal"]))
    if act == "place.trust":
        checked_place(str(arguments["place"]))
    effect = hashlib.sha256(canonical([act, dict(arguments)])).hexdigest()
    return CallPreview({"act": act, **arguments}, sentence, effect, documents=(f"{act}:{arguments[_FIELDS[act][0]]}",))


def _sentence(act: AdminAct, arguments: Mapping[str, Any]) -> str:
    return {
        "trust.grant": "grant {principal} level {level}",
        "trust.thaw": "lift the freeze of {principal}",
        "host.enrol": "register the host {host} with a new secret" + (FORMS if arguments.get("forms") else ""),
        "host.forms": "let forms that the host {host} shows approve acts up to level 3",
        "token.create": "create a bearer token for {name}, up to level {ceiling}, "
        + ("without an end" if arguments.get("expires_at") is None else "valid until {expires_at:.16}"),
        "person.login": "make a link that logs {principal} in on the site, once, to read and review",
        "passkey.add": "add the passkey {name}",
        "passkey.remove": "remove the passkey {name}",
        "place.trust": "trust {place}: text from there no longer raises the level of what a host does after reading it",
    }[act].format(**arguments)


async def perform(services: HasState, proposal: Proposal, verdict: ProposalVerdict) -> dict[str, Any]:
    """Do the approved act and return its result. Doing it twice has the effect of doing it once.

    Raises:
        CannotDecide: it would undo a freeze that came after the approval.
    """
    arguments, state, now = calls_of(proposal)[0], services.state, services.now()
    by = verdict.by
    if proposal.tool in ("trust.grant", "trust.thaw"):
        return await _raise_trust(state, proposal.tool, arguments, verdict, now=now)
    if proposal.tool == "host.enrol":
        await state.enrol(checked_host_name(arguments["host"]), bytes.fromhex(arguments["secret_digest"]), at=now)
        if arguments.get("forms"):
            await _allow_forms(state, arguments, verdict)
        return {"host": arguments["host"], "forms": bool(arguments.get("forms"))}
    if proposal.tool == "host.forms":
        await _allow_forms(state, arguments, verdict)
        return {"host": arguments["host"], "forms": True}
    if is_people_act(proposal.tool):
        return await perform_change(state, proposal.tool, arguments, Changing(by, now))
    if (add := _ADDING.get(proposal.tool)) is not None:
        return await add(state, {**arguments, "asked": proposal.principal}, by=by, now=now)
    if proposal.tool == "passkey.remove":
        removed = await state.trust.remove_passkey(
            unpacked(arguments["id"]), note=Note(by, "passkey.remove", arguments["id"], now)
        )
        return {"removed": removed}
    if proposal.tool == "place.trust":
        place = checked_place(arguments["place"])
        return {"place": place, "new": await state.trust.trust_place(place, note=Note(by, "place.trust", place, now))}
    raise CannotDecide(f"unknown act {proposal.tool}")


async def _raise_trust(
    state: StateStore, act: str, arguments: Mapping[str, Any], verdict: ProposalVerdict, *, now: datetime
) -> dict[str, Any]:
    await _require_no_later_freeze(state, str(arguments["principal"]), verdict)
    if act == "trust.grant":
        trust_record = await grant(state, arguments["principal"], float(arguments["level"]), by=verdict.by, now=now)
        return {"principal": trust_record.principal, "score": trust_record.score, "floor": trust_record.floor}
    trust_record = await thaw(state, arguments["principal"], by=verdict.by, now=now)
    return {"principal": trust_record.principal, "score": trust_record.score, "frozen": trust_record.frozen}


async def _create_token(state: StateStore, arguments: Mapping[str, Any], *, by: str, now: datetime) -> dict[str, Any]:
    token = token_of(arguments, by=by, now=now)
    if await state.trust.token(token.id) is None:
        await state.trust.add_token(token, note=Note(by, "token.create", token.id, now))
    return {"id": token.id, "principal": token_principal(token).id}


async def _add_passkey(state: StateStore, arguments: Mapping[str, Any], *, by: str, now: datetime) -> dict[str, Any]:
    # The passkey signs for the person who asked for it, not for the person who approved that.
    asked = str(arguments["asked"])
    passkey = Passkey(
        id=unpacked(arguments["id"]),
        public_key=unpacked(arguments["public_key"]),
        sign_count=int(arguments["sign_count"]),
        name=arguments["name"],
        user=asked if is_signed_in(asked) else asked.rpartition("@")[0],
        created_at=now,
    )
    if passkey.id not in {one.id for one in await state.trust.passkeys()}:
        await state.trust.add_passkey(passkey, note=Note(by, "passkey.add", arguments["name"], now))
    return {"name": passkey.name}


async def _add_login(state: StateStore, arguments: Mapping[str, Any], *, by: str, now: datetime) -> dict[str, Any]:
    principal, secret = str(arguments["principal"]), bytes.fromhex(arguments["secret_digest"])
    await _require_on_record(state, principal)
    value = json.dumps({"user": principal, "to": "/"})
    await state.trust.put_secret(secret, "login", value, expires_at=now + LINK_LIFETIME)
    return {"principal": principal, "by": by}


_ADDING = {"token.create": _create_token, "passkey.add": _add_passkey, "person.login": _add_login}


async def _require_on_record(state: StateStore, principal: str) -> None:
    """Check that a login link can be made for the principal.

    Raises:
        CannotDecide: it holds no token of this server, or is nobody on record.
    """
    directory = await state.people.directory()
    if not principal.endswith(f"@{TOKEN_HOLDER}") or not directory.person_of(principal):
        raise CannotDecide(
            f"no login link can be made for {principal[:100]!r}: it must be the holder of a token, such as ann@token:http, "
            "and a principal of a person (knowledge-forge people add)"
        )


def _require_enrolled(hosts: Sequence[Enrolment], arguments: Mapping[str, Any]) -> Enrolment:
    """Return the host that the arguments name, if it still has the secret that they name.

    Raises:
        CannotDecide: the host has another secret now, or is no longer registered.
    """
    for one in hosts:
        if (one.host, one.secret_digest.hex()) == (arguments["host"], arguments["secret_digest"]):
            return one
    raise CannotDecide(f"the host {arguments['host']} has another secret now; ask again if you still want this")


async def _allow_forms(state: StateStore, arguments: Mapping[str, Any], verdict: ProposalVerdict) -> None:
    """Let the host's forms approve, unless a person turned them off after this was approved."""
    digest = _require_enrolled(await state.enrolments(), arguments).secret_digest
    note = Note(verdict.by, "host.forms", str(arguments["host"]), verdict.at, "forms count as the person's approval")
    await state.trust.allow_forms(arguments["host"], digest, allowed=True, note=note)
    # `allow_forms` also returns False if forms were allowed already, so only the stored state tells whether a later refusal holds.
    if not _require_enrolled(await state.enrolments(), arguments).forms:
        raise CannotDecide(
            f"forms of {arguments['host']} were turned off after this was approved; ask again if you still want this"
        )


def checked_place(text: str) -> str:
    """Return the place in its canonical spelling.

    Raises:
        CannotDecide: it can't be trusted as a place.
    """
    try:
        return trusted_place(text)
    except ValueError as error:
        raise CannotDecide(str(error)) from None


async def _require_no_later_freeze(state: StateStore, principal: str, verdict: ProposalVerdict) -> None:
    # If the process that should have done the act died, another one does it later, and somebody may have frozen the principal by then.
    trust_record = await state.trust_record(principal)
    if trust_record is not None and trust_record.frozen and trust_record.updated_at > verdict.at:
        raise CannotDecide(f"{principal} was frozen after this was approved; ask again if you still want this")


def packed(raw: bytes) -> str:
    """Return bytes as an argument of an act: base64url without padding."""
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def unpacked(text: str) -> bytes:
    """Return the bytes of a text that `packed` made."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
