"""Cutting a document into pieces that together are the document again, and those into units. Pure.

Front matter, headings and blocks end where the reading side sees them end: the scanner is the same one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from knowledge.merge.model import CutDocument, DocumentPiece, PieceKind, Unit, UnitKind
from knowledge.pages.front_matter import FrontMatter, read_front_matter
from knowledge.pages.markdown.blocks import scan
from knowledge.pages.markdown.inline import plain

BOM = "\ufeff"

REMEMBERED = 24
REMEMBERED_CHARACTERS = 500_000
"""Longer texts are not remembered cut."""
REMEMBERED_SECTIONS = 1_024
"""Versions of a page differ in a few of their sections: the others are cut once."""
LONGEST_SECTION = 10_000

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FRONT = re.compile(
    r"\ufeff?---[ \t]*+(?>\r\n|\r|\n)(?:[^\r\n]*+(?>\r\n|\r|\n))*?(?:---|\.\.\.)[ \t]*+(?>\r\n|\r|\n|\Z)"
)
_ATX_START = re.compile(r"(?<=\n)#{1,6}(?=[ \t\r\n]|\Z)")
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


def cut(text: str) -> CutDocument:
    """Return `text` in pieces, in order. Never raises; the joined texts of the pieces are `text`, character for character.

    The last few texts are remembered: a page that is merged into is cut once a revision.
    """
    return _cut_once(text) if len(text) <= REMEMBERED_CHARACTERS else _cut(text)


def front_matter(text: str) -> FrontMatter:
    """Return what the front matter of a page says; the last few are remembered."""
    found = _FRONT.match(text)
    return _front_once(found[0]) if found else read_front_matter(_seen(text) if _may_have_front(text) else ())


@lru_cache(maxsize=REMEMBERED)
def _front_once(head: str) -> FrontMatter:
    return read_front_matter(_seen(head))


def _may_have_front(text: str) -> bool:
    return text.removeprefix(BOM).startswith(("---", "+++"))


def _seen(text: str) -> list[str]:
    """Return the lines of a page as they are read: without their ends, and without a byte order mark."""
    return [bare(line) for line in split_lines(text.removeprefix(BOM))]


def _is_marked(piece: DocumentPiece) -> bool:
    """Return whether a piece is a heading with `#`, which is one line; others have their marks on a line of their own."""
    return piece.kind == "heading" and not _INNER_END.search(piece.text)


def level_of(heading: DocumentPiece) -> int:
    """Return the level of a piece that is a heading."""
    if _is_marked(heading):
        text = heading.text.removeprefix(BOM).lstrip(" \t")
        return len(text) - len(text.lstrip("#"))
    return 1 if split_lines(heading.text)[-1].lstrip(" \t").startswith("=") else 2


@lru_cache(maxsize=REMEMBERED)
def _cut_once(text: str) -> CutDocument:
    return _cut(text)


def _cut(text: str) -> CutDocument:
    return CutDocument(text, tuple(_pieces(text)))


@lru_cache(maxsize=REMEMBERED)
def units(document: CutDocument) -> tuple[Unit, ...]:
    """Return the smallest texts of `document` whose origin is kept, in order.

    These are the keys of the front matter with the comments above them, the outermost list items with all in them, the
    rows of tables (the head is one, the line of dashes is none), and otherwise the piece itself. Blank lines and rules
    are no units.
    """
    found: list[Unit] = []
    for number, piece in enumerate(document.pieces):
        if (same := _SAME.get(piece.kind)) is not None:
            found.append(Unit(same, piece.text, piece.line, piece.section, number))
        elif piece.kind in ("list", "table", "front"):
            found += [Unit(k, t, piece.line + n, piece.section, number) for k, t, n in _inside_of(piece)]
    return tuple(found)


def first_heading(text: str) -> str:
    """Return the first heading of `text`, "" without any."""
    return next((" ".join(piece.section[-1:]) for piece in cut(text).pieces if piece.kind == "heading"), "")


def blocks_of(text: str) -> tuple[DocumentPiece, ...]:
    """Return the pieces of a part of a document: what looks like front matter is none there."""
    return tuple(_body(text, 0, 0))


def item_starts(lines: Sequence[str]) -> tuple[int, ...]:
    """Return at which of `lines`, from 0, the outermost items of the list begin that they are; one if they are no list."""
    blocks = scan(lines).blocks
    if len(blocks) == 1 and blocks[0].kind == "list" and blocks[0].start == 0:
        return blocks[0].items
    return (0,)


@lru_cache(maxsize=8 * REMEMBERED)
def starts_of(text: str) -> tuple[int, ...]:
    """Return what `item_starts` says of the lines of `text`; the last few lists are remembered."""
    return item_starts([bare(line) for line in split_lines(text)])


def _pieces(text: str) -> Iterator[DocumentPiece]:
    end, lines = _front(text)
    if end:
        yield DocumentPiece("front", text[:end], 1, ())
    yield from _body(text, end, lines, is_page=True)


def _front(text: str) -> tuple[int, int]:
    """Return how many characters the front matter has, and how many lines; none of both where there is none."""
    if not _may_have_front(text):
        return 0, 0
    body = front_matter(text).body
    return sum(map(len, split_lines(text)[:body])) if body else 0, body


class _SectionPiece(NamedTuple):
    """A piece that begins so many lines below the first one of its section; `level` and `title` are a heading's."""

    kind: PieceKind
    text: str
    below: int
    level: int
    title: str


