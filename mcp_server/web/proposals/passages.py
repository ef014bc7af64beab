"""A long proposal in passages, each shown piece by piece, so that no piece is large. Pure.

Shown at once, a proposal of 6 MB took 245 MB of memory, and 1.4 GB where each character had to be marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from markupsafe import Markup

from mcp_server.presenters.diffs import HEADER, MARKS, NAMING_LINES
from mcp_server.presenters.proposal import ProposalSummary, given, value_text
from mcp_server.web.text.sanitize import sanitize, sanitize_line

WHOLE_AT_ONCE = 100_000
"""Characters of a proposal that are shown in one piece, with diffs side by side."""
PIECE = 60_000
"""Characters of one piece. Each may have to be marked, which takes a hundred bytes."""
MARKED = '-char"'
"""A part of every mark's HTML that no text can contain, because quotes in texts are escaped."""

_BETWEEN_WORDS = re.compile(r"\S[ \t](?=\S)")
_ROW = Markup(
    '<div class="row {0}" role="row"><span class="no" role="cell">{1}</span><span class="no" role="cell">{2}</span>'
    '<span class="sign" role="cell">{3}</span><span class="foreign" role="cell">{4}</span></div>\n'
)
_GAP = Markup('<div class="gap" aria-hidden="true">⋯</div>\n')
_NOTE = Markup('<p class="notice warn">{0}</p>\n')
_KINDS = {" ": ("same", ""), "-": ("removed", "\N{MINUS SIGN}"), "+": ("added", "+"), "\\": ("same", "")}


@dataclass(frozen=True, slots=True)
class Passage:
    """One text of a proposal with a heading. A `diff` is unified, and shown in rows."""

    title: str
    text: str
    diff: bool = False


@dataclass(frozen=True, slots=True)
class DiffPosition:
    """Where in a diff a piece begins: the next lines' numbers, the lines left in the hunk, the mark of the line that it continues."""

    old: int = 0
    old_left: int = 0
    new: int = 0
    new_left: int = 0
    inside: str = ""
    names: int = NAMING_LINES

    @property
    def between(self) -> bool:
        """Whether the hunk is complete."""
        return self.old_left <= 0 and self.new_left <= 0


@dataclass(frozen=True, slots=True)
class PassagePiece:
    """The text that one step turns into HTML. `place` is None for a plain text."""

    text: str
    place: DiffPosition | None


@dataclass(frozen=True, slots=True)
class ShownPiece:
    """A piece as HTML, and where the next one begins. `marked`: it has marks in the place of characters."""

    html: Markup
    place: DiffPosition | None
    marked: bool


def passages_of(summary: ProposalSummary) -> Iterator[Passage]:
    """Yield everything that a decision depends on, in the order of its page."""
    yield Passage("Why this needs approval", summary.proposal.why)
    if summary.note:
        yield Passage("Note", summary.note)
    for found in summary.contradictions:
        for heading, side in (("In the knowledge base", found.existing), ("New text", found.new)):
            yield Passage(f"{heading}: {side.path}, {side.source}", side.text)
    for file in summary.files:
        yield Passage(f"{file.path} {file.effect}", file.diff, diff=True)
    for file in summary.as_proposed:
        yield Passage(f"As proposed: {file.path} {file.effect}", file.diff, diff=True)
    for name, value in (("verdicts", summary.blocks), ("conflicts", summary.conflicts), *summary.rest.items()):
        if value:
            yield Passage(f"Expected result: {name}", value_text(value))
    for number, call in enumerate(summary.calls, 1):
        for name, value in sorted(given(call).items()):
            yield Passage(f"Argument of call {number}: {name}", value_text(value))


def pieces_of(text: str) -> Iterator[str]:
    """Yield the text in pieces that end with a line, or else between words, so that no mark depends on characters of two pieces."""
    at = 0
    while at < len(text):
        end = _end(text, at)
        yield text[at:end]
        at = end


def _end(text: str, at: int) -> int:
    most = at + PIECE
    if most >= len(text):
        return len(text)
    line = text.rfind("\n", at + PIECE // 2, most) + 1
    if line:
        return line
    words = [match.end() for match in _BETWEEN_WORDS.finditer(text, most - PIECE // 8, most)]
    return words[-1] if words else most


def shown(piece: PassagePiece) -> ShownPiece:
    """Return the piece as HTML."""
    if piece.place is None:
        html = sanitize(piece.text)
        return ShownPiece(html, None, MARKED in html)
    rows: list[Markup] = []
    place = piece.place
    lines = piece.text.split("\n")
    whole = lines[-1] == ""
    for line in lines[:-1] if whole else lines:
        row, place = _row(line, place)
        rows.append(row)
    if not whole:
        # The next piece continues this line. If the line fills the whole piece, it began in an earlier one.
        cut_before = piece.place.inside if len(lines) == 1 else ""
        place = replace(place, inside=cut_before or lines[-1][:1])
    html = Markup("").join(rows)
    return ShownPiece(html, place, MARKED in html)


def _row(line: str, place: DiffPosition) -> tuple[Markup, DiffPosition]:
    """Return a line of the diff as a row, and where the next one is."""
    if place.inside:
        kind, _ = _KINDS.get(place.inside, _KINDS[" "])
        return _ROW.format(kind, "", "", "…", sanitize(line)), replace(place, inside="")
    mark = line[:1]
    if place.between and mark != "\\":
        return _outside(line, place)
    if mark not in MARKS:
        return _NOTE.format(sanitize_line(line)), replace(place, old_left=0, new_left=0)
    kind, sign = _KINDS[mark]
    is_old, is_new = mark in " -", mark in " +"
    row = _ROW.format(kind, place.old if is_old else "", place.new if is_new else "", sign, sanitize(line[1:]))
    return row, replace(
        place,
        old=place.old + is_old,
        old_left=place.old_left - is_old,
        new=place.new + is_new,
        new_left=place.new_left - is_new,
    )


def _outside(line: str, place: DiffPosition) -> tuple[Markup, DiffPosition]:
    """Return the HTML for a line outside of the hunks, and the position after it. The line may be the header of the next hunk."""
    names = max(0, place.names - 1)
    header = HEADER.match(line)
    if header is None:
        return (Markup() if place.names or not line else _NOTE.format(sanitize_line(line))), replace(place, names=names)
    old, old_left, new, new_left = (1 if part is None else int(part) for part in header.groups())
    return (_GAP if place.old or place.new else Markup()), DiffPosition(old, old_left, new, new_left, names=0)
