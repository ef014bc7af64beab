"""What a proposal does to pages, as its page shows it: differences in rows, and where the present text comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from knowledge.writing.answers import OriginLine
from mcp_server.gate.summary import becomes
from mcp_server.review.diffs import Row, beginning, one_below_the_other, parsed, side_by_side
from mcp_server.review.inert import inert_line
from mcp_server.review.texts import ANY_LENGTH, LONG_TEXT

LONG_DIFF = 400
"""Rows of all diffs together that are shown at once."""
LONG_LINE = 2_000
LONG_FILE = 100_000
"""Characters of one diff of which no more is taken apart than is shown."""

Layout = Literal["split", "inline"]


@dataclass(frozen=True, slots=True)
class Showing:
    """How a person wants to see it: `whole` with everything that is long, diffs side by side or inline."""

    whole: bool = False
    layout: Layout = "split"

    @property
    def longest(self) -> int:
        """Return how many characters of a text are shown."""
        return ANY_LENGTH if self.whole else LONG_TEXT


@dataclass(frozen=True, slots=True)
class FileView:
    """What happens to one page, or to a text that is `sent` elsewhere. Rows by hunks; `left_out` rows are folded away."""

    path: Markup
    moved_from: Markup | None
    says: str
    added: int
    removed: int
    hunks: Sequence[Sequence[Row]]
    notes: Sequence[Markup]
    left_out: int
    origins: Sequence[OriginView]
    one_sided: bool
    sent: bool


@dataclass(frozen=True, slots=True)
class OriginView:
    """Where lines of the present page come from."""

    lines: str
    section: Markup
    source: Markup
    authority: float
    observed_at: str
    by: Markup


def files_of(
    files: Iterable[Mapping[str, Any]], origins: Mapping[str, Sequence[OriginLine]], showing: Showing
) -> list[FileView]:
    """Return what happens to each page. Unless it is to be shown whole, so many rows in all and no more."""
    room, shown = ANY_LENGTH if showing.whole else LONG_DIFF, []
    for file in files:
        view = _file(file, origins.get(str(file.get("path")), ()), showing, room)
        room -= sum(map(len, view.hunks))
        shown.append(view)
    return shown


def _file(file: Mapping[str, Any], origins: Sequence[OriginLine], showing: Showing, room: int) -> FileView:
    path, moved = file.get("path"), file.get("moved_from")
    laid_out = side_by_side if showing.layout == "split" else one_below_the_other
    diff = str(file.get("diff") or "")
    short = beginning(diff, max(room, 1)) if len(diff) > LONG_FILE and not showing.whole else None
    hunks = parsed(short.diff if short else diff)
    rows = [list(laid_out(hunk, ANY_LENGTH if showing.whole else LONG_LINE)) for hunk in hunks]
    shown = _first(rows, room)
    changed = [change for hunk in hunks for change in hunk.changes if not change.same]
    return FileView(
        path=inert_line(str(path)),
        moved_from=inert_line(str(moved)) if moved else None,
        says=_says(file),
        added=short.added if short else sum(len(change.new) for change in changed),
        removed=short.removed if short else sum(len(change.old) for change in changed),
        hunks=shown,
        notes=[inert_line(hunk.note) for hunk in hunks if hunk.note],
        left_out=sum(map(len, rows)) - sum(map(len, shown)) + (short.left_out if short else 0),
        origins=[_origin(line) for line in origins],
        one_sided=not all(any(getattr(c, side) for h in hunks for c in h.changes) for side in ("old", "new")),
        sent=bool(file.get("sent")),
    )


def _says(file: Mapping[str, Any]) -> str:
    if file.get("sent"):
        return becomes(file)
    if file.get("moved_from"):
        return "moves here"
    return "is new" if file.get("before") is None else "goes" if file.get("after") is None else "changes"


def _first(hunks: Sequence[Sequence[Row]], room: int) -> list[Sequence[Row]]:
    """Return as many rows of the hunks, from the first on, as there is room for."""
    shown: list[Sequence[Row]] = []
    for rows in hunks:
        if room > 0:
            shown.append(rows[:room])
        room -= len(rows)
    return shown


def _origin(line: OriginLine) -> OriginView:
    return OriginView(
        lines=line.lines,
        section=inert_line(line.section),
        source=inert_line(line.source),
        authority=line.authority,
        observed_at=line.observed_at or "unknown",
        by=inert_line(line.by),
    )
