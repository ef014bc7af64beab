"""Cuts a document into pieces that add up to it exactly, and pieces into units. Pure.

Merging and reading a page use one scanner, `knowledge.pages.markdown.blocks`, so both see the same blocks (kb/decisions/0022).
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
BLANK = " \t\r\n"

REMEMBERED = 24
REMEMBERED_CHARACTERS = 500_000
"""Longer texts are not cached."""
REMEMBERED_SECTIONS = 1_024
"""Cached sections: versions of a page differ in few of them, so the others need not be cut again."""
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


# Lines


def split_lines(text: str) -> list[str]:
    """Return the lines of `text` with their ends: LF, CR LF or CR, and nothing else. The lines joined are `text`.

    `str.splitlines` also ends lines at form feeds and Unicode separators, where no Markdown line ends.
    """
    if "\r" in text:
        return _LINE.findall(text)
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def bare(line: str) -> str:
    """Return `line` without its end."""
    return line.rstrip("\r\n")


def without_last_blanks(lines: Sequence[str], start: int, end: int) -> int:
    """Return the end of `lines[start:end]` without trailing blank lines; at least one line stays."""
    while end > start + 1 and not lines[end - 1].strip(BLANK):
        end -= 1
    return end


# Front matter


def front_matter(text: str) -> FrontMatter:
    """Return the parsed front matter of a page; the last few are cached."""
    found = _FRONT.match(text)
    if found:
        return _read_front_once(found[0])
    return _read_front(text) if _may_have_front(text) else read_front_matter(())


def _may_have_front(text: str) -> bool:
    return text.removeprefix(BOM).startswith(("---", "+++"))


def _read_front(text: str) -> FrontMatter:
    return read_front_matter([bare(line) for line in split_lines(text.removeprefix(BOM))])


_read_front_once = lru_cache(maxsize=REMEMBERED)(_read_front)


# Pieces


def cut(text: str) -> CutDocument:
    """Return `text` cut into pieces, in order. Never raises; the pieces joined are `text`, character for character.

    The last few texts are cached, so that one revision of a page is cut only once.
    """
    return _cut_once(text) if len(text) <= REMEMBERED_CHARACTERS else _cut(text)


def _cut(text: str) -> CutDocument:
    pieces: list[DocumentPiece] = []
    end = body = 0
    if _may_have_front(text) and (body := front_matter(text).body):
        end = sum(map(len, split_lines(text)[:body]))
        pieces.append(DocumentPiece("front", text[:end], 1, ()))
    return CutDocument(text, (*pieces, *_body(text, end, body, is_page=True)))


_cut_once = lru_cache(maxsize=REMEMBERED)(_cut)


def blocks_of(text: str) -> tuple[DocumentPiece, ...]:
    """Return the pieces of a part of a document, where nothing is front matter."""
    return tuple(_body(text, 0, 0))


def first_heading(text: str) -> str:
    """Return the first heading of `text`, "" without any."""
    return next((" ".join(piece.section[-1:]) for piece in cut(text).pieces if piece.kind == "heading"), "")


def heading_level(heading: DocumentPiece) -> int:
    """Return the level of a piece that is a heading: of the `#` before its words, or of the line under them."""
    if not _INNER_END.search(heading.text):
        text = heading.text.removeprefix(BOM).lstrip(" \t")
        return len(text) - len(text.lstrip("#"))
    return 1 if split_lines(heading.text)[-1].lstrip(" \t").startswith("=") else 2


class _SectionPiece(NamedTuple):
    """A piece that begins `below` lines below the first line of its section.

    `level` and `title` are those of a heading.
    """

    kind: PieceKind
    text: str
    below: int
    level: int
    title: str


class _SectionLines(NamedTuple):
    """The pieces of a stretch of `lines` lines; `ended` says whether a `#` line right below it would be a heading."""

    parts: tuple[_SectionPiece, ...]
    lines: int
    ended: bool


def _body(text: str, start: int, line: int, *, is_page: bool = False) -> Iterator[DocumentPiece]:
    """Yield the pieces of `text` from `start` on; `line` is the number of lines before them."""
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
    """Yield the stretches of `text` from one `#` heading to the next, from `start` on.

    Cut one by one, they can also be cached one by one. A line that looks like a heading may be code: that is known only when
    the text above it has been cut.
    """
    enough = 0
    # An Obsidian comment extends to its next mark, even across headings.
    for mark in () if "%%" in text else _ATX_START.finditer(text, start + 1):
        # Where one stretch did not end, twice as much is cut next: long code full of `#` takes linear time, not quadratic.
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
    return (_cut_section_once if len(text) <= LONGEST_SECTION else _cut_section)(text, is_first)


def _cut_section(text: str, is_first: bool) -> _SectionLines:  # noqa: FBT001  (lru_cache takes it either way for another call)
    lines = split_lines(text)
    seen = [bare(line) for line in lines]
    if is_first and seen:
        seen[0] = seen[0].removeprefix(BOM)
    # The heading below is added as a trial: if it is read as one, nothing above it is still open.
    blocks = scan([*seen, "#"]).blocks
    ended = blocks[-1].kind == "heading" and blocks[-1].start == len(seen)
    parts: list[_SectionPiece] = []
    at = 0
    for block in blocks[:-1] if ended else scan(seen).blocks:
        if block.start > at:
            parts.append(_SectionPiece("blank", "".join(lines[at : block.start]), at, 0, ""))
        title = plain(block.text) if block.kind == "heading" else ""
        own = "".join(lines[block.start : block.end])
        parts.append(_SectionPiece(block.kind, own, block.start, block.level, title))
        at = block.end
    if at < len(lines):
        parts.append(_SectionPiece("blank", "".join(lines[at:]), at, 0, ""))
    return _SectionLines(tuple(parts), len(lines), ended)


_cut_section_once = lru_cache(maxsize=REMEMBERED_SECTIONS)(_cut_section)


# Units

_UnitInside = tuple[UnitKind, str, int]
"""A unit inside a piece: its kind, its text, and how many lines below the first one of the piece it begins."""

_ONE_UNIT: dict[str, UnitKind] = {
    "heading": "heading",
    "paragraph": "paragraph",
    "fence": "fence",
    "code": "code",
    "html": "html",
    "quote": "quote",
    "comment": "comment",
}
"""Kinds of pieces that are one unit each, with that unit's kind."""


