"""The pages of proposals: waiting ones, one in full with its decision, and decided ones."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response, StreamingResponse

from knowledge.errors import KnowledgeError, size_in_words
from knowledge.trust.audit_entries import PLACES
from knowledge.trust.ports import Proposal, State
from knowledge.writing.answers import OriginLine
from mcp_server.approvals.approvers import CannotDecide, own_passkeys
from mcp_server.approvals.contradictions.claims import contradictions_of
from mcp_server.approvals.proposals import calls_of
from mcp_server.approvals.undo.person_undo import UNDO_PAGES
from mcp_server.approvals.views.present import CHANGED
from mcp_server.approvals.zulip.notice_record import powerless_reviewers
from mcp_server.gate.host_registration import is_signed_in
from mcp_server.presenters.proposal import (
    ProposalSummary,
    ending,
    outcome_now,
    parsed,
    proposal_summary,
    since_proposed,
)
from mcp_server.toolsets.spec import BadArguments
from mcp_server.web.access import passkeys
from mcp_server.web.access.rights import SiteRight
from mcp_server.web.access.sessions import WAITING, same
from mcp_server.web.page_context import Form, NotFound, PageRequest, see
from mcp_server.web.proposals.page_changes import DiffOptions, Layout, files_of
from mcp_server.web.proposals.passages import (
    MARKED,
    WHOLE_AT_ONCE,
    DiffPosition,
    PassagePiece,
    passages_of,
    pieces_of,
    shown,
)
from mcp_server.web.text.sanitize import sanitize_line
from mcp_server.web.text.values import ANY_LENGTH, EditableArgument, entry_of, value_of
from mcp_server.web.work_list import asking_runs, waiting_journeys

MOST_LISTED = 200
PAGE = 30
MOST_PARTS = 50
"""At most this many blocks, this many conflicts and this many contradictions of one proposal are shown at once."""
LAST_DECIDED = 5
MOST_CHANGES = 50
"""The change that a proposal made is looked for among this many of the newest changes of its page."""
MOST_TOGETHER = 20
"""Proposals that one page shows and decides."""
DECIDED: tuple[State, ...] = ("approved", "rejected", "executed", "failed", "expired", "withdrawn", "superseded")
TEXT = ('<pre class="foreign" dir="ltr">\n', b"</pre>\n")
DIFF = ('<div class="diff inline" role="table" aria-label="Unified diff">\n', b"</div>\n")
"""The HTML around a passage."""
MARKS_NOTICE = (
    '<p class="notice warn">Invisible, bidirectional or look-alike characters are marked above: '
    '<span class="hidden-char">⟦like this⟧</span>.</p>\n'
)

NOT_YOURS = (
    "it is about trust itself: only the owner of the knowledge base decides on it, from a login on the server's machine; "
    "if it is about a passkey, only the person who has that passkey decides"
)

Values = Mapping[str, Any]
Filled = Callable[[Values], Awaitable[bytes]]


async def pending(request: PageRequest) -> Response:
    """Show what waits, newest first: proposals, and journeys and runs that ask something."""
    now = request.now
    journeys, runs = await waiting_journeys(request), await asking_runs(request)
    found = await request.trust.lines(states=("pending",), limit=MOST_LISTED)
    return await request.show(
        "pending.html",
        {
            "here": WAITING,
            "lines": [proposal for proposal in found if proposal.expires_at > now],
            "selected": request.query.get("select") == "all",
            "most_together": MOST_TOGETHER,
            "joined": await request.trust.asking([proposal.id for proposal in found]),
            "journeys": journeys,
            "runs": runs,
        },
    )


async def decided(request: PageRequest) -> Response:
    """Show proposals that no longer wait, newest first."""
    before = request.query.get("before")
    found = await request.trust.lines(states=DECIDED, limit=PAGE + 1, before=before)
    older = found[PAGE - 1].id if len(found) > PAGE else ""
    joined = await request.trust.asking([proposal.id for proposal in found[:PAGE]])
    values = {"here": "/decided", "lines": found[:PAGE], "joined": joined, "older": older}
    return await request.show("decided.html", values)


async def one(request: PageRequest) -> Response:
    """Show one proposal with everything that a decision depends on."""
    proposal = await _proposal(request)
    state, now = request.services.state, request.now
    layout: Layout = "inline" if request.query.get("layout") == "inline" else "split"
    showing = DiffOptions(whole=request.query.get("whole") == "1", layout=layout)
    present = await request.page.approvals.present(proposal)
    summary = await proposal_summary(state, proposal, "page", now=now, present=present, user=request.session.user)
    origins = {path: await origins_of(request, path) for path in proposal.documents if proposal.kind != "admin"}
    keys = await own_passkeys(state.trust, request.session.user)
    common = {
        "barred": await why_not(request, proposal) if summary.waits else "",
        "trusted": await request.services.taints.trusted(),
        "options": passkeys.signing_options(proposal.hash, keys, request.relying_party) if keys else "",
        "showing": showing,
        "powerless": await powerless_reviewers(state.outbox, proposal.id) if proposal.open else (),
        "pieces": "",
        "queue": await _queue(request, proposal),
        "change": await change_of(request, proposal),
        "disputes": await contradictions_of(state, proposal),
    }

    async def filled(values: Values) -> bytes:
        return await request.page.filled("proposal.html", request.session, lambda: {**common, **values})

    sides = [side.text for one in summary.contradictions for side in (one.existing, one.new)]
    current = present.preview if present else ""
    if not showing.whole or sum(map(len, (proposal.arguments, proposal.preview, current, *sides))) <= WHOLE_AT_ONCE:
        # A folded page is of limited size whatever the text, so a thread will do; a process starts too slowly for most.
        return HTMLResponse(await filled(await anyio.to_thread.run_sync(values_of, summary, origins, showing)))
    return StreamingResponse(_whole(request, summary, origins, filled), media_type="text/html")


def values_of(summary: ProposalSummary, origins: Mapping[str, Sequence[OriginLine]], showing: DiffOptions) -> Values:
    """Return the values for the template of one proposal."""
    proposal, most = summary.proposal, ANY_LENGTH if showing.whole else MOST_PARTS
    files = files_of(summary.files, origins, showing)
    as_proposed = files_of(summary.as_proposed, {}, showing)
    result = parsed(proposal.result) if proposal.result else {}
    result = result if isinstance(result, dict) else {"result": result}
    channel = proposal.verdict.channel if proposal.verdict else "page"
    parts = (summary.blocks, summary.conflicts, summary.contradictions)
    return {
        "p": proposal,
        "nth": "",
        "view": summary,
        "files": files,
        "as_proposed": as_proposed,
        "changed": since_proposed(summary.present) if summary.present else (),
        "outcome_now": outcome_now(summary.present) if summary.present else "",
        "made_again": proposal.why.startswith(CHANGED),
        "most": most,
        "longest": showing.longest,
        "where": "on this page" if channel == "page" else PLACES.get(channel, channel),
        "ending": ending(proposal),
        "result": {name: value for name, value in result.items() if value not in (None, "", [], {})},
        "last": [[line for line in one.earlier if line.verdict is not None][:LAST_DECIDED] for one in summary.askers],
        "cut_from": size_in_words(proposal.cut.size_bytes) if proposal.cut else "",
        "marked": MARKED,
        # Approving takes a page that hides nothing, so this counts everything that could be hidden.
        "left_out": any(len(one) > most for one in parts)
        or any(len(file.links) > most for file in (*files, *as_proposed))
        or any(len(text) > showing.longest for text in summary.texts())
        or any(file.folded for file in files),
    }


async def _whole(
    request: PageRequest,
    summary: ProposalSummary,
    origins: Mapping[str, Sequence[OriginLine]],
    filled: Filled,
) -> AsyncIterator[bytes]:
    """Yield the page of a long proposal in pieces. The form to approve comes last, and only if nothing is missing."""
    # The template is filled with this comment where the long part goes. Nobody can guess it, so no text can pretend to be it.
    here = f"<!--{secrets.token_hex(16)}-->"
    place = {"pieces": Markup(here)}  # noqa: S704 - the comment above
    async with request.page.long:
        values = await anyio.to_thread.run_sync(values_of, summary, origins, DiffOptions())
        head, _, folded = (await filled({**values, **place})).partition(here.encode())
        yield head
        try:
            marked, close = False, b""
            passages = await anyio.to_thread.run_sync(lambda: list(passages_of(summary)))
            for passage in passages:
                opening, close = DIFF if passage.diff else TEXT
                yield f"<h3><bdi>{sanitize_line(passage.title)}</bdi></h3>\n{opening}".encode()
                position = DiffPosition() if passage.diff else None
                for text in pieces_of(passage.text):
                    piece = await request.page.apart(shown, PassagePiece(text, position), size=len(text))
                    position, marked = piece.place, marked or piece.marked
                    yield piece.html.encode("utf-8", "replace")
                yield close
        except KnowledgeError as error:
            why = sanitize_line(str(error))
            yield close + f'<p class="notice warn" role="alert">The rest cannot be shown: {why}</p>'.encode()
            yield folded
            return
        if marked:
            yield MARKS_NOTICE.encode()
        _, _, end = (await filled({**values, **place, "left_out": False})).partition(here.encode())
        yield end


async def approve(request: PageRequest, form: Form) -> Response:
    """Approve a proposal that was shown whole, and show the outcome."""
    proposal = await _to_decide(request)
    # Only a page that hides nothing carries this token, so a form that was made by hand cannot approve what nobody has seen. The
    # token covers the `version`, too: the hash of the effect that was shown if a page had changed since the proposal was made.
    if not same(form.get("opened", ""), request.session.opened(proposal.hash, form.get("version", ""))):
        raise CannotDecide(
            "you have not seen all of this proposal; open it again and choose Show all before you approve"
        )
    signed = ""
    if form.get("assertion"):
        signed = await request.signature(proposal.hash, form["assertion"])
    await request.page.approvals.approve(
        proposal.id, form.get("hash", ""), request.person(signed), form.get("note", "")
    )
    return see(f"/proposals/{proposal.id}")


async def reject(request: PageRequest, form: Form) -> Response:
    """Reject the proposal; with `harmful` also freeze the host."""
    proposal = await _to_decide(request)
    harmful, note = form.get("harmful") == "1", form.get("note", "")
    await request.page.approvals.reject(proposal.id, form.get("hash", ""), request.person(), note, harmful=harmful)
    return see(f"/proposals/{proposal.id}")


async def request_changes(request: PageRequest, form: Form) -> Response:
    """Close the proposal with a comment that says what the host should change."""
    proposal = await _to_decide(request)
    comment = form.get("note", "").replace("\r\n", "\n").strip()
    await request.page.approvals.request_changes(proposal.id, form.get("hash", ""), request.person(), comment)
    return see(f"/proposals/{proposal.id}")


async def renew(request: PageRequest, form: Form) -> Response:
    """Replace the proposal by one whose effect is computed for the pages as they are now, and show the new one."""
    proposal = await _to_decide(request)
    try:
        successor = await request.page.approvals.renew(proposal.id, form.get("hash", ""), request.person())
    except BadArguments as error:
        raise CannotDecide(str(error)) from None
    return see(f"/proposals/{successor.id}")


async def editing(request: PageRequest) -> Response:
    """Show the arguments in a form."""
    proposal = await _proposal(request)
    calls = [[entry_of(key, call[key]) for key in sorted(call)] for call in calls_of(proposal)]
    return await _edit_page(request, proposal, calls)


async def edit(request: PageRequest, form: Form) -> Response:
    """Replace the proposal by the edited one, and show that, which the person can then approve."""
    proposal = await _to_decide(request)
    calls = calls_of(proposal)
    try:
        edited = [{key: _edited(form, number, key) for key in call} for number, call in enumerate(calls)]
        successor = await request.page.approvals.edit(proposal.id, edited, request.person())
    except CannotDecide:
        raise
    except (BadArguments, KnowledgeError, ValueError) as error:
        typed = [[_typed(form, number, key) for key in sorted(call)] for number, call in enumerate(calls)]
        return await _edit_page(request, proposal, typed, str(error))
    return see(f"/proposals/{successor.id}")


def _edited(form: Form, number: int, key: str) -> Any:
    """Return the value that was typed for an argument.

    Raises:
        ValueError: it is not valid JSON.
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
    request: PageRequest,
    proposal: Proposal,
    calls: Sequence[Sequence[EditableArgument]],
    problem: str = "",
) -> Response:
    values = {"p": proposal, "calls": calls, "problem": problem}
    return await request.show("edit.html", values, 422 if problem else 200)


