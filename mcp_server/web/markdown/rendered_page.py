"""A page as HTML: its blocks with their lines, its outline, its footnotes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from markupsafe import Markup


class PageLinks(Protocol):
    """Where the links of one page lead.

    A target is plain text: percent encoding and escapes are resolved, and a `#` separates its path from its anchor. Links inside
    the page itself (`#Heading`, `#^block`) are not asked about, only those of an embedded page.
    """

    def page(self, target: str) -> str | None:
        """Return the address of the page that a wiki or Markdown link means, with its anchor; None if there is no such page.

        `target` is a path, title or alias, and may end with `#Heading`, `#anchor` or `#^block`. The id of a block is `^block`.
        """
        ...

    def file(self, target: str) -> str | None:
        """Return the address of an attachment, None if there is none."""
        ...

    def embedded(self, target: str) -> str | None:
        """Return the Markdown of the page, section or block that is embedded, None if there is none."""
        ...

    def inside(self, target: str) -> PageLinks:
        """Return the links of the page that is embedded by this target: its own links are relative to that page."""
        ...


@dataclass(frozen=True, slots=True)
class RenderedBlock:
    """An outermost block: lines `first` to `last`, from 1, both included. Its element has the id `line-FIRST`."""

    first: int
    last: int
    html: Markup


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A heading. `anchor` is its id."""

    level: int
    text: str
    anchor: str
    line: int


_NO_TEXT = Markup("")


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page, or a part of one. `front` is its front matter, of which nothing is in the blocks; `outline` is the whole page's.

    `next` is the line at which the next part begins, 0 if there is none. `footnotes` are those that the blocks refer to.

    Ids come from the page's own words. They are `line-N`, `^block`, `fn:N`, `fnref:N`, or an anchor. An anchor has no upper-case
    letter, no `:` and no `.`, so the site's own ids can't be the same as an anchor if they have one of these.
    """

    front: Mapping[str, object]
    blocks: tuple[RenderedBlock, ...]
    outline: tuple[OutlineEntry, ...]
    footnotes: Markup = _NO_TEXT
    next: int = 0
