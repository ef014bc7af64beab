"""What whole document a caller means who sent a document, one section of it, or something new without a place. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from knowledge.merge.document.units import BOM, bare, blocks_of, cut, level_of, split_lines
from knowledge.merge.model import CutDocument, DocumentPiece, Form, section_name
from knowledge.merge.normalise import adapted
from knowledge.pages.document import Heading, find_heading

_BLANK = " \t\r\n"
BEGINNING = 60
"""Lines in which a front matter ends, as a rule."""


class TakenContent(NamedTuple):
    """How content was taken: the whole document that it means, or, for a snippet, itself. `section` is the one that it is for."""

    form: Form
    text: str
    section: str = ""


class _Heading(NamedTuple):
    """A heading over `lines[start:end]`."""

    level: int
    text: str
    start: int
    end: int


def as_document(base: CutDocument, content: str, *, path: str, section: str | None = None) -> TakenContent:
    """Return what document is meant by `content`, sent by a caller who has read `base`.

    For a section: what begins with its heading, or with another one of its level, replaces all of it, as does what has
    headings below it; text without headings replaces its own text, up to its first subsection.
    Without one: a whole document if it begins with front matter or with the first heading of `base`, or if it keeps half of
    the words of `base`; otherwise a snippet.

    Raises:
        NoSuchSection: none is so named; carries those there are.
        AmbiguousName: several are.
    """
    if section is not None:
        return _for_section(base, content, path, section)
    return TakenContent("document" if _is_whole(base, content) else "snippet", content)


def _for_section(base: CutDocument, content: str, path: str, asked: str) -> TakenContent:
    pieces = [piece for piece in base.pieces if piece.kind == "heading"]
    known = [Heading(level_of(piece), piece.section[-1], piece.line, piece.section) for piece in pieces]
    heading = find_heading(path, known, asked)
    lines, headings = split_lines(base.text), _headings(pieces)
    at = next(number for number, one in enumerate(headings) if one.start == heading.line - 1)
    own = headings[at]
    new = split_lines(adapted(content.removeprefix(BOM).strip("\r\n"), lines))
    inside = _headings(blocks_of("".join(new)))
    start, kept = own.end, own
    if inside and not any(line.strip(_BLANK) for line in new[: inside[0].start]):
        first = inside[0]
        if first.text.casefold() == own.text.casefold():
            # The heading is an address here; it stays as it is written.
            new = new[first.end :]
        elif first.level == own.level:
            start, kept = own.start, first
    following = headings[at + 1 :] if not inside else [one for one in headings[at + 1 :] if one.level <= own.level]
    end = following[0].start if following else len(lines)
    before = "".join(lines[:start])
    if before and bare(before) == before:
        before += "\n"
    placed = _placed(lines[start:end], new, is_last=end == len(lines), at_heading=start == own.end)
    text = before + "".join(placed)
    name = section_name((*heading.path[:-1], kept.text))
    return TakenContent("section", text + "".join(lines[end:]), name)


def _placed(old: Sequence[str], new: Sequence[str], *, is_last: bool, at_heading: bool) -> list[str]:
    """Return `new` between the blank lines that `old` stood between."""
    first, last = _without_blanks(old)
    begin, stop = _without_blanks(new)
    body = list(new[begin:stop])
    end = "\r\n" if any(line.endswith("\r\n") for line in [*old, *new]) else "\n"
    if not body:
        return list(old[:first]) if first < len(old) else list(old)
    if bare(body[-1]) == body[-1] and not is_last:
        body[-1] += end
    if first == len(old):
        # Nothing was there yet.
        return [*([end] if at_heading else []), *body, *(old or ([] if is_last else [end]))]
    if is_last and bare(old[last - 1]) != old[last - 1] and bare(body[-1]) == body[-1]:
        body[-1] += end
    return [*old[:first], *body, *old[last:]]


def _without_blanks(lines: Sequence[str]) -> tuple[int, int]:
    first, last = 0, len(lines)
    while first < last and not lines[first].strip(_BLANK):
        first += 1
    while last > first and not lines[last - 1].strip(_BLANK):
        last -= 1
    return first, last


def _headings(pieces: Sequence[DocumentPiece]) -> list[_Heading]:
    found = [(piece, piece.line - 1) for piece in pieces if piece.kind == "heading"]
    return [_Heading(level_of(p), p.section[-1], at, at + len(split_lines(p.text))) for p, at in found]


def _is_whole(base: CutDocument, content: str) -> bool:
    if not base.text.strip(_BLANK + BOM):
        return True
    # How it begins tells most of the time, and that is quick to see.
    begins = next(
        (piece for piece in cut("".join(split_lines(content)[:BEGINNING])).pieces if piece.kind != "blank"), None
    )
    if begins is None:
        return False
    title = next((piece.section[-1] for piece in base.pieces if piece.kind == "heading"), None)
    if begins.kind == "front" or (begins.kind == "heading" and begins.section[-1] == title):
        return True
    had, has = _words(base), Counter(content.split())
    # A page of one sentence that was edited has no block left as it was, and nearly all of its words.
    return bool(had) and 2 * (had & has).total() >= had.total()


def _words(document: CutDocument) -> Counter[str]:
    return Counter(word for piece in document.pieces if piece.kind != "front" for word in piece.text.split())
