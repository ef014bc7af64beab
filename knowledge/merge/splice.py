"""Putting text into a page so that no other byte of it changes, and finding its units again afterwards. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from knowledge.merge.document.units import BOM, cut, split_lines, units
from knowledge.merge.model import CutDocument, Unit, unit_digest

_SAYS_SOMETHING = re.compile(r"[ \t]*[^ \t\r\n]")
"""Matches at the start of a line that is not blank."""


class Replaced(NamedTuple):
    """Characters `start` up to `end` of the page become `text`."""

    start: int
    end: int
    text: str


class Put(NamedTuple):
    """Lines put in after line `after` (0: before the first). A block gets blank lines around it, other lines none.

    `text` has LF line ends and none at its end. `apart` asks for a blank line before a line that is no block.
    """

    after: int
    text: str
    block: bool
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Spliced:
    """A page after it was written to. `unit_of` gives, by the line of a unit now, the unit that it was; `new` the others."""

    text: str
    unit_of: Mapping[int, int]


class SplicedPage:
    """A page that is about to be written to: its lines, its units, and where they begin."""

    def __init__(self, page: CutDocument) -> None:
        self.page = page
        self.units = units(page)
        self.lines = split_lines(page.text)
        self.starts = [0, *accumulate(map(len, self.lines))]
        crlf, lf = page.text.count("\r\n"), page.text.count("\n")
        self.line_end = "\r\n" if crlf * 2 > lf else "\n" if lf or "\r" not in page.text else "\r"

    def span(self, unit: int) -> tuple[int, int]:
        """Return from where to where the unit stands in the text."""
        found = self.units[unit]
        start = self.starts[found.line - 1]
        # What marks the order of bytes stands in the first line and in no unit's first word.
        return start, start + len(found.text)

    def last_line(self, unit: int) -> int:
        """Return the line, from 1, that the unit ends with."""
        found = self.units[unit]
        return found.line + len(split_lines(found.text)) - 1

    def with_ends(self, text: str) -> str:
        """Return `text` with the page's line ends."""
        folded = text.replace("\r\n", "\n").replace("\r", "\n")
        return folded if self.line_end == "\n" else folded.replace("\n", self.line_end)

    def written(self, puts: Sequence[Put], replaced: Sequence[Replaced]) -> Spliced:
        """Return the page with all of this written to it."""
        splices = sorted([*replaced, *self._inserted(puts)], key=lambda splice: (splice.start, splice.end))
        parts: list[str] = []
        at = 0
        for splice in splices:
            parts += (self.page.text[at : splice.start], splice.text)
            at = splice.end
        parts.append(self.page.text[at:])
        text = "".join(parts)
        return Spliced(text, self._moved(splices))

    def _moved(self, splices: Sequence[Replaced]) -> dict[int, int]:
        """Return, by its line afterwards, each unit; what was replaced in part is found by the line that it begins in too."""
        found: dict[int, int] = {}
        shift, at = 0, 0
        for number, unit in enumerate(self.units):
            start = self.span(number)[0]
            while at < len(splices) and splices[at].end <= start and splices[at].start <= start:
                before = self.page.text[splices[at].start : splices[at].end]
                shift += len(split_lines(splices[at].text + "x")) - len(split_lines(before + "x"))
                at += 1
            found[unit.line + shift] = number
        return found

    def _inserted(self, puts: Sequence[Put]) -> list[Replaced]:
        by_line: dict[int, list[Put]] = {}
        for put in puts:
            by_line.setdefault(put.after, []).append(put)
        return [self._insertion(after, here) for after, here in by_line.items()]

    def _insertion(self, after: int, puts: Sequence[Put]) -> Replaced:
        end = self.line_end
        start = self.starts[min(after, len(self.lines))]
        page = self.page.text
        first = len(BOM) if page.startswith(BOM) else 0
        start = max(start, first)
        lines = [put for put in puts if not put.block]
        blocks = [put for put in puts if put.block]
        text = "".join((end if put.apart else "") + self.with_ends(put.text) + end for put in lines)
        if blocks:
            written = (end + end).join(self.with_ends(put.text) for put in blocks)
            text += written + end if start == first and not text else end + written + end
            # The page is not cut in two to look at it: thousands of blocks may go into a long page.
            if _SAYS_SOMETHING.match(page, start):
                text += end
        if start > first and not page.endswith(("\n", "\r"), 0, start):
            # The page does not end its last line, and so it does not now.
            text = end + text.removesuffix(end)
        return Replaced(start, start, text)

    def is_kept(self, after: Spliced, touched: frozenset[int], put_in: Sequence[Unit]) -> bool:
        """Return whether the page still reads as it did but for what was replaced, and what was put in reads as it was meant."""
        now = {unit.line: unit for unit in units(cut(after.text))}
        for line, number in after.unit_of.items():
            was = self.units[number]
            found = now.get(line)
            if number in touched:
                continue
            if found is None or (found.kind, unit_digest(found.text)) != (was.kind, unit_digest(was.text)):
                return False
        there = {unit_digest(unit.text) for unit in now.values()}
        return all(unit_digest(unit.text) in there for unit in put_in)
