"""Cutting a document into pieces that together are the document again, and those into units. Pure.

Front matter, headings and blocks end where the reading side sees them end: the scanner is the same one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from knowledge.front_matter import read_front_matter
from knowledge.inline import plain
from knowledge.markdown import scan
from knowledge.merge.model import Cut, Piece, Unit, UnitKind

BOM = "\ufeff"

REMEMBERED = 24
REMEMBERED_CHARACTERS = 500_000
"""Longer texts are not remembered cut."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_KEY = re.compile(
    r"(?:[^\s#&*!|>'\"%@`\[\]{},?:-]|[?:-](?=\S))[^\r\n]*?:(?=[ \t\r\n]|$)|\"[^\"\r\n]*\"[ \t]*:|'[^'\r\n]*'[ \t]*:"
)
_BLANK = " \t\r\n"


def split_lines(text: str) -> list[str]:
    """Return the lines of `text` with their ends, which are LF, CR LF and CR and nothing else; joined they are `text`."""
    if "\r" in text:
        return _LINE.findall(text)
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def bare(line: str) -> str:
    """Return `line` without its end."""
    return line.rstrip("\r\n")


def cut(text: str) -> Cut:
    """Return `text` in pieces, in order. Never raises; the joined texts of the pieces are `text`, character for character.

    The last few texts are remembered: a page that is merged into is cut once a revision.
    """
    return _cut_once(text) if len(text) <= REMEMBERED_CHARACTERS else _cut(text)


@lru_cache(maxsize=REMEMBERED)
def _cut_once(text: str) -> Cut:
    return _cut(text)


def _cut(text: str) -> Cut:
    lines = split_lines(text)
    seen = [bare(line) for line in lines]
    if seen:
        seen[0] = seen[0].removeprefix(BOM)
    return Cut(text, tuple(_pieces(lines, seen)))


@lru_cache(maxsize=REMEMBERED)
def units(document: Cut) -> tuple[Unit, ...]:
    """Return the smallest texts of `document` whose origin is kept, in order.

    These are the keys of the front matter with the comments above them, the outermost list items with all in them, the
    rows of tables (the head is one, the line of dashes is none), and otherwise the piece itself. Blank lines and rules
    are no units.
    """
    return tuple(unit for number, piece in enumerate(document.pieces) for unit in _units(piece, number))


def blocks_of(text: str) -> tuple[Piece, ...]:
    """Return the pieces of a part of a document: what looks like front matter is none there."""
    lines = split_lines(text)
    return tuple(_body(lines, [bare(line) for line in lines], 0))


def item_starts(lines: Sequence[str]) -> tuple[int, ...]:
    """Return at which of `lines`, from 0, the outermost items of the list begin that they are; one if they are no list."""
    blocks = scan(lines).blocks
    if len(blocks) == 1 and blocks[0].kind == "list" and blocks[0].start == 0:
        return blocks[0].items
    return (0,)


def _pieces(lines: Sequence[str], seen: Sequence[str]) -> Iterator[Piece]:
    body = read_front_matter(seen).body
    if body:
        yield Piece("front", "".join(lines[:body]), 1, ())
    yield from _body(lines, seen, body)


def _body(lines: Sequence[str], seen: Sequence[str], first: int) -> Iterator[Piece]:
    at = first
    section: tuple[str, ...] = ()
    above: list[tuple[int, tuple[str, ...]]] = []
    for block in scan(seen, first).blocks:
        if block.start > at:
            yield Piece("blank", "".join(lines[at : block.start]), at + 1, section)
        if block.kind == "heading":
            while above and above[-1][0] >= block.level:
                above.pop()
            section = (*(above[-1][1] if above else ()), plain(block.text))
            above.append((block.level, section))
        yield Piece(block.kind, "".join(lines[block.start : block.end]), block.start + 1, section)
        at = block.end
    if at < len(lines):
        yield Piece("blank", "".join(lines[at:]), at + 1, section)


_SAME: dict[str, UnitKind] = {
    "heading": "heading",
    "paragraph": "paragraph",
    "fence": "fence",
    "code": "code",
    "html": "html",
    "quote": "quote",
    "comment": "comment",
}


def _units(piece: Piece, number: int) -> Iterator[Unit]:
    if (same := _SAME.get(piece.kind)) is not None:
        yield Unit(same, piece.text, piece.line, piece.section, number)
    elif piece.kind == "list":
        lines = split_lines(piece.text)
        yield from _spans(piece, number, "item", lines, item_starts([bare(line) for line in lines]))
    elif piece.kind == "table":
        lines = split_lines(piece.text)
        for at, line in enumerate(lines):
            if at != 1:
                yield Unit("row", line, piece.line + at, piece.section, number)
    elif piece.kind == "front":
        lines = split_lines(piece.text)
        starts = front_starts(lines)
        if starts:
            yield from _spans(piece, number, "front", lines[:-1], starts)
        elif len(lines) > 2:
            yield Unit("front", piece.text, piece.line, piece.section, number)


def _spans(piece: Piece, number: int, kind: UnitKind, lines: Sequence[str], starts: Sequence[int]) -> Iterator[Unit]:
    """Yield what begins at each of `starts`, without the blank lines after it."""
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        last = end
        while last > start + 1 and not lines[last - 1].strip(_BLANK):
            last -= 1
        yield Unit(kind, "".join(lines[start:last]), piece.line + start, piece.section, number)


def front_starts(lines: Sequence[str]) -> tuple[int, ...]:
    """Return where, in the lines of a front matter with its fences, each top-level key begins, its comments above it included.

    Nothing if it is not made of plain keys.
    """
    if len(lines) < 3 or bare(lines[0]).removeprefix(BOM).rstrip(" \t") != "---":
        return ()
    starts: list[int] = []
    above = 1
    for at in range(1, len(lines) - 1):
        line = lines[at]
        if line[0] in "#\r\n" or not line.strip(_BLANK):
            continue
        if line[0] not in " \t" and _KEY.match(line):
            starts.append(above if starts else 1)
        elif not starts or not (line[0] in " \t" or line.startswith(("- ", "-\n", "-\r"))):
            return ()
        above = at + 1
    return tuple(starts)
