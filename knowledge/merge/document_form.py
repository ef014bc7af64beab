"""Works out the whole document that a caller means by the document, section or snippet that they sent. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from knowledge.merge.document.dated_log import dated_heading, same_date
from knowledge.merge.document.units import BLANK, BOM, bare, blocks_of, cut, heading_level, split_lines, units
from knowledge.merge.model import ADDS_TO, WHOLE_PAGE, CutDocument, DocumentPiece, Form
from knowledge.merge.normalise import fit_line_ends
from knowledge.pages.document import Heading, find_heading, name_of
from knowledge.tokens import WHOLE_TOKENS, count_tokens

SHORTEST_UNCLEAR = 20
"""The fewest words of a page at which content without a heading can be "unclear"; to a shorter page such content is
an addition."""
BEGINNING = 60
"""This many lines nearly always show how content begins, even if it has front matter."""


class TakenContent(NamedTuple):
    """How content was understood: `text` is the whole document that it means, or the snippet itself; `section` is its place."""

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
    """Return the document that is meant by `content`, sent by a caller who has read `base`.

    With a section, content with headings replaces the whole section, including its subsections. Content without
    headings replaces only the section's text up to its first subsection. The content is a snippet that belongs in the
    section if `+ ` is before the section's name, or if it begins with a heading below the section's and does not
    keep half of the section's words and half of its subsections, of which there must be one.

    Without a section, the content is a whole document if it begins as `base` does, or with its own title (on a page with
    several titles only with the first), with front matter before it or not; if it begins with the first block of `base`
    and has all its headings; or if it keeps half of the words of `base` and half of its headings, or begins with front
    matter and keeps half of the words. Front matter alone, or with an addition below it, is "unclear".
    Otherwise it is "unclear" if it keeps half of the words, or if it is long for a part of the page and begins as `base`
    does, has no heading, has the title at a lower level, or brings headings to a page without any. Short content that
    would be a whole document, but has nothing of the second half of a long page, is "unclear", too. All other content
    is a snippet.

    Raises:
        NoSuchSection: no section has that name; the error lists those that exist.
        AmbiguousName: several sections have it.
    """
    if section == WHOLE_PAGE:
        return TakenContent("document", content)
    if section is not None and section.startswith(ADDS_TO):
        return TakenContent("snippet", content, _heading(base, path, section.removeprefix(ADDS_TO))[1])
    if section is not None:
        return _for_section(base, content, path, section)
    return TakenContent(_form(base, content), content)


def is_entry(page: CutDocument, content: str, *, is_known: bool) -> bool:
    """Return whether content for a log is an entry to be added, and not the page rewritten; `is_known`: its sender has read the page.

    It is an entry if it begins with a date that is not that of the page's title, with a heading below the title's level, or with other
    text than the page. Without the page's text nobody rewrites it, so then the title's date, or the page's first text, may also begin
    an entry.
    """
    pieces = [piece for piece in cut(content).pieces if piece.kind != "blank"]
    first = next((piece for piece in page.pieces if piece.kind == "heading"), None)
    if not pieces or pieces[0].kind == "front":
        return False
    if pieces[0].kind != "heading":
        return not is_known or [*_texts(content)][:1] != [*_texts(page.text)][:1]
    name, level = pieces[0].section[-1], heading_level(pieces[0])
    date = dated_heading(name)
    if (
        first is not None
        and level <= heading_level(first)
        and (name == first.section[-1] or same_date(name, first.section[-1]))
    ):
        return date is not None and not is_known
    return date is not None or level > 1


def _texts(text: str) -> Iterator[str]:
    return (unit.text.strip(BLANK) for unit in units(cut(text)) if unit.kind != "front")


def _for_section(base: CutDocument, content: str, path: str, asked: str) -> TakenContent:
    heading, name = _heading(base, path, asked)
    lines, headings = split_lines(base.text), _headings(base.pieces)
    at = next(number for number, one in enumerate(headings) if one.start == heading.line - 1)
    own = headings[at]
    new = split_lines(fit_line_ends(content.removeprefix(BOM).strip("\r\n"), lines))
    inside = _headings(blocks_of("".join(new)))
    start, subsection = own.end, False
    if inside and not any(line.strip(BLANK) for line in new[: inside[0].start]):
        first = inside[0]
        if first.text.casefold() == own.text.casefold():
            # The heading only says which section is meant; its wording stays.
            new = new[first.end :]
        elif first.level == own.level:
            start = own.start
        else:
            subsection = first.level > own.level
    following = [one for one in headings[at + 1 :] if not inside or one.level <= own.level]
    end = following[0].start if following else len(lines)
    if subsection and not _keeps_half_of_section("".join(lines[start:end]), content):
        # Taken as the whole section, it would remove what the section says now.
        return TakenContent("snippet", content, name)
    before = "".join(lines[:start])
    if before and bare(before) == before:
        before += "\n"
    placed = _placed(lines[start:end], new, is_last=end == len(lines), at_heading=start == own.end)
    return TakenContent("section", before + "".join(placed) + "".join(lines[end:]), name)


def _heading(base: CutDocument, path: str, asked: str) -> tuple[Heading, str]:
    """Return the heading of the page at `path` that is asked for, and the name that finds it; raises as `as_document`."""
    pieces = [piece for piece in base.pieces if piece.kind == "heading"]
    known = [Heading(heading_level(piece), piece.section[-1], piece.line, piece.section) for piece in pieces]
    found = find_heading(path, known, asked)
    return found, name_of(known, found)


def _placed(old: Sequence[str], new: Sequence[str], *, is_last: bool, at_heading: bool) -> list[str]:
    """Return `new` between the blank lines that are around `old`."""
    first, last = _without_blanks(old)
    begin, stop = _without_blanks(new)
    body = list(new[begin:stop])
    end = "\r\n" if any(line.endswith("\r\n") for line in [*old, *new]) else "\n"
    if not body:
        return list(old[:first]) if first < len(old) else list(old)
    if bare(body[-1]) == body[-1] and not is_last:
        body[-1] += end
    if first == len(old):
        # The section was empty.
        return [*([end] if at_heading else []), *body, *(old or ([] if is_last else [end]))]
    if is_last and bare(old[last - 1]) != old[last - 1] and bare(body[-1]) == body[-1]:
        body[-1] += end
    return [*old[:first], *body, *old[last:]]


def _without_blanks(lines: Sequence[str]) -> tuple[int, int]:
    first, last = 0, len(lines)
    while first < last and not lines[first].strip(BLANK):
        first += 1
    while last > first and not lines[last - 1].strip(BLANK):
        last -= 1
    return first, last


def _headings(pieces: Sequence[DocumentPiece]) -> list[_Heading]:
    return [
        _Heading(heading_level(piece), piece.section[-1], piece.line - 1, piece.line - 1 + len(split_lines(piece.text)))
        for piece in pieces
        if piece.kind == "heading"
    ]


def _form(base: CutDocument, content: str) -> Form:
    if not base.text.strip(BLANK + BOM):
        return "document"
    # Usually the beginning is enough, and it is quick to cut.
    pieces = cut("".join(split_lines(content)[:BEGINNING])).pieces
    begins = next((piece for piece in pieces if piece.kind != "blank"), None)
    if begins is None:
        return "snippet"
    first = next((piece for piece in base.pieces if piece.kind == "heading"), None)
    if begins.kind == "front":
        is_page = _is_page_with_front(base, pieces, content, first)
        return "document" if is_page and not _may_be_a_beginning(base, content) else "unclear"
    if first is not None and _has_own_title(base, begins, first):
        return "unclear" if _may_be_a_beginning(base, content) else "document"
    return _form_by_words(base, content, begins, first)


def _is_page_with_front(
    base: CutDocument, pieces: Sequence[DocumentPiece], content: str, first: DocumentPiece | None
) -> bool:
    """Return whether content with front matter is a page, and not front matter alone or with an addition below it."""
    before = "".join(piece.text for piece in base.pieces if piece.kind != "front")
    if not before.strip(BLANK + BOM):
        return True
    body = next((piece for piece in pieces if piece.kind not in ("blank", "front")), None)
    if body is None:
        return False
    return (first is not None and _has_own_title(base, body, first)) or _keeps_half(before, content)


def _has_own_title(base: CutDocument, begins: DocumentPiece, first: DocumentPiece) -> bool:
    """Return whether content with this beginning has the page's title, or, like a translation or a rewrite, a title of its own.

    `first` is the first heading of the page. If the page has several headings of level 1, another one may be that of a section.
    """
    if begins.kind != "heading":
        return False
    if begins.section[-1] == first.section[-1]:
        # Below the title's level it may be a section with the same name.
        return heading_level(begins) <= heading_level(first)
    titles = [one for one in base.pieces if one.kind == "heading" and heading_level(one) == 1]
    return heading_level(begins) == 1 and titles == [first]


def _form_by_words(base: CutDocument, content: str, begins: DocumentPiece, first: DocumentPiece | None) -> Form:
    """Return the form of content that has no title, by the words that it keeps; `first` is the first heading of the page."""
    before = "".join(piece.text for piece in base.pieces if piece.kind != "front")
    # Here the title is at a lower level than on the page, so it may be that of a section.
    is_named_as_page = first is not None and begins.section[-1:] == first.section[-1:]
    if before.strip() and _keeps_half(before, content):
        if begins.kind != "heading":
            # As the whole page it would remove the title, and a row or an answer of a short page has half of its words, too.
            return "document" if first is None or _keeps_half_of_headings(base.pieces, content) else "unclear"
        # A section made like the others of a short page has most of their words, but not their headings.
        is_page = not is_named_as_page and _keeps_half_of_headings(base.pieces, content)
        return "document" if is_page else "unclear"
    had, has = Counter(before.split()), Counter(content.split())
    opening = next(piece for piece in base.pieces if piece.kind != "blank")
    begins_alike = begins.text.strip(BLANK) == opening.text.strip(BLANK)
    # It has the page's first block and all of its headings, so it is the whole page.
    if begins_alike and first is not None and _has_headings(base, content):
        return "document"
    if begins.kind == "heading" and (first is None or is_named_as_page) and 2 * has.total() >= had.total():
        return "unclear"
    if had.total() < SHORTEST_UNCLEAR or (begins.kind == "heading" and not begins_alike):
        return "snippet"
    if 2 * has.total() >= had.total():
        return "document" if begins_alike else "unclear"
    # A page cut short, or its beginning with something new below: guessing here could remove the rest.
    return "unclear" if begins_alike and 4 * has.total() >= had.total() else "snippet"


def _may_be_a_beginning(base: CutDocument, content: str) -> bool:
    """Return whether `content` keeps nothing of the second half of a long page and is short itself.

    A caller who has read only the beginning sends that; nobody knows whether the rest is to be removed.
    """
    if count_tokens(base.text) <= WHOLE_TOKENS:
        return False
    blocks = _blocks(base)
    words = [len(block.split()) for block in blocks]
    if 2 * len(content.split()) >= sum(words):
        return False
    first = {block: number for number, block in reversed([*enumerate(blocks)])}  # of equal ones, such as rulers
    last = max((first.get(block, -1) for block in _blocks(cut(content))), default=-1)
    return 2 * sum(words[last + 1 :]) >= sum(words)


def _blocks(page: CutDocument) -> list[str]:
    return [piece.text.strip(BLANK) for piece in page.pieces if piece.kind != "blank"]


def _keeps_half(before: str, content: str) -> bool:
    """Return whether `content` has at least half of the words of `before`.

    Compared by words, not blocks: an edited page of one sentence keeps nearly all of its words but no unchanged block.
    """
    had = Counter(before.split())
    return 2 * (had & Counter(content.split())).total() >= had.total()


def _keeps_half_of_section(before: str, content: str) -> bool:
    """Return whether `content` has at least half of the words and of the headings of a section's text, and one heading."""
    found = blocks_of(before)
    return bool(_headings(found)) and _keeps_half(before, content) and _keeps_half_of_headings(found, content)


def _keeps_half_of_headings(before: Sequence[DocumentPiece], content: str) -> bool:
    """Return whether `content` has at least half of the headings of `before`, whatever their levels."""
    had = Counter(one.text for one in _headings(before))
    return 2 * (had & Counter(one.text for one in _headings(blocks_of(content)))).total() >= had.total()


def _has_headings(base: CutDocument, content: str) -> bool:
    """Return whether `content` has all headings of `base`, in order."""
    found = iter([(one.level, one.text) for one in _headings(blocks_of(content))])
    return all((one.level, one.text) in found for one in _headings(base.pieces))
