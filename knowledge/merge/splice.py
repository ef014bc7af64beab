"""Puts text into a page without changing any other byte, and finds its units again afterwards. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from knowledge.merge.document.units import BOM, cut, split_lines, units
from knowledge.merge.model import CutDocument, Unit, unit_digest

_HAS_TEXT = re.compile(r"[ \t]*[^ \t\r\n]")
"""Matches at the start of a line that is not blank."""


class Replacement(NamedTuple):
    """Characters `start` up to `end` of the page become `text`."""

    start: int
    end: int
    text: str


class Insertion(NamedTuple):
    """Lines put in after line `after` (0: before the first). A block gets blank lines around it, other lines none.

    `text` has LF line ends and none at its end. `apart` requests a blank line before a line that does not start a block.
    """

    after: int
    text: str
    block: bool
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Spliced:
    """A page with its splices. `unit_of` maps the line where an old unit begins now to its number; new units are missing."""

    text: str
    unit_of: Mapping[int, int]


class PageSplicer:
    """A page that is about to be written to: its lines, its units, and where they begin."""

    def __init__(self, page: CutDocument) -> None:
        self.page = page
        self.units = units(page)
        self.lines = split_lines(page.text)
        self.starts = [0, *accumulate(map(len, self.lines))]
        crlf, lf = page.text.count("\r\n"), page.text.count("\n")
        # The majority decides. A page with CR but no LF uses the line ends of old Macs.
        self.line_end = "\r\n" if crlf * 2 > lf else "\n" if lf or "\r" not in page.text else "\r"

    def span(self, unit: int) -> tuple[int, int]:
        """Return where the unit begins and ends in the text."""
        found = self.units[unit]
        start = self.starts[found.line - 1]
        return start, start + len(found.text)

    def last_line(self, unit: int) -> int:
        """Return the line, from 1, that the unit ends with."""
        found = self.units[unit]
        return found.line + len(split_lines(found.text)) - 1

    def with_ends(self, text: str) -> str:
        """Return `text` with the page's line ends."""
        folded = text.replace("\r\n", "\n").replace("\r", "\n")
        return folded if self.line_end == "\n" else folded.replace("\n", self.line_end)

    def written(self, insertions: Sequence[Insertion], replacements: Sequence[Replacement]) -> Spliced:
        """Return the page with all insertions and replacements made."""
        by_line: dict[int, list[Insertion]] = defaultdict(list)
        for one in insertions:
            by_line[one.after].append(one)
        splices = [*replacements, *(self._inserted(after, here) for after, here in by_line.items())]
        splices.sort(key=lambda splice: (splice.start, splice.end))
        parts: list[str] = []
        at = 0
        for splice in splices:
            parts += (self.page.text[at : splice.start], splice.text)
            at = splice.end
        parts.append(self.page.text[at:])
        return Spliced("".join(parts), self._moved(splices))

    def _inserted(self, after: int, insertions: Sequence[Insertion]) -> Replacement:
        """Return all insertions after one line as one replacement of an empty span."""
        end, page = self.line_end, self.page.text
        first = len(BOM) if page.startswith(BOM) else 0
        start = max(self.starts[min(after, len(self.lines))], first)
        lines = [one for one in insertions if not one.block]
        text = "".join((end if one.apart else "") + self.with_ends(one.text) + end for one in lines)
        if len(lines) < len(insertions):
            written = (end + end).join(self.with_ends(one.text) for one in insertions if one.block)
            text += written + end if start == first and not text else end + written + end
            # Matched in place, without slicing the page: thousands of blocks may go into a long page.
            if _HAS_TEXT.match(page, start):
                text += end
        if start > first and not page.endswith(("\n", "\r"), 0, start):
            # The last line of the page has no end, and the new last line gets none.
            text = end + text.removesuffix(end)
        return Replacement(start, start, text)

    def _moved(self, splices: Sequence[Replacement]) -> dict[int, int]:
        """Map the line where each unit begins afterwards to its number; a partly replaced unit still begins on its line."""
        found: dict[int, int] = {}
        shift, at = 0, 0
        for number, unit in enumerate(self.units):
            start = self.span(number)[0]
            while at < len(splices) and splices[at].end <= start and splices[at].start <= start:
                before = self.page.text[splices[at].start : splices[at].end]
                # Counted with a letter behind them, so that a line end at the end counts as a line.
                shift += len(split_lines(splices[at].text + "x")) - len(split_lines(before + "x"))
                at += 1
            found[unit.line + shift] = number
        return found

    def is_kept(self, after: Spliced, touched: frozenset[int], put_in: Sequence[Unit]) -> bool:
        """Return whether every unit except the `touched` ones still reads as before, and the new text reads as intended.

        A fence that is never closed, a line that becomes the continuation of a paragraph, a row that makes a table of the
        text above it: each of these changes how untouched text reads.
        """
        now = {unit.line: unit for unit in units(cut(after.text))}
        for line, number in after.unit_of.items():
            was, found = self.units[number], now.get(line)
            if number in touched:
                continue
            if found is None or (found.kind, unit_digest(found.text)) != (was.kind, unit_digest(was.text)):
                return False
        there = {unit_digest(unit.text) for unit in now.values()}
        return all(unit_digest(unit.text) in there for unit in put_in)
