"""Hostile pages in a real Chromium: nothing in them runs, and nothing is asked from elsewhere, with the site's rules and without."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Page, Request
from starlette.applications import Starlette
from starlette.requests import Request as Asked
from starlette.responses import HTMLResponse
from starlette.routing import Route

from mcp_server.web.access.guard import HEADERS
from mcp_server.web.markdown.renderer import render
from tests.browser.accessibility import violations
from tests.browser.chromium import browser, executable, somebody
from tests.browser.markdown_payloads import EMBEDDED, MARKDOWN_PAYLOADS
from tests.support.processes.socket_server import served
from tests.support.web.review_pages import shown
from tests.unit.web.markdown.known_pages import KnownPages

pytestmark = pytest.mark.external

STIR = """() => {
    for (const element of document.querySelectorAll('*'))
        for (const kind of ['mouseover', 'focus', 'toggle', 'load', 'error', 'start', 'animationstart'])
            element.dispatchEvent(new Event(kind));
    for (const folded of document.querySelectorAll('details')) folded.open = !folded.open;
}"""
"""Sets off every handler that a page may have smuggled in, and opens and closes what folds."""
STATE = """() => ({
    pwned: window.pwned,
    active: document.querySelectorAll(
        ['script', 'iframe', 'svg', 'math', 'style', 'object', 'embed', 'base', 'meta', 'link', 'video', 'audio', 'source', 'template',
        '[style]', '[onclick]', '[onerror]'].map((name) => `main ${name}`).join()).length,
    schemes: [...document.querySelectorAll('main a')].map((a) => a.protocol),
    main: document.querySelectorAll('main').length,
})"""


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


async def assert_harmless(page: Page, number: int, *, at: str) -> None:
    await page.evaluate(STIR)
    state = await page.evaluate(STATE)
    assert state["pwned"] is None, (number, at)
    assert state["active"] == 0, (number, at)
    assert state["main"] == 1, (number, at)
    assert set(state["schemes"]) <= {"http:", "https:", "mailto:"}, (number, at)


@pytest.mark.parametrize("guarded", [True, False], ids=["with the site's rules", "without any rules"])
async def test_hostile_pages_run_nothing_and_ask_for_nothing(guarded: bool) -> None:  # noqa: FBT001 - a case
    """Without rules, because an exported site is opened from a file system, where no header says anything."""

    async def answer(request: Asked) -> HTMLResponse:
        page = render(MARKDOWN_PAYLOADS[int(request.path_params["number"])], KnownPages(**EMBEDDED))
        inside = "".join(block.html for block in page.blocks) + str(page.footnotes)
        html = f"<!doctype html><html lang=en><title>t</title><main>{inside}</main>"
        return HTMLResponse(html, headers=HEADERS if guarded else None)

    async with served(Starlette(routes=[Route("/{number:int}", answer)])) as address, browser() as started:
        page = await started.new_page()
        sent: list[str] = []
        trouble: list[str] = []

        def note(request: Request) -> None:
            sent.append(request.url)

        page.on("request", note)
        page.on("dialog", lambda dialog: trouble.append(f"dialog {dialog.message}"))
        page.on("pageerror", lambda error: trouble.append(f"error {error}"))
        page.on("popup", lambda popup: trouble.append(f"window {popup.url}"))
        for number in range(len(MARKDOWN_PAYLOADS)):
            sent.clear()
            await page.goto(f"{address}/{number}")
            await assert_harmless(page, number, at="alone")
            elsewhere = [url for url in sent if not url.startswith(address)]
            assert elsewhere == [], number
        assert trouble == []


EVERYTHING = """# Everything

Text[^1] with ==marks==, `code`, $x$, [[nowhere]], [out](https://example.com), #tag, ![far](https://example.com/x.png)^[so *it* is].

> [!warning]- Folded
> inside

> [!note] Open
> - [x] done
> - [ ] to do

| a | b |
|:--|--:|
| 1 | 2 |

| c |
|---|
| 3 |

```python title="x.py"
print("a line of code that is much too long for the narrow window of a phone, and is moved inside its frame")
```

```mermaid
graph TD; A-->B
```

![[guide]]

<details><summary>More</summary>

inside

</details>

<script>window.pwned=1</script>

[^1]: A note.
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_page_with_everything_has_no_barriers_and_fits_every_width(
    tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    async with shown(tmp_path) as place:
        (place.settings.kb / "everything.md").write_text(EVERYTHING, encoding="utf-8")
        (place.settings.kb / "guide.md").write_text("# Guide\n\nEmbedded.\n", encoding="utf-8")
        await place.app.base.indexer.reconcile(1)
        for width in (360, 768, 1440):
            async with somebody(place, viewport={"width": width, "height": 900}, color_scheme=scheme) as person:
                await person.go("/page?path=everything.md")
                assert await violations(person.page) == []
                assert await person.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
                await person.picture(f"{width}-{scheme}-everything")
                assert person.trouble == []


async def test_hostile_pages_of_a_knowledge_base_do_nothing_to_the_person_who_reads_them(tmp_path: Path) -> None:
    async with shown(tmp_path) as place:
        folder = place.settings.kb / "hostile"
        folder.mkdir()
        for number, payload in enumerate(MARKDOWN_PAYLOADS):
            (folder / f"{number}.md").write_text(payload, encoding="utf-8")
        for name, text in EMBEDDED.items():
            (place.settings.kb / f"{name}.md").write_text(text, encoding="utf-8")
        await place.app.base.indexer.reconcile(1)
        async with somebody(place, viewport={"width": 360, "height": 740}) as person:
            sent: list[str] = []
            person.page.on("request", lambda request: sent.append(request.url))
            for number in range(len(MARKDOWN_PAYLOADS)):
                sent.clear()
                await person.go(f"/page?path=hostile/{number}.md")
                assert await person.page.locator("main .block, main .note, main p").count(), number
                await assert_harmless(person.page, number, at="site")
                assert [url for url in sent if not url.startswith(place.address)] == [], number
                assert await person.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, number
            # A picture that does not exist is asked for at the site itself, and answered with 404.
            assert [what for what in person.trouble if "404" not in what] == []
