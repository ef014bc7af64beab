"""The pages of passkeys: a list, adding one, removing one."""

from __future__ import annotations

from starlette.responses import Response

from knowledge.trust.ports import Note, Passkey
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.gate.trust.admin import packed
from mcp_server.web.access import passkeys
from mcp_server.web.page_context import Form, PageRequest, see

LONGEST_NAME = 60


async def listed(request: PageRequest) -> Response:
    """Show which passkeys may sign."""
    values = {
        "here": "/passkeys",
        "passkeys": await request.trust.passkeys(),
        "local": request.http.headers.get("host", "").startswith(passkeys.NAME + ":"),
        "address": passkeys.origin(request.page.port),
    }
    return await request.show("passkeys.html", values)


async def begin(request: PageRequest, form: Form) -> Response:
    """Show the page from which the browser makes a passkey."""
    name = form.get("name", "").strip()[:LONGEST_NAME]
    if not name:
        raise CannotDecide("give the passkey a name")
    trust, now = request.trust, request.now
    others = await trust.passkeys()
    challenge, options = await passkeys.registration_options(trust, request.session, others, now)
    values = {"here": "/passkeys", "name": name, "challenge": challenge, "options": options, "others": bool(others)}
    return await request.show("new_passkey.html", values)


async def add(request: PageRequest, form: Form) -> Response:
    """Register the first passkey at once; propose any other, which an existing passkey must sign."""
    trust, now = request.trust, request.now
    made = await passkeys.registered(
        trust, request.session, form.get("challenge", ""), form.get("credential", ""), port=request.page.port, now=now
    )
    name = form.get("name", "").strip()[:LONGEST_NAME] or "passkey"
    if await trust.passkeys():
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
    """Propose the removal, which an existing passkey must sign."""
    wanted = form.get("id", "")
    if wanted not in {packed(one.id) for one in await request.trust.passkeys()}:
        raise CannotDecide("this passkey does not exist or was removed")
    return await request.propose("passkey.remove", {"id": wanted})
