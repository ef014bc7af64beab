"""Notify a person: one-time links, and a browser that opens if something waits and no page is open.

The link is for the person alone. It must not appear in a log, in an answer to a host, or in a stream that a host reads: a
model could log in with it and approve its own proposals.
"""

from __future__ import annotations

import logging
import secrets
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import anyio.to_thread

from knowledge.errors import StorageError
from knowledge.state.ports import Event
from mcp_server.gate.host_registration import os_user
from mcp_server.web.access.sessions import WAITING, Sessions
from mcp_server.web.address import lease_name
from mcp_server.web.page_context import PageContext

logger = logging.getLogger("knowledge_forge.review")

QUIET_S = 600.0
"""Seconds before any process may notify the person again."""
OPENING_S = 20.0  # some browsers' launchers return only when the browser ends

Opener = Callable[[str], None]


async def login_link(sessions: Sessions, address: str, to: str = WAITING) -> str:
    """Return a link that logs in the owner of the account that runs this process, and then leads to the path `to`.

    It works once, within ten minutes.
    """
    return f"{address}/login/{await sessions.invite(os_user(), to)}"


def open_browser(link: str) -> None:
    """Open the link in the system's browser."""
    silent = subprocess.DEVNULL  # output of the programs involved could contain the link
    command = [sys.executable, "-P", "-m", "webbrowser", "-t", link]
    # Not in the working directory, which may be a stranger's: a relative entry of PATH would find a program there.
    elsewhere = Path(sys.executable).anchor or None
    try:
        subprocess.run(  # noqa: S603 - our own interpreter, and a link that we made
            command, stdin=silent, stdout=silent, stderr=silent, timeout=OPENING_S, check=False, cwd=elsewhere
        )
    except (OSError, subprocess.TimeoutExpired):
        logger.info("couldn't open a browser; run: knowledge-forge review --web")


class Inviting:
    """Open the browser if something waits for a person, unless they have the page open or were notified a moment ago."""

    def __init__(self, page_context: PageContext, address: str, opener: Opener | None) -> None:
        self._page, self._address, self._opener = page_context, address, opener

    async def arrived(self, events: Collection[Event]) -> None:
        """Notify a person if one of these events is about a proposal."""
        if any(event.topic == "proposal" for event in events):
            await self.call()

    async def call(self) -> bool:
        """Open the browser if something waits and no page is open; return whether it was opened."""
        if self._opener is None or self._page.live.looking:
            return False
        try:
            if not await self._page.services.state.trust.pending() or not await self._may_call():
                return False
            link = await login_link(self._page.sessions, self._address)
        except StorageError:
            logger.warning("can't reach a person right now", exc_info=True)
            return False
        await anyio.to_thread.run_sync(self._opener, link, abandon_on_cancel=True)
        return True

    async def _may_call(self) -> bool:
        """Return True to one process every ten minutes: the one that gets a lease, which ends by itself because nobody releases it."""
        state, now = self._page.services.state, self._page.services.now()
        name = f"{lease_name()}:opened"
        return await state.acquire_lease(name, secrets.token_hex(8), now=now, ttl_s=QUIET_S) is not None
