"""The graph of links around a page: both directions, at most so many pages, by title or path, whatever they are called."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from mcp_server.web.link_graph import pages
from mcp_server.web.text.sanitize import has_hidden
from tests.browser.payloads import MARKUP
from tests.support.web.review_pages import Place, kept

FENCE = 1
TEA = {
    "tea.md": "# Tea\n\nSee [[Pot]], [water](kitchen/water.md), [leaves](leaves.md), [[nowhere]] and ![pot](pot.png).\n",
    "kitchen/pot.md": "---\ntitle: Pot\n---\nFor [[tea]].\n",
    "kitchen/water.md": "# Water\n\nFrom the [well](../garden/well.md).\n",
    "garden/well.md": "# Well\n",
    "breakfast.md": "# Breakfast\n\n[Tea](tea.md) first.\n",
    "alone.md": "# Alone\n",
}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path, TEA) as opened:
        await opened.app.base.indexer.reconcile(FENCE)
        yield opened


async def write(place: Place, more: dict[str, str]) -> None:
    for path, text in more.items():
        (place.settings.kb / path).write_text(text, encoding="utf-8")
    await place.app.base.indexer.reconcile(FENCE)


def lists(html: str) -> dict[str, list[str]]:
    """Return the paths in each of the page's lists, by its heading."""
    parts = re.findall(r'<section aria-labelledby="(in|out|two|missing)"[^>]*>(.*?)</section>', html, re.DOTALL)
    return {name: re.findall(r'<li><a href="/page\?path=([^"]*)"', part) for name, part in parts}


def drawn(html: str, kind: str = "wide") -> list[str]:
    """Return the paths of the pages in the picture, in the order of the keyboard."""
    (svg,) = re.findall(rf'<svg class="near near-{kind}".*?</svg>', html, re.DOTALL)
    return re.findall(r'href="/page\?path=([^"]*)"', svg)


async def test_the_links_around_a_page_are_drawn_and_listed_with_their_direction(place: Place) -> None:
    visitor = await place.visitor()
    html = await visitor.look("/graph?path=tea.md")
    assert lists(html) == {
        "in": ["breakfast.md", "kitchen/pot.md"],
        "out": ["kitchen/pot.md", "kitchen/water.md"],
        "missing": [],
    }
    assert html.count("both ways") == 2, "in both lists"
    assert (
        sorted(drawn(html))
        == sorted(drawn(html, "narrow"))
        == ["breakfast.md", "kitchen/pot.md", "kitchen/water.md", "tea.md"]
    )
    assert "leaves.md" in html.partition('id="missing"')[2], "a link to a page that does not exist"
    assert "pot.png" not in html, "a link to a picture is none to a page"


async def test_pages_two_links_away_are_shown_on_request(place: Place) -> None:
    visitor = await place.visitor()
    assert "well.md" not in await visitor.look("/graph?path=tea.md")
    html = await visitor.look("/graph?path=tea.md&steps=2")
    assert lists(html)["two"] == ["garden/well.md"]
    assert "garden/well.md" in drawn(html)


async def test_a_page_is_found_by_its_title_and_a_choice_is_offered_for_a_part_of_a_path(place: Place) -> None:
    visitor = await place.visitor()
    await visitor.look("/graph?path=Pot")
    assert "<h1>Links of <bdi>Pot</bdi></h1>" in visitor.html
    await visitor.look("/graph?path=kitchen")
    assert visitor.status == 300
    assert "/graph?path=kitchen/pot.md" in visitor.html
    await visitor.look("/graph?path=../etc/passwd")
    assert visitor.status == 404


async def test_pages_beyond_the_limit_are_counted(place: Place) -> None:
    many = {f"m{n:03}.md": "[tea](tea.md)\n" for n in range(pages.MOST_PAGES + 30)}
    await write(place, many)
    visitor = await place.visitor()
    html = await visitor.look("/graph?path=tea.md")
    found = lists(html)
    left = len(many) + 2 - len(found["in"])
    assert len(found["in"]) + len(found["out"]) - 1 == pages.MOST_PAGES
    assert f"{left} more pages are not listed." in html
    assert f'Pages that link here <span class="faint">{len(many) + 2}</span>' in html
    assert "more pages are only in the lists." in html


async def test_a_page_without_links_says_so(place: Place) -> None:
    visitor = await place.visitor()
    html = await visitor.look("/graph?path=alone.md")
    assert lists(html) == {"in": [], "out": []}
    assert '<svg class="near' not in html


async def test_hostile_titles_and_paths_are_only_text(place: Place) -> None:
    payloads = [*MARKUP, "a\u202eb\u200bc"]
    hostile = {}
    for payload in payloads:
        name = "".join(c for c in payload if c not in '/\\:*?"|\n\r\t')[:100].strip(". ") or "x"
        title = payload.replace("\\", "\\\\").replace('"', '\\"')
        hostile[f"{name}.md"] = f'---\ntitle: "{title}"\n---\n[tea](tea.md) and [[{payload}]]\n'
    await write(place, hostile)
    visitor = await place.visitor()
    addresses = ["/graph?path=tea.md&steps=2", *(f"/graph?path={quote(name)}" for name in [*hostile, *payloads])]
    for address in addresses:
        inert(await visitor.look(address))
        assert visitor.status in (200, 300, 404)
    assert len(lists(await visitor.look(addresses[0]))["in"]) == len(hostile) + 2


class _Active(HTMLParser):
    """Collects what could run, load or lead elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, object]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        leads = {value for name in ("href", "src", "action", "xlink:href", "data") if (value := held.get(name))}
        ours = all(re.match(r"/(?!/)|#", value) for value in leads)
        loads = tag in ("script", "link") and not all(value.startswith("/static/") for value in leads)
        strange = tag in ("style", "iframe", "img", "base", "object", "embed", "math", "video", "dialog", "marquee")
        if (
            not ours
            or loads
            or strange
            or any(name.startswith("on") or name in ("style", "http-equiv") for name in held)
        ):
            self.found.append((tag, attrs))


def inert(html: str) -> None:
    """Check that nothing on the page runs, loads or leads elsewhere, and that no hidden character is left."""
    reader = _Active()
    reader.feed(html)
    assert reader.found == []
    assert not has_hidden(unescape(html))


async def test_a_stranger_sees_nothing(place: Place) -> None:
    stranger = await place.visitor(logged_in=False)
    await stranger.look("/graph?path=tea.md")
    assert stranger.status == 404
    assert "tea" not in stranger.html.lower()
