"""Finds a side of a contradiction in its page as it is now, and says how the page would read without or with another one. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from knowledge.merge.claims.statements import sentences
from knowledge.merge.document.units import BLANK, bare, cut, split_lines, units
from knowledge.merge.model import CUT_MARK, LONGEST_SIDE, Side, Unit, UnitKind, section_name
from knowledge.pages.markdown.inline import link_targets, without_code
from knowledge.pages.paths import parent

CONTEXT_LINES = 2
_MARKER = re.compile(r"[ \t]*(?:>[ \t]?)*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?")
"""The marks before the text of a list item or a quote."""
_ENDS = (".", "!", "?", ":", ";", "\u3002", "\uff01", "\uff1f")
_PROSE: tuple[UnitKind, ...] = ("paragraph", "item", "quote", "row")
_WIKI = re.compile(r"\[\[[^\[\]]*\]\]")
_TO_A_HEADING = re.compile(r"\]\(\s*<?#")
_REFERENCE = re.compile(r"\[[^\[\]]*\](?:\[[^\[\]]*\]|(?!\())")


@dataclass(frozen=True, slots=True)
class StatementPlace:
    """A statement in a page: `text[start:end]`, in the block `block` that begins at `block_start`. Lines count from 1.

    `whole` says that it is one or more whole sentences, or the whole block, and not a part of a sentence.
    """

    line: int
    section: str
    kind: UnitKind
    number: int
    start: int
    end: int
    block: str
    block_start: int
    before: Sequence[str]
    after: Sequence[str]
    whole: bool

    @property
    def marker(self) -> str:
        """The mark that makes the block a list item or a quote, with the space after it; "" for others."""
        return self.block[: _without_marker(self.block, 0)]

    @property
    def fills_block(self) -> bool:
        """Whether the block has nothing but this statement."""
        begin, end = self.start - self.block_start, self.end - self.block_start
        return begin == len(self.marker) and not self.block[end:].strip()


class NoSureChange(Exception):
    """The page can't be changed without a guess; the message says why, as the second half of a sentence."""


def places_of(text: str, side: Side) -> list[StatementPlace]:
    """Return every place of the page's `text` with the statement, however its lines are wrapped, from top to bottom."""
    wanted = _wrapped(side)
    if not may_say(text, side):
        return []
    lines = split_lines(text)
    starts = [0, *accumulate(map(len, lines))]
    found = []
    for number, unit in enumerate(units(cut(text))):
        start = starts[unit.line - 1]
        if text[start : start + len(unit.text)] != unit.text:
            continue
        for match in wanted.finditer(unit.text):
            begin, end = _without_marker(unit.text, match.start()), match.end()
            if begin >= end:  # it is only the mark of an item
                continue
            begin, end, whole = _sentences_around(unit, begin, end)
            found.append(
                _place(unit, number, lines, start=start, begin=begin, end=end, whole=whole and not is_cut(side))
            )
    return found


def _place(
    unit: Unit, number: int, lines: Sequence[str], *, start: int, begin: int, end: int, whole: bool
) -> StatementPlace:
    first, last = unit.line - 1, unit.line - 1 + len(split_lines(unit.text))
    return StatementPlace(
        line=unit.line + unit.text.count("\n", 0, begin),
        section=section_name(unit.section),
        kind=unit.kind,
        number=number,
        start=start + begin,
        end=start + end,
        block=unit.text,
        block_start=start,
        before=[bare(line) for line in lines[max(0, first - CONTEXT_LINES) : first]],
        after=[bare(line) for line in lines[last : last + CONTEXT_LINES]],
        whole=whole,
    )


def may_say(text: str, side: Side) -> bool:
    """Return whether the statement's words follow each other in `text`. Much faster than finding its places."""
    return bool(side.text.strip()) and _wrapped(side).search(text) is not None


def _wrapped(side: Side) -> re.Pattern[str]:
    """Return a pattern of the statement, however its lines are wrapped; a line of a quote begins with `>`."""
    return re.compile(r"(?:\s+(?:>[ \t]?)*)".join(map(re.escape, statement_text(side).split())))


def nearest_block(text: str, side: Side) -> StatementPlace | None:
    """Return the block of the page's `text` that has most of the statement's words, None if none has half of them."""
    words = set(statement_text(side).casefold().split())
    lines = split_lines(text)
    starts = [0, *accumulate(map(len, lines))]
    best, most = None, len(words) / 2
    for number, unit in enumerate(units(cut(text))):
        shared = len(words & set(unit.text.casefold().split()))
        if unit.kind in _PROSE and shared >= most and (best is None or shared > most):
            most = shared
            start = starts[unit.line - 1]
            best = _place(unit, number, lines, start=start, begin=0, end=len(unit.text.rstrip()), whole=False)
    return best


def is_cut(side: Side) -> bool:
    """Return whether only the beginning of the statement is on record."""
    return side.text.endswith(CUT_MARK) or len(side.text) >= LONGEST_SIDE


