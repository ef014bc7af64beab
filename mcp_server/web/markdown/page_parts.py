"""Long pages in parts: where a part ends, and the definitions elsewhere in the page that it needs. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from knowledge.pages.markdown.blocks import Block

ANY_LENGTH = 10**9  # no page is longer
LONG_LIST = 200
"""Lines. A longer list may be cut between its items."""
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


def starts_of(blocks: Sequence[Block]) -> list[int]:
    """Return the lines, from 0, at which a part may begin: those of outermost blocks, and of the items of long lists."""
    starts: list[int] = []
    for block in blocks:
        starts.append(block.start)
        if block.items and block.end - block.start > LONG_LIST:
            starts += [line for line in block.items if line > block.start]
    return starts


def lines_of_part(lines: Sequence[str], blocks: Sequence[Block], body: int, part: PageSlice) -> tuple[int, int]:
    """Return the first line of the part and the one after its last, from 0; `body` is the first line of the page's text."""
    starts, first, room = starts_of(blocks), body, part.most
    if part.start > body + 1:
        after = bisect_right(starts, part.start - 1)
        first = starts[after - 1] if after else body
    if part.start > len(lines):
        first = len(lines)
    for start, end in pairwise([*starts, len(lines)]):
        if start < first:
            continue
        if room <= 0 or start >= part.last:
            return first, start
        room -= sum(len(line) + 1 for line in lines[start:end])
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
