"""The graph of links around a page: both directions, at most so many pages, by title or path, whatever they are called."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import AsyncIterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import anyio
import anyio.to_thread
import httpx
import pytest

from mcp_server.web.link_graph import computation, pages
from mcp_server.web.link_graph.layout import positions
from mcp_server.web.text.sanitize import has_hidden
from mcp_server.workers.index_steps import linked_documents_in
from tests.browser.payloads import MARKUP
from tests.support.web.review_pages import Place, Visitor, kept

FENCE = 1
TEA = {
    "tea.md": (
        "# Tea\n\nSee [[Pot]], [water](kitchen/water.md), [leaves](leaves.md), [garden](garden/), [[nowhere]] and "
        "![pot](pot.png).\n"
    ),
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
    missing = html.partition('id="missing"')[2]
    assert missing.count("<li>") == 2, "a link to a folder without a page of its own leads somewhere"


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
    addresses = [
        "/graph?path=tea.md&steps=2",
        "/graph",
        *(f"/graph?path={quote(name)}" for name in [*hostile, *payloads]),
    ]
    for address in addresses:
        inert(await visitor.look(address))
        assert visitor.status in (200, 300, 404)
    assert len(lists(await visitor.look(addresses[0]))["in"]) == len(hostile) + 2
    held = (await drawn_data(visitor)).json()
    assert not any(has_hidden(text) for text in (*held["titles"], *held["names"], *filter(None, held["folders"])))


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


# --- the whole graph --------------------------------------------------------------------------------------------------


def inside(html: str, part: str) -> str:
    """Return the section of the page with that id."""
    found = re.search(rf'<section aria-labelledby="{part}"[^>]*>(.*?)</section>', html, re.DOTALL)
    assert found is not None
    return found[1]


async def drawn_data(visitor: Visitor, query: str = "", **headers: str) -> httpx.Response:
    return await visitor.http.get(f"/graph/data{query}", headers={k.replace("_", "-"): v for k, v in headers.items()})


async def test_the_whole_graph_is_told_in_lists_and_as_a_picture_of_the_largest_pages(place: Place) -> None:
    visitor = await place.visitor()
    html = await visitor.look("/graph")
    assert "6 pages, 5 links between them, 1 page without a link" in html
    most = re.findall(r'href="/page\?path=([^"]*)"', inside(html, "most"))
    assert most == ["tea.md", "kitchen/pot.md", "kitchen/water.md", "garden/well.md"]
    assert "2 in, 2 out" in inside(html, "most")
    assert re.findall(r'href="/page\?path=([^"]*)"', inside(html, "alone")) == ["alone.md"]
    missing = " ".join(re.sub("<[^>]*>", " ", inside(html, "missing")).split())
    assert missing == "Links to pages that don't exist 2 leaves.md from 1 page nowhere from 1 page"
    rows = [re.sub("<[^>]*>", " ", row).split() for row in re.findall("<tr>.*?</tr>", inside(html, "folders"))[1:]]
    assert rows == [["top", "level", "3", "1", "3"], ["kitchen", "2", "0", "4"], ["garden", "1", "0", "1"]]
    (picture,) = re.findall(r'<svg class="whole".*?</svg>', html, re.DOTALL)
    assert picture.count("<circle") == len(TEA)
    assert "data-pending" not in html


async def test_the_script_gets_all_pages_and_links_and_a_short_answer_if_it_has_them(place: Place) -> None:
    visitor = await place.visitor()
    answer = await drawn_data(visitor)
    held = answer.json()
    assert answer.headers["x-graph-current"] == "1"
    assert held["paths"] == sorted(TEA)
    assert held["titles"][held["paths"].index("kitchen/pot.md")] == "Pot"
    ends = iter(held["edges"])
    edges = {(held["paths"][a], held["paths"][b]) for a, b in zip(ends, ends, strict=True)}
    assert edges == {
        ("tea.md", "kitchen/pot.md"),
        ("tea.md", "kitchen/water.md"),
        ("kitchen/pot.md", "tea.md"),
        ("kitchen/water.md", "garden/well.md"),
        ("breakfast.md", "tea.md"),
    }
    assert len(held["x"]) == len(held["y"]) == len(held["of"]) == len(TEA)
    again = await drawn_data(visitor, if_none_match=answer.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    unpacked = await drawn_data(visitor, accept_encoding="identity")
    assert "content-encoding" not in unpacked.headers
    assert unpacked.json() == held


async def test_an_unchanged_index_costs_no_second_computation_and_a_changed_one_keeps_the_places(place: Place) -> None:
    visitor = await place.visitor()
    first = await drawn_data(visitor)
    graphs = await place.app.base.load_link_graphs()
    written = graphs.data_file.stat()
    await graphs.renew()
    assert graphs.data_file.stat() == written
    await write(place, {"new.md": "# New\n\nSee [[tea]].\n"})
    second = await drawn_data(visitor, "?current=1", if_none_match=first.headers["etag"])
    assert second.status_code == 200
    before, after = first.json(), second.json()
    places = {path: (x, y) for path, x, y in zip(after["paths"], after["x"], after["y"], strict=True)}
    assert {path: places[path] for path in before["paths"]} == {
        path: (x, y) for path, x, y in zip(before["paths"], before["x"], before["y"], strict=True)
    }
    assert "new.md" in places


async def test_a_large_graph_is_shown_as_it_was_while_it_is_updated(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SOON", 0)
    visitor = await place.visitor()
    await pages.prepare(place.app.services)
    assert "data-pending" not in await visitor.look("/graph"), "it was laid out before anybody asked"
    await write(place, {"new.md": "# New\n\nSee [[tea]].\n"})
    html = await visitor.look("/graph")
    assert "It is being updated." in html
    assert f"{len(TEA)} pages" in html
    assert (await drawn_data(visitor, "?current=1")).headers["x-graph-current"] == "1"
    html = await visitor.look("/graph")
    assert "data-pending" not in html
    assert f"{len(TEA) + 1} pages" in html


async def test_before_a_large_graph_was_ever_laid_out_the_page_leads_to_folders(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SOON", len(TEA))
    visitor = await place.visitor()  # logging in has nothing laid out in advance
    monkeypatch.setattr(pages, "SOON", 0)
    html = await visitor.look("/graph")
    assert "The graph is being laid out for the first time." in html
    assert re.findall(r'href="/pages\?path=([^"]*)"', inside(html, "folders")) == ["garden", "kitchen"]
    assert '<svg class="whole"' not in html
    # The answer to the script waits until it is done.
    assert (await drawn_data(visitor)).json()["paths"] == sorted(TEA)
    assert "data-pending" not in await visitor.look("/graph")


def _job(place: Place, folder: Path) -> computation.GraphJob:
    return computation.GraphJob(place.app.base.index.path, linked_documents_in, folder, by_name=True, sketched_above=0)


class _Killed(Exception):
    """Stands for the end of a process that lays a graph out."""


async def sketched(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the files as a process does that is killed while it lays out the graph for the first time."""
    folder = (await place.app.base.load_link_graphs()).data_file.parent
    with monkeypatch.context() as dying:
        dying.setattr(positions, "placed", _killed)
        with pytest.raises(_Killed):
            await anyio.to_thread.run_sync(computation.computed, _job(place, folder))


