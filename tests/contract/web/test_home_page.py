"""The first page of the site, and the navigation that leads to all others."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge.search.maps.page_health import PageHealth, page_health
from mcp_server.app.knowledge_base import utc_now
from mcp_server.web.application import page_routes
from mcp_server.web.home import figures
from mcp_server.web.home.pages import LISTS
from mcp_server.web.page_context import NAVIGATION
from tests.contract.web.test_runs_page import text_of
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write
from tests.support.web.review_pages import ME, PATIENCE_S, Place, kept, shown


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        yield opened


async def test_the_navigation_has_every_page_once_in_its_group(place: Place) -> None:
    """It is the same on every page, and works without JavaScript: at a narrow width a `<details>` shows it."""
    await place.propose()
    visitor = await place.visitor()
    html = await visitor.look("/")
    shown = re.findall(r'<p id="nav-\w+">(\w+)</p>\s*<ul[^>]*>(.*?)</ul>', html, re.DOTALL)
    assert [group for group, _ in shown] == ["Read", "Decide", "Manage"]
    for group, items in shown:
        assert re.findall(r'href="([^"]+)"', items) == [entry.path for entry in NAVIGATION if entry.group == group]
    assert html.count('aria-current="page"') == 1
    assert '<a href="/waiting">Waiting <span class="count" data-count>1</span></a>' in html
    routes = {route.path for route in page_routes()}
    assert {entry.path for entry in NAVIGATION} <= routes


async def test_the_site_has_the_name_of_the_knowledge_base_for_those_who_are_logged_in(place: Place) -> None:
    stranger = await place.visitor(logged_in=False)
    assert "<title>Log in · Knowledge Forge</title>" in await stranger.look("/")
    visitor = await place.visitor()
    assert "<title>Home · kb</title>" in await visitor.look("/")
    assert "<title>Trust · kb</title>" in await visitor.look("/trust")


async def test_home_is_headed_by_the_title_that_the_folder_gives_itself(place: Place) -> None:
    visitor = await place.visitor()
    assert "<h1><bdi>kb</bdi></h1>" in await visitor.look("/")
    write(place.settings.kb, {"_index.md": "---\ntitle: Team notes\nsummary: All of it.\n---\n# Team notes\n"})
    await count(place)
    assert "<h1><bdi>Team notes</bdi></h1>" in await visitor.look("/")


async def count(place: Place) -> None:
    """Index the pages, so that the figures have them."""
    await place.app.services.freshen_index(PATIENCE_S)


def figure(html: str, show: str) -> str:
    found = re.search(rf'href="{re.escape(show)}"><strong>(.*?)</strong>', html)
    assert found is not None, show
    return found[1]


def rows(html: str) -> list[str]:
    items = re.findall(r'<li class="card">(.*?)</li>', html, re.DOTALL)
    return [text_of(f"<main{item}").removesuffix(" Edit History") for item in items]


async def test_each_figure_leads_to_the_list_behind_it(place: Place) -> None:
    kb = place.settings.kb
    write(
        kb,
        {
            "far/a.md": "# A\n\n[b](b.md) and [gone](gone.md)\n",
            "far/b.md": "---\nsource: zulip:design\n---\n# B\n\n[a](a.md)\n",
            "far/alone.md": "# Alone\n",
        },
    )
    year_ago = utc_now().timestamp() - 400 * 86_400
    os.utime(kb / "far/alone.md", (year_ago, year_ago))
    await count(place)
    visitor = await place.visitor()
    home = await visitor.look("/")
    listed = {show: rows(await visitor.look(f"/health?show={show}")) for show in LISTS}
    for show, found in listed.items():
        assert figure(home, f"/health?show={show}") == str(len(found)), show
    assert listed["lost"] == ["far/a.md links to gone.md"]
    assert listed["stale"] == ["far/alone.md changed 400 days ago"]
    assert "far/b.md source zulip:design" in listed["unverified"]
    assert "far/alone.md" in listed["orphans"]
    assert not {"far/a.md", "far/b.md"} & set(listed["orphans"])
    assert figure(home, "/contradictions") == "0"
    assert f"{len(list(kb.rglob('*.md')))} pages" in text_of(home)
    await visitor.look("/health?show=nothing")
    assert visitor.status == 404


async def test_figures_are_counted_again_after_a_change_and_only_then(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 10,000 pages a count takes longer than Home may."""
    counts = list[int]()

    async def counted(*args: Any, **more: Any) -> PageHealth:
        counts.append(1)
        return await page_health(*args, **more)

    monkeypatch.setattr("mcp_server.app.factories.page_health.page_health", counted)
    await count(place)
    visitor = await place.visitor()
    before = figure(await visitor.look("/"), "/health?show=orphans")
    await visitor.look("/")
    assert len(counts) == 1
    write(place.settings.kb, {"lonely.md": "# Lonely\n"})
    await count(place)
    assert figure(await visitor.look("/"), "/health?show=orphans") == str(int(before) + 1)
    assert len(counts) == 2


