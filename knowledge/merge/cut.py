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
_INNER_END = re.compile(r"[\r\n](?=[^\r\n])")
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


def recut(known: Cut, text: str) -> Cut:
    """Return `cut(text)`, looking only at what lies between the headings around what differs from `known`.

    A heading with `#` ends whatever was open before it, so nothing before it matters to what follows.
    """
    # An Obsidian comment ends where its end comes, however far that is.
    if "%%" in text or not known.pieces:
        return cut(text)
    before, start = _same_head(known.pieces, text)
    after, end = _same_tail(known.pieces, text, before, start)
    head, tail = known.pieces[:before], known.pieces[after:]
    # A front matter may be closed only now, however far down.
    if text.removeprefix(BOM).startswith(("---", "+++")) and (not head or head[0].kind != "front"):
        return cut(text)
    lines = split_lines(text[start:end] + (tail[0].text if tail else ""))
    seen = [bare(line) for line in lines]
    if seen and not before:
        seen[0] = seen[0].removeprefix(BOM)
    offset = head[-1].line - 1 + len(split_lines(head[-1].text)) if head else 0
    body = [
        piece._replace(line=piece.line + offset) if offset else piece
        for piece in _body(lines, seen, 0, _open_headings(head))
    ]
    if tail:
        last = body.pop()
        if (last.kind, last.text) != ("heading", tail[0].text):
            return cut(text)
        tail = _shifted(
            tail, last.line - tail[0].line, _open_headings([*head, *body]), _open_headings(known.pieces[:after])
        )
    return Cut(text, (*head, *body, *tail))


def _same_head(pieces: Sequence[Piece], text: str) -> tuple[int, int]:
    """Return how many pieces `text` begins with, up to a heading or the end of the front matter, and how many characters."""
    at, found = 0, (0, 0)
    for number, piece in enumerate(pieces):
        if not text.startswith(piece.text, at) or piece.text[-1] not in "\r\n":
            break
        if _is_marked(piece):
            found = number, at
        at += len(piece.text)
        if piece.kind == "front" and not (piece.text[-1] == "\r" and text.startswith("\n", at)):
            found = number + 1, at
    return found


def _same_tail(pieces: Sequence[Piece], text: str, before: int, start: int) -> tuple[int, int]:
    """Return the number of the first piece, a heading, from which on `text` ends with the same pieces, and where it begins."""
    at, found = len(text), (len(pieces), len(text))
    for number in range(len(pieces) - 1, before - 1, -1):
        piece = pieces[number]
        if not text.endswith(piece.text, start, at):
            break
        at -= len(piece.text)
        if _is_marked(piece) and (not at or text[at - 1] in "\r\n"):
            found = number, at
    return found


def _is_marked(piece: Piece) -> bool:
    """Return whether a piece is a heading with `#`, which is one line; others have their marks on a line of their own."""
    return piece.kind == "heading" and not _INNER_END.search(piece.text)


def level_of(heading: Piece) -> int:
    """Return the level of a piece that is a heading."""
    if _is_marked(heading):
        text = heading.text.removeprefix(BOM).lstrip(" \t")
        return len(text) - len(text.lstrip("#"))
    return 1 if split_lines(heading.text)[-1].lstrip(" \t").startswith("=") else 2


def _open_headings(pieces: Sequence[Piece]) -> list[tuple[int, tuple[str, ...]]]:
    """Return the headings under which what follows these pieces lies, each with its level, outermost first."""
    above: list[tuple[int, tuple[str, ...]]] = []
    for piece in pieces:
        if piece.kind == "heading":
            level = level_of(piece)
            while above and above[-1][0] >= level:
                above.pop()
            above.append((level, piece.section))
    return above


def _shifted(
    tail: Sequence[Piece],
    lines: int,
    above: list[tuple[int, tuple[str, ...]]],
    before: list[tuple[int, tuple[str, ...]]],
) -> tuple[Piece, ...]:
    """Return the pieces so many lines further down, under the headings `above` instead of those `before`."""
    if above == before:
        return tuple(Piece(p.kind, p.text, p.line + lines, p.section) for p in tail) if lines else tuple(tail)
    found: list[Piece] = []
    section: tuple[str, ...] = ()
    for piece in tail:
        if piece.kind == "heading":
            level = level_of(piece)
            while above and above[-1][0] >= level:
                above.pop()
            section = (*(above[-1][1] if above else ()), piece.section[-1])
            above.append((level, section))
        found.append(Piece(piece.kind, piece.text, piece.line + lines, section))
    return tuple(found)


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


@lru_cache(maxsize=4 * REMEMBERED)
def _starts_of(text: str) -> tuple[int, ...]:
    return item_starts([bare(line) for line in split_lines(text)])


def _pieces(lines: Sequence[str], seen: Sequence[str]) -> Iterator[Piece]:
    body = read_front_matter(seen).body
    if body:
        yield Piece("front", "".join(lines[:body]), 1, ())
    yield from _body(lines, seen, body)


def _body(
    lines: Sequence[str], seen: Sequence[str], first: int, above: list[tuple[int, tuple[str, ...]]] | None = None
) -> Iterator[Piece]:
    at = first
    above = above or []
    section = above[-1][1] if above else ()
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
        yield from _spans(piece, number, "item", lines, _starts_of(piece.text))
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
