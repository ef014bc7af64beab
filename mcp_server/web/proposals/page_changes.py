"""What a proposal does to pages, as its page shows it: differences in rows, and where the present text comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from knowledge.writing.answers import OriginLine
from mcp_server.approvals.summary import becomes
from mcp_server.web.text.diffs import DiffHunk, DiffRow, Effort, beginning, one_below_the_other, parsed, side_by_side
from mcp_server.web.text.sanitize import sanitize_line
from mcp_server.web.text.values import ANY_LENGTH, LONG_TEXT

LONG_DIFF = 400
"""Rows of all diffs together that are shown at once."""
LONG_ROWS = 1_000_000
"""Characters of HTML in these rows. A character that has to be marked takes a hundred of them."""
LONG_LINE = 2_000
LONG_FILE = 100_000
"""Characters of one diff of which no more is taken apart than is shown."""

Layout = Literal["split", "inline"]


@dataclass(frozen=True, slots=True)
class DiffOptions:
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
    hunks: Sequence[Sequence[DiffRow]]
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


@dataclass(slots=True)
class _DiffRoom:
    """What the diffs of one page may still take: rows, characters in them, and comparisons."""

    rows: int
    characters: int
    effort: Effort

    @property
    def full(self) -> bool:
        """Return whether no row more is shown."""
        return self.rows <= 0 or self.characters <= 0


def files_of(
    files: Iterable[Mapping[str, Any]], origins: Mapping[str, Sequence[OriginLine]], showing: DiffOptions
) -> list[FileView]:
    """Return what happens to each page. Unless it is to be shown whole, so many rows in all and no more."""
    room = _DiffRoom(ANY_LENGTH, ANY_LENGTH, Effort()) if showing.whole else _DiffRoom(LONG_DIFF, LONG_ROWS, Effort())
    return [_file(file, origins.get(str(file.get("path")), ()), showing, room) for file in files]


def _file(file: Mapping[str, Any], origins: Sequence[OriginLine], showing: DiffOptions, room: _DiffRoom) -> FileView:
    path, moved = file.get("path"), file.get("moved_from")
    diff = str(file.get("diff") or "")
    short = beginning(diff, max(room.rows, 1)) if len(diff) > LONG_FILE and not showing.whole else None
    hunks = parsed(short.diff if short else diff)
    shown, left_out = _shown(hunks, showing, room)
    changed = [change for hunk in hunks for change in hunk.changes if not change.same]
    return FileView(
        path=sanitize_line(str(path)),
        moved_from=sanitize_line(str(moved)) if moved else None,
        says=_says(file),
        added=short.added if short else sum(len(change.new) for change in changed),
        removed=short.removed if short else sum(len(change.old) for change in changed),
        hunks=shown,
        notes=[sanitize_line(hunk.note) for hunk in hunks if hunk.note],
        left_out=left_out + (short.left_out if short else 0),
        origins=[_origin(line) for line in origins],
        one_sided=not all(any(getattr(c, side) for h in hunks for c in h.changes) for side in ("old", "new")),
        sent=bool(file.get("sent")),
    )


def _shown(hunks: Sequence[DiffHunk], showing: DiffOptions, room: _DiffRoom) -> tuple[list[Sequence[DiffRow]], int]:
    """Return as many rows of the hunks, from the first on, as there is room for, and how many more there are, about."""
    laid_out = side_by_side if showing.layout == "split" else one_below_the_other
    longest = ANY_LENGTH if showing.whole else LONG_LINE
    shown: list[Sequence[DiffRow]] = []
    left_out = 0
    for hunk in hunks:
        # A row is made once there is room for it: all those of a hostile text would fill the memory.
        rows: list[DiffRow] = []
        complete = True
        for row in laid_out(hunk, longest, room.effort):
            if room.full:
                complete = False
                break
            rows.append(row)
            room.rows -= 1
            room.characters -= len(row.old) + len(row.new)
        left_out += 0 if complete else max(1, _least_rows(hunk, showing.layout) - len(rows))
        if rows:
            shown.append(rows)
    return shown, left_out


def _least_rows(hunk: DiffHunk, layout: Layout) -> int:
    """Return how many rows the hunk takes if all its lines find a partner."""
    if layout == "split":
        return sum(max(len(change.old), len(change.new)) for change in hunk.changes)
    return sum(len(change.new) if change.same else len(change.old) + len(change.new) for change in hunk.changes)


def _says(file: Mapping[str, Any]) -> str:
    if file.get("sent"):
        return becomes(file)
    if file.get("moved_from"):
        return "moves here"
    return "is new" if file.get("before") is None else "goes" if file.get("after") is None else "changes"


def _origin(line: OriginLine) -> OriginView:
    return OriginView(
        lines=line.lines,
        section=sanitize_line(line.section),
        source=sanitize_line(line.source),
        authority=line.authority,
        observed_at=line.observed_at or "unknown",
        by=sanitize_line(line.by),
    )
