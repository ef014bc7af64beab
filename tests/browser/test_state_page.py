"""Restoring a backup in a real Chromium: with a passkey, without JavaScript, and readable at every width."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from playwright.async_api import expect

from tests.browser.accessibility import violations
from tests.browser.chromium import Person, executable, somebody
from tests.browser.test_review_page import LOOKS, add_passkey, contrast
from tests.support.hosts import persons
from tests.support.knowledge_bases.folders import write
from tests.support.web.review_processes import review_process

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(os.name == "nt", reason="ends a process with a signal that Windows has not"),
]

HOSTILE = "<img src=x onerror=alert(1)>\u202e&.db"


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


async def with_a_backup(folder: Path) -> tuple[persons.Person, Path]:
    """Return a person with a backup of the time before the host zed."""
    write(folder / "kb", {"tea.md": "# Tea\n\nIt takes four minutes.\n"})
    ann, file = persons.Person(folder), folder / HOSTILE

    def prepare() -> None:
        ann.here("enroll", "cursor")
        assert ann.here("state", "backup", str(file)).returncode == 0
        ann.here("enroll", "zed")

    await anyio.to_thread.run_sync(prepare)
    return ann, file


async def fits(person: Person, name: str) -> None:
    await person.page.wait_for_load_state()  # with its style sheet
    looks = await person.page.evaluate(LOOKS)
    assert looks["width"] <= 0, name
    assert not looks["hidden"], name
    assert not looks["foreign"], name
    assert await contrast(person) >= 4.5, name
    assert await violations(person.page) == [], name
    await person.picture(name)


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
async def test_a_restore_is_readable_and_shows_its_result_by_itself(tmp_path: Path, width: int, scheme: Any) -> None:
    ann, file = await with_a_backup(tmp_path)
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    async with review_process(ann) as page, somebody(page, **options) as person:
        await person.go("/state")
        await person.page.get_by_role("button", name="Save a backup").click()
        await expect(person.page.get_by_role("status").first).to_contain_text("Audit chain")
        await fits(person, f"state-saved-{width}")
        await person.page.get_by_label("Path of a backup").fill(str(file))
        await person.page.get_by_role("button", name="Show what would change").click()
        await expect(person.page.get_by_role("heading", name="What would change")).to_be_visible()
        await fits(person, f"state-rehearsal-{width}")
        await person.page.get_by_role("button", name="Restore", exact=True).click()
        await expect(person.page.get_by_role("heading", name="To take this back")).to_be_visible()
        await fits(person, f"state-outcome-{width}")
        await person.go("/trust")
        await expect(person.page.get_by_text("@zed")).to_have_count(0)
        assert person.trouble == []


async def test_a_restore_is_signed_with_a_passkey(tmp_path: Path) -> None:
    ann, file = await with_a_backup(tmp_path)
    async with review_process(ann) as page, somebody(page) as person:
        await person.plug_in()
        await person.go("/passkeys")
        await add_passkey(person, "laptop")
        await expect(person.page.get_by_role("heading", name="laptop")).to_be_visible()
        await person.go("/state")
        await person.page.get_by_label("Path of a backup").fill(str(file))
        await person.page.get_by_role("button", name="Show what would change").click()
        await person.page.get_by_role("button", name="Sign and restore").click()
        await expect(person.page.get_by_role("heading", name="To take this back")).to_be_visible()
        await person.go("/passkeys")
        await expect(person.page.get_by_text("No passkey registered")).to_be_visible()
        assert person.trouble == []


async def test_a_restore_works_without_javascript(tmp_path: Path) -> None:
    ann, file = await with_a_backup(tmp_path)
    async with review_process(ann) as page, somebody(page, java_script_enabled=False) as person:
        await person.go("/state")
        await person.page.get_by_label("Path of a backup").fill(str(file))
        await person.page.get_by_role("button", name="Show what would change").click()
        await person.page.get_by_role("button", name="Restore", exact=True).click()
        await expect(person.page.get_by_role("heading", name="To take this back")).to_be_visible()
