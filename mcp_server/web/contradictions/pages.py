"""The pages of contradictions: the list, one with both sides and what each choice writes, and the form to edit its pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from knowledge.contradictions.record import LONGEST_REASON, NoReason, one_line, settled_sentence
from knowledge.contradictions.settlement import CHOICES, CannotSettle, SideNow
from knowledge.errors import BadCursor, InvalidPath, NotOpen
from knowledge.history.ports import Flag
from knowledge.merge.model import Ruling
from mcp_server.approvals.contradictions.claims import decided_claims
from mcp_server.approvals.contradictions.settle import ContradictionDecisions
from mcp_server.presenters.contradiction import ContradictionSummary, contradiction_summary, numbered
from mcp_server.presenters.proposal import ChangedFile
from mcp_server.web.page_context import Form, NotFound, PageRequest, see
from mcp_server.web.proposals.page_changes import DiffOptions, FileView, files_of
from mcp_server.web.text.values import EditableArgument, entry_of, value_of

LISTED = 20
SETTLED_LISTED = 50
LIST = "/contradictions"
STATES = {
    "several": "in the page more than once",
    "unwritten": "not written",
    "changed": "changed since it was reported",
    "gone": "the page is gone",
}
NOT_A_CONTRADICTION = "not a contradiction: "


async def listed(request: PageRequest) -> Response:
    """Show the open contradictions, the most certain first; or the dismissed, or the settled ones, if the address asks for them."""
    contradictions, cursor = request.services.contradictions, request.query.get("cursor")
    which = next((name for name in ("dismissed", "settled") if request.query.get(name) == "1"), "open")
    after: str | None = None
    typed = request.query.get("path", "").strip()
    problem = ""
    flags: Sequence[Flag] = ()
    try:
        if which == "settled":
            flags = await contradictions.settled(typed, limit=SETTLED_LISTED)
        else:
            flags, after = await contradictions.flags(
                typed, limit=LISTED, cursor=cursor, dismissed=which == "dismissed"
            )
    except (InvalidPath, BadCursor) as error:
        problem = str(error)
    summaries = [await contradiction_summary(request.services, flag) for flag in flags]

    def address(which: str, **more: str) -> str:
        asked = {which: "1" if which != "open" else "", "path": typed, **more}
        return f"{LIST}?" + urlencode({name: value for name, value in asked.items() if value})

    values = {
        "here": LIST,
        "which": which,
        "path": typed,
        "problem": problem,
        "address": address,
        "next": address(which, cursor=after) if after else "",
        "summaries": summaries,
        "most_settled": SETTLED_LISTED,
    }
    return await request.show("contradictions.html", lambda: {**values, **_common()}, 422 if problem else 200)


async def one(request: PageRequest) -> Response:
    """Show one contradiction: both sides, what keeping either would write, and, once it is settled, what was written."""
    flag = await _flag(request)
    summary = await contradiction_summary(request.services, flag)
    written = await request.services.settlements.written(flag)
    decided = await decided_claims(request.services.state, flag.contradiction) if summary.status != "open" else ()
    return await request.show("contradiction.html", lambda: {**_one(summary, written), "decided": decided, **_common()})


async def keep(request: PageRequest, form: Form) -> Response:
    """Keep one side, if both are as the person saw them."""
    choice = next((one for one in CHOICES if form.get("choice") == one), None)
    if choice is None:
        raise CannotSettle("choose which statement to keep")
    await _decisions(request).keep(_number(request), choice, shown=form.get("shown", ""))
    return _back(request)


async def dismiss(request: PageRequest, form: Form) -> Response:
    """Dismiss the contradiction, because both statements hold, because it is none, or because only the existing statement holds."""
    ruling: Ruling = "existing" if form.get("ruling") == "existing" else "both"
    reason = one_line(form.get("reason", ""))
    if not reason:
        raise NoReason
    if form.get("ruling") == "none":
        reason = (NOT_A_CONTRADICTION + reason)[:LONGEST_REASON]
    await _decisions(request).dismiss(_number(request), ruling, reason)
    return _back(request)


async def reopen(request: PageRequest, _form: Form) -> Response:
    """Open a dismissed or settled contradiction again."""
    await _decisions(request).reopen(_number(request))
    return _back(request)


async def propose(request: PageRequest, _form: Form) -> Response:
    """Propose again the changes whose proposals were closed when this contradiction was settled earlier."""
    await _decisions(request).propose_again(_number(request))
    return _back(request)


async def editing(request: PageRequest) -> Response:
    """Show a form with the paragraph, item or row of each statement."""
    flag = await _flag(request)
    if flag.settled_at is not None or flag.dismissal is not None:
        return _back(request)
    summary = await contradiction_summary(request.services, flag)
    entries = [entry_of(str(at), block.place.block.rstrip("\r\n")) for at, block in enumerate(summary.now.blocks)]
    return await _edit_page(request, summary, entries, summary.now.shown)


async def edit(request: PageRequest, form: Form) -> Response:
    """Write the texts of the form to the pages; on a mistake show the form again with what was typed."""
    summary = await contradiction_summary(request.services, await request.services.contradictions.one(_number(request)))
    typed = [_typed(form, at) for at in range(len(summary.now.blocks))]
    try:
        texts = {at: str(value_of(entry.form, entry.value)) for at, entry in enumerate(typed)}
        await _decisions(request).edit(_number(request), texts, shown=form.get("shown", ""))
    except (CannotSettle, ValueError) as error:
        # The form keeps the state that the person saw. If a page has changed since, sending the form again is refused again.
        return await _edit_page(request, summary, typed, form.get("shown", ""), problem=str(error))
    return _back(request)


async def _edit_page(
    request: PageRequest,
    summary: ContradictionSummary,
    entries: Sequence[EditableArgument],
    shown: str,
    *,
    problem: str = "",
) -> Response:
    values = {"here": LIST, "s": summary, "entries": entries, "shown": shown, "problem": problem}
    return await request.show("contradiction_edit.html", lambda: {**values, **_common()}, 409 if problem else 200)


def _typed(form: Form, at: int) -> EditableArgument:
    value = form.get(f"value.{at}", "").replace("\r\n", "\n")
    return EditableArgument(str(at), "json" if form.get(f"form.{at}") == "json" else "text", value, 3)


def _one(summary: ContradictionSummary, written: Mapping[str, str]) -> dict[str, Any]:
    keeps = {choice: _diff(summary.now.keeps[choice].pages, summary.now.keeps[choice].diff) for choice in CHOICES}
    done = [view for path, diff in written.items() for view in _files({path: diff})]
    return {"here": LIST, "s": summary, "keeps": keeps, "written": done}


def _diff(pages: Mapping[str, str], diff: str) -> Sequence[FileView]:
    return _files(dict.fromkeys(pages, diff))


def _files(diffs: Mapping[str, str]) -> Sequence[FileView]:
    files = [ChangedFile(path, "", "", diff, sent=False) for path, diff in diffs.items()]
    return files_of(files, {}, DiffOptions(whole=False, layout="inline"))


def _common() -> dict[str, Any]:
    return {
        "choices": CHOICES,
        "states": STATES,
        "numbered": numbered,
        "settled_sentence": settled_sentence,
        "page_address": _page_address,
        "longest_reason": LONGEST_REASON,
    }


def _page_address(now: SideNow) -> str:
    """Return the address that shows the page's lines from a few lines before the statement."""
    line = now.places[0].line if now.places else 1
    return "/history/lines?" + urlencode({"path": now.side.path, "line": max(1, line - 5)})


def _decisions(request: PageRequest) -> ContradictionDecisions:
    return ContradictionDecisions(request.services, request.page.approvals, request.person())


def _back(request: PageRequest) -> Response:
    return see(f"{LIST}/{_number(request)}")


async def _flag(request: PageRequest) -> Flag:
    try:
        return await request.services.contradictions.found(_number(request))
    except NotOpen as error:
        raise NotFound("No such contradiction", str(error), LIST) from None


def _number(request: PageRequest) -> int:
    """Return the contradiction's id from the address, or 0, which no contradiction has."""
    text = request.id
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