def _killed(*_: object) -> None:
    raise _Killed


async def test_a_provisional_graph_says_that_it_is_one_and_is_replaced(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = await place.visitor()
    await sketched(place, monkeypatch)
    monkeypatch.setattr(pages, "SOON", 0)
    html = await visitor.look("/graph")
    assert "The picture is provisional: pages are placed by their folders" in html
    assert "6 pages, 5 links between them" in html, "the numbers are those of the whole graph"
    answer = await drawn_data(visitor, "?current=1")
    held = answer.json()
    assert (held["provisional"], answer.headers["x-graph-current"]) == (False, "1")
    assert "provisional" not in await visitor.look("/graph")


async def test_the_script_gets_the_provisional_graph_while_the_layout_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = await place.visitor()
    graphs = await place.app.base.load_link_graphs()
    async with graphs._lock:  # somebody's computation, which does not end before this block
        async with anyio.create_task_group() as tasks:
            answers: list[httpx.Response] = []

            async def ask() -> None:
                answers.append(await drawn_data(visitor))

            tasks.start_soon(ask)
            await sketched(place, monkeypatch)
        (answer,) = answers
        held = answer.json()
        assert (held["provisional"], answer.headers["x-graph-current"]) == (True, "0")
        assert held["paths"] == sorted(TEA)
    places = dict(zip(held["paths"], zip(held["x"], held["y"], strict=True), strict=True))
    assert math.dist(places["kitchen/pot.md"], places["kitchen/water.md"]) < min(
        math.dist(places["kitchen/pot.md"], places[path]) for path in TEA if "kitchen" not in path
    ), "a folder's pages are together"


async def test_provisional_places_are_not_taken_for_places_of_an_earlier_layout(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    visitor = await place.visitor()
    await sketched(place, monkeypatch)
    after = (await drawn_data(visitor, "?current=1")).json()
    await anyio.to_thread.run_sync(computation.computed, _job(place, tmp_path / "fresh"))
    fresh = json.loads(gzip.decompress((tmp_path / "fresh" / computation.DATA_FILE).read_bytes()))
    assert after == fresh


async def test_damaged_files_of_the_graph_are_computed_again(place: Place) -> None:
    visitor = await place.visitor()
    held = (await drawn_data(visitor)).json()
    graphs = await place.app.base.load_link_graphs()
    for file in graphs.data_file.parent.iterdir():
        file.write_bytes(b"{}")
    assert f"{len(TEA)} pages" in await visitor.look("/graph")
    assert (await drawn_data(visitor)).json() == held


async def test_strangers_see_nothing(place: Place) -> None:
    stranger = await place.visitor(logged_in=False)
    for address in ("/graph?path=tea.md", "/graph", "/graph/data"):
        await stranger.look(address)
        assert stranger.status == 404
        assert "tea" not in stranger.html.lower()
