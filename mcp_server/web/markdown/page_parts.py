"""Long pages in parts: where a part ends, and the definitions elsewhere in the page that it needs. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.pages.markdown.blocks import Block

ANY_LENGTH = 10**9  # no page is longer
_DEFINITION = re.compile(r"^ {0,3}\[(\^?[^\]\n]{1,999})\]:.*(?:\n(?: {4}|\t).*)*+", re.MULTILINE)
_LABEL = re.compile(r"\[(\^?[^\[\]]{1,999})\]")


@dataclass(frozen=True, slots=True)
class PageSlice:
    """A part of a page: the blocks from line `start` to line `last`, from 1, and of these about `most` characters, at least one block.

    `address` is where the page is shown from a line on, without the number of the line: links of the page to its own headings in
    other parts lead there.
    """

    start: int = 1
    most: int = ANY_LENGTH
    last: int = ANY_LENGTH
    address: str = ""


def lines_of_part(lines: Sequence[str], blocks: Sequence[Block], body: int, part: PageSlice) -> tuple[int, int]:
    """Return the first line of the part and the one after its last, from 0; `body` is the first line of the page's text."""
    first, room = body, part.most
    if part.start > body + 1:
        first = next((block.start for block in blocks if block.end >= part.start), len(lines))
    for block in blocks:
        if block.start < first:
            continue
        if room <= 0 or block.start >= part.last:
            return first, block.start
        room -= sum(len(line) + 1 for line in lines[block.start : block.end])
    return first, len(lines)


def definitions_elsewhere(lines: Sequence[str], first: int, end: int) -> str:
    """Return the definitions of links and footnotes outside the lines `first` to `end` that are used in these."""
    outside = "\n".join([*lines[:first], "", *lines[end:]])
    if "]:" not in outside:
        return ""
    used = {_folded(found[1]) for found in _LABEL.finditer("\n".join(lines[first:end]))}
    return "\n\n".join(found[0] for found in _DEFINITION.finditer(outside) if _folded(found[1]) in used)


def _folded(label: str) -> str:
    return " ".join(label.split()).casefold()


WHOLE_PAGE = PageSlice()
