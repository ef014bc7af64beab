"""Long pages in parts: where a part ends, and the definitions elsewhere in the page that it needs. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from knowledge.pages.markdown.blocks import Block

ANY_LENGTH = 10**9  # no page is longer
LONG_BLOCK = 200
"""Lines. A longer list may be cut between its items, and a longer table after each hundredth row."""
ROWS_AT_ONCE = 100
_DEFINITION = re.compile(r"^ {0,3}\[(\^?[^\]\n]{1,999})\]:.*(?:\n(?: {4}|\t).*)*+", re.MULTILINE)
_LABEL = re.compile(r"\[(\^?[^\[\]]{1,999})\]")


@dataclass(frozen=True, slots=True)
class PageSlice:
    """A part of a page: the blocks between the lines `start` and `last`, counted from 1.

    It ends after about `most` characters, and has at least one block. `address` followed by a line's number is an address at which
    the page is shown from that line on. The page's links to its own headings in other parts lead there.
    """

    start: int = 1
    most: int = ANY_LENGTH
    last: int = ANY_LENGTH
    address: str = ""


def starts_of(blocks: Sequence[Block]) -> list[int]:
    """Return the lines, from 0, at which a part may begin: those of outermost blocks, and places inside long lists and tables."""
    starts: list[int] = []
    for block in blocks:
        starts.append(block.start)
        if block.end - block.start > LONG_BLOCK:
            starts += [line for line in block.items if line > block.start]
            if block.kind == "table":
                starts += range(block.start + 2 + ROWS_AT_ONCE, block.end, ROWS_AT_ONCE)
    return starts


def head_of_table(blocks: Sequence[Block], first: int) -> int | None:
    """Return the line of the head of the table that continues at line `first`, None if none does."""
    at = bisect_right(blocks, first, key=lambda block: block.start) - 1
    cut = at >= 0 and blocks[at].kind == "table" and blocks[at].start < first < blocks[at].end
    return blocks[at].start if cut else None


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