@lru_cache(maxsize=REMEMBERED)
def units(document: CutDocument) -> tuple[Unit, ...]:
    """Return the smallest texts of `document` that have an origin, in order.

    These are the keys of the front matter with the comments above them, the outermost list items with everything in them,
    the rows of tables (the head is one, the line of dashes is not), and every other piece as a whole. Blank lines and rules
    are not units.
    """
    found: list[Unit] = []
    for number, piece in enumerate(document.pieces):
        if (same := _ONE_UNIT.get(piece.kind)) is not None:
            found.append(Unit(same, piece.text, piece.line, piece.section, number))
        elif piece.kind in ("list", "table", "front"):
            split = _split_piece_once if len(piece.text) <= LONGEST_SECTION else _split_piece
            found += [Unit(k, t, piece.line + n, piece.section, number) for k, t, n in split(piece.kind, piece.text)]
    return tuple(found)


def _split_piece(kind: PieceKind, text: str) -> tuple[_UnitInside, ...]:
    """Return the units of a list, a table or a front matter."""
    lines = split_lines(text)
    if kind == "table":
        return tuple(("row", line, at) for at, line in enumerate(lines) if at != 1)
    if kind == "list":
        return _spans("item", lines, item_starts_in(text))
    starts = front_starts(lines)
    if starts:
        return _spans("front", lines[:-1], starts)
    return (("front", text, 0),) if len(lines) > 2 else ()


_split_piece_once = lru_cache(maxsize=REMEMBERED_SECTIONS)(_split_piece)


def _spans(kind: UnitKind, lines: Sequence[str], starts: Sequence[int]) -> tuple[_UnitInside, ...]:
    return tuple(
        (kind, "".join(lines[start : without_last_blanks(lines, start, end)]), start)
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    )


@lru_cache(maxsize=8 * REMEMBERED)
def item_starts_in(text: str) -> tuple[int, ...]:
    """Return the lines of `text`, from 0, at which the outermost items of a list begin; cached."""
    return item_starts([bare(line) for line in split_lines(text)])


def item_starts(lines: Sequence[str]) -> tuple[int, ...]:
    """Return the indexes of the lines at which the outermost items of the list begin; only the first if it is not a list."""
    blocks = scan(lines).blocks
    if len(blocks) == 1 and blocks[0].kind == "list" and blocks[0].start == 0:
        return blocks[0].items
    return (0,)


def front_starts(lines: Sequence[str]) -> tuple[int, ...]:
    """Return the indexes of the lines at which the top-level keys of a front matter begin, with the comments above them.

    `lines` include its fences. Returns nothing if it is not made of plain keys.
    """
    if len(lines) < 3 or bare(lines[0]).removeprefix(BOM).rstrip(" \t") != "---":
        return ()
    starts: list[int] = []
    above = 1
    for at in range(1, len(lines) - 1):
        line = lines[at]
        if line[0] in "#\r\n" or not line.strip(BLANK):
            continue
        if line[0] not in " \t" and _KEY.match(line):
            # The comments above a key belong to it; all lines above the first key belong to the first.
            starts.append(above if starts else 1)
        elif not starts or not (line[0] in " \t" or line.startswith(("- ", "-\n", "-\r"))):
            return ()
        above = at + 1
    return tuple(starts)
