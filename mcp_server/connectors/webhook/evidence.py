"""A receiver of webhooks is no source: nothing can be read there, so a merge cannot cite it."""

from __future__ import annotations

from knowledge.errors import NoSuchSource
from knowledge.writing.evidence.sources import Fetched
from mcp_server.connectors.webhook.receivers import Receivers


async def fetch(receivers: Receivers, locator: str) -> Fetched:
    """Raise that there is no such source.

    Raises:
        NoSuchSource: always.
    """
    del receivers
    raise NoSuchSource(f"webhook:{locator}", "webhooks are only sent, so nothing can be cited from one")
