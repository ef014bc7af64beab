"""The pages of the timeline, of one page's history, and of the difference between two revisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

import anyio.to_thread
from starlette.responses import PlainTextResponse, Response

from knowledge.errors import BadCursor, KnowledgeError, NoSuchChange, UnknownRevision
from knowledge.history.ports import Revision
from knowledge.history.timeline.comparison import Comparison, NoSuchState, PageState
from knowledge.history.timeline.line_authors import AuthoredLines
from knowledge.history.timeline.timeline import Change, ChangedPage
from knowledge.merge.unified_diff import unified_diff
from knowledge.writing.related.followed_moves import RELINK, RelinkPlan
from knowledge.writing.undo.past_act import UNDO
from mcp_server.gate.trust import admin
from mcp_server.presenters.change import OUTSIDE, author, committed, effect
from mcp_server.presenters.proposal import ChangedFile
from mcp_server.presenters.trust import known_principals
from mcp_server.presenters.typed_time import since_of, until_of
from mcp_server.web.page_context import NotFound, PageRequest
from mcp_server.web.proposals.page_changes import DiffOptions, Layout, files_of
from mcp_server.web.proposals.passages import WHOLE_AT_ONCE

PAGE = 50
FILTERS = ("path", "who", "since", "until")
MOST_MOVES = 5
"""Moves made outside the server whose links are looked at with each view."""
MOST_REVISIONS = 200
"""Revisions of a page that the form to compare two of them offers."""
MOST_RUNS, MOST_CHARACTERS = 200, 100_000
"""The stretches of one origin, and the characters, of a page that are shown at once; the rest is one click further."""
NOW, NONE = "now", "none"
"""These words in an address, in place of a revision, mean the page as its file is now, and no page at all."""
UNLIMITED = 10**9
SLOW = 300_000
"""Two texts with more characters than this are compared in another process."""


@dataclass(frozen=True, slots=True)
class RevisionOption:
    """A revision of a page as a person selects it."""

    revision: str
    text: str


async def timeline(request: PageRequest) -> Response:
    """Show the changes of the knowledge base, of a folder, or of one page, newest first, by day."""
    asked = request.filters(FILTERS)
    people = await known_principals(request.services.state, request.session.user)
    common = {"here": "/history", "asked": asked, "people": people, "outside": OUTSIDE}
    empty = {
        "days": (),
        "is_page": False,
        "exists": False,
        "path": "",
        "older": "",
        "options": (),
        "kept": "",
        "commits": {},
    }
    empty |= {"left": 0, "filtered": False, "undone": None, "undo_all": "", "moved": ()}
    left = 0
    try:
        if "cursor" not in request.query:
            left = (await request.services.outside_changes.record()).left
        found = await request.services.timeline.changes(
            asked["path"],
            who="" if asked["who"] == OUTSIDE else asked["who"] or None,
            since=request.time(asked["since"], since_of),
            until=request.time(asked["until"], until_of),
            limit=PAGE,
            cursor=request.query.get("cursor"),
        )
    except (ValueError, KnowledgeError) as error:
        status = 422 if isinstance(error, ValueError | BadCursor) else 404
        return await request.show("history.html", {**common, **empty, "problem": str(error)}, status)
    kept = {name: text for name, text in asked.items() if text}
    days = [(day, list(changes)) for day, changes in groupby(found.changes, lambda change: change.at.date())]
    older = urlencode({**kept, "cursor": found.next_cursor}) if found.next_cursor else ""
    commits = await request.services.change_commits.of(found.changes)
    values: dict[str, Any] = {"commits": {name: committed(commit) for name, commit in commits.items()}}
    values |= {"days": days, "is_page": found.is_page, "path": found.path, "older": older, "problem": "", "left": left}
    values["filtered"] = any(name in kept for name in FILTERS if name != "path" or not found.is_page)
    values["undone"] = await _undone(request)
    values["moved"] = await _moved(request) if not kept and "cursor" not in request.query else ()
    everything = {"host": asked["who"], "since": asked["since"]}
    by_host = bool(asked["who"] and asked["since"]) and asked["who"] != OUTSIDE
    values["undo_all"] = urlencode(everything) if by_host else ""
    values |= await _of_page(request, found.path) if found.is_page else {"options": (), "exists": False}
    return await request.show("history.html", lambda: {**common, **values, "kept": urlencode(kept), **_WORDS})


async def _moved(request: PageRequest) -> Sequence[RelinkPlan]:
    """Return the newest moves made outside the server that left broken links."""
    return await request.services.followed_moves.offers(most=MOST_MOVES, by=admin.asking(request.person()).id)


async def _undone(request: PageRequest) -> Change | None:
    """Return the undo, or the rewriting of links, that was just done; None if the address names something else."""
    try:
        change = await request.services.timeline.change(request.query.get("undone", ""))
    except NoSuchChange:
        return None
    return change if change.tool in (UNDO, RELINK) else None


async def _of_page(request: PageRequest, path: str) -> dict[str, Any]:
    """Return the page's revisions for the form that compares two, and whether it exists."""
    options = await _options(request, path)
    _, raw, present = await request.services.page_history.present(path)
    return {"options": options, "before": _before(options, present), "after": NOW, "exists": raw is not None}