async def test_a_large_knowledge_base_is_counted_after_the_first_view(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "SOON_COUNTED", 0)
    await count(place)
    visitor = await place.visitor()
    assert "data-counting" in await visitor.look("/")
    await visitor.look("/health?show=orphans")  # waits for the same count
    html = await visitor.look("/")
    assert "data-counting" not in html
    assert figure(html, "/health?show=orphans")


async def test_home_tells_what_happened_today_and_how_the_knowledge_base_grew(place: Place) -> None:
    async with writing(place.settings, host="laptop") as host:
        await host.merge("notes/tea.md", "# Tea\n\nFour minutes.\n", intent="note the <i>tea</i>")
    await count(place)
    visitor = await place.visitor()
    days = [place.app.services.now()]
    html = await visitor.look("/")
    days.append(place.app.services.now())
    told = text_of(html)
    assert f"{ME}@laptop notes/tea.md created +3" in told
    assert "note the &lt;i&gt;tea&lt;/i&gt;" in html
    pages = len(list(place.settings.kb.rglob("*.md")))
    assert f"pages up from {pages - 1} to {pages}" in told
    assert html.count('<svg class="plot"') >= 2
    assert any(f'href="/history?since={day:%Y-%m-%d}"' in html for day in days)  # one if it is not midnight


@pytest.mark.parametrize(
    ("soon", "at_once"), [(2_000, True), (-1, False)], ids=["before the answer", "after the answer of a large one"]
)
async def test_changes_in_an_editor_are_on_home_without_a_visit_to_history(
    soon: int,
    at_once: bool,  # noqa: FBT001 - a case
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large knowledge base has them with the next view, which follows by itself where scripts run."""
    monkeypatch.setattr(figures, "SOON_COUNTED", soon)
    visitor = await place.visitor()
    async with writing(place.settings) as host:
        await host.merge("tea.md", "# Tea\n\nFour minutes.\n")
    write(place.settings.kb, {"by-hand.md": "# By hand\n"})
    first = text_of(await visitor.look("/"))
    assert ("outside the server by-hand.md" in first) == at_once
    with anyio.fail_after(PATIENCE_S):
        while "outside the server by-hand.md" not in text_of(await visitor.look("/")):
            pass


async def test_trust_of_hosts_over_time_is_a_plot_with_words_and_a_table(place: Place) -> None:
    visitor = await place.visitor()
    assert "No score has changed yet." in await visitor.look("/")
    waiting = await place.propose()
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/approve")
    html = await visitor.look("/")
    assert re.search(rf'aria-label="Trust of hosts since [\d-]+, from 0 to 5. {ME}@unenrolled: rose from', html)
    assert "Trust as a table" in html
    assert f"approved: {waiting.id}" in html


async def test_a_new_user_sees_what_to_do_next_instead_of_empty_boxes(tmp_path: Path) -> None:
    async with shown(tmp_path, {"_": ""}) as place:
        visitor = await place.visitor()
        html = text_of(await visitor.look("/"))
    for step in ("Add pages.", "Connect a host", "Ask the host for something"):
        assert step in html
    assert "0 pages" in html
    assert "The plot begins with the first change" in html


async def test_hostile_names_and_intents_are_text_on_home_and_in_its_lists(place: Place) -> None:
    name = 'a"b<i>\u202e.md'
    write(place.settings.kb, {name: '# <script>alert(1)</script>\n\n[x](<gone"><script>alert(2)</script>.md>)\n'})
    async with writing(place.settings, host="laptop") as host:
        await host.merge("x.md", "# X\n", intent='<script>alert(3)</script>\u202e"')
    await count(place)
    visitor = await place.visitor()
    for path in ("/", *(f"/health?show={show}" for show in LISTS)):
        html = await visitor.look(path)
        assert visitor.status == 200
        assert "<script>alert" not in html
        assert "\u202e" not in html


async def test_home_lists_what_needs_a_person_and_waiting_has_all_of_it(place: Place) -> None:
    visitor = await place.visitor()
    assert "Nothing is waiting" in await visitor.look("/")
    waiting = await place.propose()
    assert f"/proposals/{waiting.id}" in await visitor.look("/")
    assert f"/proposals/{waiting.id}" in await visitor.look("/waiting")
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/reject")
    assert f"/proposals/{waiting.id}" not in await visitor.look("/")
