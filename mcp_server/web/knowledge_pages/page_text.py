"""The text of a page, part by part: rendered, or as it is in the file, with its outline. Pure, apart from links that are looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from knowledge.errors import TooMuchWork
from knowledge.pages.document import Document, Heading, anchors
from knowledge.pages.markdown.inline import without_attributes
from mcp_server.web.markdown.known_links import LookUp, RendersApart, rendered
from mcp_server.web.markdown.page_parts import PageSlice, starts_of
from mcp_server.web.markdown.rendered_page import PageLinks, RenderedBlock, RenderedPage
from mcp_server.web.markdown.renderer import render
from mcp_server.web.text.sanitize import sanitize
from mcp_server.web.text.site_addresses import page_address

MOST_CHARACTERS = 50_000
"""Characters of a page that are shown at once, so that any page is there quickly; the rest is one click further."""
LARGE_CHARACTERS = 200_000
"""A part with more characters than this is one long block, and is rendered in another process."""
MOST_OUTLINE = 300
_NOTES = Markup('<div class="block">{}</div>')


@dataclass(frozen=True, slots=True)
class PagePart:
    """Lines `first` to `last` of a page, from 1, both included, by outermost blocks. `later` is the line of the next part, 0: none."""

    path: str
    lines: Sequence[str]
    starts: Sequence[int]
    first: int
    last: int
    later: int


@dataclass(frozen=True, slots=True)
class OutlineLink:
    """A heading: `place` is the end of the address that leads to it."""

    level: int
    text: str
    place: str


def part_from(document: Document, line: int, *, with_front: bool) -> PagePart:
    """Return as much of the page as is shown at once, from the block at `line` on.

    `with_front`: the first part begins with the page's front matter, which is left out otherwise.
    """
    lines = document.text.split("\n")
    while len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    begin = 1 if with_front else document.body_line
    starts = [begin, *(start + 1 for start in starts_of(document.blocks) if start + 1 > begin)]
    at = max((number for number, start in enumerate(starts) if start <= line), default=0)
    first, room = starts[at], MOST_CHARACTERS
    last = len(lines)
    for number in range(at, len(starts)):
        end = starts[number + 1] - 1 if number + 1 < len(starts) else len(lines)
        room -= sum(len(one) + 1 for one in lines[starts[number] - 1 : end])
        if room < 0 and starts[number] > first:
            last = starts[number] - 1
            break
    later = last + 1 if last < len(lines) else 0
    return PagePart(document.path, lines, [start for start in starts if first <= start <= last], first, last, later)


def rendered_blocks(part: PagePart, links: PageLinks) -> Sequence[RenderedBlock]:
    """Return the blocks of the part as HTML, with the line numbers of the page; its footnotes are the last one."""
    return _with_notes(render("\n".join(part.lines), links, part=_slice(part)), part)


async def blocks_apart(part: PagePart, look_up: LookUp, apart: RendersApart) -> Sequence[RenderedBlock]:
    """Return the blocks of the part as HTML, rendered in another process; as source, if rendering takes too much time or memory."""
    try:
        return _with_notes(await rendered("\n".join(part.lines), look_up, apart, _slice(part)), part)
    except TooMuchWork:
        return source_blocks(part)


def is_large(part: PagePart) -> bool:
    """Return whether the part has a block so long that it could keep the server busy."""
    return sum(len(line) for line in part.lines[part.first - 1 : part.last]) > LARGE_CHARACTERS


def _slice(part: PagePart) -> PageSlice:
    return PageSlice(part.first, last=part.last, address=f"{page_address(part.path)}&line=")


def _with_notes(page: RenderedPage, part: PagePart) -> Sequence[RenderedBlock]:
    notes = [RenderedBlock(part.last, part.last, _NOTES.format(page.footnotes))] if page.footnotes else []
    return [*page.blocks, *notes]


def title_heading(document: Document) -> Heading | None:
    """Return the heading that the text begins with if it says the page's title, which is shown above the text already."""
    first = document.headings[0] if document.headings else None
    begins = document.blocks and first is not None and document.blocks[0].start + 1 == first.line
    return first if begins and first and first.level == 1 and without_attributes(first.text) == document.title else None


def source_blocks(part: PagePart) -> Sequence[RenderedBlock]:
    """Return the text of the part as it is in the file, in the same blocks."""
    ends = [*(start - 1 for start in part.starts[1:]), part.last]
    return [
        RenderedBlock(first, last, _source(first, "\n".join(part.lines[first - 1 : last])))
        for first, last in zip(part.starts, ends, strict=True)
    ]


def outline_of(document: Document, part: PagePart) -> Sequence[OutlineLink]:
    """Return the headings of the whole page; those outside the part lead to their own part."""
    by_line = {heading.line: anchor for anchor, heading in anchors(document.headings).items()}
    headings = document.headings[1:] if title_heading(document) else document.headings
    return [
        OutlineLink(
            heading.level,
            heading.text,
            ("" if part.first <= heading.line <= part.last else f"&line={heading.line}") + f"#{by_line[heading.line]}",
        )
        for heading in headings[:MOST_OUTLINE]
    ]


def _source(first: int, text: str) -> Markup:
    return Markup('<div class="block" id="line-{}"><pre class="foreign">{}</pre></div>').format(first, sanitize(text))
