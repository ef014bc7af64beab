"""The pages of proposals: what waits, one in full, deciding about it, what was decided."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio.to_thread
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from knowledge.errors import KnowledgeError
from knowledge.history.ports import Flag
from knowledge.trust.ports import Proposal, State
from knowledge.writing.answers import OriginLine
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.approvals.proposals import AGAINST, calls_of, principal_of
from mcp_server.gate.trust.scores import trust_record_of
from mcp_server.toolsets.spec import BadArguments
from mcp_server.web.access import passkeys
from mcp_server.web.access.sessions import Session, same
from mcp_server.web.journeys.pages import waiting as waiting_journeys
from mcp_server.web.journeys.views import journey_line
from mcp_server.web.page_context import Form, PageContext, see
from mcp_server.web.proposals.page_changes import DiffOptions, Layout
from mcp_server.web.proposals.passages import WHOLE_AT_ONCE, DiffPosition, PassagePiece, passages_of, pieces_of, shown
from mcp_server.web.proposals.views import ProposalContext, ProposalView, line_of, view_of
from mcp_server.web.runs.pages import asking as asking_runs
from mcp_server.web.runs.views import run_line
from mcp_server.web.text.sanitize import sanitize_line
from mcp_server.web.text.values import EditableArgument, entry_of, value_of

MOST_LISTED = 200
PAGE = 30
TEXT = ('<pre class="foreign" dir="ltr">\n', b"</pre>\n")
DIFF = ('<div class="diff inline" role="table" aria-label="Unified diff">\n', b"</div>\n")
"""What a passage begins and ends with."""
MARKS_NOTICE = (
    '<p class="notice warn">Invisible, bidirectional or look-alike characters are marked above: '
    '<span class="hidden-char">⟦like this⟧</span>.</p>\n'
)
MOST_REMEMBERED = 200
Filled = Callable[..., Awaitable[bytes]]
DECIDED: tuple[State, ...] = ("approved", "rejected", "executed", "failed", "expired", "withdrawn", "superseded")


async def pending(page_context: PageContext, _request: Request, session: Session) -> Response:
    """Show what waits, newest first: proposals, and journeys and runs that ask something."""
    now = page_context.services.now()
    asking, runs = await waiting_journeys(page_context), await asking_runs(page_context)
    found = await page_context.services.state.trust.lines(states=("pending",), limit=MOST_LISTED)
    waiting = [proposal for proposal in found if proposal.expires_at > now]
    return await page_context.show(
        "pending.html",
        session,
        lambda: {
            "here": "/",
            "lines": [line_of(p, now) for p in waiting],
            "journeys": [journey_line(line, now) for line in asking],
            "runs": [run_line(line, now) for line in runs],
        },
    )


async def decided(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show what does not wait any more, newest first."""
    now, before = page_context.services.now(), request.query_params.get("before")
    found = await page_context.services.state.trust.lines(states=DECIDED, limit=PAGE + 1, before=before)
    listed = found[:PAGE]
    older = listed[-1].id if len(found) > PAGE else ""
    return await page_context.show(
        "decided.html",
        session,
        lambda: {"here": "/decided", "lines": [line_of(p, now) for p in listed], "older": older},
    )


