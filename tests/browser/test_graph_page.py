"""The graph of links in a real Chromium: drawn, moved, searched and opened, with mouse, keyboard and finger, and without scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.accessibility import violations
from tests.browser.chromium import Person, executable, somebody
from tests.browser.payloads import MARKUP
from tests.browser.test_review_page import LOOKS, contrast
from tests.support.web.review_pages import Place, kept

pytestmark = pytest.mark.external

GROUPS = {
    f"{folder}/{folder}-{n}.md": f"# {folder} {n}\n\nSee [[{folder}-{(n + 1) % 8}]] and [[{folder}-0]].\n"
    for folder in ("kitchen", "garden", "attic")
    for n in range(8)
}
PAGES = {**GROUPS, "hub.md": "# Hub\n\n[[kitchen-0]] [[garden-0]] [[attic-0]]\n", "alone.md": "# Alone\n"}
PIXELS = """() => {
  const layer = [...document.querySelectorAll('.graph-layer')].find((one) => !one.hidden && one.tabIndex < 0);
  const held = layer.getContext('2d').getImageData(0, 0, layer.width, layer.height).data;
  let painted = 0;
  for (let at = 3; at < held.length; at += 4) if (held[at]) painted += 1;
  return painted;
}"""

SHOWN = """() => {
  const layer = [...document.querySelectorAll('.graph-layer')].find((one) => !one.hidden && one.tabIndex < 0);
  const moved = getComputedStyle(layer).transform;
  return moved === 'none' || moved === 'matrix(1, 0, 0, 1, 0, 0)' ? layer.toDataURL() : '';
}"""
"""The picture as it is drawn, "" while it is moved."""


@pytest.fixture(autouse=True)
def _chromium() -> None:
    executable()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path, PAGES) as opened:
        await opened.app.base.indexer.reconcile(1)
        yield opened


async def see(person: Person) -> None:
    """Open the graph and wait until all of it is drawn."""
    await person.go("/graph")
    await person.page.wait_for_selector('[data-drawn="all"]')


async def told(person: Person, text: str) -> None:
    await person.page.locator(".graph-told", has_text=text).wait_for()


async def test_a_page_is_found_looked_at_and_opened_in_the_graph(place: Place) -> None:
    async with somebody(place) as person:
        await see(person)
        assert await person.page.evaluate(PIXELS) > 500
        await told(person, "26 pages")
        await person.page.get_by_label("Find in the graph").fill("garden 0")
        await person.page.keyboard.press("Enter")
        await told(person, "garden 0: 8 in, 1 out")
        panel = person.page.locator(".graph-panel")
        assert await panel.get_by_role("link", name="Hub").count() == 1
        assert await panel.get_by_role("link", name="garden 1").count() == 2, "both directions are told apart"
        # The page is in the middle now, under the pointer.
        box = await person.page.locator(".graph-marks").bounding_box()
        assert box is not None
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        await person.page.mouse.move(*middle)
        await told(person, "garden 0 (garden/garden-0.md): 8 in, 1 out")
        await person.picture("graph-looked-at")
        await person.page.mouse.click(*middle)
        await person.page.wait_for_url("**/page?path=garden/garden-0.md")
        assert person.trouble == []


async def test_the_graph_is_moved_and_zoomed_with_keys_buttons_and_the_wheel(place: Place) -> None:
    async with somebody(place) as person:
        await see(person)
        canvas = person.page.locator(".graph-marks")
        was = await person.page.evaluate(SHOWN)
        await canvas.focus()
        for act in ("ArrowLeft", "ArrowDown", "+", "0", "-", "wheel", "button"):
            if act == "wheel":
                await canvas.hover(position={"x": 200, "y": 150})
                await person.page.mouse.wheel(0, -200)
            elif act == "button":
                await person.page.get_by_role("button", name="Zoom in").click()
            else:
                await person.page.keyboard.press(act)
            # First the browser moves the picture, then it is drawn in its new place.
            await person.page.wait_for_function(
                f"(was) => {{ const now = ({SHOWN})(); return now && now !== was; }}", arg=was
            )
            was = await person.page.evaluate(SHOWN)
        assert person.trouble == []


async def test_folders_and_pages_without_links_can_be_left_out(place: Place) -> None:
    async with somebody(place) as person:
        await see(person)
        painted = await person.page.evaluate(PIXELS)
        for name in ("attic", "pages without links"):
            await person.page.get_by_role("checkbox", name=name).uncheck()
            less = await person.page.wait_for_function(
                f"(was) => {{ const now = ({PIXELS})(); return now && now < was && now; }}", arg=painted
            )
            painted = await less.json_value()
        await person.page.get_by_label("Find in the graph").fill("attic 0")
        await person.page.keyboard.press("Enter")
        await told(person, "attic 0 is left out.")
        await person.page.get_by_role("checkbox", name="attic").check()
        await person.page.get_by_role("button", name="Go to").click()
        await told(person, "attic 0: 8 in, 1 out")
        assert person.trouble == []


async def test_a_finger_looks_at_a_page_first_and_opens_it_with_the_second_touch(place: Place) -> None:
    options: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "color_scheme": "dark"}
    async with somebody(place, **options) as person:
        await see(person)
        await person.page.get_by_label("Find in the graph").fill("Hub")
        await person.page.get_by_role("button", name="Go to").click()
        await told(person, "Hub: 0 in, 3 out")
        await person.page.locator(".graph-marks").focus()
        await person.page.keyboard.press("Escape")
        assert await person.page.locator(".graph-panel").inner_text() == ""
        canvas = person.page.locator(".graph-marks")
        box = await canvas.bounding_box()
        assert box is not None
        await canvas.tap(position={"x": box["width"] / 2, "y": box["height"] / 2})
        await told(person, "Hub: 0 in, 3 out")
        assert (await person.page.evaluate(LOOKS))["width"] == 0
        await canvas.tap(position={"x": box["width"] / 2, "y": box["height"] / 2})
        await person.page.wait_for_url("**/page?path=hub.md")
        assert person.trouble == []


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (768, "light"), (1440, "light")])
async def test_the_graph_can_be_read_at_every_width(place: Place, width: int, scheme: Any) -> None:
    async with somebody(place, viewport={"width": width, "height": 900}, color_scheme=scheme) as person:
        for script, path in ((True, "/graph"), (False, "/graph?path=garden/garden-0.md&steps=2")):
            await person.go(path)
            if script:
                await person.page.wait_for_selector('[data-drawn="all"]')
            assert (await person.page.evaluate(LOOKS))["width"] == 0
            assert await contrast(person) >= 4.5
            assert await violations(person.page) == []
            await person.picture(f"graph-{width}-{scheme}-{'whole' if script else 'near'}")
        assert person.trouble == []


async def test_without_scripts_the_largest_pages_are_a_picture_and_every_page_in_a_neighbourhood_is_a_link(
    place: Place,
) -> None:
    async with somebody(place, java_script_enabled=False) as person:
        await person.go("/graph")
        assert await person.page.locator("svg.whole circle").count() == len(PAGES)
        assert await person.page.locator(".graph-frame canvas").count() == 0
        await person.go("/graph?path=hub.md")
        # From the skip link over the picture to its first page.
        first = person.page.locator("svg.near-wide a[href='/page?path=kitchen/kitchen-0.md']")
        await first.focus()
        await person.page.keyboard.press("Enter")
        await person.page.wait_for_url("**/page?path=kitchen/kitchen-0.md")


async def test_hostile_titles_run_nothing_in_the_graph(place: Place) -> None:
    for n, payload in enumerate(MARKUP):
        title = payload.replace("\\", "\\\\").replace('"', '\\"')
        text = f'---\ntitle: "{title}"\n---\n[hub](hub.md)\n'
        (place.settings.kb / f"h{n}.md").write_text(text, encoding="utf-8")
    await place.app.base.indexer.reconcile(1)
    async with somebody(place) as person:
        await see(person)
        await person.page.get_by_label("Find in the graph").fill("<script")
        await person.page.keyboard.press("Enter")
        await person.page.locator(".graph-panel", has_text="<script").wait_for()
        await person.page.get_by_label("Find in the graph").fill("hub")
        await person.page.keyboard.press("Enter")
        await told(person, "Hub")
        assert await person.page.evaluate("window.pwned") is None
        assert await person.page.locator(".graph-panel :is(script, img, iframe, svg)").count() == 0
        assert person.trouble == []
