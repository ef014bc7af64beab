"""Cards of MCP Apps: a server serves them, the extension's own host library renders them in a sandboxed frame of a real Chromium."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp_types import TextResourceContents
from playwright.async_api import Frame, Page, Route

from mcp_server.app.composition import App, open_app
from mcp_server.app.settings.settings import Settings
from tests.browser.accessibility import violations
from tests.browser.chromium import browser, executable
from tests.browser.payloads import PAYLOADS
from tests.external.programs import FOLDER, unavailable
from tests.support.knowledge_bases.folders import write

pytestmark = pytest.mark.external

HOST = "http://host.test"
SITE = "http://localhost:4321"
HOST_PAGE = Path(__file__).parents[1] / "support" / "web" / "card_host.html"
PAGE = "# Coffee\n\nWe drink it black, at ten.\n\n## Milk\n\nNever.\n"


@asynccontextmanager
async def connected(folder: Path, pages: dict[str, str] | None = None) -> AsyncIterator[tuple[App, Client]]:
    """Yield a server whose site is at `SITE`, and a client that shows cards."""
    settings = Settings(
        kb=write(folder / "kb", pages or {"coffee.md": PAGE}), state_dir=folder / "s", open_browser=False
    )
    async with open_app(settings) as app:

        async def address() -> str:
            return SITE

        object.__setattr__(app.services, "review_address", address)
        shows = advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})
        async with Client(app.server, extensions=[shows]) as client:
            await app.services.freshen_index(10)
            yield app, client


@asynccontextmanager
async def host() -> AsyncIterator[tuple[Page, list[str]]]:
    """Yield a page of a host in Chromium, and what went wrong or was asked for on it."""
    executable()
    modules = FOLDER / "node_modules"
    if not (modules / "@modelcontextprotocol" / "ext-apps").is_dir():
        unavailable("@modelcontextprotocol/ext-apps")

    async def answer(route: Route) -> None:
        path = route.request.url.removeprefix(HOST)
        file = HOST_PAGE if path == "/" else modules / path.removeprefix("/m/")
        kind = "text/html" if path == "/" else "text/javascript"
        await route.fulfill(body=file.read_text(encoding="utf-8"), content_type=f"{kind}; charset=utf-8")

    trouble: list[str] = []
    async with browser() as started:
        page = await started.new_page(viewport={"width": 360, "height": 740})
        page.on(
            "request",
            lambda request: trouble.append(request.url) if not request.url.startswith((HOST, "about:")) else None,
        )
        page.on("dialog", lambda dialog: trouble.append(f"dialog {dialog.message}"))
        page.on("pageerror", lambda error: trouble.append(f"error {error}"))
        page.on("popup", lambda popup: trouble.append(f"window {popup.url}"))
        await page.route("**/*", answer)
        await page.goto(f"{HOST}/")
        await page.wait_for_function("window.hosting === true", timeout=60_000)
        yield page, trouble


async def shown(page: Page, client: Client, tool: str, *, links: bool = True, **arguments: Any) -> Frame:
    """Call the tool as a host does, and return the frame of its card."""
    listed = {one.name: one for one in (await client.list_tools()).tools}
    uri = (listed[tool].meta or {})["ui"]["resourceUri"]
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return await rendered(
        page, client, uri, result.model_dump(mode="json", by_alias=True, exclude_none=True), links=links
    )


async def rendered(page: Page, client: Client, uri: str, result: dict[str, Any], *, links: bool = True) -> Frame:
    (document,) = (await client.read_resource(uri)).contents
    assert isinstance(document, TextResourceContents)
    assert document.mime_type == APP_MIME_TYPE
    await page.evaluate("([html, result, links]) => window.render(html, result, links)", [document.text, result, links])
    element = await page.wait_for_selector("iframe")
    assert element is not None
    frame = await element.content_frame()
    assert frame is not None
    await frame.wait_for_selector("main > *", state="attached", timeout=60_000)
    return frame


async def test_hits_show_their_passages_and_lead_to_the_pages_on_the_site(tmp_path: Path) -> None:
    async with connected(tmp_path) as (_, client), host() as (page, trouble):
        card = await shown(page, client, "kb_search", query="when do we drink coffee")
        assert await card.locator("h1").inner_text() == "2 passages on 1 page"
        assert "We drink it black, at ten." in await card.locator("li").first.inner_text()
        await card.get_by_role("link", name="Open the page").first.click()
        await page.wait_for_function("window.opened.length > 0")
        assert await page.evaluate("window.opened") == [f"{SITE}/page?path=coffee.md#line-1"]
        assert await card.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert (await page.evaluate("window.sizes"))[-1]["height"] > 50
        without = await shown(page, client, "kb_search", query="when do we drink coffee", links=False)
        assert await without.get_by_role("link").count() == 0
        assert trouble == []


async def test_a_proposal_shows_its_changes_and_leads_to_the_site_where_it_is_decided(tmp_path: Path) -> None:
    async with connected(tmp_path) as (app, client), host() as (page, trouble):
        reading = (await client.call_tool("kb_read", {"path": "coffee.md"})).structured_content or {}
        changed = {"content": PAGE.replace("ten", "eleven"), "base_revision": reading["revision"]}
        card = await shown(page, client, "kb_merge", path="coffee.md", **changed)
        assert await card.locator("h1").inner_text() == "Waits for a person"
        assert await card.locator(".removed").last.inner_text() == "-We drink it black, at ten."
        assert await card.locator(".added").last.inner_text() == "+We drink it black, at eleven."
        (waits,) = await app.base.state.trust.proposals()
        status = await shown(page, client, "proposal_status", proposal_id=waits.id)
        assert await status.locator(".added").last.inner_text() == "+We drink it black, at eleven."
        await status.get_by_role("link", name="Review it on the site").click()
        await page.wait_for_function("window.opened.length > 0")
        assert await page.evaluate("window.opened") == [f"{SITE}/proposals/{waits.id}"]
        # Nothing can be decided there: there is no button, no form, and no call.
        assert await status.locator("button, input, form, textarea").count() == 0
        assert await page.evaluate("window.asked") == []
        assert [one.state for one in await app.base.state.trust.proposals()] == ["pending"]
        assert trouble == []


async def test_a_journey_shows_where_it_is(tmp_path: Path) -> None:
    async with connected(tmp_path) as (_, client), host() as (page, trouble):
        card = await shown(page, client, "journey_start", agent="research", brief="Which beans do we buy, and why?")
        assert (await card.locator("h1").inner_text()).startswith("research: ")
        phases = await card.locator("li").all_inner_texts()
        assert sum("now" in one for one in phases) == 1
        assert await card.locator("[aria-current=step]").count() == 1
        await card.get_by_role("link", name="Open it on the site").click()
        await page.wait_for_function("window.opened.length > 0")
        assert (await page.evaluate("window.opened"))[0].startswith(f"{SITE}/journeys/research-")
        assert trouble == []


async def test_hostile_texts_are_shown_as_text_and_do_nothing(tmp_path: Path) -> None:
    short = [one for one in PAYLOADS if len(one) < 2_000]  # results are short, because the server cuts them
    texts = [*short, "half of a pair: \ud800", "right to left: \u202e", "NUL: \0"]
    hits = [
        dict.fromkeys(("path", "section", "title", "snippet"), one) | {"score": 0.5, "tainted": True} for one in texts
    ]
    every = "\n+".join(texts)
    async with connected(tmp_path) as (_, client), host() as (page, trouble):
        for site in (SITE, "javascript:window.top.hacked=1//", "//"):
            phases = [{"name": one, "state": one, "visits": 2} for one in texts]
            proposal = {"state": every, "preview": every, "why": every, "review_url": site, "decision": {"by": every}}
            for kind, content in (
                ("hits", {"hits": hits, "scent": {"level": every}}),
                ("proposal", {"proposal": proposal, "diff": every}),
                ("journey", {"agent": every, "state": every, "journey_id": every}),
            ):
                about = {"io.github.knowledge-forge/card": {"site": site, "phases": phases}}
                result: dict[str, Any] = {"content": [], "structuredContent": content, "_meta": about}
                card = await rendered(page, client, f"ui://knowledge-forge/{kind}.html", result)
                strange = "document.querySelectorAll('main :not(h1, p, ol, li, span, strong, pre, a)').length"
                assert await card.evaluate(strange) == 0, (site, kind)
                links = await card.evaluate("[...document.querySelectorAll('a')].map((a) => a.protocol)")
                assert set(links) <= {"https:", "http:"}, (site, kind)
                assert len(links) > 0 or site != SITE, kind
                if kind != "proposal":
                    assert await card.locator("li").count() == len(texts)
        assert trouble == []
        assert await page.evaluate("window.asked") == []


async def test_cards_have_no_barriers(tmp_path: Path) -> None:
    async with connected(tmp_path) as (_, client), host() as (page, _):
        card = await shown(page, client, "kb_search", query="when do we drink coffee")
        html = await card.content()
        await page.set_content(html.replace("Content-Security-Policy", "ignored"))
        assert await violations(page) == []
