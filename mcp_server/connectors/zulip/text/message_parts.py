"""Splits a text that is too long for one message into parts that each read well. Pure.

Lengths are in characters as Zulip counts them: code points.

Source: https://zulip.com/help/format-your-message-using-markdown, and Zulip's zerver/lib/markdown/fenced_code.py for what opens
and closes a fence: only a line without indentation does; quotes and spoilers hold further fences, code and math do not.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache

_MARK = re.compile(r"`{3,}|~{3,}")
_MARK_NEXT = re.compile(r"[ \t]*(?:```|~~~)")
_KIND = re.compile(r"\{?\.?([\w+\-,./#]+)", re.ASCII)
_HOLDS_FENCES = frozenset({"quote", "quoted", "spoiler"})
_ITEM = re.compile(r"( *)(?:[-*+]|\d{1,9}[.)]) +\S")
_HEADING = re.compile(r"#{1,6} +\S")
_DASHES = re.compile(r":?-+:?")
_QUOTED = re.compile(r"(?:> ?)+")
_BEGINS_A_BLOCK = re.compile(r"[-*+>] |\d{1,9}[.)] |#{1,6} |\|")
_INDIVISIBLE = re.compile(
    r"\[[^\]\n]{0,300}\]\([^)\n]{0,2000}\)|[@#]_?\*\*[^*\n]{1,200}\*\*|\*\*[^*\n]{1,200}\*\*|\$\$[^$\n]{1,500}\$\$"
    r"|(?P<tick>`{1,8})[^`]{1,500}(?P=tick)"
)
"""Markup that loses its meaning when it is cut: links, mentions, bold words, math and code within a line."""
_BLANKS = " \t"
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
_DEEPEST = 30
_LEAST_SHARE = 0.5
"""A part at least this full may end at a good place, even if the rest has to be cut anyway."""
_NO_ROOM = "the lines that each part has to repeat leave no room"


class Unsplittable(Exception):
    """The lines that each part has to repeat (open fences, a table's head) leave no room for the text."""


class _Cut(IntEnum):
    """The kinds of places where a text can be cut, best first."""

    PARAGRAPH = 0
    ITEM = 1
    LINE = 2
    INSIDE = 3
    GAP_IN_FENCE = 4
    IN_FENCE = 5
    WORD = 6
    NEVER = 7


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line, or a piece of one, and how good a cut before it would be.

    Without a cut, `glue` precedes it. With one, `ends` closes the part before, and `begins` opens the next.
    """

    text: str
    glue: str = "\n"
    cut: _Cut = _Cut.LINE
    begins: str = ""
    ends: str = ""

    @property
    def blank(self) -> bool:
        return not self.text.strip()


@dataclass(frozen=True, slots=True)
class _Fence:
    """An open fence: its first line, the line that closes it, and whether fences may be within it."""

    line: str
    mark: str
    holds_fences: bool


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, the fences that are open before it, and whether it opens or closes one."""

    text: str
    within: tuple[_Fence, ...]
    opens: bool = False
    closes: bool = False

    @property
    def blank(self) -> bool:
        return not self.text.strip()


def split(text: str, longest: int) -> tuple[str, ...]:
    """Return `text` in parts of at most `longest` characters, in order; unchanged if it fits.

    It is cut between paragraphs, then list items, then lines, then words. A quote, list item, table or block of code that fits
    into one part stays in one. Where one does not fit, a fence is closed and opened again with its first line, and a table's head
    is repeated. Empty lines at a cut are dropped.

    Raises:
        Unsplittable: the lines that each part has to repeat leave no room.
    """
    if len(text) <= longest:
        return (text,)
    pieces = tuple(_short_enough(_pieces(_lines(text)), longest))
    parts: list[str] = []
    start = _skip_blank(pieces, 0)
    while start < len(pieces):
        end = _end_of_part(pieces, start, longest)
        ends = _ends(pieces, end)
        rest = "".join(piece.glue + piece.text for piece in pieces[start + 1 : end])
        part = pieces[start].begins + pieces[start].text + rest + ends
        parts.append(part if ends else part.rstrip())
        start = _skip_blank(pieces, end)
    return tuple(parts)


def _skip_blank(pieces: Sequence[_Piece], start: int) -> int:
    """Return the first piece from `start` on that a part may begin with: an empty line counts within fences only."""
    while start < len(pieces) and pieces[start].blank and not pieces[start].begins:
        start += 1
    return start


def _ends(pieces: Sequence[_Piece], end: int) -> str:
    return pieces[end].ends if end < len(pieces) else ""


def _end_of_part(pieces: Sequence[_Piece], start: int, longest: int) -> int:
    """Return the best end of the part that begins with piece `start`."""
    lengths = _possible_ends(pieces, start, longest)
    ends = list(lengths)
    if ends[-1] == len(pieces):
        return len(pieces)
    for worst in _Cut:
        fitting = [end for end in ends if pieces[end].cut <= worst]
        if fitting:
            last = fitting[-1]
            if lengths[last] >= longest * _LEAST_SHARE or _stays_in_one(pieces, last, worst, longest):
                return last
    return ends[-1]


def _possible_ends(pieces: Sequence[_Piece], start: int, longest: int) -> dict[int, int]:
    """Return the possible ends of a part that begins with piece `start`, with its lengths, shortest first."""
    length = visible = len(pieces[start].begins) + len(pieces[start].text)
    ends: dict[int, int] = {}
    for end in range(start + 1, len(pieces) + 1):
        closing = len(_ends(pieces, end))
        total = length + closing if closing else visible  # outside of fences empty lines at the end are dropped
        if total <= longest and (end == len(pieces) or pieces[end].cut is not _Cut.NEVER):
            ends[end] = total
        if end == len(pieces) or length > longest:
            break
        length += len(pieces[end].glue) + len(pieces[end].text)
        visible = visible if pieces[end].blank else length
    if not ends:
        raise Unsplittable("no part of it can end anywhere")
    return ends


def _stays_in_one(pieces: Sequence[_Piece], start: int, worst: _Cut, longest: int) -> bool:
    """Return whether one part has room for the text from `start` to the next place where a cut is as good as `worst`, or better."""
    length = len(pieces[start].begins) + len(pieces[start].text)
    for end in range(start + 1, len(pieces)):
        if pieces[end].cut <= worst:
            return length + len(pieces[end].ends) <= longest
        length += len(pieces[end].glue) + len(pieces[end].text)
        if length > longest:
            return False
    return length <= longest


def _lines(text: str) -> list[_Line]:
    """Return the lines with the fences around them. Fences that are open at the end are closed."""
    found: list[_Line] = []
    within: tuple[_Fence, ...] = ()
    for line in text.split("\n"):
        if within and line.rstrip() == within[-1].mark:
            found.append(_Line(line, within, closes=True))
            within = within[:-1]
        elif (fence := _opened_fence(line)) and (not within or within[-1].holds_fences):
            found.append(_Line(line, within, opens=True))
            within = (*within, fence)
        else:
            found.append(_Line(line, within))
    while within:
        found.append(_Line(within[-1].mark, within, closes=True))
        within = within[:-1]
    return found


def _opened_fence(line: str) -> _Fence | None:
    """Return the fence that the line opens, if it is not within code."""
    mark = _MARK.match(line)
    if mark is None:
        return None
    rest = line[mark.end() :].strip(" \t")  # Zulip turns tabs into spaces before it looks for fences
    kind = _KIND.match(rest)
    if "`" in rest or "~" in rest or (rest and kind is None):
        return None
    return _Fence(line, mark[0], kind is not None and kind[1].lower() in _HOLDS_FENCES)


def _pieces(lines: Sequence[_Line]) -> list[_Piece]:
    """Return the lines with how good a cut before each would be."""
    rows, flow, repeated = _table_rows(lines), _Flow(), cache(_repeated)
    found: list[_Piece] = []
    for number, line in enumerate(lines):
        previous = lines[number - 1] if number else None
        cut, head = flow.cut_before(line, previous), ""
        if line.within and previous is not None:
            if line.within[-1].holds_fences and (previous.blank or previous.closes or line.opens):
                cut = _Cut.INSIDE
            else:
                cut = _Cut.GAP_IN_FENCE if previous.blank else _Cut.IN_FENCE
        if number in rows:
            cut, head = rows[number]
        if line.closes or (previous is not None and previous.opens):
            cut = _Cut.NEVER  # it would leave an empty fence
        begins, ends = repeated(line.within)
        found.append(_Piece(line.text, cut=cut, begins=begins + head, ends=ends))
    return found


def _repeated(within: tuple[_Fence, ...]) -> tuple[str, str]:
    """Return the lines that open these fences again, and those that close them."""
    if len(within) > _DEEPEST:
        raise Unsplittable(f"fences lie in fences more than {_DEEPEST} deep")
    return "".join(f"{fence.line}\n" for fence in within), "".join(f"\n{fence.mark}" for fence in reversed(within))


def _table_rows(lines: Sequence[_Line]) -> dict[int, tuple[_Cut, str]]:
    """Return for each line of a table except its first how good a cut before it is, and the head to repeat there."""
    rows: dict[int, tuple[_Cut, str]] = {}
    for number in range(1, len(lines)):
        head = lines[number - 1 : number + 1]
        cells = head[1].text.strip().removeprefix("|").removesuffix("|").split("|")
        is_head = _is_row(head[0]) and _is_row(head[1]) and all(_DASHES.fullmatch(cell.strip()) for cell in cells)
        if number in rows or not is_head:
            continue
        rows[number] = _Cut.NEVER, ""
        repeated = "".join(f"{line.text}\n" for line in head)
        for below in range(number + 1, len(lines)):
            if not _is_row(lines[below]):
                break
            rows[below] = (_Cut.NEVER if below == number + 1 else _Cut.INSIDE), repeated
    return rows


def _is_row(line: _Line) -> bool:
    return not line.within and not line.opens and "|" in line.text


class _Flow:
    """Reads the lines outside of fences, and knows which of them belong together."""

    def __init__(self) -> None:
        self._indent: int | None = None
        """The indentation of the list's items, while in a list."""
        self._after_heading = False

    def cut_before(self, line: _Line, previous: _Line | None) -> _Cut:
        """Return the quality of a cut before the line, and count the line as read."""
        if line.within:
            self._indent = None
            return _Cut.INSIDE
        after_gap = previous is None or previous.blank or previous.closes
        item = _ITEM.match(line.text)
        cut = self._cut(line, item, after_gap=after_gap)
        if item is not None:
            self._indent = len(item[1]) if self._indent is None else min(self._indent, len(item[1]))
        elif line.opens or (after_gap and not line.blank and not line.text.startswith("  ")):
            self._indent = None
        self._after_heading = bool(_HEADING.match(line.text)) or (self._after_heading and line.blank)
        return cut

    def _cut(self, line: _Line, item: re.Match[str] | None, *, after_gap: bool) -> _Cut:
        if self._after_heading:  # at the end of a part a heading would have nothing below it
            return _Cut.INSIDE
        if self._indent is not None and item is not None:
            return _Cut.ITEM if len(item[1]) <= self._indent else _Cut.INSIDE
        if self._indent is not None and not line.opens and (not after_gap or line.text.startswith("  ")):
            return _Cut.INSIDE
        if after_gap or _HEADING.match(line.text):
            return _Cut.PARAGRAPH
        return _Cut.ITEM if line.opens or item is not None else _Cut.LINE


def _short_enough(pieces: Sequence[_Piece], longest: int) -> Iterator[_Piece]:
    """Yield the pieces, each so short that a part can hold it with everything that has to be repeated around it."""
    for number, piece in enumerate(pieces):
        room = longest - len(piece.begins) - max(len(_ends(pieces, number + 1)), len(piece.ends))
        if len(piece.text) <= room:
            yield piece
        elif room < longest * _LEAST_SHARE or _opened_fence(piece.text):
            raise Unsplittable(_NO_ROOM)
        else:
            yield from _cut_line(piece, room)


def _cut_line(piece: _Piece, room: int) -> Iterator[_Piece]:
    """Yield a line in pieces of at most `room` characters; each piece of a quoted line is marked as quoted."""
    fenced = bool(piece.ends)
    quoted = "" if fenced or (match := _QUOTED.match(piece.text)) is None else match[0]
    if len(quoted) > room * _LEAST_SHARE:
        raise Unsplittable(_NO_ROOM)
    at = _cut_at(piece.text, room, keeps_blanks=fenced)
    yield replace(piece, text=piece.text[:at])
    rest = piece.text[at:]
    while rest:
        text = rest if fenced else rest.lstrip(" \t")
        at = len(text) if len(text) <= room - len(quoted) else _cut_at(text, room - len(quoted), keeps_blanks=fenced)
        glue = rest[: len(rest) - len(text)]
        yield _Piece(text[:at], glue, _Cut.WORD, piece.begins + quoted, piece.ends)
        rest = text[at:]


def _cut_at(line: str, room: int, *, keeps_blanks: bool) -> int:
    """Return after how many characters, at most `room`, the line is cut: between words, or at least between characters."""
    # Twice the room: something indivisible may begin before its end and end after it.
    indivisible = [match.span() for match in _INDIVISIBLE.finditer(line, 0, min(len(line), 2 * room))]
    blanks = [match.end() if keeps_blanks else match.start() for match in re.finditer(r"[ \t]+", line[: room + 1])]
    usable = [at for at in blanks if 0 < at <= room and _may_cut(line, at)]
    for at in reversed(usable):
        harmless = not any(start < at < end for start, end in indivisible)
        # Text that follows must not turn into a list item or heading at the start of its part.
        harmless = harmless and not _BEGINS_A_BLOCK.match(line[at:].lstrip())
        if harmless and at >= room * _LEAST_SHARE:
            return at
    for at in itertools.chain(reversed(usable), _between_characters(line, room)):
        if _may_cut(line, at) and not _is_one_character(line, at):
            return at
    raise Unsplittable("its longest line cannot be cut")


def _between_characters(line: str, room: int) -> Iterator[int]:
    """Yield the numbers of characters after which the line may be cut, largest first; within a run of spaces only before the first."""
    for at in range(room, 0, -1):
        if at == room or not (line[at] in _BLANKS and line[at - 1] in _BLANKS):
            yield at


def _may_cut(line: str, at: int) -> bool:
    """Return whether the first side is not blank, and neither side becomes a fence by the cut."""
    return not _MARK_NEXT.match(line, at) and bool(line[:at].strip()) and _opened_fence(line[:at].rstrip()) is None


def _is_one_character(line: str, at: int) -> bool:
    """Return whether the characters before and after `at` look like one: accents, and emoji that are joined."""
    if at >= len(line):
        return False
    return bool(unicodedata.combining(line[at])) or line[at] in _JOINERS or line[at - 1] == "\u200d"
