"""Plane's HTML as a tree, without scripts and other active content. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser

import nh3
from markdown_it.common.normalize_url import normalizeLink

ADDRESS_SCHEMES = ("http", "https", "mailto", "tel")
LONGEST_HTML = 300_000
"""Characters of one text that are read; Plane accepts up to 10 MB."""
DEEPEST = 60
"""The most levels of elements; text in deeper ones counts as the last level's. The functions on trees are recursive, and
strangers write these texts.
"""

VOID = frozenset({"br", "hr", "img", "input", "col", "wbr", "area"})
OF_THE_EDITOR = frozenset({"mention-component", "image-component", "input", "label"})
KEPT = {
    "a": {"href", "title"},
    "code": {"class"},
    "image-component": {"src"},
    "img": {"src", "alt", "title"},
    "input": {"type", "checked"},
    "li": {"data-type", "data-checked"},
    "mention-component": {"id", "entity_identifier", "entity_name"},
    "ol": {"start"},
    "pre": {"class", "language"},
    "td": {"style"},
    "th": {"style"},
    "ul": {"data-type"},
}
NAMES_IN_LINE = (
    "a abbr acronym b bdi bdo br cite code data del dfn em i img image-component ins kbd label input map mark mention-component "
    "q ruby rp rt rtc s samp small span strike strong sub sup time tt u var wbr"
)
INLINE = frozenset(NAMES_IN_LINE.split())


@dataclass(slots=True)
class Element:
    """An element with its children."""

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    def every(self) -> Iterator[Element]:
        """Yield all elements inside, in order."""
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child.every()

    def elements(self, *tags: str) -> list[Element]:
        """Return the children with one of these tags."""
        return [child for child in self.children if isinstance(child, Element) and child.tag in tags]


def parsed(html: str) -> Element:
    """Return the tree of `html`, without scripts, styles, event handlers and addresses of other schemes."""
    clean = nh3.clean(
        html[:LONGEST_HTML],
        tags=nh3.ALLOWED_TAGS | OF_THE_EDITOR,
        attributes=KEPT,
        url_schemes=set(ADDRESS_SCHEMES),
        filter_style_properties={"text-align"},
        link_rel=None,
    )
    tree = _Tree()
    tree.feed(clean)
    tree.close()
    return tree.root


class _Tree(HTMLParser):
    """Builds the tree from nh3's output, in which every element is closed, in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("")
        self._open = [self.root]
        self._deeper = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID and len(self._open) > DEEPEST:
            self._deeper += 1
            return
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if self._deeper:
            self._deeper -= 1
        elif len(self._open) > 1:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def plain_text(root: Element) -> str:
    """Return all words, with blanks between blocks."""
    parts: list[str] = []

    def gather(element: Element) -> None:
        for child in element.children:
            if isinstance(child, str):
                parts.append(child)
            else:
                gather(child)
        if element.tag not in INLINE:
            parts.append("\n")

    gather(root)
    return " ".join("".join(parts).split())


def scheme_of(address: str) -> str | None:
    """Return the scheme of an address in lower case, None if it has none."""
    found = re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]*):", address)
    return found[1].lower() if found else None


CLOSING = {")": "(", "]": "[", "}": "{"}
_ADDRESS = re.compile(r"(?<![^\W])https?://[^\s<>\"`\\]+", re.IGNORECASE)


def bare_address(text: str) -> str:
    """Return the address that `text` begins with, without the marks that end a sentence; "" without one."""
    found = _ADDRESS.match(text)
    return _without_end(found[0]) if found else ""


def split_addresses(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text, each with its address; "" for a part that is not an address."""
    at = 0
    for found in _ADDRESS.finditer(text):
        address = _without_end(found[0])
        if address:
            yield text[at : found.start()], ""
            yield address, address
            at = found.start() + len(address)
    yield text[at:], ""


def _without_end(address: str) -> str:
    """Return an address without the marks that end a sentence, and without brackets that were opened before it.

    In `(see https://example.org/a_(b)).` it ends after the first closing bracket.
    """
    counts = Counter(sign for sign in address if sign in "([{)]}")
    end = len(address)
    while end:
        last = address[end - 1]
        if last in CLOSING and counts[last] > counts[CLOSING[last]]:
            counts[last] -= 1
        elif last not in ".,;:!?'*_~|":
            break
        end -= 1
    return address[:end] if address[:end].partition("://")[2] else ""


def normal_address(address: str) -> str:
    """Return an address as Markdown writes it, so that two spellings of the same are equal."""
    return normalizeLink(address)
