"""The sections and blocks of a page by the names that links give them. Pure."""

from __future__ import annotations

import re

from knowledge.errors import KnowledgeError
from knowledge.pages.document import Document, Heading, anchors, find_section, section_text

_BLOCK_ID = re.compile(r"(?:^|[ \t])\^([A-Za-z0-9-]{1,100})[ \t]*$", re.MULTILINE)


def anchor_named(name: str) -> str:
    """Return the id of the heading or block that `name` means on its page: `Set up#On Linux` is `on-linux`."""
    last = name.rpartition("#")[2].strip()
    if not last or last.startswith("^"):
        return last
    return next(iter(anchors([Heading(1, last, 1, (last,))])))


def part_named(document: Document, anchor: str) -> str | None:
    """Return the text of the page, or of its section or block with that name."""
    if not anchor:
        return document.text
    last = anchor.rpartition("#")[2].strip()
    if last.startswith("^"):
        return _block(document, last[1:])
    for name in (anchor.replace("#", " > "), last):
        try:
            return section_text(document, find_section(document, name))[2]
        except KnowledgeError:
            continue
    return None


def _block(document: Document, name: str) -> str | None:
    """Return the text of the block with that id; an id on a line of its own names the block before it."""
    lines = document.text.split("\n")
    for number, block in enumerate(document.blocks):
        text = "\n".join(lines[block.start : block.end])
        if any(found[1] == name for found in _BLOCK_ID.finditer(text)):
            own = _BLOCK_ID.sub("", text).strip()
            if own or not number:
                return own or None
            before = document.blocks[number - 1]
            return "\n".join(lines[before.start : before.end])
    return None
