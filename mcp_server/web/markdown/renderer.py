"""Renders a page: Markdown in, HTML that is safe to show out. Pure, and bounded in work whatever the page holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from markdown_it.token import Token
from markupsafe import Markup

from knowledge.pages.document import Heading, anchors, headings_of
from knowledge.pages.front_matter import read_front_matter
from knowledge.pages.markdown.blocks import scan
from mcp_server.web.markdown.parser import ParserSteps, TooManySteps, parse_markdown
from mcp_server.web.markdown.raw_html import pair_tags
from mcp_server.web.markdown.rendered_page import OutlineEntry, PageLinks, RenderedBlock, RenderedPage
from mcp_server.web.markdown.writer import HtmlWriter, PageAnchors, as_source, folded_name

DEEPEST_EMBED = 3
MOST_EMBEDS = 50
MOST_EMBEDDED = 200_000
"""Characters of all embedded texts of a page."""
LINES_AT_ONCE = 500
TOO_COMPLEX = "This page is too complex to render, so its source is shown."

TagAddress = Callable[[str], str | None]


def tag_address(tag: str) -> str:
    """Return the address of the pages with a tag."""
    return f"/tags?tag={quote(tag, safe='')}"


def render(text: str, links: PageLinks, tags: TagAddress = tag_address) -> RenderedPage:
    """Return the page `text` as HTML; `links` says where its links lead, `tags` where its `#tags` do (None: no link).

    It never raises, and no text of the page is left out in silence, except comments.
    """
    lines = text.split("\n")
    front = read_front_matter(lines)
    headings = headings_of(scan(lines, front.body).blocks)
    by_line = {heading.line: anchor for anchor, heading in anchors(headings).items()}
    outline = tuple(OutlineEntry(h.level, h.text, by_line[h.line], h.line) for h in headings)
    names = PageAnchors(by_line, _by_name(headings, by_line))
    try:
        tokens = _parsed("\n" * front.body + "\n".join(lines[front.body :]), budget := ParserSteps(), names)
    except TooManySteps:
        return RenderedPage(front.metadata, tuple(_source_of(lines, front.body)), outline)
    embeds = _Embeds(links, tags, budget)
    writer = HtmlWriter(links, names, tags, embeds.html, lines)
    blocks = tuple(RenderedBlock(first, last, _block(first, html)) for first, last, html in writer.blocks(tokens))
    return RenderedPage(front.metadata, blocks, outline)


@dataclass(slots=True)
class _Embeds:
    """Renders what pages embed: a few levels, no page inside itself, no more text than a page may have."""

    links: PageLinks
    tags: TagAddress
    budget: ParserSteps
    left: int = MOST_EMBEDDED
    count: int = MOST_EMBEDS
    _open: list[str] = field(default_factory=list)

    def html(self, target: str) -> str | None:
        """Return the embedded text as HTML, or why it is not shown; None if there is none."""
        text = self.links.embedded(target)
        if text is None:
            return None
        if text in self._open:
            return _note("Not shown: it would contain itself.")
        if len(self._open) >= DEEPEST_EMBED or not self.count or len(text) > self.left:
            return _note("Not shown here: this page embeds too much. Open it by its link.")
        self.count -= 1
        self.left -= len(text)
        lines = text.split("\n")
        body = lines[read_front_matter(lines).body :]
        names = PageAnchors()
        try:
            tokens = _parsed("\n".join(body), self.budget, names)
        except TooManySteps:
            return as_source("\n".join(body))
        self._open.append(text)
        writer = HtmlWriter(self.links, names, self.tags, self.html, body, has_ids=False)
        html = "".join(part for _, _, part in writer.blocks(tokens))
        self._open.pop()
        return html


def _parsed(text: str, budget: ParserSteps, names: PageAnchors) -> list[Token]:
    tokens = parse_markdown(text, budget, {})
    pair_tags(tokens)
    for token in tokens:
        if "id" in token.meta:
            names.blocks.add(token.meta["id"])
    return tokens


def _by_name(headings: Sequence[Heading], by_line: dict[int, str]) -> dict[str, str]:
    """Return the anchors of headings by all that a link may call them; the first of a name wins."""
    found: dict[str, str] = {}
    for heading in headings:
        for name in (by_line[heading.line], heading.text, " ".join(heading.path)):
            found.setdefault(folded_name(name), by_line[heading.line])
    return found


def _block(first: int, html: str) -> Markup:
    return Markup(f'<div class="block" id="line-{first}">{html}</div>')  # noqa: S704 - cleaned by the writer


def _source_of(lines: Sequence[str], body: int) -> list[RenderedBlock]:
    starts = range(body, len(lines), LINES_AT_ONCE)
    parts = [(start, min(start + LINES_AT_ONCE, len(lines))) for start in starts]
    return [
        RenderedBlock(start + 1, end, _block(start + 1, as_source("\n".join(lines[start:end]), TOO_COMPLEX)))
        for start, end in parts
    ]


def _note(sentence: str) -> str:
    return f'<p class="note">{sentence}</p>'
