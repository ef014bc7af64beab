"""Edit a page in place, or write a new one: a preview, and the same merge as a person's edit in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args
from urllib.parse import urlencode

import anyio.to_thread
from starlette.responses import Response

from knowledge.errors import AmbiguousName, InvalidPath, KnowledgeError, NoSuchPath
from knowledge.history.acts import act_name
from knowledge.merge.model import Conflict
from knowledge.merge.three_way.both_sides import SideTaken, as_sent, conflicts_between, is_unsettled, with_sides_taken
from knowledge.pages.document import parse
from knowledge.pages.map_view import readable
from knowledge.pages.paths import is_markdown
from knowledge.pages.vault import revision_of
from knowledge.writing.related.target_page import slug, text_of
from mcp_server.presenters.proposal import ChangedFile
from mcp_server.web.knowledge_pages.page_text import part_from, rendered_blocks
from mcp_server.web.knowledge_pages.pages import ADDRESSES, LONGEST_NAME, missing
from mcp_server.web.knowledge_pages.site_links import SiteLinks
from mcp_server.web.page_context import Form, PageRequest, see
from mcp_server.web.proposals.page_changes import DiffOptions, FileView, files_of
from mcp_server.web.text.sanitize import has_hidden
from mcp_server.web.text.site_addresses import page_address

LONGEST_REASON = 500
MOST_CONFLICTS = 50
"""Conflicts for which the form offers a choice; the text has both sides of all others, marked."""
MARKS_LEFT = "Nothing was saved: the text still has the marks of a conflict (<<<<<<<). Settle it and remove them."
EMPTY = "Nothing was saved: the text is empty. To remove a page, ask a host, or delete its file."
SAME = "Nothing was saved: the text is the same as the page."
WOULD_BE_SAME = "The text is the same as the page, so saving it changes nothing."
CHANGED = "Nothing was saved: somebody changed the same text since you opened the page. Choose a side for each place."
PARTLY = "Only a part was saved: somebody changed the rest meanwhile. Choose a side for each place."
RESUMED = "Nothing was saved: you have logged in since you opened this form. Your text is below; check it and save it."
NO_BASE = (
    "Nothing was saved: the page has changed, and the text that you began with is no longer kept. Check the difference below; "
    "saving now replaces the page with your text."
)


@dataclass(frozen=True, slots=True)
class PageDraft:
    """A page as a person edits it. `base` is the revision that the text was made from, "" for a new page."""

    path: str
    base: str
    text: str
    reason: str = ""

    @classmethod
    def of(cls, form: Form) -> PageDraft:
        """Return the draft in a form. Browsers send line ends as CR LF."""
        text = form.get("text", "").replace("\r\n", "\n")
        return cls(
            form.get("path", "").strip()[:LONGEST_NAME],
            form.get("base", ""),
            text,
            form.get("reason", "")[:LONGEST_REASON],
        )


@dataclass(frozen=True, slots=True)
class DraftNotes:
    """The remarks beside a draft in the form: a problem, the difference that saving makes, conflicts to decide, and a preview."""

    problem: str = ""
    diff: str | None = None
    conflicts: Sequence[Conflict] = ()
    preview: bool = False


async def editing(request: PageRequest) -> Response:
    """Show the form with the page's text."""
    name = request.query.get("path", "").strip()[:LONGEST_NAME]
    try:
        path = await request.services.tiers.locate(name)
    except (NoSuchPath, AmbiguousName, InvalidPath) as error:
        return await missing(request, name, error)
    text, revision = await _now(request, path)
    return await _shown(request, PageDraft(path, revision, text))


async def writing(request: PageRequest) -> Response:
    """Show the form of a new page, with a path and a heading made from its name."""
    name = request.query.get("path", "").strip()[:LONGEST_NAME]
    path = name if not name or is_markdown(name) or "/" in name else f"{slug(name)}.md"
    heading = readable(name.rpartition("/")[2]) if is_markdown(name) or "/" in name else name
    return await _shown(request, PageDraft(path, "", f"# {heading}\n\n" if heading else ""))


async def save(request: PageRequest, form: Form) -> Response:
    """Do what the button says: preview, take sides of conflicts, or save; the text stays in the form if it is not saved."""
    draft = PageDraft.of(form)
    try:
        if form.get("do") == "take":
            return await _take(request, draft, form)
        if not draft.base:
            draft = await _with_new_path(request, draft)
        if not draft.text.strip():
            return await _shown(request, draft, DraftNotes(EMPTY), 422)
        if is_unsettled(draft.text):
            return await _shown(request, draft, DraftNotes(MARKS_LEFT), 422)
        return await _merged(request, draft, saves=form.get("do") == "save")
    except KnowledgeError as error:
        return await _shown(request, draft, DraftNotes(f"Nothing was saved: {error}"), 409)


