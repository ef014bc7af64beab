"""The pages that the tests of the renderer link to."""

from __future__ import annotations

from mcp_server.web.markdown.rendered_page import RenderedPage
from mcp_server.web.markdown.renderer import render

PAGES = ("guide", "guide.md", "Guide to tea", "notes/a b.md")


class KnownPages:
    """Links to `PAGES`, to files in `files/`, and embedded texts by their target."""

    def __init__(self, **embedded: str) -> None:
        self._embedded = embedded

    def page(self, target: str) -> str | None:
        path, _, anchor = target.partition("#")
        return f"/page?path={path}#{anchor}".rstrip("#") if path in PAGES else None

    def file(self, target: str) -> str | None:
        return f"/file?path={target}" if target.startswith("files/") else None

    def embedded(self, target: str) -> str | None:
        return self._embedded.get(target)

    def inside(self, _target: str) -> KnownPages:
        return self


def page_of(text: str, **embedded: str) -> RenderedPage:
    """Return the text as a page."""
    return render(text, KnownPages(**embedded))


def html_of(text: str, **embedded: str) -> str:
    """Return the HTML of all blocks of the text, without the elements around them."""
    inner = [
        block.html.removeprefix(f'<div class="block" id="line-{block.first}">').removesuffix("</div>")
        for block in page_of(text, **embedded).blocks
    ]
    return "".join(inner).strip()
