"""Open the histories of pages for the verbs that show them, with the changes that editors made on record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.terminal.output import say

if TYPE_CHECKING:
    from mcp_server.app.composition import App


@asynccontextmanager
async def up_to_date(settings: Settings) -> AsyncIterator[App]:
    """Yield the server's parts once changes made outside it are on record, or say on stderr which are not."""
    async with opened_app(settings) as app:
        found = await app.services.outside_changes.record()
        if found.left:
            say(
                f"{found.left} more pages that were changed outside are not on record yet; run this again to record them"
            )
        if found.failed:
            say(f"the changes of these pages can't be recorded: {', '.join(found.failed)}")
        yield app