async def _merged(request: PageRequest, draft: PageDraft, *, saves: bool) -> Response:
    """Plan the merge and show it; or do it, if no conflict is in the way."""
    plan = await _write(request, draft, dry_run=True)
    if plan["conflicts"]:
        return await _in_conflict(request, draft, CHANGED)
    if not saves:
        problem = "" if plan["diff"] else WOULD_BE_SAME
        return await _shown(request, draft, DraftNotes(problem, diff=plan["diff"], preview=True))
    answer = await _write(request, draft, dry_run=False)
    match answer["status"]:
        case "done":
            lines = await request.services.state.ledger.history(answer["path"], limit=1)
            saved = {"path": answer["path"], "saved": act_name(lines[0]) if lines else ""}
            return see("/page?" + urlencode(saved))
        case "proposed":
            return see(f"/proposals/{answer['proposal']['id']}")
        case "unchanged":
            return await _shown(request, draft, DraftNotes(SAME))
        case "partial" | "conflict" if answer["conflicts"]:
            return await _in_conflict(request, draft, PARTLY if answer["status"] == "partial" else CHANGED)
        case "analysis":
            now = replace(draft, base=answer["revision"] or "")
            return await _shown(request, now, DraftNotes(NO_BASE, diff=answer["diff"]), 409)
    return await _shown(request, draft, DraftNotes(f"Nothing was saved: {answer.get('note') or answer['status']}"), 409)


async def resumed(request: PageRequest, form: Form) -> Response:
    """Show a form that the person filled in before they logged in again, with its text, to be checked and saved."""
    return await _shown(request, PageDraft.of(form), DraftNotes(RESUMED), 403)


async def _write(request: PageRequest, draft: PageDraft, *, dry_run: bool) -> Mapping[str, Any]:
    text = draft.text
    if draft.base:
        text = as_sent(await _base(request, draft) or "", text)
    return await request.page.approvals.write(
        draft.path, text, draft.base or None, request.person(), intent=draft.reason, dry_run=dry_run
    )


async def _with_new_path(request: PageRequest, draft: PageDraft) -> PageDraft:
    """Return the draft of a new page with the path that it will have.

    Raises:
        KnowledgeError: the path can't be a page, or a page is there.
    """
    if not draft.path:
        raise KnowledgeError("give the page a path, such as notes/tea.md")
    path, exists = await request.services.tiers.new_page(draft.path)
    if exists:
        raise KnowledgeError(f"{path} exists already; edit that page, or choose another path")
    return replace(draft, path=path)


async def _in_conflict(request: PageRequest, draft: PageDraft, problem: str) -> Response:
    """Show both sides of each place that somebody else changed too. The form keeps the person's text as it is."""
    base, (now, _) = await _base(request, draft), await _now(request, draft.path)
    if base is None:
        raise KnowledgeError("the text that you began with is no longer kept; copy yours and edit the page again")
    conflicts = await anyio.to_thread.run_sync(partial(conflicts_between, _lf(base), _lf(now), draft.text))
    return await _shown(request, draft, DraftNotes(problem, conflicts=conflicts), 409)


async def _take(request: PageRequest, draft: PageDraft, form: Form) -> Response:
    """Put the chosen sides into the text, which is then based on the page as it is now."""
    base, (now, revision) = await _base(request, draft), await _now(request, draft.path)
    if base is None:
        raise KnowledgeError("the text that you began with is no longer kept; copy yours and edit the page again")
    taken: list[SideTaken | None] = []
    for number in range(MOST_CONFLICTS):
        chosen = form.get(f"take-{number}")
        taken.append(next((side for side in get_args(SideTaken) if side == chosen), None))
    text = await anyio.to_thread.run_sync(partial(with_sides_taken, _lf(base), _lf(now), draft.text, taken))
    joined = replace(draft, base=revision, text=text)
    if is_unsettled(text):
        left = "Both sides of the places that you did not decide are in the text, marked. Settle them and remove the marks."
        return await _shown(request, joined, DraftNotes(left))
    return await _merged(request, joined, saves=False)


async def _shown(
    request: PageRequest, draft: PageDraft, notes: DraftNotes | None = None, status: int = 200
) -> Response:
    notes = notes or DraftNotes()
    document = parse(draft.path or "new.md", draft.text.encode("utf-8", "replace"))
    links = await SiteLinks.of(request.services, document)

    def values() -> Mapping[str, Any]:
        part = part_from(document, 1, with_front=False)
        return {
            "here": "/pages",
            "draft": draft,
            "is_new": not draft.base,
            "notes": notes,
            "conflicts": notes.conflicts[:MOST_CONFLICTS],
            "more_conflicts": max(0, len(notes.conflicts) - MOST_CONFLICTS),
            "files": _files(draft.path, notes.diff),
            "blocks": rendered_blocks(part, links) if notes.preview else (),
            "later": part.later,
            "hidden": has_hidden(draft.text),
            "back": page_address(draft.path) if draft.base else "/pages",
            "action": "/page/edit" if draft.base else "/page/new",
            "longest_reason": LONGEST_REASON,
            **ADDRESSES,
        }

    return await request.show("page_edit.html", values, status)


def _files(path: str, diff: str | None) -> Sequence[FileView]:
    if not diff:
        return ()
    return files_of([ChangedFile(path, "", "", diff, sent=False)], {}, DiffOptions(whole=False, layout="inline"))


async def _now(request: PageRequest, path: str) -> tuple[str, str]:
    """Return the page's present text and its revision. The text is kept, so that later writes can be merged with it as their base."""
    file = await request.services.tiers.file(path)
    await request.services.writer.shown(path)
    return text_of(path, file.raw), revision_of(file.raw)


async def _base(request: PageRequest, draft: PageDraft) -> str | None:
    raw = await request.services.state.ledger.content(draft.path, draft.base)
    return None if raw is None else text_of(draft.path, raw)


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")
