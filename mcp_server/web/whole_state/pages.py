"""The pages of the whole state: where it is, its backups, and the rehearsal, confirmation and outcome of replacing or moving it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from knowledge.errors import size_in_words
from mcp_server.approvals.approvers import LOWEST_SIGNED, CannotDecide, must_sign, own_passkeys, requirement_at
from mcp_server.presenters.whole_state import (
    PlannedChange,
    PlannedRestore,
    chain_line,
    main_counts,
    setting_lines,
    table_counts,
    with_password,
)
from mcp_server.web.access import passkeys
from mcp_server.web.page_context import Form, PageRequest, see
from mcp_server.web.whole_state.handover import Handover, RehearsedChange
from mcp_server.web.whole_state.waiting_page import waiting_page

HERE = "/state"
OUTCOME = "/state/outcome"
ELSEWHERE = (
    "a server shows this page and uses the state as long as it runs: close the host that started it, or stop the service, "
    "and open the page with knowledge-forge review --web"
)


async def overview(request: PageRequest) -> Response:
    """Show where the state is, its backups, and the forms that begin a change."""
    values = {"saved": None, **await _overview(request)}
    return await request.show("state.html", values)


async def save(request: PageRequest, form: Form) -> Response:
    """Save a backup, and say where it is; or send it to the browser."""
    copies = request.services.load_state_copies()
    made = await copies.save("" if form.get("send") else form.get("folder", ""))
    if form.get("send"):
        answer = FileResponse(made.file, media_type="application/octet-stream", filename=made.file.name)
        answer.background = BackgroundTask(made.file.unlink)
        return answer
    values = {"saved": made, "saved_chain": chain_line(made.saved), **await _overview(request)}
    return await request.show("state.html", values)


async def rehearse_restore(request: PageRequest, form: Form) -> Response:
    """Show what restoring a backup would do."""
    handover = _handover(request)
    copies = request.services.load_state_copies()
    return await _shown(request, handover, await copies.rehearse_restore(form.get("path", ""), form.get("backup", "")))


async def rehearse_move(request: PageRequest, form: Form) -> Response:
    """Show what moving the state would do. The URL may have a password, so it is neither in an address nor in a page."""
    handover = _handover(request)
    url = "" if form.get("back") else with_password(form.get("url", "").strip(), form.get("password", ""))
    if not url and not form.get("back"):
        raise CannotDecide("type the URL of the database")
    copies = request.services.load_state_copies()
    return await _shown(request, handover, await copies.rehearse_move(url, form.get("schema", "")))


async def confirm(request: PageRequest, form: Form) -> Response:
    """Have the process make the change that was shown: with the passkey's signature, if there is a passkey."""
    handover = _handover(request)
    rehearsed = handover.rehearsed(form.get("token", ""), request.session, request.now)
    if await _needs(request) == "passkey":
        if not form.get("assertion"):
            raise CannotDecide("sign it with your passkey")
        await request.signature(rehearsed.hash, form["assertion"])
    if getattr(rehearsed.planned, "step", "") == "done":
        raise CannotDecide("nothing is left to do")
    handover.confirm(rehearsed)
    answer = see(OUTCOME)
    # A new connection, so that the next request waits for the process and is not cut off with this one.
    answer.headers["connection"] = "close"
    answer.background = BackgroundTask(_begin, handover)
    return answer


async def _begin(handover: Handover) -> None:
    handover.asked.set()


async def outcome(request: PageRequest) -> Response:
    """Show the outcome of the last change in this process."""
    handover = request.page.handover
    if handover is not None and handover.confirmed is not None:
        return waiting_page(handover)
    done = handover.outcome if handover else None
    if done is None:
        return see(HERE)
    planned = done.planned
    url = None if isinstance(planned, PlannedRestore) else planned.url
    moved = None if isinstance(planned, PlannedRestore) or done.problem else planned
    return await request.show(
        "state_outcome.html",
        {
            "here": HERE,
            "done": done,
            "chain": chain_line(done.arrived) if done.arrived else "",
            "counts": main_counts([planned.there, done.arrived]) if done.arrived else {},
            "moved": moved,
            "lines": setting_lines(url, moved.schema) if moved and url else "",
        },
    )


async def _overview(request: PageRequest) -> Mapping[str, Any]:
    found = await request.services.load_state_copies().overview()
    return {
        "here": HERE,
        "found": found,
        "folder": _typeable(found.folder),
        "size": size_in_words,
        "process": os.getpid(),
        "elsewhere": "" if request.page.handover else ELSEWHERE,
    }


def _typeable(folder: Path) -> str:
    """Return the folder as a form sends it back: "", which means the usual one, if its name can't be written as text."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        return ""
    return str(folder)


def _handover(request: PageRequest) -> Handover:
    if request.page.handover is None:
        raise CannotDecide(ELSEWHERE)
    return request.page.handover


async def _needs(request: PageRequest) -> str:
    """Return the requirement for a change of the whole state: that of an act at the level from which passkeys sign."""
    return requirement_at(LOWEST_SIGNED, "page", passkeys=await must_sign(request.trust, request.session.user))


async def _shown(request: PageRequest, handover: Handover, planned: PlannedChange) -> Response:
    """Show the rehearsal, with the form that confirms it."""
    rehearsed: RehearsedChange = handover.rehearse(planned, request.session, request.now)
    keys = await own_passkeys(request.trust, request.session.user)
    overview = await request.services.load_state_copies().overview()
    restores = isinstance(planned, PlannedRestore)
    before = planned.saved if isinstance(planned, PlannedRestore) else planned.found
    states = [planned.there, *([before] if before else [])]
    values = {
        "here": HERE,
        "planned": planned,
        "restores": restores,
        "found": overview,
        "rehearsed": rehearsed,
        "size": size_in_words,
        "counts": main_counts(states),
        "tables": table_counts(states),
        "chain": chain_line(before if before and restores else planned.there),
        "broken": (before if before and restores else planned.there).chain.broken is not None,
        "fewer_passkeys": restores
        and before is not None
        and before.rows["passkey"] < len(await request.trust.passkeys()),
        "needs": await _needs(request),
        "options": passkeys.signing_options(rehearsed.hash, keys, request.relying_party) if keys else "",
    }
    return await request.show("state_rehearsal.html", values)
