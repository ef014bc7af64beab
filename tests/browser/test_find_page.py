"""Search as you type in a real Chromium: results without a reload, the keyboard, what a screen reader hears, and no flicker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from mcp_server.web.find import people_search
from tests.browser.accessibility import violations
from tests.browser.chromium import Person, executable, somebody
from tests.contract.web.test_find_page import HOSTILE, PAGES
from tests.support.web.review_pages import PATIENCE_S, kept

pytestmark = pytest.mark.external


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


@pytest.fixture
async def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Person]:
    monkeypatch.setattr(people_search, "WAIT_S", PATIENCE_S)
    hostile = {"wasps.md": f"# Wasps {HOSTILE}\n\nWasps {HOSTILE} nest.\n"}
    async with kept(tmp_path, PAGES | hostile) as place:
        await place.app.services.freshen_index(PATIENCE_S)
        async with somebody(place) as opened:
            yield opened
            assert opened.trouble == []


async def test_results_follow_the_typing_without_a_reload(person: Person) -> None:
    await person.go("/find")
    await person.page.evaluate("window.sameDocument = true")
    field = person.page.get_by_label("Question or words")
    await expect(field).to_be_focused()
    await field.press_sequentially("young queen")
    first = person.page.locator("[data-results] h2 a").first
    await expect(first).to_have_text("Queens")
    await expect(person.page.locator("[data-results] mark").first).to_be_visible()
    await expect(person.page.locator("[data-count-of-hits]")).to_contain_text("passages on")
    await person.page.wait_for_url("**/find?q=young+queen")
    await field.fill("smoker")
    await expect(first).to_have_text("Smoker")
    await field.fill("")
    await expect(person.page.locator("[data-results]")).to_contain_text("Type a question or words")
    assert await person.page.evaluate("window.sameDocument") is True


async def test_the_keyboard_reaches_the_field_from_any_page_and_walks_through_the_hits(person: Person) -> None:
    await person.go("/waiting")
    await person.page.keyboard.press("/")
    await expect(person.page.get_by_label("Find in all pages")).to_be_focused()
    await person.page.keyboard.type("hive syrup")
    await person.page.keyboard.press("Enter")
    await person.page.wait_for_url("**/find?q=hive+syrup")
    hits = person.page.locator("a[data-hit]")
    await person.page.keyboard.press("j")
    await expect(hits.nth(0)).to_be_focused()
    await person.page.keyboard.press("j")
    await expect(hits.nth(1)).to_be_focused()
    await person.page.keyboard.press("k")
    await person.page.keyboard.press("ArrowUp")
    await expect(person.page.get_by_label("Question or words")).to_be_focused()
    await person.page.keyboard.press("ArrowDown")
    await expect(hits.nth(0)).to_be_focused()
    href = await hits.nth(0).get_attribute("href")
    assert href is not None
    await person.page.keyboard.press("Enter")
    await person.page.wait_for_url(f"**{href}")
    await person.page.go_back()
    await expect(person.page.get_by_label("Question or words")).to_have_value("hive syrup")
    await expect(hits.nth(1)).to_be_visible()


async def test_an_answer_that_arrives_late_replaces_no_newer_one(person: Person) -> None:
    """The request for `que` is held back until `smoker` is answered."""
    release = asyncio.Event()

    async def hold(route: Any) -> None:
        if "q=que&" in route.request.url:
            await release.wait()
        await route.continue_()

    await person.go("/find")
    await person.page.route("**/find?*part=results*", hold)
    field = person.page.get_by_label("Question or words")
    async with person.page.expect_request(lambda request: "q=que&" in request.url):
        await field.fill("que")
    await field.fill("smoker")
    first = person.page.locator("[data-results] h2 a").first
    await expect(first).to_have_text("Smoker")
    release.set()
    await person.page.unroute_all(behavior="wait")
    await expect(first).to_have_text("Smoker")
    await person.page.wait_for_url("**/find?q=smoker")


async def test_reasons_are_fetched_when_the_first_is_opened(person: Person) -> None:
    await person.go("/find")
    await person.page.get_by_label("Question or words").fill("hive syrup")
    why = person.page.locator("details.why")
    await why.first.locator("summary").click()
    await expect(why.first).to_contain_text("Words in the passage")
    await why.nth(1).locator("summary").click()
    await expect(why.nth(1)).to_contain_text("Rank score")


async def test_a_hostile_page_is_only_text_among_the_typed_results(person: Person) -> None:
    await person.go("/find")
    await person.page.get_by_label("Question or words").fill("wasps nest")
    await expect(person.page.locator("[data-results] .snippet").first).to_contain_text("<script>alert(1)</script>")
    assert await person.page.locator("[data-results] :is(script, img, a[href^=javascript])").count() == 0
    assert await violations(person.page) == []


async def test_a_person_who_is_logged_out_meanwhile_is_told(person: Person) -> None:
    await person.go("/find")
    await person.context.clear_cookies()
    await person.page.get_by_label("Question or words").fill("hive")
    await expect(person.page.locator("[data-results]")).to_contain_text("You are logged out")
