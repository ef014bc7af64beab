"""The pages of the timeline, of one page's history, and of the difference between two revisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

import anyio.to_thread
from starlette.responses import PlainTextResponse, Response

from knowledge.errors import BadCursor, KnowledgeError, NoSuchChange
from knowledge.history.page_history import LinesOfOrigin
from knowledge.history.ports import Revision
from knowledge.history.timeline.timeline import Change, ChangedPage
from knowledge.history.timestamps import beginning_of, end_of
from knowledge.merge.unified_diff import unified_diff
from knowledge.writing.undo.past_act import UNDO
from mcp_server.presenters.change import OUTSIDE, author, effect
from mcp_server.presenters.proposal import ChangedFile
from mcp_server.presenters.trust import known_principals
from mcp_server.web.page_context import NotFound, PageRequest, time_in
from mcp_server.web.proposals.page_changes import DiffOptions, Layout, files_of
from mcp_server.web.proposals.passages import WHOLE_AT_ONCE

PAGE = 50
FILTERS = ("path", "who", "since", "until")
LONGEST_FILTER = 4_000
MOST_REVISIONS = 200
"""Revisions of a page that the form to compare two of them offers."""
MOST_RUNS, MOST_CHARACTERS = 200, 100_000
"""How much of a page's text is shown at once with its origins; the rest is one click further."""
NOW, NONE = "now", "none"
"""In addresses, the page as its file is, and no page, where a revision could be."""
UNLIMITED = 10**9
SLOW = 300_000
"""Characters from which on a comparison is made in another process."""


@dataclass(frozen=True, slots=True)
class RevisionOption:
    """A revision of a page as a person selects it."""

    revision: str
    text: str


async def timeline(request: PageRequest) -> Response:
    """Show the changes of the knowledge base, of a folder, or of one page, newest first, by day."""
    asked = {name: request.query.get(name, "").strip()[:LONGEST_FILTER] for name in FILTERS}
    people = await known_principals(request.services.state, request.session.user)
    common = {"here": "/history", "asked": asked, "people": people, "outside": OUTSIDE}
    empty = {"days": (), "is_page": False, "exists": False, "path": "", "older": "", "options": (), "kept": ""}
    empty |= {"left": 0, "filtered": False, "undone": None, "undo_all": ""}
    left = 0
    try:
        if "cursor" not in request.query:
            left = (await request.services.outside_changes.record()).left
        found = await request.services.timeline.changes(
            asked["path"],
            who="" if asked["who"] == OUTSIDE else asked["who"] or None,
            since=time_in(asked["since"], beginning_of),
            until=time_in(asked["until"], end_of),
            limit=PAGE,
            cursor=request.query.get("cursor"),
        )
    except (ValueError, KnowledgeError) as error:
        status = 422 if isinstance(error, ValueError | BadCursor) else 404
        return await request.show("history.html", {**common, **empty, "problem": str(error)}, status)
    kept = {name: text for name, text in asked.items() if text}
    days = [(day, list(changes)) for day, changes in groupby(found.changes, lambda change: change.at.date())]
    older = urlencode({**kept, "cursor": found.next_cursor}) if found.next_cursor else ""
    values = {"days": days, "is_page": found.is_page, "path": found.path, "older": older, "problem": "", "left": left}
    values["filtered"] = any(name in kept for name in FILTERS if name != "path" or not found.is_page)
    values["undone"] = await _undone(request)
    everything = {"host": asked["who"], "since": asked["since"]}
    by_host = bool(asked["who"] and asked["since"]) and asked["who"] != OUTSIDE
    values["undo_all"] = urlencode(everything) if by_host else ""
    values |= await _of_page(request, found.path) if found.is_page else {"options": (), "exists": False}
    return await request.show("history.html", lambda: {**common, **values, "kept": urlencode(kept), **_WORDS})


async def _undone(request: PageRequest) -> Change | None:
    """Return the undo that was just done; None if the address names something else."""
    try:
        change = await request.services.timeline.change(request.query.get("undone", ""))
    except NoSuchChange:
        return None
    return change if change.tool == UNDO else None


async def _of_page(request: PageRequest, path: str) -> dict[str, Any]:
    """Return the page's revisions for the form that compares two, and whether it exists."""
    options = await _options(request, path)
    _, raw, present = await request.services.page_history.present(path)
    return {"options": options, "before": _before(options, present), "after": NOW, "exists": raw is not None}


