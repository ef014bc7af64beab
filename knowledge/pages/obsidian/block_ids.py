"""Block ids: `^id` at the end of a paragraph or list item, or on a line of its own after a block, names that block. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from knowledge.pages.document import Document
from knowledge.pages.markdown.blocks import Block

# Obsidian's own handbook has an id right after an embed.
_ID = re.compile(r"(?:^|[ \t]|\]\])\^([A-Za-z0-9-]{1,200})[ \t]*$")
_NO_TEXT = frozenset({"fence", "code", "html", "comment", "break"})


class NamedBlock(NamedTuple):
    """A block with an id; its lines count from 1, both included."""

    id: str
    first: int
    last: int


def named_blocks(document: Document) -> list[NamedBlock]:
    """Return the blocks of the page that have ids, in their order; ids without the `^`, in lower case."""
    lines = document.text.split("\n")
    found: list[NamedBlock] = []
    for at, block in enumerate(document.blocks):
        if block.kind not in _NO_TEXT:
            found += _in_block(lines, block, document.blocks[at - 1] if at else None)
    return found


def block_of(document: Document, name: str) -> NamedBlock | None:
    """Return the block that `^id` or `#^id` names, None if the page has none."""
    wanted = name.strip().lstrip("#").removeprefix("^").casefold()
    return next((block for block in named_blocks(document) if block.id == wanted), None)


def _in_block(lines: Sequence[str], block: Block, before: Block | None) -> Iterator[NamedBlock]:
    end = block.end
    while end > block.start and not lines[end - 1].strip():
        end -= 1
    if block.kind == "list":
        start = block.start
        for number in range(block.start, end):
            if _ITEM.match(lines[number]):
                start = number
            if name := _ID.search(lines[number]):
                yield NamedBlock(name[1].casefold(), start + 1, _item_end(lines, start, end))
        return
    name = _ID.search(lines[end - 1]) if end > block.start else None
    if name is None:
        return
    alone = lines[end - 1].strip() == f"^{name[1]}"
    if alone and end - 1 == block.start and before is not None:
        # On a line of its own it names the block above it.
        last = before.end
        while last > before.start and not lines[last - 1].strip():
            last -= 1
        yield NamedBlock(name[1].casefold(), before.start + 1, last)
    else:
        yield NamedBlock(name[1].casefold(), block.start + 1, end)


_ITEM = re.compile(r"[ \t>]*(?:[-+*]|\d{1,9}[.)])[ \t]")


def _item_end(lines: Sequence[str], start: int, end: int) -> int:
    """Return the last line, from 1, of the item that begins at `start`, with the items below it."""
    indent = _indent(lines[start])
    last = start
    for number in range(start + 1, end):
        if lines[number].strip():
            if _indent(lines[number]) <= indent:
                break
            last = number
    return last + 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t>"))
