"""Every page of the site in a real Chromium: pictures, width, contrast, axe-core, and work without JavaScript."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from agents.library.folder import agent
from mcp_server.app.composition import open_app
from mcp_server.web.address import PROOF
from mcp_server.web.application import page_routes
from tests.browser.accessibility import violations
from tests.browser.chromium import Person, executable, somebody
from tests.browser.test_journeys_page import TWO, started, submitted
from tests.browser.test_review_page import HOST, LOOKS, contrast
from tests.browser.test_runs_page import asking as run_asking
from tests.support.agents.small_agents import Only, noting
from tests.support.hosts.writers import let_in
from tests.support.web.review_pages import PAGE, Place, shown

pytestmark = pytest.mark.external

WIDTHS = {360: 740, 768: 1024, 1440: 900}
NO_PAGES = frozenset(
    {
        "/events",
        "/file",
        "/static/{name}",
        "/graph/data",
        "/journeys/{id}/events",
        f"{PROOF}{{challenge}}",
        "/login/{secret}",
    }
)
"""Addresses that are read by programs, and the one that needs a fresh link."""
LINKS = f"# Links\n\nSee [deploying]({PAGE}), [[Onboarding]], [the queue](decisions/0001-queue.md) and [[no page]].\n"
LIMIT = "# Limits\n\nAn upload may be 64 MiB.\n"


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


@asynccontextmanager
async def everything(folder: Path) -> AsyncIterator[tuple[Place, Mapping[str, str]]]:
    """Yield a place with something on every page, and an address for each kind of page."""
    async with shown(folder, agents=Only(noting(), agent("research"))) as place:
        (place.settings.kb / "limits.md").write_text(LIMIT, encoding="utf-8")
        (place.settings.kb / "links.md").write_text(LINKS, encoding="utf-8")
        await place.app.base.indexer.reconcile(1)
        decided = await place.propose(new="sixty", intent="measured again")
        visitor = await place.visitor()
        await visitor.look(f"/proposals/{decided.id}")
        await visitor.send(f"/proposals/{decided.id}/approve", note="checked")
        waiting = await place.propose(old="sixty", new="fifty", intent="measured once more")
        await place.propose_deletion()
        await _contradict(place)
        journey = await started(place)
        await submitted(place, journey, TWO, "because the notes say so")
        run = await run_asking(place)
        moved = await _moved_in_an_editor(place)
        (flag, *_) = await place.app.base.state.ledger.flags("limits.md", limit=10)
        (act, *_) = await place.app.base.state.ledger.records(limit=1)
        (change, *_) = await place.app.base.state.ledger.history(PAGE, limit=1)
        yield (
            place,
            {
                "/proposals/{id}": f"/proposals/{waiting.id}",
                "/proposals/{id}/edit": f"/proposals/{waiting.id}/edit",
                "/find": "/find?q=how+large+may+an+upload+be",
                "/together": f"/together?p={waiting.id}",
                "/journeys/{id}": f"/journeys/{journey}",
                "/runs/{id}": f"/runs/{run.id}",
                "/runs/{id}/answer": f"/runs/{run.id}/answer",
                "/trust/host": f"/trust/host?principal={HOST}",
                "/page": f"/page?path={PAGE}",
                "/page/edit": f"/page/edit?path={PAGE}",
                "/history/links": f"/history/links?change={moved}",
                "/history/lines": f"/history/lines?path={PAGE}",
                "/graph": "/graph?path=links.md&steps=2",
                "/diff": f"/diff?path={PAGE}&from={change.before}&to={change.revision}",
                "/audit/{id}": f"/audit/{act.seq}",
                "/contradictions/{id}": f"/contradictions/{flag.id}",
                "/contradictions/{id}/edit": f"/contradictions/{flag.id}/edit",
                "/undo": f"/undo?change={change.seq}",
            },
        )


async def _contradict(place: Place) -> None:
    """Have a second host write what contradicts a page, which flags it."""
    allowed = await let_in(place.settings, "other", 3)
    async with open_app(allowed, indexing=False) as app, Client(app.server) as client:
        read = (await client.call_tool("kb_read", {"path": "limits.md"})).structured_content or {}
        claim = {"path": "limits.md", "content": "An upload may be 32 MiB.\n", "source": "wiki:limits"}
        await client.call_tool("kb_merge", {**claim, "base_revision": read["revision"]})


async def _moved_in_an_editor(place: Place) -> str:
    """Have somebody move a linked page outside the server, and return the name of that change."""
    allowed = await let_in(place.settings, "other", 3)
    async with open_app(allowed, indexing=False) as app, Client(app.server) as client:
        await client.call_tool("kb_merge", {"path": "moving.md", "content": "# Moving\n\nA page.\n"})
        await client.call_tool("kb_merge", {"path": "to-moving.md", "content": "# To it\n\nTo [it](moving.md).\n"})
    (place.settings.kb / "moving.md").rename(place.settings.kb / "moved.md")
    await place.app.services.outside_changes.record()
    (move,) = await place.app.services.followed_moves.recent(most=1)
    return move.change


def pages(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return an address of each kind of page, by its route. A new page without one fails here."""
    shown_pages = [route.path for route in page_routes() if "GET" in (route.methods or ())]
    kinds = [path for path in shown_pages if path not in NO_PAGES]
    missing = [path for path in kinds if "{" in path and path not in addresses]
    assert missing == [], "give an address for each of these pages in `everything`"
    return {path: addresses.get(path, path) for path in kinds}


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(
            width, scheme, marks=() if (width, scheme) in ((360, "dark"), (1440, "light")) else pytest.mark.slow
        )
        for width in WIDTHS
        for scheme in ("light", "dark")
    ],
)
async def test_every_page_fits_can_be_read_and_has_no_violation_of_axe(tmp_path: Path, width: int, scheme: Any) -> None:
    """Issue 26: at 360, 768 and 1440 pixels, light and dark. The pictures are in `tests/artefacts`."""
    wrong = dict[str, Any]()
    options = {"viewport": {"width": width, "height": WIDTHS[width]}, "color_scheme": scheme}
    async with everything(tmp_path) as (place, addresses), somebody(place, **options) as person:
        for kind, path in pages(addresses).items():
            await person.go(path)
            if over := (await person.page.evaluate(LOOKS))["width"]:
                wrong[f"{kind}: too wide"] = over
            if (least := await contrast(person)) < 4.5:
                wrong[f"{kind}: contrast"] = least
            if found := await violations(person.page):
                wrong[f"{kind}: axe"] = found
            name = re.sub(r"\W+", "-", kind).strip("-") or "home"
            await person.picture(f"every-{width}-{scheme}-{name}")
        assert person.trouble == []
    assert wrong == {}


async def test_every_page_says_the_same_without_javascript(tmp_path: Path) -> None:
    """Scripts may only add what needs them: shortcuts, live updates, passkeys."""
    async with everything(tmp_path) as (place, addresses):
        here = pages(addresses)
        async with somebody(place) as person:
            with_scripts = {kind: await _said(person, path) for kind, path in here.items()}
        async with somebody(place, java_script_enabled=False) as person:
            without = {kind: await _said(person, path) for kind, path in here.items() if kind != "/passkeys"}
    for kind, texts in without.items():
        assert set(texts) - set(with_scripts[kind]) <= set(), kind
        assert len(texts) >= 1, kind


async def _said(person: Person, path: str) -> list[str]:
    """Return the headings and the buttons of a page."""
    await person.go(path)
    texts = await person.page.locator("main h1, main h2, main button").all_inner_texts()
    return [" ".join(text.split()) for text in texts if text.strip()]
