"""Lay out a diff for the page: rows side by side or one below the other, with the words that differ marked. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from mcp_server.presenters.diffs import DiffChange, DiffHunk, DiffLine, Effort, LinePair, Span, paired
from mcp_server.web.text.sanitize import sanitize

RowKind = Literal["same", "changed", "added", "removed"]

ANY_LENGTH = 10**9  # no line is longer

_NOTE = Markup(' <i class="note">{0}</i>')


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One row of a shown diff. A side without a line has number 0. `cut`: a line is shown in part only."""

    kind: RowKind
    old_number: int
    old: Markup
    new_number: int
    new: Markup
    cut: bool = False


def side_by_side(hunk: DiffHunk, longest: int = ANY_LENGTH, effort: Effort | None = None) -> Iterator[DiffRow]:
    """Yield the hunk's rows, with the old text on the left and the new on the right, similar lines beside each other.

    At most `longest` characters of a line are shown, with the number of those left out. Comparing takes at most `effort`.
    """
    effort = effort or Effort()
    for change in hunk.changes:
        yield from _rows(change, longest, effort)


def one_below_the_other(hunk: DiffHunk, longest: int = ANY_LENGTH, effort: Effort | None = None) -> Iterator[DiffRow]:
    """Yield the hunk's rows, removed lines above added ones, as a unified diff has them."""
    effort = effort or Effort()
    for change in hunk.changes:
        rows = list(_rows(change, longest, effort))
        if change.same:
            yield from rows
            continue
        yield from (DiffRow("removed", r.old_number, r.old, 0, Markup(), r.cut) for r in rows if r.old_number)
        yield from (DiffRow("added", 0, Markup(), r.new_number, r.new, r.cut) for r in rows if r.new_number)


def _rows(change: DiffChange, longest: int, effort: Effort) -> Iterator[DiffRow]:
    for pair in paired(change, effort):
        yield _row(pair, longest, same=change.same)


def _row(pair: LinePair, longest: int, *, same: bool) -> DiffRow:
    kind: RowKind = "same" if same else "removed" if pair.new is None else "added" if pair.old is None else "changed"
    old = _shown(pair.old, longest, pair.removed, "del") if pair.old else Markup()
    # Unchanged lines are shown twice and marked once: that takes the longest.
    new = old if same else _shown(pair.new, longest, pair.added, "ins") if pair.new else Markup()
    cut = any(line is not None and len(line.text) > longest for line in (pair.old, pair.new))
    numbers = [line.number if line else 0 for line in (pair.old, pair.new)]
    return DiffRow(kind, numbers[0], old, numbers[1], new, cut)


def _shown(line: DiffLine, longest: int, spans: Sequence[Span] = (), tag: str = "mark") -> Markup:
    text = line.text[:longest]
    inside = [(start, min(end, longest)) for start, end in spans if start < longest]
    notes = [line.note, f"{len(line.text) - longest} more characters" if len(line.text) > longest else ""]
    return sanitize(text, inside, tag=tag) + Markup("").join(_NOTE.format(note) for note in notes if note)
