"""An exported site, opened from the file system in a real Chromium: nothing runs, nothing is asked from elsewhere, no barriers."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.browser.accessibility import violations
from tests.browser.chromium import browser, executable
from tests.browser.markdown_payloads import EMBEDDED, MARKDOWN_PAYLOADS
from tests.browser.test_hostile_pages import assert_harmless
from tests.support.hosts.persons import Person

pytestmark = pytest.mark.external

ROOT = Path(__file__).parents[2]
PICTURE = """() => ({
    strange: document.querySelectorAll('svg.near :not(path, a, title, circle, text, rect)').length,
    links: [...document.querySelectorAll('svg.near a')].map((a) => a.href.baseVal),
})"""


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


def exported(tmp_path: Path, kb: Path) -> Path:
    person = Person(tmp_path / "ann")
    person.kb.mkdir(parents=True)
    out = person.folder / "site"
    done = person.run("export", "site", str(out), "--kb", str(kb), "--title", "Notes")
    assert done.returncode == 0, done.stderr
    return out


def watched(page: Page) -> tuple[list[str], list[str]]:
    """Return the lists of what the page asks for, and of what must not happen."""
    sent: list[str] = []
    trouble: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.on("dialog", lambda dialog: trouble.append(f"dialog {dialog.message}"))
    page.on("pageerror", lambda error: trouble.append(f"error {error}"))
    page.on("popup", lambda popup: trouble.append(f"window {popup.url}"))
    return sent, trouble


async def test_hostile_pages_do_nothing(tmp_path: Path) -> None:
    kb = tmp_path / "kb"
    kb.mkdir()
    for number, payload in enumerate(MARKDOWN_PAYLOADS):
        (kb / f"{number}.md").write_text(payload, encoding="utf-8")
    for name, text in EMBEDDED.items():
        (kb / f"{name}.md").write_text(text, encoding="utf-8")
    site = exported(tmp_path, kb).as_uri()
    async with browser() as started:
        page = await started.new_page(viewport={"width": 360, "height": 740})
        sent, trouble = watched(page)
        for number in range(len(MARKDOWN_PAYLOADS)):
            sent.clear()
            await page.goto(f"{site}/pages/{number}.html")
            await assert_harmless_file(page, number)
            assert [url for url in sent if not url.startswith(site)] == [], number
            assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, number
        for address in ("index.html", "search.html", "tags/index.html", "graph.html"):
            sent.clear()
            await page.goto(f"{site}/{address}")
            assert [url for url in sent if not url.startswith(site)] == [], address
        assert trouble == []


async def assert_harmless_file(page: Page, number: int) -> None:
    """Check as on the site; links within the export are those of files, and the picture of links only draws and leads to pages."""
    drawn = await page.evaluate(PICTURE)
    assert drawn["strange"] == 0, number
    assert all(address.endswith(".html") and "://" not in address for address in drawn["links"]), (number, drawn)
    await page.evaluate("for (const svg of document.querySelectorAll('.near-links > svg.near')) svg.remove()")
    await page.evaluate(
        "for (const a of document.querySelectorAll('main a')) if (a.protocol === 'file:') a.removeAttribute('href')"
    )
    await page.evaluate("for (const a of document.querySelectorAll('main a:not([href])')) a.remove()")
    await assert_harmless(page, number, at="export")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_handbook_has_no_barriers_and_fits(tmp_path: Path, scheme: str) -> None:
    site = exported(tmp_path, ROOT / "kb").as_uri()
    async with browser() as started:
        page = await started.new_page(color_scheme=scheme)  # type: ignore[arg-type]
        sent, trouble = watched(page)
        for width in (360, 768, 1440):
            await page.set_viewport_size({"width": width, "height": 900})
            for address in (
                "index.html",
                "pages/guides/index.html",
                "pages/guides/in-and-out.html",
                "pages/reference/growth.html",
                "tags/index.html",
                "graph.html",
                "search.html",
            ):
                await page.goto(f"{site}/{address}")
                assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (address, width)
                assert await violations(page) == [], (address, width)
        assert [url for url in sent if not url.startswith(site)] == []
        assert trouble == []


async def test_the_search_finds_pages_as_words_are_typed(tmp_path: Path) -> None:
    site = exported(tmp_path, ROOT / "kb").as_uri()
    async with browser() as started:
        page = await started.new_page()
        _, trouble = watched(page)
        await page.goto(f"{site}/index.html")
        await page.get_by_role("link", name="Search").click()
        await page.get_by_label("Words").fill("restore back")
        first = page.locator("#results a").first
        await first.wait_for()
        assert await first.inner_text() == "Back up and restore"
        assert await violations(page) == []
        await first.click()
        assert await page.locator("h1").inner_text() == "Back up and restore"
        await page.goto(f"{site}/search.html?q=uninstall")
        await page.locator("#results a", has_text="Uninstall").first.wait_for()
        await page.get_by_label("Words").fill("<img src=x onerror=alert(1)> __proto__ constructor")
        await page.locator("#status", has_text="page").wait_for()
        assert trouble == []


async def test_everything_but_the_search_works_without_javascript(tmp_path: Path) -> None:
    site = exported(tmp_path, ROOT / "kb").as_uri()
    async with browser() as started:
        page = await (await started.new_context(java_script_enabled=False)).new_page()
        await page.goto(f"{site}/index.html")
        await page.get_by_role("link", name="Guides", exact=True).click()
        await page.get_by_role("link", name="In and out", exact=True).click()
        assert "Run it again" in await page.locator("main").inner_text()
        await page.get_by_role("link", name="#export").click()
        assert "In and out" in await page.locator("main").inner_text()
        await page.get_by_role("link", name="Search").click()
        assert "needs JavaScript" in await page.locator("main").inner_text()