async def one(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show one proposal with everything that a decision is about."""
    proposal = await _found(page_context, request)
    if proposal is None:
        return await _nothing(page_context, session)
    layout: Layout = "inline" if request.query_params.get("layout") == "inline" else "split"
    showing = DiffOptions(whole=request.query_params.get("whole") == "1", layout=layout)
    about = await _about(page_context, proposal)
    keys = await page_context.services.state.trust.passkeys()
    options = passkeys.signing_options(proposal, keys) if keys else ""

    async def filled(view: ProposalView, pieces: str = "") -> bytes:
        values = {"view": view, "showing": showing, "options": options, "pieces": Markup(pieces)}  # noqa: S704 - we named it
        return await page_context.filled("proposal.html", session, lambda: values)

    if not showing.whole or _size(proposal, about) <= WHOLE_AT_ONCE:
        # What folds is bounded whatever the text, so a thread will do; a process starts too slowly for most.
        return HTMLResponse(await filled(await anyio.to_thread.run_sync(view_of, proposal, about, showing)))
    return StreamingResponse(_whole(page_context, proposal, about, filled), media_type="text/html")


def _size(proposal: Proposal, about: ProposalContext) -> int:
    sides = [side for flag in about.flags for side in (flag.contradiction.existing, flag.contradiction.new)]
    return len(proposal.arguments) + len(proposal.preview) + sum(len(side.text) for side in sides)


async def _whole(
    page_context: PageContext, proposal: Proposal, about: ProposalContext, filled: Filled
) -> AsyncIterator[bytes]:
    """Yield the page of a long proposal, all of it, in pieces. The form to approve comes last, and only if nothing is missing."""
    here = f"<!--{secrets.token_hex(16)}-->"
    async with page_context.long:
        view = await anyio.to_thread.run_sync(view_of, proposal, about, DiffOptions())
        head, _, folded = (await filled(view, here)).partition(here.encode())
        yield head
        try:
            marked, close = False, b""
            for passage in await anyio.to_thread.run_sync(lambda: list(passages_of(proposal, about.flags))):
                opening, close = DIFF if passage.diff else TEXT
                yield f"<h3><bdi>{sanitize_line(passage.title)}</bdi></h3>\n{opening}".encode()
                place = DiffPosition() if passage.diff else None
                for text in pieces_of(passage.text):
                    piece = await page_context.apart(shown, PassagePiece(text, place), size=len(text))
                    place, marked = piece.place, marked or piece.marked
                    yield piece.html.encode("utf-8", "replace")
                yield close
        except KnowledgeError as error:
            yield (
                close
                + f'<p class="notice warn" role="alert">The rest cannot be shown: {sanitize_line(str(error))}</p>'.encode()
            )
            yield folded
            return
        if marked:
            yield MARKS_NOTICE.encode()
        _, _, end = (await filled(replace(view, left_out=False, marked=False), here)).partition(here.encode())
        yield end


async def approve(page_context: PageContext, request: Request, session: Session, form: Form) -> Response:
    """Approve what was shown whole, and show how it ended."""
    proposal = await _found(page_context, request)
    if proposal is None:
        return await _nothing(page_context, session)
    # Only a page that shows all of it carries this.
    if not same(form.get("opened", ""), session.opened(proposal.hash)):
        raise CannotDecide(
            "you have not seen all of this proposal; open it again and choose Show all before you approve"
        )
    signed = ""
    if form.get("assertion"):
        trust, now = page_context.services.state.trust, page_context.services.now()
        signed = await passkeys.verified(trust, proposal, form["assertion"], port=page_context.port, now=now)
    await page_context.approvals.approve(
        proposal.id, form.get("hash", ""), page_context.person(session, signed), form.get("note", "")
    )
    return see(f"/proposals/{proposal.id}")


async def reject(page_context: PageContext, request: Request, session: Session, form: Form) -> Response:
    """Reject it; with `harmful` also freeze who asked."""
    proposal = await _found(page_context, request)
    if proposal is None:
        return await _nothing(page_context, session)
    harmful = form.get("harmful") == "1"
    note = form.get("note", "")
    await page_context.approvals.reject(
        proposal.id, form.get("hash", ""), page_context.person(session), note, harmful=harmful
    )
    return see(f"/proposals/{proposal.id}")


async def editing(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show the arguments in a form."""
    proposal = await _found(page_context, request)
    if proposal is None:
        return await _nothing(page_context, session)
    calls = [[entry_of(key, call[key]) for key in sorted(call)] for call in calls_of(proposal)]
    return await _edit_page(page_context, session, proposal, calls)


async def edit(page_context: PageContext, request: Request, session: Session, form: Form) -> Response:
    """Replace the proposal by the edited one, and show that, which is then to be approved."""
    proposal = await _found(page_context, request)
    if proposal is None:
        return await _nothing(page_context, session)
    calls = calls_of(proposal)
    try:
        edited = [{key: _edited(form, number, key) for key in call} for number, call in enumerate(calls)]
        successor = await page_context.approvals.edit(proposal.id, edited, page_context.person(session))
    except CannotDecide:
        raise
    except (BadArguments, KnowledgeError, ValueError) as error:
        typed = [[_typed(form, number, key) for key in sorted(call)] for number, call in enumerate(calls)]
        return await _edit_page(page_context, session, proposal, typed, str(error))
    return see(f"/proposals/{successor.id}")


def _edited(form: Form, number: int, key: str) -> Any:
    """Return what was typed for an argument.

    Raises:
        ValueError: it is missing, or no JSON.
    """
    entry = _typed(form, number, key)
    try:
        return value_of(entry.form, entry.value)
    except ValueError as error:
        raise ValueError(f"{key}: not valid JSON ({error})") from None


def _typed(form: Form, number: int, key: str) -> EditableArgument:
    value = form.get(f"value.{number}.{key}", "")
    kind = form.get(f"form.{number}.{key}")
    return EditableArgument(key, "json" if kind == "json" else "text", value, min(24, value.count("\n") + 2))


async def _edit_page(
    page_context: PageContext,
    session: Session,
    proposal: Proposal,
    calls: Sequence[Sequence[EditableArgument]],
    problem: str = "",
) -> Response:
    now = page_context.services.now()
    return await page_context.show(
        "edit.html",
        session,
        lambda: {"line": line_of(proposal, now), "calls": calls, "problem": sanitize_line(problem) if problem else ""},
        422 if problem else 200,
    )


async def _found(page_context: PageContext, request: Request) -> Proposal | None:
    return await page_context.services.state.trust.proposal(str(request.path_params["id"]))


async def _nothing(page_context: PageContext, session: Session) -> Response:
    return await page_context.message(session, "No such proposal", "It may belong to another knowledge base.", "/", 404)


async def _about(page_context: PageContext, proposal: Proposal) -> ProposalContext:
    state, now = page_context.services.state, page_context.services.now()
    earlier = await state.trust.lines(principal=proposal.principal, limit=MOST_REMEMBERED)
    return ProposalContext(
        trust_record=await trust_record_of(state, principal_of(proposal), now=now),
        earlier=[one for one in earlier if one.id != proposal.id],
        origins={path: await _origins(page_context, path) for path in proposal.documents if proposal.kind != "admin"},
        flags=await _flags(page_context, proposal),
        passkeys=bool(await state.trust.passkeys()),
        now=now,
        trusted=await page_context.services.taints.trusted(),
    )


async def _origins(page_context: PageContext, path: str) -> Sequence[OriginLine]:
    """Return where the present text of a page comes from; nothing for a page that is not there (yet)."""
    try:
        return (await page_context.services.page_history.history(path, limit=1, cursor=None)).origins
    except KnowledgeError:
        return ()


async def _flags(page_context: PageContext, proposal: Proposal) -> Sequence[Flag]:
    """Return the contradictions that the proposal is about, with both sides as they were recorded."""
    if proposal.kind != "flag":
        return ()
    against = {text for call in json.loads(proposal.arguments) for text in call.get(AGAINST, ())}
    found = [
        flag for path in proposal.documents for flag in await page_context.services.state.ledger.flags(path, limit=200)
    ]
    return [flag for flag in found if flag.contradiction.existing.text in against]
