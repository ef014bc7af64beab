"""The HTML of a description as Plane stores it: parsed into one element, then cleaned. Comments are stored unchanged.

Source: work_item_create_alias_issues of tests/samples/plane; `IssueSerializer.validate` of github.com/makeplane/plane, which
parses by lxml and cleans by nh3, with nh3's own tags and those of Plane's editor.
"""

from __future__ import annotations

from html.parser import HTMLParser

import nh3

EDITOR_TAGS = {"mention-component", "image-component", "label", "input"}
EVERYWHERE = {
    "class",
    "id",
    "title",
    "style",
    "start",
    "type",
    "role",
    "data-type",
    "data-checked",
    "data-id",
    "data-name",
}
KEPT = {
    "*": EVERYWHERE,
    "a": {"href", "target"},
    "img": {"src", "alt", "title", "width", "height"},
    "input": {"type", "checked"},
    "th": {"colspan", "rowspan", "style"},
    "td": {"colspan", "rowspan", "style"},
    "pre": {"language"},
    "code": {"language", "spellcheck"},
    "mention-component": {"id", "entity_identifier", "entity_name"},
    "image-component": {"id", "src", "width", "height"},
}
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
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}


def cleaned(html: str) -> str | None:
    """Return the description as Plane stores it; None if Plane refuses it, as it does an empty one."""
    if not html.strip():
        return None
    return nh3.clean(
        _as_one(html),
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
    return f"<p>{html}</p>" if top.text else f"<span>{html}</span>"


class _Top(HTMLParser):
    """Notes the elements at the top level, and whether there is text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.text = False
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  # as the library calls it
        if not self._open:
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

    def handle_data(self, data: str) -> None:
        if not self._open and data.strip():
            self.text = True