def statement_text(side: Side) -> str:
    """Return the recorded statement on one line, or as much of it as is on record."""
    return " ".join(side.text.removesuffix(CUT_MARK if is_cut(side) else "").split())


def replaced(text: str, place: StatementPlace, kept: str, *, page: str, comes_from: str) -> str:
    """Return the text of `page` with the statement `kept` in place of the one at `place`, and everything else as it was.

    `comes_from` is the page for which `kept` was written: the relative links in it begin there.

    Raises:
        NoSureChange: it is not certain how the result should read.
    """
    _require_sure(place)
    lines = [line.strip() for line in split_lines(kept) if line.strip()]
    # A list item or a paragraph over several lines may have items of its own, so only prose is joined.
    if any(_without_marker(line, 0) for line in lines[1:]):
        raise NoSureChange("the other statement has several parts")
    new = " ".join(lines)
    if (place.kind == "row") != new.startswith("|"):
        raise NoSureChange("one is a row of a table and the other is not")
    if place.kind == "row":
        cells = [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in (place.block, new)]
        if len(cells[0]) != len(cells[1]) or sum(a != b for a, b in zip(*cells, strict=True)) != 1:
            raise NoSureChange("the two rows differ in more than one cell")
        return text[: place.start] + new + text[place.end :]
    new = new[_without_marker(new, 0) :]
    if page != comes_from and _leads_elsewhere(new, same_folder=parent(page) == parent(comes_from)):
        raise NoSureChange("the other statement has a link or a footnote that would lead elsewhere in this page")
    old = text[place.start : place.end]
    if old.endswith(_ENDS) and not new.endswith(_ENDS):
        new += old[-1]
    return text[: place.start] + new + text[place.end :]


def removed(text: str, place: StatementPlace) -> str:
    """Return the page's `text` without the statement at `place`; a block that would be empty is removed with its line.

    Raises:
        NoSureChange: it is not certain what should be left.
    """
    _require_sure(place)
    begin, end = place.start - place.block_start, place.end - place.block_start
    left = place.block[:begin] + place.block[end:].lstrip(" ")
    if not left[_without_marker(left, 0) :].strip(BLANK + "|"):
        after = place.block_start + len(place.block)
        # A paragraph takes one of the blank lines around it along.
        blank = re.match(r"[ \t]*(?:\r\n|\r|\n)", text[after:]) if place.kind in ("paragraph", "quote") else None
        return text[: place.block_start] + text[after + (blank.end() if blank else 0) :]
    if any(not line[_without_marker(line, 0) :].strip() for line in split_lines(left)):
        raise NoSureChange("a line with nothing in it would be left")
    return text[: place.block_start] + left.rstrip(" ") + text[place.block_start + len(place.block) :]


def _require_sure(place: StatementPlace) -> None:
    if place.kind not in _PROSE:
        raise NoSureChange(f"it is in a part of the page that is no prose ({place.kind})")
    if not place.whole:
        raise NoSureChange("it is only a part of a sentence")


def _sentences_around(unit: Unit, begin: int, end: int) -> tuple[int, int, bool]:
    """Return the place with the punctuation that ends it, and whether it begins and ends where sentences do."""
    text = unit.text
    if unit.kind == "row":
        return begin, end, text[:begin].strip() == "" and text[end:].strip() == ""
    spans = sentences(text)
    starts = {_without_marker(text, span.start) for span in spans} | {_without_marker(text, 0)}
    ends = {span.end for span in spans} | {len(text.rstrip())}
    if end not in ends and text[end : end + 1] in _ENDS and (end + 1 in ends or _ends(text, end + 1)):
        end += 1
    return begin, end, (begin in starts or _begins(text, begin)) and (end in ends or _ends(text, end))


def _begins(text: str, at: int) -> bool:
    """Return whether a sentence begins at `at`.

    `sentences` alone would miss some beginnings: in "It takes 30 s. The limit" it takes "s." for an abbreviation.
    """
    return text[:at].rstrip().endswith(_ENDS) and not text[at : at + 1].islower()


def _ends(text: str, at: int) -> bool:
    return text[:at].endswith(_ENDS) and not text[at:].lstrip()[:1].islower()


def _without_marker(text: str, start: int) -> int:
    """Return where the text begins after the marks of lists and quotes, if a line begins at `start`; else `start`."""
    at_line_start = start == 0 or text[start - 1] in "\r\n"
    found = _MARKER.match(text, start) if at_line_start else None
    return found.end() if found else start


def _leads_elsewhere(text: str, *, same_folder: bool) -> bool:
    """Return whether a link or footnote of `text` would lead elsewhere if the text were moved to another page.

    `same_folder` says whether that page is in the same folder.
    """
    if _REFERENCE.search(_WIKI.sub("", text)) or _TO_A_HEADING.search(text):
        return True
    relative = [target for target, wiki in link_targets(without_code(text)) if not wiki and not target.startswith("/")]
    return bool(relative) and not same_folder
