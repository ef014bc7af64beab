"""The first page of the site, and the navigation that leads to all others."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_server.web.application import page_routes
from mcp_server.web.page_context import NAVIGATION
from tests.support.web.review_pages import Place, kept


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


async def test_home_lists_what_needs_a_person_and_waiting_has_all_of_it(place: Place) -> None:
    visitor = await place.visitor()
    assert "Nothing is waiting" in await visitor.look("/")
    waiting = await place.propose()
    assert f"/proposals/{waiting.id}" in await visitor.look("/")
    assert f"/proposals/{waiting.id}" in await visitor.look("/waiting")
    await visitor.look(f"/proposals/{waiting.id}")
    await visitor.send(f"/proposals/{waiting.id}/reject")
    assert waiting.id not in await visitor.look("/")