async def why_not(request: PageRequest, proposal: Proposal) -> str:
    """Return why the person can't decide on the proposal, as the end of a sentence; "" if they can."""
    if not _within_rights(request, proposal):
        return NOT_YOURS
    return await request.page.approvals.why_barred(proposal, request.person())


def _within_rights(request: PageRequest, proposal: Proposal) -> bool:
    """Return whether the person's rights are enough to decide on the proposal.

    An act on trust itself needs the right to manage trust. Only its owner may decide on an act on a passkey.
    """
    by_sign_in = is_signed_in(proposal.principal)
    if proposal.tool in ("passkey.add", "passkey.remove"):
        user = request.session.user
        return proposal.principal == user if is_signed_in(user) else not by_sign_in
    return proposal.kind != "admin" or proposal.tool == UNDO_PAGES or request.session.may(SiteRight.MANAGE)


async def _to_decide(request: PageRequest) -> Proposal:
    """Return the proposal of the address.

    Raises:
        CannotDecide: the person may not decide on it.
    """
    proposal = await _proposal(request)
    if not _within_rights(request, proposal):
        raise CannotDecide(f"you can't decide on it: {NOT_YOURS}")
    return proposal


async def _proposal(request: PageRequest) -> Proposal:
    proposal = await request.trust.proposal(request.id)
    if proposal is None:
        raise NotFound("No such proposal", "It may belong to another knowledge base.", WAITING)
    return proposal


