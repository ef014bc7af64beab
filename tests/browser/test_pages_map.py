"""The map of pages in Chromium: folders open in place, by mouse and keyboard, and without JavaScript by their links."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_server.web.knowledge_pages import map_tree
from tests.browser.accessibility import violations
from tests.browser.chromium import executable, somebody
from tests.support.web.review_pages import shown

pytestmark = pytest.mark.external

PAGES = {
    "guides/_index.md": "# Guides\n\nHow we work.\n",
    "guides/deep/leaf.md": "# Leaf\n\nText of the leaf.\n",
    "tea.md": "# Tea\n\nFour minutes.\n",
    **{f"many/{number:03}.md": f"# Page {number}\n\nText.\n" for number in range(130)},
}


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    executable()
    monkeypatch.setattr(map_tree, "MOST_PAGES", 0)


async def test_folders_open_in_place_and_the_way_back_from_a_page_leads_to_the_open_folder(tmp_path: Path) -> None:
    async with shown(tmp_path, PAGES) as place, somebody(place) as person:
        await place.indexed()
        page = person.page
        await person.go("/pages")
        await page.locator("summary", has_text="Guides").focus()
        await page.keyboard.press("Enter")
        await page.locator("summary", has_text="Deep").wait_for()
        assert await page.evaluate("document.activeElement.tagName") == "SUMMARY"
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "About Guides"
        await page.locator("summary", has_text="Deep").click()
        await page.get_by_role("link", name="Leaf").wait_for()
        assert page.url.endswith("/pages?path=guides/deep")
        assert await violations(page) == []
        await page.get_by_role("link", name="Leaf").click()
        await page.get_by_text("Text of the leaf.").wait_for()
        await page.go_back()
        await page.get_by_role("link", name="Leaf").wait_for()
        assert await page.locator("details[open] > summary > bdi").all_inner_texts() == ["Guides", "Deep"]
        assert person.trouble == []


async def test_a_long_folder_is_continued_in_place_and_every_page_is_there_once(tmp_path: Path) -> None:
    async with shown(tmp_path, PAGES) as place, somebody(place) as person:
        await place.indexed()
        page = person.page
        await person.go("/pages")
        await page.locator("summary", has_text="Many").click()
        for last in ("Page 59", "Page 119"):
            await page.get_by_role("link", name=last, exact=True).wait_for()
            await page.get_by_role("link", name="Show more of Many").click()
        await page.get_by_role("link", name="Page 129", exact=True).wait_for()
        titles = await page.locator(".leaf a", has_text="Page").all_inner_texts()
        assert titles == [f"Page {number}" for number in range(130)]
        assert await page.evaluate("document.activeElement.textContent") == "Page 120"
        assert person.trouble == []


async def test_when_the_session_is_over_the_link_stays_and_says_so(tmp_path: Path) -> None:
    async with shown(tmp_path, PAGES) as place, somebody(place) as person:
        await place.indexed()
        await person.go("/pages")
        await person.context.clear_cookies()
        await person.page.locator("summary", has_text="Guides").click()
        await person.page.get_by_text("you are logged out").first.wait_for()
        assert await person.page.get_by_role("link", name="Open Guides").is_visible()


async def test_without_javascript_the_links_open_the_same_folders(tmp_path: Path) -> None:
    async with shown(tmp_path, PAGES) as place, somebody(place, java_script_enabled=False) as person:
        await place.indexed()
        await person.go("/pages")
        await person.page.locator("summary", has_text="Guides").click()
        await person.page.get_by_role("link", name="Open Guides").click()
        await person.page.locator("summary", has_text="Deep").click()
        await person.page.get_by_role("link", name="Open Deep").click()
        await person.page.get_by_role("link", name="Leaf").click()
        assert await person.page.get_by_text("Text of the leaf.").is_visible()
        await person.page.get_by_role("link", name="Pages").nth(1).click()
        assert await person.page.locator("[aria-current=true]").inner_text() == "Leaf"