async def lines(request: PageRequest) -> Response:
    """Show a page's text, and for each line who wrote it."""
    page = await request.services.line_authors.of(request.query.get("path", ""))
    if page.revision is None:
        why = f"{page.path} no longer exists. Its history says who removed it."
        raise NotFound("This page was removed", why, "/history?" + urlencode({"path": page.path}))
    start = request.number("line") or 1
    shown = _as_many_as_fit([run for run in page.runs if run.first >= start])
    later = [run.first for run in page.runs if shown and run.first > shown[-1].first]
    return await request.show(
        "lines.html",
        lambda: {"here": "/history", "page": page, "runs": shown, "next": later[0] if later else 0, "author": author},
    )


def _as_many_as_fit(runs: Sequence[AuthoredLines]) -> list[AuthoredLines]:
    shown: list[AuthoredLines] = []
    characters = 0
    for run in runs[:MOST_RUNS]:
        characters += sum(map(len, run.lines))
        if shown and characters > MOST_CHARACTERS:
            break
        shown.append(run)
    return shown


async def difference(request: PageRequest) -> Response:
    """Show what a change did to a page, or the difference between two revisions, word by word; with `as=text` as a unified diff."""
    name = request.query.get("path", "")
    try:
        found = await _comparison(request, name)
    except (NoSuchState, UnknownRevision) as error:
        raise NotFound("No such revision", str(error), "/history?" + urlencode({"path": name})) from None
    path = found.path
    old, new = ((state.raw or b"").decode("utf-8", "replace") for state in (found.before, found.after))
    diff = await _compared(request, old, new, path)
    if request.query.get("as") == "text":
        return PlainTextResponse(diff)
    layout: Layout = "inline" if request.query.get("layout") == "inline" else "split"
    whole = request.query.get("whole") == "1" and len(diff) <= WHOLE_AT_ONCE
    showing = DiffOptions(whole=whole, layout=layout)
    before, after = found.before.revision or NONE, found.after.revision or NONE
    after = NOW if request.query.get("to") == NOW else after
    address = {"path": path, "change": found.change} if found.change else {"path": path, "from": before, "to": after}
    options = await _options(request, path)

    def values() -> Mapping[str, Any]:
        return {
            "here": "/history",
            "path": path,
            "change": found.change,
            "file": files_of([ChangedFile(path, "", "", diff, sent=False)], {}, showing)[0],
            "showing": showing,
            "options": options,
            "before": before,
            "after": after,
            "heads": (_state_name(found.before), "Now" if after == NOW else _state_name(found.after)),
            "address": "/diff?" + urlencode(address),
            "shorter": len(diff) <= WHOLE_AT_ONCE,
        }

    return await request.show("difference.html", values)


async def _comparison(request: PageRequest, name: str) -> Comparison:
    """Return the two states that the address names; without any, those before and after the page's newest change.

    Raises:
        NoSuchState, UnknownRevision: the page never was in one of these states, or the state is no longer kept.
    """
    comparisons, query = request.services.comparisons, request.query
    before, after = query.get("from", ""), query.get("to", "")
    if query.get("change") or not (before or after):
        return await comparisons.change(name, query.get("change", ""))
    after = after or NOW
    if not before:
        path, _, present = await request.services.page_history.present(name)
        before = _before(await _options(request, path), present if after == NOW else after)
    nothing = PageState(None, None)
    sides = [side for side in (before, after) if side != NONE] or [NOW]
    found = await comparisons.between(name, sides[0], sides[-1])
    return replace(
        found,
        before=nothing if before == NONE else found.before,
        after=nothing if after == NONE else found.after,
    )


def diff_address(change: Change, page: ChangedPage) -> str:
    """Return the address of the difference that a change made to a page."""
    return "/diff?" + urlencode({"path": page.path, "change": change.id})


_WORDS = {"diff_of": diff_address, "author": author, "effect": effect}
"""The functions with which the template puts a change into words."""


async def _options(request: PageRequest, path: str) -> list[RevisionOption]:
    """Return the page's revisions, newest first, each once."""
    history = await request.services.state.ledger.history(path, limit=MOST_REVISIONS)
    lines: dict[str, Revision] = {}
    for line in history:
        if line.revision is not None:
            lines.setdefault(line.revision, line)
    return [
        RevisionOption(revision, f"{line.at:%Y-%m-%d %H:%M} {line.principal or 'outside the server'}, {revision[:8]}")
        for revision, line in lines.items()
    ]


def _before(options: Sequence[RevisionOption], revision: str | None) -> str:
    """Return the revision before `revision`, or `NONE` if that is the first. If it is not in the history, return the newest one."""
    revisions = [option.revision for option in options]
    later = revisions.index(revision) + 1 if revision in revisions else 0
    return revisions[later] if later < len(revisions) else NONE


async def _compared(request: PageRequest, old: str, new: str, path: str) -> str:
    sides = (old, new, path)
    if len(old) + len(new) > SLOW:
        return await request.page.apart(_diff, sides, size=len(old) + len(new))
    return await anyio.to_thread.run_sync(_diff, sides)


def _diff(sides: tuple[str, str, str]) -> str:
    old, new, path = sides
    return unified_diff(old, new, path, context=3, most_characters=UNLIMITED, longest_line=UNLIMITED)


def _state_name(state: PageState) -> str:
    """Return the name of a state, shown above its side of the difference."""
    if state.revision is None:
        return "No page"
    return state.revision if state.at is None else f"{state.at:%Y-%m-%d %H:%M}, {state.revision}"
