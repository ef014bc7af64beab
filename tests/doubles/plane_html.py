"""The HTML of a description as Plane stores it: parsed into one element, then cleaned. Comments are stored unchanged.

Source: work_item_create_alias_issues of tests/samples/plane; github.com/makeplane/plane 1.3.1, `IssueSerializer.validate` of
apps/api/plane/api/serializers/issue.py, which parses by lxml, and plane/utils/content_validator.py, which cleans by nh3.
`test_a_description_is_stored_as_the_double_stores_it` holds this to a real Plane.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

import nh3

EDITOR_TAGS = {"mention-component", "image-component", "label", "input"}
NAMES_OF_ALL = (
    "class id title role aria-label aria-hidden style start type xmlns data-tight data-node-type data-type data-checked "
    "data-background-color data-text-color data-name data-id data-icon-name data-icon-color data-background "
    "data-emoji-unicode data-emoji-url data-logo-in-use data-block-type"
)
NAMES_OF = {
    "*": NAMES_OF_ALL,
    "a": "href target",
    "image-component": "id width height aspectRatio aspectratio src alignment status",
    "img": "width height aspectRatio aspectratio alignment src alt title",
    "mention-component": "id entity_identifier entity_name",
    "th": "colspan rowspan colwidth background style",
    "td": "colspan rowspan colwidth background textColor textcolor style",
    "tr": "background textColor textcolor style",
    "pre": "language",
    "code": "language spellcheck",
    "input": "type checked",
}
KEPT = {tag: set(names.split()) for tag, names in NAMES_OF.items()}
BLOCKS = {
    "blockquote",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
} | {*("ol", "p", "pre", "section", "table", "tbody", "td", "th", "thead", "tr", "ul")}
OF_THE_HEAD = {"script", "style", "title", "meta", "link", "base"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}


def cleaned(html: str) -> str | None:
    """Return the description as Plane stores it; None if Plane refuses it, as it does an empty one.

    Elements that are not closed, or that others close, are not closed here as lxml closes them.
    """
    html = re.sub(r"\A(?:\s+|<!--.*?-->)+", "", html, flags=re.DOTALL).rstrip()
    if not html:
        return None
    return nh3.clean(
        # lxml writes a boolean attribute without its value.
        re.sub(r'(<input\b[^<>]*?\schecked)="[^"]*"', r"\1", _as_one(html)),
        tags=set(nh3.ALLOWED_TAGS) | EDITOR_TAGS,
        attributes=KEPT,
        url_schemes={"http", "https", "mailto", "tel"},
    )


def _as_one(html: str) -> str:
    top = _Top()
    top.feed(html)
    top.close()
    if len(top.elements) == 1 and not top.text:
        return html
    if any(name in BLOCKS for name in top.elements):
        return f"<div>{html}</div>"
    return f"<span>{html}</span>"


class _Top(HTMLParser):
    """Notes the elements at the top level, and whether there is text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.text = False
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  # as the library calls it
        # If such an element comes first, it becomes the document's head.
        if not self._open and (self.elements or tag not in OF_THE_HEAD):
            self.elements.append(tag)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  # as above
        if not self._open:
            self.elements.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_comment(self, data: str) -> None:  # noqa: ARG002  # as the library calls it
        if not self._open:
            self.elements.append("")

    def handle_data(self, data: str) -> None:
        if not self._open and data.strip():
            self.text = True
