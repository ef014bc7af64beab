"""The pages of passkeys: a list, adding one, removing one."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from knowledge.trust.ports import Note, Passkey
from mcp_server.approvals.approvers import CannotDecide, own_passkeys
from mcp_server.gate.trust.admin import packed
from mcp_server.web.access import passkeys
from mcp_server.web.access.rights import SiteRight
from mcp_server.web.page_context import Form, PageRequest, see

LONGEST_NAME = 60


async def listed(request: PageRequest) -> Response:
    """Show which passkeys may sign."""
    party, host = request.relying_party, request.http.headers.get("host", "")
    values = {
        "here": "/passkeys",
        "passkeys": await _shown(request),
        "offered": host == party.origin.partition("://")[2],
        "party": party,
    }
    return await request.show("passkeys.html", values)


async def _shown(request: PageRequest) -> Sequence[Passkey]:
    """Return the passkeys that the person may remove: their own, or all if they manage trust."""
    if request.session.may(SiteRight.MANAGE):
        return await request.trust.passkeys()
    return await own_passkeys(request.trust, request.session.user)


async def begin(request: PageRequest, form: Form) -> Response:
    """Show the page from which the browser makes a passkey."""
    name = form.get("name", "").strip()[:LONGEST_NAME]
    if not name:
        raise CannotDecide("give the passkey a name")
    trust, now = request.trust, request.now
    others = await own_passkeys(trust, request.session.user)
    challenge, options = await passkeys.registration_options(trust, request.session, others, request.relying_party, now)
    values = {"here": "/passkeys", "name": name, "challenge": challenge, "options": options, "others": bool(others)}
    return await request.show("new_passkey.html", values)


async def add(request: PageRequest, form: Form) -> Response:
    """Register the person's first passkey at once; propose any other, which an existing one of theirs must sign."""
    trust, now = request.trust, request.now
    made = await passkeys.registered(
        trust,
        request.session,
        form.get("challenge", ""),
        form.get("credential", ""),
        party=request.relying_party,
        now=now,
    )
    name = form.get("name", "").strip()[:LONGEST_NAME] or "passkey"
    if await own_passkeys(trust, request.session.user):
        arguments = {
            "id": packed(made["id"]),
            "public_key": packed(made["public_key"]),
            "sign_count": made["sign_count"],
            "name": name,
        }
        return await request.propose("passkey.add", arguments)
    first = Passkey(made["id"], made["public_key"], made["sign_count"], name, request.session.user, now)
    await trust.add_passkey(first, note=Note(request.session.user, "passkey.add", name, now, "the first one"))
    return see("/passkeys")


async def remove(request: PageRequest, form: Form) -> Response:
    """Propose the removal, which an existing passkey of the person must sign."""
    wanted = form.get("id", "")
    if wanted not in {packed(one.id) for one in await _shown(request)}:
        raise CannotDecide("this passkey does not exist or was removed")
    return await request.propose("passkey.remove", {"id": wanted})
