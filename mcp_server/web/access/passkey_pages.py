"""The pages of passkeys: a list, adding one, removing one."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from knowledge.trust.ports import Note, Passkey
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.gate.trust.admin import packed
from mcp_server.web.access import passkeys
from mcp_server.web.access.sessions import Session
from mcp_server.web.page_context import Form, PageContext, see

LONGEST_NAME = 60


async def listed(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show which passkeys may sign."""
    values = {
        "here": "/passkeys",
        "passkeys": await page_context.services.state.trust.passkeys(),
        "local": request.headers.get("host", "").startswith(passkeys.NAME + ":"),
        "address": passkeys.origin(page_context.port),
    }
    return await page_context.show("passkeys.html", session, lambda: values)


async def begin(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Show the page from which the browser makes a passkey."""
    name = form.get("name", "").strip()[:LONGEST_NAME]
    if not name:
        raise CannotDecide("give the passkey a name")
    trust, now = page_context.services.state.trust, page_context.services.now()
    others = await trust.passkeys()
    challenge, options = await passkeys.registration_options(trust, session, others, now)
    values = {"here": "/passkeys", "name": name, "challenge": challenge, "options": options, "others": bool(others)}
    return await page_context.show("new_passkey.html", session, lambda: values)


async def add(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Register the first passkey at once; propose any other, which an existing passkey must sign."""
    trust, now = page_context.services.state.trust, page_context.services.now()
    made = await passkeys.registered(
        trust, session, form.get("challenge", ""), form.get("credential", ""), port=page_context.port, now=now
    )
    name = form.get("name", "").strip()[:LONGEST_NAME] or "passkey"
    if await trust.passkeys():
        arguments = {
            "id": packed(made["id"]),
            "public_key": packed(made["public_key"]),
            "sign_count": made["sign_count"],
            "name": name,
        }
        proposal = await page_context.approvals.ask("passkey.add", arguments, page_context.person(session))
        return see(f"/proposals/{proposal.id}")
    first = Passkey(made["id"], made["public_key"], made["sign_count"], name, session.user, now)
    await trust.add_passkey(first, note=Note(session.user, "passkey.add", name, now, "the first one"))
    return see("/passkeys")


async def remove(page_context: PageContext, _request: Request, session: Session, form: Form) -> Response:
    """Propose the removal, which an existing passkey must sign."""
    wanted = form.get("id", "")
    if wanted not in {packed(one.id) for one in await page_context.services.state.trust.passkeys()}:
        raise CannotDecide("this passkey does not exist or was removed")
    proposal = await page_context.approvals.ask("passkey.remove", {"id": wanted}, page_context.person(session))
    return see(f"/proposals/{proposal.id}")
