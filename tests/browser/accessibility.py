"""Look for barriers on a page in Chromium with axe-core (WCAG 2.2, levels A and AA, and good practice)."""

from __future__ import annotations

from playwright.async_api import Page

from tests.external.programs import node_file

RUN = """async () => (await axe.run()).violations.map((one) =>
    `${one.id} (${one.impact}): ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html).join(' | ').slice(0, 400)}`)"""


async def violations(page: Page) -> list[str]:
    """Return what axe-core objects to on the page, one line for each rule; empty if the page has no barrier that it knows."""
    # Evaluated by the debugger: the page's own policy allows no script from elsewhere, and stays as it is.
    await page.evaluate(node_file("axe-core/axe.min.js"))
    told: list[str] = await page.evaluate(RUN)
    return told
