"""A session that expires while somebody edits a page, in Chromium: the text comes back after the login, also without JavaScript."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.accessibility import violations
from tests.browser.chromium import executable, somebody
from tests.support.web.review_pages import PAGE, shown

pytestmark = pytest.mark.external

TEXT = "# Deploying\n\nAn evening of typing: 😀 </textarea> & more.\n"


@pytest.mark.parametrize("scripts", [True, False])
async def test_what_was_typed_is_saved_after_a_login_in_another_tab(tmp_path: Path, scripts: bool) -> None:  # noqa: FBT001 - parametrized
    executable()
    async with shown(tmp_path) as place, somebody(place, java_script_enabled=scripts) as person:
        await person.go(f"/page/edit?path={PAGE}")
        await person.page.get_by_label("Text").fill(TEXT)
        await person.context.clear_cookies(name=f"forge_review_{place.port}")
        await person.page.get_by_role("button", name="Save").click()
        await person.page.get_by_role("heading", name="You are logged out").wait_for()
        assert "evening" not in person.page.url
        if scripts:
            assert await violations(person.page) == []
        tab = await person.tab()
        await tab.log_in()
        assert await person.page.get_by_label("Text").input_value() == TEXT
        await person.page.get_by_role("button", name="Continue").click()
        await person.page.get_by_text("you have logged in since you opened this form").wait_for()
        assert await person.page.get_by_label("Text").input_value() == TEXT
        await person.page.get_by_role("button", name="Save").click()
        await person.page.get_by_text("Saved.").wait_for()
        assert place.text() == TEXT
        assert all("evening" not in str(cookie) for cookie in await person.context.cookies())