@dataclass(frozen=True, slots=True)
class ProposalQueue:
    """Where a proposal is among those that wait, in the order of their list, and the ids of its neighbours."""

    position: int
    count: int
    previous: str
    next: str


async def _queue(request: PageRequest, proposal: Proposal) -> ProposalQueue:
    now = request.now
    found = await request.trust.lines(states=("pending",), limit=MOST_LISTED)
    ids = [line.id for line in found if line.expires_at > now]
    if proposal.id not in ids:
        return ProposalQueue(0, len(ids), "", ids[0] if ids else "")
    at = ids.index(proposal.id)
    return ProposalQueue(at + 1, len(ids), ids[at - 1] if at else "", ids[at + 1] if at + 1 < len(ids) else "")


async def change_of(request: PageRequest, proposal: Proposal) -> str:
    """Return the id of the change that the executed proposal made; "" if it is not among the newest changes of its page."""
    if proposal.state != "executed" or proposal.kind == "admin":
        return ""
    for path in proposal.documents[:1]:
        with suppress(KnowledgeError):
            found = await request.services.timeline.changes(path, limit=MOST_CHANGES)
            return next((change.id for change in found.changes if change.proposal == proposal.id), "")
    return ""


async def origins_of(request: PageRequest, path: str) -> Sequence[OriginLine]:
    """Return the sources of a page's current text; nothing for a page that does not exist."""
    try:
        return (await request.services.page_history.history(path, limit=1, cursor=None)).origins
    except KnowledgeError:
        return ()
