"""Lay out a proposal's changes to pages in rows, with the sources of the current text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from knowledge.writing.answers import OriginLine
from mcp_server.presenters.diffs import DiffHunk, Effort, beginning, parsed
from mcp_server.presenters.proposal import ChangedFile
from mcp_server.web.proposals.changed_links import ChangedLink, changed_links
from mcp_server.web.text.diffs import DiffRow, one_below_the_other, side_by_side
from mcp_server.web.text.values import ANY_LENGTH, LONG_TEXT

LONG_DIFF = 400
"""Rows of all diffs together that are shown at once."""
LONG_ROWS = 1_000_000
"""Characters of HTML in these rows. A character that has to be marked takes a hundred of them."""
LONG_LINE = 2_000
LONG_FILE = 100_000
"""Of a diff with more characters than this, only the beginning that is shown is parsed."""

Layout = Literal["split", "inline"]


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """How a person wants to see a proposal: `whole`, or with long texts folded; diffs side by side or inline."""

    whole: bool = False
    layout: Layout = "split"

    @property
    def longest(self) -> int:
        """How many characters of a text are shown."""
        return ANY_LENGTH if self.whole else LONG_TEXT


@dataclass(frozen=True, slots=True)
class FileView:
    """The rows of one changed page or sent text, by hunks; `left_out` rows are folded away.

    `links` are the changed links if the change renames a page and changes nothing else.
    """

    file: ChangedFile
    added: int
    removed: int
    hunks: Sequence[Sequence[DiffRow]]
    notes: Sequence[str]
    left_out: int
    origins: Sequence[OriginLine]
    one_sided: bool
    links: Sequence[ChangedLink] = ()

    @property
    def folded(self) -> bool:
        """Whether not all of it is shown."""
        return bool(self.left_out) or any(row.cut for hunk in self.hunks for row in hunk)


@dataclass(slots=True)
class _DiffRoom:
    """The remaining room for the diffs of one page: rows, characters in them, and comparisons."""

    rows: int
    characters: int
    effort: Effort


def files_of(
    files: Iterable[ChangedFile], origins: Mapping[str, Sequence[OriginLine]], showing: DiffOptions
) -> list[FileView]:
    """Return the rows of each page: at most `LONG_DIFF` for all pages together, unless everything is shown."""
    files = list(files)
    renames = any(file.moved_from for file in files)
    room = _DiffRoom(ANY_LENGTH, ANY_LENGTH, Effort()) if showing.whole else _DiffRoom(LONG_DIFF, LONG_ROWS, Effort())
    return [_file(file, origins.get(file.path, ()), showing, room, renames=renames) for file in files]


def _file(
    file: ChangedFile, origins: Sequence[OriginLine], showing: DiffOptions, room: _DiffRoom, *, renames: bool
) -> FileView:
    long = len(file.diff) > LONG_FILE and not showing.whole
    short = beginning(file.diff, max(room.rows, 1)) if long else None
    hunks = parsed(short.diff if short else file.diff)
    shown, left_out = _shown(hunks, showing, room)
    changed = [change for hunk in hunks for change in hunk.changes if not change.same]
    return FileView(
        file=file,
        added=short.added if short else sum(len(change.new) for change in changed),
        removed=short.removed if short else sum(len(change.old) for change in changed),
        hunks=shown,
        notes=[hunk.note for hunk in hunks if hunk.note],
        left_out=left_out + (short.left_out if short else 0),
        origins=origins,
        one_sided=not all(any(getattr(c, side) for h in hunks for c in h.changes) for side in ("old", "new")),
        links=changed_links(hunks) if renames and not short else (),
    )


def _shown(hunks: Sequence[DiffHunk], showing: DiffOptions, room: _DiffRoom) -> tuple[list[Sequence[DiffRow]], int]:
    """Return as many of the first rows of the hunks as there is room for, and roughly the number of the rest."""
    laid_out = side_by_side if showing.layout == "split" else one_below_the_other
    longest = ANY_LENGTH if showing.whole else LONG_LINE
    shown: list[Sequence[DiffRow]] = []
    left_out = 0
    for hunk in hunks:
        # Rows are made one at a time, while there is room: all those of a hostile text would fill the memory.
        rows: list[DiffRow] = []
        complete = True
        for row in laid_out(hunk, longest, room.effort):
            if room.rows <= 0 or room.characters <= 0:
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