async def lines(request: PageRequest) -> Response:
    """Show a page's text, and for each line who wrote it."""
    history = request.services.page_history
    path, raw, revision = await history.present(request.query.get("path", ""))
    if raw is None:
        raise NotFound(
            "This page was removed", f"{path} no longer exists. Its history says who removed it.", "/history"
        )
    runs = await history.written_by(path, raw)
    start = request.number("line") or 1
    shown = _as_many_as_fit([run for run in runs if run.first >= start])
    rest = [run.first for run in runs if shown and run.first > shown[-1].first]
    return await request.show(
        "lines.html",
        lambda: {"here": "/history", "path": path, "revision": revision, "runs": shown, "next": rest[0] if rest else 0},
    )


def _as_many_as_fit(runs: Sequence[LinesOfOrigin]) -> list[LinesOfOrigin]:
    shown: list[LinesOfOrigin] = []
    characters = 0
    for run in runs[:MOST_RUNS]:
        characters += len(run.text)
        if shown and characters > MOST_CHARACTERS:
            break
        shown.append(run)
    return shown


async def difference(request: PageRequest) -> Response:
    """Show the difference between two revisions of a page, word by word; with `as=text` as a unified diff."""
    asked = request.query.get("path", "")
    path, raw, present = await request.services.page_history.present(asked)
    options = await _options(request, path)
    after = request.query.get("to") or NOW
    before = request.query.get("from") or _before(options, present if after == NOW else after)
    old = await _content(request, (asked, path), before, raw)
    new = await _content(request, (asked, path), after, raw)
    diff = await _compared(request, old, new, path)
    if request.query.get("as") == "text":
        return PlainTextResponse(diff)
    layout: Layout = "inline" if request.query.get("layout") == "inline" else "split"
    whole = request.query.get("whole") == "1" and len(diff) <= WHOLE_AT_ONCE
    showing = DiffOptions(whole=whole, layout=layout)
    shown = {"path": path, "from": before, "to": after}

    def values() -> Mapping[str, Any]:
        file = files_of([ChangedFile(path, "", "", diff, sent=False)], {}, showing)[0]
        return {
            "here": "/history",
            "path": path,
            "file": file,
            "showing": showing,
            "options": options,
            "before": before,
            "after": after,
            "heads": (_name(before), _name(after)),
            "address": "/diff?" + urlencode(shown),
            "shorter": len(diff) <= WHOLE_AT_ONCE,
        }

    return await request.show("difference.html", values)


def diff_address(page: ChangedPage) -> str:
    """Return the address of the difference that a change made to a page."""
    return "/diff?" + urlencode({"path": page.path, "from": page.before or NONE, "to": page.after or NONE})


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
    """Return the revision before this one; the newest one, if it is not in the page's history."""
    revisions = [option.revision for option in options]
    later = revisions.index(revision) + 1 if revision in revisions else 0
    return revisions[later] if later < len(revisions) else NONE


async def _content(request: PageRequest, names: tuple[str, str], revision: str, present: bytes | None) -> str:
    """Return the text of the page at that revision. `names` are the path that was asked for, and the one that the page has now."""
    if revision in (NOW, NONE):
        return (present or b"").decode("utf-8", "replace") if revision == NOW else ""
    for path in dict.fromkeys(names):
        raw = await request.services.state.ledger.content(path, revision)
        if raw is not None:
            return raw.decode("utf-8", "replace")
    back = "/history?" + urlencode({"path": names[1]})
    raise NotFound("No such revision", f"{names[1]} has no revision {revision}, or it is no longer kept.", back)


async def _compared(request: PageRequest, old: str, new: str, path: str) -> str:
    sides = (old, new, path)
    if len(old) + len(new) > SLOW:
        return await request.page.apart(_diff, sides, size=len(old) + len(new))
    return await anyio.to_thread.run_sync(_diff, sides)


def _diff(sides: tuple[str, str, str]) -> str:
    old, new, path = sides
    return unified_diff(old, new, path, context=3, most_characters=UNLIMITED, longest_line=UNLIMITED)


def _name(revision: str) -> str:
    return {NOW: "Now", NONE: "No page"}.get(revision, revision)
