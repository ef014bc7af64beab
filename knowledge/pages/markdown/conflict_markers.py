"""Finds the conflicts that Git left in a text. Pure.

Source: git-merge(1), "How conflicts are presented", with the styles `merge`, `diff3` and `zdiff3`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from knowledge.pages.markdown.blocks import Block, scan

_OURS, _SPLIT, _THEIRS = "<" * 7, "=" * 7, ">" * 7


class ConflictLines(NamedTuple):
    """The lines of a conflict, from 1, with its marks."""

    first: int
    last: int


def conflicts_in(text: str) -> tuple[ConflictLines, ...]:
    """Return the conflicts in a text, outside of code fences."""
    if _OURS not in text or _THEIRS not in text:
        return ()
    lines = text.replace("\r\n", "\n").split("\n")
    return conflict_lines(lines, scan(lines).blocks)


def conflict_lines(lines: Sequence[str], blocks: Sequence[Block]) -> tuple[ConflictLines, ...]:
    """Return the conflicts in the lines of a page with these blocks: a page about Git may show conflicts in a code fence.

    Marks count only in their order, because seven `=` also underline a heading, and seven `>` begin a quote.
    """
    fenced = {number for block in blocks if block.kind == "fence" for number in range(block.start, block.end)}
    found: list[ConflictLines] = []
    first: int | None = None
    is_split = False
    for number, line in enumerate(lines):
        if number in fenced and first is None:
            continue
        match _mark(line):
            case "<":
                first, is_split = number, False
            case "=" if first is not None:
                is_split = True
            case ">" if first is not None and is_split:
                found.append(ConflictLines(first + 1, number + 1))
                first, is_split = None, False
    return tuple(found)


def _mark(line: str) -> str:
    """Return the character of which the line's mark is made, "" if the line is no mark."""
    bare = line.rstrip("\r")
    for mark in (_OURS, _THEIRS):
        if bare == mark or bare.startswith(mark + " "):
            return mark[0]
    return "=" if bare == _SPLIT else ""
