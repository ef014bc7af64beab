"""History, undo and the audit log in a real Chromium: what a person can do there, and what no text on it can do to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import expect

from knowledge.errors import KnowledgeError
from mcp_server.web.text.sanitize import marks
from tests.browser.accessibility import violations
from tests.browser.chromium import executable
from tests.browser.payloads import LONG, PAYLOADS
from tests.browser.test_review_page import LOOKS, contrast, looking
from tests.support.hosts.writers import writing
from tests.support.web.review_pages import PAGE, Place

pytestmark = pytest.mark.external

TEA = "# Tea\n\nIt takes four minutes.\n\nThe pot is blue.\n"


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


async def days_work(place: Place) -> None:
    """Have one host write, change and move a page, another change it again, and somebody edit it outside the server."""
    async with writing(place.settings, host="laptop") as host:
        await host.merge("notes/tea.md", TEA, intent="note the tea")
        five = TEA.replace("four", "five")
        await host.merge(
            "notes/tea.md", five, base_revision=await host.revision("notes/tea.md"), intent="measured again"
        )
        await host.call("kb_move", path="notes/tea.md", to="kitchen/tea.md")
        sixty = place.text().replace("forty", "sixty")
        await host.merge(PAGE, sixty, base_revision=await host.revision(PAGE), intent="the new router is slower")
    async with writing(place.settings, host="phone") as host:
        six = five.replace("five", "six")
        await host.merge("kitchen/tea.md", six, base_revision=await host.revision("kitchen/tea.md"))
    tea = place.settings.kb / "kitchen/tea.md"
    tea.write_text(tea.read_text(encoding="utf-8").replace("blue", "green"), encoding="utf-8")


@pytest.mark.parametrize("scripts", [True, False], ids=["with JavaScript", "without JavaScript"])
async def test_a_person_finds_a_change_compares_undoes_it_and_takes_that_back(tmp_path: Path, *, scripts: bool) -> None:
    async with looking(tmp_path, java_script_enabled=scripts) as (place, person):
        await days_work(place)
        page = person.page
        await person.go("/waiting")
        await page.get_by_role("link", name="History", exact=True).click()
        router = page.locator("li", has_text="the new router is slower")
        await router.get_by_role("link", name="Diff").click()
        await expect(page.locator("del")).to_have_text("forty")
        await page.get_by_role("link", name="Inline").click()
        await expect(page.locator("ins")).to_have_text("sixty")
        await page.go_back()
        await page.go_back()
        await router.get_by_role("link", name="Undo").click()
        await expect(page.get_by_text("Nothing has changed yet.")).to_be_visible()
        await page.get_by_role("button", name="Undo", exact=True).click()
        await expect(page.get_by_role("status").filter(has_text="Done:")).to_be_visible()
        assert "forty" in place.text()
        await page.get_by_role("link", name="Take this back").click()
        await page.get_by_role("button", name="Undo", exact=True).click()
        await expect(page.get_by_role("status").filter(has_text="Done:")).to_be_visible()
        assert "sixty" in place.text()


async def test_a_person_chooses_a_side_where_something_changed_again(tmp_path: Path) -> None:
    async with looking(tmp_path, java_script_enabled=False) as (place, person):
        await days_work(place)
        page = person.page
        await person.go("/history")
        await page.locator("li", has_text="measured again").get_by_role("link", name="Undo").click()
        await expect(page.get_by_role("button", name="Undo", exact=True)).to_have_count(0)
        await page.get_by_label("Take the text from before the change").check()
        await page.get_by_role("button", name="Show with these choices").click()
        await expect(page.locator("ins")).to_have_text("four")
        await page.get_by_role("button", name="Undo", exact=True).click()
        await expect(page.get_by_role("status").filter(has_text="Done:")).to_be_visible()
        assert place.text("kitchen/tea.md") == TEA.replace("blue", "green")


async def test_a_person_filters_the_audit_log_and_opens_an_act(tmp_path: Path) -> None:
    async with looking(tmp_path, java_script_enabled=False) as (place, person):
        await days_work(place)
        page = person.page
        await person.go("/audit")
        await page.get_by_text("Filters").click()
        await page.get_by_label("Host or person").fill("laptop")
        await page.get_by_label("Page, folder or place").fill("guides")
        await page.get_by_label("Kind of act").select_option("pages")
        await page.get_by_role("button", name="Search").click()
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.get_by_role("link", name=re.compile("^Record ")).click()
        await expect(page.get_by_text("Its hash fits the record before it.")).to_be_visible()
        await expect(page.locator("dd", has_text="the new router is slower")).to_be_visible()
        await page.get_by_role("link", name=f"Diff of {PAGE}").click()
        await expect(page.locator("ins")).to_have_text("sixty")


async def change_of(place: Place, words: str) -> str:
    """Return the id of the newest change with these words as its reason."""
    found = await place.app.services.timeline.changes(limit=50)
    return next(change.id for change in found.changes if change.intent == words)


async def paths_of(place: Place) -> Sequence[tuple[str, str]]:
    """Return the addresses of the new pages, each with a name for its picture."""
    measured, router = await change_of(place, "measured again"), await change_of(place, "the new router is slower")
    return (
        ("history", "/history?who=laptop&since=2026-01-01"),
        ("history-of-a-page", "/history?path=kitchen/tea.md"),
        ("history-nothing-found", "/history?path=nothing&since=soon"),
        ("lines", "/history/lines?path=kitchen/tea.md"),
        ("diff", f"/diff?path={PAGE}"),
        ("diff-inline", f"/diff?path={PAGE}&layout=inline"),
        ("undo", f"/undo?change={router}"),
        ("undo-conflict", f"/undo?change={measured}"),
        ("undo-host", "/undo?host=laptop&since=2026-01-01"),
        ("undo-ask", "/undo"),
        ("audit-filtered", "/audit?by=laptop&kind=pages&since=2026-01-01"),
        ("audit-act", f"/audit/{router}"),
    )


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "light"),
        (1440, "dark"),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in ((360, "dark"), (768, "light"), (768, "dark"), (1440, "light"))
        ),
    ],
)
async def test_every_page_of_history_fits_can_be_read_and_has_no_barrier(
    tmp_path: Path, width: int, scheme: str
) -> None:
    """With filters, conflicts and mistakes, which `test_every_page.py` does not show."""
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    async with looking(tmp_path, **options) as (place, person):
        await days_work(place)
        await person.go("/history")
        for name, path in await paths_of(place):
            await person.go(path)
            assert (await person.page.evaluate(LOOKS))["width"] <= 0, path
            assert await contrast(person) >= 4.5, path
            assert await violations(person.page) == [], path
            await person.picture(f"{width}-{scheme}-{name}")


async def test_a_hundred_hostile_texts_in_pages_reasons_and_names_do_nothing(tmp_path: Path) -> None:
    """In pages and reasons of a trusted host, and in names and pages of files made outside the server."""
    async with looking(tmp_path) as (place, person), writing(place.settings, host="laptop") as host:
        for number, payload in enumerate(PAYLOADS):
            path = f"hostile/{number}.md"
            await host.merge(path, f"# Page {number}\n\nIt is so.\n", intent=payload[:400])
            text = f"# Page {number}\n\n{payload}\n"
            await host.merge(path, text, base_revision=await host.revision(path), intent=payload[:400])
            newest = (await place.app.services.timeline.changes(path, limit=1)).changes[0].id
            outside = _outside(place, payload)
            paths = [
                f"/diff?path={path}&layout={'inline' if number % 2 else 'split'}",
                f"/undo?change={newest}",
                f"/audit/{newest}",
                *([f"{('/history', '/diff')[number % 2]}?path={quote(outside)}"] if outside else []),
                # The timeline shows fifty changes: those of sixteen texts, three each.
                *(["/history"] if number % 16 == 15 or number == len(PAYLOADS) - 1 else []),
                f"/history/lines?path={path}",
            ]
            for path in paths:
                await person.go(path)
                looks = await person.page.evaluate(LOOKS)
                assert looks["pwned"] is None, (number, path)
                assert not looks["foreign"] + looks["scripts"] + looks["links"], (number, path, looks)
                assert looks["width"] <= 0, (number, path)
                # A field of a form holds the name of a page as it is.
                assert not looks["hidden"] or (outside and path.endswith(quote(outside))), (number, path)
            if payload not in LONG:
                # The last page shows line by line, and a carriage return ends a line.
                assert bool(looks["marks"]) == bool(marks(re.sub(r"\r\n?", "\n", payload))), (number, looks)
        await person.picture("history-hostile")


def _outside(place: Place, payload: str) -> str:
    """Make a file outside the server whose name is the text, as far as the server takes such a name, and return its path."""
    if payload in LONG:
        return ""
    name = f"{payload[:60].replace('/', '_')}.md"
    try:
        (place.settings.kb / name).write_text(f"# {payload}\n", encoding="utf-8", errors="replace")
        place.app.base.vault.read(name)
    except (OSError, ValueError, KnowledgeError):
        return ""
    return name
