"""A long proposal from its beginning to its end: passages, each shown piece by piece, so that no piece is large. Pure.

All of a proposal at once took 245 MB for 6 MB of plain text, and 1.4 GB where each character had to be marked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from knowledge.history.ports import Flag
from knowledge.trust.ports import Proposal
from mcp_server.approvals.proposals import calls_of
from mcp_server.approvals.summary import becomes
from mcp_server.web.text.diffs import HEADER, MARKS, NAMING_LINES
from mcp_server.web.text.sanitize import sanitize, sanitize_line

WHOLE_AT_ONCE = 100_000
"""Characters of a proposal that are shown in one piece, with diffs side by side."""
PIECE = 60_000
"""Characters of one piece. Each may have to be marked, which takes a hundred bytes."""
MARKED = '-char"'
"""In the HTML of a text of which something is marked; its own quotes are escaped."""

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
    """Where in a diff a piece begins: the next lines' numbers, how many are left in the hunk, and in which line it is, if in one."""

    old: int = 0
    old_left: int = 0
    new: int = 0
    new_left: int = 0
    inside: str = ""
    names: int = NAMING_LINES

    @property
    def between(self) -> bool:
        """Return whether the hunk is over."""
        return self.old_left <= 0 and self.new_left <= 0


@dataclass(frozen=True, slots=True)
class PassagePiece:
    """What one step turns into HTML. `place` is None for a plain text."""

    text: str
    place: DiffPosition | None


@dataclass(frozen=True, slots=True)
class ShownPiece:
    """A piece as HTML, and where the next one begins. `marked`: some of its characters had to be marked."""

    html: Markup
    place: DiffPosition | None
    marked: bool


def passages_of(proposal: Proposal, flags: Sequence[Flag]) -> Iterator[Passage]:
    """Yield everything that a decision is about, in the order of its page."""
    preview = json.loads(proposal.preview)
    yield Passage("Why this needs approval", proposal.why)
    for flag in flags:
        found = flag.contradiction
        for heading, side in (("In the knowledge base", found.existing), ("Proposed", found.new)):
            yield Passage(f"{heading}: {side.path}, {side.source}", side.text)
    for file in preview.get("files") or ():
        yield Passage(f"{file.get('path')}: {becomes(file)}", str(file.get("diff") or ""), diff=True)
    answer = preview.get("answer")
    parts = answer if isinstance(answer, dict) else {"answer": answer}
    for name, value in parts.items():
        if value not in (None, "", [], {}):
            yield Passage(f"Effect: {name}", _text(value))
    for number, call in enumerate(calls_of(proposal), 1):
        for name in sorted(call):
            yield Passage(f"Argument of call {number}: {name}", _text(call[name]))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)


def pieces_of(text: str) -> Iterator[str]:
    """Yield the text in pieces that end with a line where there is one, else between words: no mark depends on what is cut apart."""
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
        # The line goes on in the next piece; if it fills this one, it began in an earlier one.
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
    """Return what a line between two hunks says, which may begin one."""
    names = max(0, place.names - 1)
    header = HEADER.match(line)
    if header is None:
        return (Markup() if place.names or not line else _NOTE.format(sanitize_line(line))), replace(place, names=names)
    old, old_left, new, new_left = (1 if part is None else int(part) for part in header.groups())
    return (_GAP if place.old or place.new else Markup()), DiffPosition(old, old_left, new, new_left, names=0)
