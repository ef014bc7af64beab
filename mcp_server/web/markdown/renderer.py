"""Renders a page: Markdown in, HTML that is safe to show out. Pure, and bounded in work whatever the page holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from markdown_it.token import Token
from markupsafe import Markup

from knowledge.pages.document import Heading, anchors, headings_of
from knowledge.pages.front_matter import read_front_matter
from knowledge.pages.markdown.blocks import scan
from mcp_server.web.markdown.page_parts import (
    WHOLE_PAGE,
    PageSlice,
    definitions_elsewhere,
    head_of_table,
    lines_of_part,
)
from mcp_server.web.markdown.raw_html import pair_tags
from mcp_server.web.markdown.rendered_page import OutlineEntry, PageLinks, RenderedBlock, RenderedPage
from mcp_server.web.markdown.syntax.footnotes import footnotes_in
from mcp_server.web.markdown.syntax.parser import ParserSteps, TooManySteps, parse_markdown
from mcp_server.web.markdown.writer import HtmlWriter, PageAnchors, as_source, folded_name
from mcp_server.web.text.site_addresses import tag_address

DEEPEST_EMBED = 3
MOST_EMBEDS = 50
MOST_EMBEDDED = 200_000
"""Characters of all embedded texts of a page."""
LINES_AT_ONCE = 500
TOO_COMPLEX = "This page is too complex to render, so its source is shown."
_BLOCK_ID = re.compile(r"(?:^|[ \t])\^([A-Za-z0-9-]{1,100})[ \t]*$", re.MULTILINE)

TagAddress = Callable[[str], str | None]


def render(
    text: str, links: PageLinks, tags: TagAddress = tag_address, *, part: PageSlice = WHOLE_PAGE
) -> RenderedPage:
    """Return the page `text` as HTML; `links` says where its links lead, `tags` where its `#tags` do (None: no link).

    It never raises, and no text of the page is left out in silence, except comments and definitions of links.
    """
    lines = text.split("\n")
    front = read_front_matter(lines)
    blocks = scan(lines, front.body).blocks
    headings = headings_of(blocks)
    by_line = {heading.line: anchor for anchor, heading in anchors(headings).items()}
    outline = tuple(OutlineEntry(h.level, h.text, by_line[h.line], h.line) for h in headings)
    first, end = lines_of_part(lines, blocks, front.body, part)
    after = end + 1 if end < len(lines) else 0
    own = PageAnchors(by_line, _by_name(headings, by_line), _block_lines(text), first + 1, end, part.address)
    head = head_of_table(blocks, first)
    repeated = [] if head is None else lines[head : head + 2]
    needed, shown_text = definitions_elsewhere(lines, first, end), "\n".join([*repeated, *lines[first:end]])
    steps, env = ParserSteps.for_text(len(needed) + len(shown_text)), dict[str, Any]()
    try:
        elsewhere = _parsed(needed, steps, env)
        tokens = _parsed(shown_text, steps, env)
    except TooManySteps:
        return RenderedPage(front.metadata, tuple(_source_of(lines, first, end)), outline, next=after)
    embeds = _Embeds(tags, steps)
    writer = HtmlWriter(
        links, own, tags, partial(embeds.html, links), lines, footnotes_in(env), steps, first - len(repeated), first
    )
    shown = tuple(RenderedBlock(one, last, _block(one, html)) for one, last, html in writer.blocks(tokens))
    notes = Markup(writer.notes(elsewhere))  # noqa: S704 - cleaned by the writer
    return RenderedPage(front.metadata, shown, outline, notes, after)


@dataclass(slots=True)
class _Embeds:
    """Renders what pages embed: a few levels, no page inside itself, no more text than a page may have."""

    tags: TagAddress
    steps: ParserSteps
    left: int = MOST_EMBEDDED
    count: int = MOST_EMBEDS
    _open: list[str] = field(default_factory=list)

    def html(self, links: PageLinks, target: str) -> str | None:
        """Return the text that `target` embeds on the page of `links` as HTML, or why it is not shown; None if there is none."""
        text = links.embedded(target)
        if text is None:
            return None
        if text in self._open:
            return _note("Not shown: it would contain itself.")
        if len(self._open) >= DEEPEST_EMBED or not self.count or len(text) > self.left:
            return _note("Not shown here: this page embeds too much. Open it by its link.")
        self.count -= 1
        self.left -= len(text)
        self.steps.left += 2 * len(text)
        lines = text.split("\n")
        body = lines[read_front_matter(lines).body :]
        env: dict[str, Any] = {}
        try:
            tokens = _parsed("\n".join(body), self.steps, env)
        except TooManySteps:
            return as_source("\n".join(body))
        self._open.append(text)
        # Embedded text has no ids: they could be the same as ids of the page around it.
        inner = links.inside(target)
        embed, notes = partial(self.html, inner), footnotes_in(env)
        writer = HtmlWriter(inner, PageAnchors(), self.tags, embed, body, notes, self.steps, has_ids=False)
        html = "".join(part for _, _, part in writer.blocks(tokens))
        self._open.pop()
        return html + writer.notes()


def _parsed(text: str, steps: ParserSteps, env: dict[str, Any]) -> list[Token]:
    tokens = parse_markdown(text, steps, env)
    pair_tags(tokens)
    return tokens


def _by_name(headings: Sequence[Heading], by_line: Mapping[int, str]) -> dict[str, tuple[int, str]]:
    """Return the line and anchor of each heading, by every name that a link may use for it. The first heading with a name counts."""
    found: dict[str, tuple[int, str]] = {}
    for heading in headings:
        anchor = by_line[heading.line]
        for name in (anchor, heading.text, " ".join(heading.path)):
            found.setdefault(folded_name(name), (heading.line, anchor))
    return found


def _block_lines(text: str) -> dict[str, int]:
    """Return the line of each block's id, by id."""
    found: dict[str, int] = {}
    line, at = 1, 0
    for match in _BLOCK_ID.finditer(text) if "^" in text else ():
        line += text.count("\n", at, match.start(1))
        at = match.start(1)
        found.setdefault(match[1], line)
    return found


def _block(first: int, html: str) -> Markup:
    return Markup(f'<div class="block" id="line-{first}">{html}</div>')  # noqa: S704 - cleaned by the writer


def _source_of(lines: Sequence[str], first: int, end: int) -> list[RenderedBlock]:
    parts = [(start, min(start + LINES_AT_ONCE, end)) for start in range(first, end, LINES_AT_ONCE)]
    return [
        RenderedBlock(start + 1, last, _block(start + 1, as_source("\n".join(lines[start:last]), TOO_COMPLEX)))
        for start, last in parts
    ]


def _note(sentence: str) -> str:
    return f'<p class="note">{sentence}</p>'
