"""Home in a real Chromium: figures that arrive after the first view, plots that fit, and lists that open with the keyboard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from mcp_server.web.home import figures
from tests.browser.accessibility import violations
from tests.browser.chromium import Person, executable, somebody
from tests.support.hosts.writers import writing
from tests.support.web.review_pages import PATIENCE_S, Place, kept

pytestmark = pytest.mark.external


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        async with writing(opened.settings, host="laptop") as host:
            await host.merge("notes/tea.md", "# Tea\n\nFour minutes.\n", intent="note the tea")
        waiting = await opened.propose()
        visitor = await opened.visitor()
        await visitor.look(f"/proposals/{waiting.id}")
        await visitor.send(f"/proposals/{waiting.id}/approve")
        await opened.app.services.freshen_index(PATIENCE_S)
        yield opened


async def test_figures_of_a_large_knowledge_base_arrive_without_a_reload(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "SOON_COUNTED", 0)
    async with somebody(place) as person:
        await person.go("/")
        await person.page.evaluate("window.sameDocument = true")
        await expect(person.page.locator(".tiles li")).to_have_count(5)
        assert await person.page.evaluate("window.sameDocument") is True
        assert person.trouble == []


async def test_what_needs_a_person_appears_by_itself_and_open_tables_stay_open(place: Place) -> None:
    async with somebody(place) as person:
        await person.go("/")
        await person.page.get_by_text("Growth as a table").click()
        proposal = await place.propose_deletion()
        await expect(person.page.locator(f'[data-live] a[href="/proposals/{proposal.id}"]')).to_be_visible()
        await expect(person.page.locator("[data-figures] details[open]")).to_have_count(1)
        await expect(person.page.locator(".menu .count")).to_have_text("1 waiting")
        assert person.trouble == []


@pytest.mark.parametrize("width", [360, 1440])
async def test_plots_fit_and_their_numbers_are_read_to_those_who_do_not_see_them(place: Place, width: int) -> None:
    async with somebody(place, viewport={"width": width, "height": 800}) as person:
        await person.go("/")
        await person.page.locator("summary", has_text="Size").click()
        plots = person.page.get_by_role("img")
        await expect(plots).to_have_count(3)
        for plot in await plots.all():
            box = await plot.bounding_box()
            assert box is not None
            assert 0 < box["x"] < box["x"] + box["width"] <= width
            assert (await plot.get_attribute("aria-label") or "")[-1:].isalnum()
        assert await violations(person.page) == []
        await _through_the_menu(person, narrow=width < 992)


async def _through_the_menu(person: Person, *, narrow: bool) -> None:
    """Reach a page of the navigation with the keyboard alone."""
    link = person.page.get_by_role("navigation", name="Main").get_by_role("link", name="Contradictions")
    if narrow:
        await expect(link).to_be_hidden()
        await person.page.locator(".menu summary").focus()
        await person.page.keyboard.press("Enter")
    await link.focus()
    await person.page.keyboard.press("Enter")
    await person.page.wait_for_url("**/contradictions")
