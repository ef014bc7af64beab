"""HTML inside Markdown: a few harmless elements stay what they are if they are closed; everything else becomes visible text.

Elements are paired here, so that a `<details>` may hold several blocks. `clean` is the second wall: it parses the finished HTML as a
browser does, and keeps only what the renderer itself may write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import unescape

import nh3
from markdown_it.token import Token

_INLINE = "a abbr b br cite code del dfn em i img ins kbd mark q rp rt ruby s samp small strong sub sup u var wbr"
_BLOCKS = "blockquote dd details div dl dt h1 h2 h3 h4 h5 h6 hr li ol p pre summary table tbody td th thead tr ul"
ALLOWED = frozenset(f"{_INLINE} {_BLOCKS}".split())
"""Elements that a page may have as HTML. Of their attributes only those in `_KEPT` stay, and those of `a` and `img`."""
VOID = frozenset({"br", "hr", "img", "wbr"})
_KEPT = {
    "abbr": ("title",),
    "details": ("open",),
    "dfn": ("title",),
    "td": ("colspan", "rowspan"),
    "th": ("colspan", "rowspan"),
}
_SPAN = re.compile(r"[1-9][0-9]{0,2}")
_TAG = re.compile(
    r"<(/?)([A-Za-z][A-Za-z0-9-]*+)"
    r"((?:\s++[A-Za-z_:][\w:.-]*+(?:\s*+=\s*+(?:[^\s\"'=<>`]++|'[^']*+'|\"[^\"]*+\"))?+)*+)\s*+/?>"
)
_ATTRIBUTE = re.compile(r"([A-Za-z_:][\w:.-]*+)(?:\s*+=\s*+(?:([^\s\"'=<>`]++)|'([^']*+)'|\"([^\"]*+)\"))?+")
MOST_OPEN = 30
"""Elements inside one another; a tag deeper inside is text."""


@dataclass(slots=True)
class RawTag:
    """A tag as it is written. `kept`: it is allowed, and its partner is there."""

    source: str
    name: str
    closing: bool
    attributes: dict[str, str] = field(default_factory=dict)
    kept: bool = False


Piece = str | RawTag


def pair_tags(tokens: Sequence[Token]) -> None:
    """Set `meta["pieces"]` of all tokens with HTML, and keep allowed tags that have a partner.

    A tag in an HTML block pairs with one in another HTML block on the same level. A tag inside a line pairs within that line.
    """
    open_tags: list[list[RawTag]] = [[]]
    for token in tokens:
        if token.type == "html_block":
            token.meta["pieces"] = list(_pieces(token.content))
            _pair(token.meta["pieces"], open_tags[-1])
        elif token.nesting > 0:
            open_tags.append([])
        elif token.nesting < 0:
            open_tags.pop()
        elif token.children:
            of_line: list[RawTag] = []
            for child in token.children:
                if child.type == "html_inline":
                    child.meta["pieces"] = list(_pieces(child.content))
                    _pair(child.meta["pieces"], of_line)


def _pieces(html: str) -> Iterator[Piece]:
    at = 0
    for found in _TAG.finditer(html):
        if found.start() > at:
            yield html[at : found.start()]
        attributes = {
            pair[1].lower(): unescape(pair[2] or pair[3] or pair[4] or "") for pair in _ATTRIBUTE.finditer(found[3])
        }
        yield RawTag(found[0], found[2].lower(), bool(found[1]), attributes)
        at = found.end()
    if at < len(html):
        yield html[at:]


def _pair(pieces: Sequence[Piece], opened: list[RawTag]) -> None:
    for piece in pieces:
        if isinstance(piece, str) or piece.name not in ALLOWED:
            continue
        if piece.name in VOID:
            piece.kept = not piece.closing
        elif not piece.closing:
            if len(opened) < MOST_OPEN:
                opened.append(piece)
        elif any(tag.name == piece.name for tag in opened):
            while (tag := opened.pop()).name != piece.name:
                pass
            tag.kept = piece.kept = True


def open_after(token: Token, depth: int) -> int:
    """Return how many kept elements are open after an HTML block, if `depth` were open before it."""
    for piece in token.meta.get("pieces", ()):
        if isinstance(piece, RawTag) and piece.kept and piece.name not in VOID:
            depth += -1 if piece.closing else 1
    return depth


def kept_attributes(tag: RawTag) -> Iterator[tuple[str, str]]:
    """Yield the attributes of a kept tag that stay."""
    for name in _KEPT.get(tag.name, ()):
        value = tag.attributes.get(name)
        if value is not None and (not name.endswith("span") or _SPAN.fullmatch(value)):
            yield name, value


_OF_MARKDOWN = frozenset({"figcaption", "figure", "input", "section", "span"})


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(ALLOWED | _OF_MARKDOWN),
        clean_content_tags={"script", "style"},
        attributes={
            "*": {"id", "class", "title"},
            "a": {"href", "rel", "referrerpolicy", "aria-label"},
            "img": {"src", "alt", "width", "height", "loading"},
            "input": {"type", "checked", "disabled", "aria-label"},
            "details": {"open"},
            "div": {"role", "aria-label", "tabindex"},
            "section": {"aria-label"},
            "ol": {"start"},
            "pre": {"tabindex"},
            "td": {"colspan", "rowspan"},
            "th": {"colspan", "rowspan"},
        },
        url_schemes={"http", "https", "mailto"},
        link_rel=None,
    )


def clean(html: str) -> str:
    """Return the HTML with only those elements, attributes and schemes that the renderer writes, all closed."""
    return _cleaner().clean(html)
