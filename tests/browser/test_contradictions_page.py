"""Contradictions in a real Chromium: settled without JavaScript, with the keyboard, at every width, and with malicious text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from knowledge.history.ports import Actor, HistoryEntry
from knowledge.merge.model import Contradiction, Side
from knowledge.pages.vault import revision_of
from tests.browser.accessibility import violations
from tests.browser.chromium import Person, executable, somebody
from tests.browser.payloads import LONG, PAYLOADS
from tests.browser.test_review_page import LOOKS, contrast
from tests.support.web.review_pages import Place, shown

pytestmark = pytest.mark.external
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
PAYMENTS = "The payment service retries a failed call 3 times before it gives up."
OPERATIONS = "The payment service retries a failed call 5 times before it gives up."
PAGES = {
    "guides/payments.md": f"# Payments\n\nHow the service works.\n\n{PAYMENTS}\n\nAfter that it tells the customer.\n",
    "guides/operations.md": f"# Operations\n\n- Tell support first.\n- {OPERATIONS}\n- Look at the queue.\n",
}


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


@asynccontextmanager
async def looking(
    folder: Path, pages: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[tuple[Place, Person]]:
    async with shown(folder, pages or PAGES) as place, somebody(place, **options) as person:
        yield place, person
        assert person.trouble == []


async def report(
    place: Place, one: tuple[str, str], other: tuple[str, str], *, written: bool = True, **more: str
) -> int:
    """Record a contradiction of two statements, each with its page, and return its number."""
    sides = []
    for at, (path, text) in enumerate((one, other)):
        revision = revision_of(place.text(path).encode()) if written or at == 0 else None
        sides.append(
            Side(path, more.get("section", "A > B"), text, more.get("source", "wiki:x"), 0.6, NOW, 0.7, revision)
        )
    why = more.get("reason", "One says 3 times, the other 5 times.")
    found = Contradiction("number", more.get("subject", "payment service retries"), why, sides[0], sides[1], 0.9)
    entry = HistoryEntry(
        NOW, Actor(more.get("by", "ada@laptop"), "kb_merge", ""), outcome="flagged", contradictions=[found]
    )
    ledger = place.app.base.state.ledger
    await ledger.commit(entry)
    return max(flag.id for flag in await ledger.flags(None, limit=500))


async def both(place: Place) -> int:
    return await report(place, ("guides/payments.md", PAYMENTS), ("guides/operations.md", OPERATIONS))


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_person_keeps_a_statement_and_takes_it_back(tmp_path: Path, *, scripts: bool) -> None:
    async with looking(tmp_path, java_script_enabled=scripts) as (place, person):
        await both(place)
        page = person.page
        await page.get_by_role("link", name="Contradictions").click()
        await expect(
            page.get_by_text("rewrites the second statement in guides/operations.md, line 4".capitalize())
        ).to_be_visible()
        await person.picture("contradictions-open")
        await page.get_by_role("link", name="payment service retries").click()
        await person.picture("contradiction-one")
        await page.get_by_role("button", name="Keep the first").click()
        await expect(page.get_by_text("kept the first statement")).to_be_visible()
        await person.picture("contradiction-settled")
        assert place.text("guides/operations.md") == PAGES["guides/operations.md"].replace("5 times", "3 times")
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("button", name="Keep the second")).to_be_visible()
        assert {path: place.text(path) for path in PAGES} == PAGES


async def test_a_person_edits_opens_the_page_and_dismisses_with_the_keyboard(tmp_path: Path) -> None:
    async with looking(tmp_path) as (place, person):
        number = await both(place)
        page = person.page
        await person.go(f"/contradictions/{number}")
        await page.get_by_role("link", name="guides/operations.md").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Look at the queue.")).to_be_visible()
        await person.go(f"/contradictions/{number}")
        await page.get_by_role("link", name="Edit the text").focus()
        await page.keyboard.press("Enter")
        await person.picture("contradiction-edit")
        await page.get_by_label("Second statement").fill("- It retries 3 times at night, and 5 times by day.")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("edited its pages")).to_be_visible()
        assert "- It retries 3 times at night, and 5 times by day.\n- Look" in place.text("guides/operations.md")
        await page.get_by_role("button", name="Undo").click()
        await page.get_by_text("Both hold, or not a contradiction").focus()
        await page.keyboard.press("Enter")
        await page.get_by_label("Reason").fill("Two services.")
        await page.get_by_role("button", name="Not a contradiction").click()
        await expect(page.get_by_text("not a contradiction: Two services.")).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (768, "light"), (1440, "light")])
async def test_long_words_fit_every_width_and_every_state_is_without_barriers(
    tmp_path: Path, scheme: str, width: int
) -> None:
    word = "averylongword" * 20
    long = f"The {word} has 3 parts."
    pages = {
        **PAGES,
        "long.md": f"# L\n\n{long}\n\n{word} {word}\n",
        f"{'deep/' * 12}page.md": f"# {word}\n\nThe end.\n",
    }
    async with looking(tmp_path, pages, viewport={"width": width, "height": 900}, color_scheme=scheme) as (
        place,
        person,
    ):
        first = await both(place)
        second = await report(
            place,
            ("long.md", long),
            (f"{'deep/' * 12}page.md", f"The {word} has 4 parts."),
            written=False,
            subject=word,
            by=word,
        )
        settled = await report(place, ("long.md", f"{word} {word}"), ("guides/payments.md", PAYMENTS))
        await place.app.services.settlements.edit(settled, {0: "Gone."}, by="ada (page)")
        addresses = ("/contradictions", "/contradictions?settled=1", "/contradictions?dismissed=1")
        ones = [f"/contradictions/{one}{page}" for one in (first, second) for page in ("", "/edit")]
        for at, path in enumerate((*addresses, *ones, f"/contradictions/{settled}")):
            await person.go(path)
            assert await violations(person.page) == [], path
            looks = await person.page.evaluate(LOOKS)
            assert looks["width"] <= 0, path
            assert await contrast(person) >= 4.5, path
            await person.picture(f"contradictions-{width}-{scheme}-{at}")


async def test_malicious_texts_do_nothing_and_hide_nothing(tmp_path: Path) -> None:
    texts = [text for text in PAYLOADS if text not in LONG and "\x00" not in text]
    pages = {"guides/payments.md": PAGES["guides/payments.md"]}
    async with looking(tmp_path, pages) as (place, person):
        for at, text in enumerate(texts):
            hostile = f"hostile-{at}.md"
            (place.settings.kb / hostile).write_bytes(f"# H\n\nThe limit is 3 {text}\n".encode("utf-8", "replace"))
            said = f"The limit is 3 {text}".encode("utf-8", "replace").decode()
            told = {"section": said, "source": said, "reason": said, "subject": said, "by": said}
            number = await report(place, (hostile, said), ("guides/payments.md", said), written=at % 2 == 0, **told)
            for path in (f"/contradictions/{number}", f"/contradictions/{number}/edit"):
                await person.go(path)
                looks = await person.page.evaluate(LOOKS)
                assert looks["pwned"] is None, (at, path)
                assert not looks["foreign"] + looks["scripts"] + looks["links"], (at, path, looks)
                assert not looks["hidden"], (at, path)
                assert looks["width"] <= 0, (at, path)
        await person.go("/contradictions")
        assert (await person.page.evaluate(LOOKS))["pwned"] is None