class _SectionLines(NamedTuple):
    """What is in a stretch of so many lines; `ended` says whether a heading with `#` right below it is one."""

    parts: tuple[_SectionPiece, ...]
    lines: int
    ended: bool


def _body(text: str, start: int, line: int, *, is_page: bool = False) -> Iterator[DocumentPiece]:
    """Yield the pieces of `text` from `start` on, above which so many lines are."""
    above: list[tuple[int, tuple[str, ...]]] = []
    path: tuple[str, ...] = ()
    for section in _sections(text, start, is_page=is_page):
        for kind, own, below, level, title in section.parts:
            if kind == "heading":
                while above and above[-1][0] >= level:
                    above.pop()
                path = (*(above[-1][1] if above else ()), title)
                above.append((level, path))
            yield DocumentPiece(kind, own, line + below + 1, path)
        line += section.lines


def _sections(text: str, start: int, *, is_page: bool) -> Iterator[_SectionLines]:
    """Yield what is in each stretch of `text` from one heading with `#` to the next, from `start` on.

    What looks like a heading may be code: that is seen when what is above it has been cut.
    """
    enough = 0
    # An Obsidian comment ends where its end comes, whatever is in between.
    for mark in () if "%%" in text else _ATX_START.finditer(text, start + 1):
        # Of what did not end at the last one twice as much is cut next, so that long code is read in linear time.
        if mark.start() - start < enough:
            continue
        found = _section(text[start : mark.start()], is_first=is_page and not start)
        if found.ended:
            yield found
            start, enough = mark.start(), 0
        else:
            enough = 2 * (mark.start() - start)
    yield _section(text[start:], is_first=is_page and not start)


def _section(text: str, *, is_first: bool) -> _SectionLines:
    return (_section_once if len(text) <= LONGEST_SECTION else _section_cut)(text, is_first)


def _section_cut(text: str, is_first: bool) -> _SectionLines:  # noqa: FBT001  (lru_cache takes it either way for another call)
    lines = split_lines(text)
    seen = [bare(line) for line in lines]
    if is_first and seen:
        seen[0] = seen[0].removeprefix(BOM)
    blocks = scan([*seen, "#"]).blocks
    ended = blocks[-1].kind == "heading" and blocks[-1].start == len(seen)
    parts: list[_SectionPiece] = []
    at = 0
    for block in blocks[:-1] if ended else scan(seen).blocks:
        if block.start > at:
            parts.append(_SectionPiece("blank", "".join(lines[at : block.start]), at, 0, ""))
        title = plain(block.text) if block.kind == "heading" else ""
        parts.append(
            _SectionPiece(block.kind, "".join(lines[block.start : block.end]), block.start, block.level, title)
        )
        at = block.end
    if at < len(lines):
        parts.append(_SectionPiece("blank", "".join(lines[at:]), at, 0, ""))
    return _SectionLines(tuple(parts), len(lines), ended)


_section_once = lru_cache(maxsize=REMEMBERED_SECTIONS)(_section_cut)


_Inside = tuple[UnitKind, str, int]
"""A unit inside a piece: its kind, its text, and how many lines below the first one of the piece it begins."""

_SAME: dict[str, UnitKind] = {
    "heading": "heading",
    "paragraph": "paragraph",
    "fence": "fence",
    "code": "code",
    "html": "html",
    "quote": "quote",
    "comment": "comment",
}


def _inside_of(piece: DocumentPiece) -> tuple[_Inside, ...]:
    return (_inside_once if len(piece.text) <= LONGEST_SECTION else _inside)(piece.kind, piece.text)


def _inside(kind: PieceKind, text: str) -> tuple[_Inside, ...]:
    """Return what a list, a table or a front matter is made of."""
    lines = split_lines(text)
    if kind == "list":
        return _spans("item", lines, starts_of(text))
    if kind == "table":
        return tuple(("row", line, at) for at, line in enumerate(lines) if at != 1)
    starts = front_starts(lines)
    if starts:
        return _spans("front", lines[:-1], starts)
    return (("front", text, 0),) if len(lines) > 2 else ()


_inside_once = lru_cache(maxsize=REMEMBERED_SECTIONS)(_inside)


def _spans(kind: UnitKind, lines: Sequence[str], starts: Sequence[int]) -> tuple[_Inside, ...]:
    """Return what begins at each of `starts`, without the blank lines after it."""
    found: list[_Inside] = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        last = end
        while last > start + 1 and not lines[last - 1].strip(_BLANK):
            last -= 1
        found.append((kind, "".join(lines[start:last]), start))
    return tuple(found)


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
