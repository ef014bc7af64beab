"""Opens the histories of pages for the verbs that show them, after changes that editors made are recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from knowledge.errors import InvalidPath
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.search.freshness import freshened
from mcp_server.cli.terminal.output import say

if TYPE_CHECKING:
    from mcp_server.app.composition import App


NAME_WAIT_S = 5.0
"""How long a title or an alias may wait for the index."""


@asynccontextmanager
async def up_to_date(settings: Settings, name: str = "") -> AsyncIterator[App]:
    """Yield the server's parts once changes made outside it are on record, or say on stderr which are not.

    If `name` is not a path but may be a title or an alias, changed pages are indexed first.
    """
    async with opened_app(settings) as app:
        await findable(app, name)
        found = await app.services.outside_changes.record()
        if found.left:
            say(
                f"{found.left} more pages that were changed outside are not on record yet; run this again to record them"
            )
        if found.failed:
            say(f"the changes of these pages can't be recorded: {', '.join(found.failed)}")
        yield app


async def findable(app: App, name: str) -> None:
    """Index changed pages if `name` is neither a path nor empty, so that titles and aliases are known."""
    try:
        paths = [name, f"{name}.md"] if name.strip("/ ") else []
        is_path = not paths or any([await app.services.tiers.place(path) for path in paths])
    except InvalidPath:
        is_path = False
    if not is_path:
        await freshened(app.base, NAME_WAIT_S, by_words=False)
