"""Calling a person: one-time links, and a browser that is opened when something waits and nobody looks.

The link is for the person alone. It is in no log, no answer to a host, and no stream that a host reads.
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
from mcp_server.web.access.sessions import HOME, Sessions
from mcp_server.web.address import lease_name
from mcp_server.web.page_context import PageContext

logger = logging.getLogger("knowledge_forge.review")

QUIET_S = 600.0
"""How long a person is not called again, by any process."""
OPENING_S = 20.0

Opener = Callable[[str], None]


async def login_link(sessions: Sessions, address: str, to: str = HOME) -> str:
    """Return a link that logs the owner of this process's account in, once, within ten minutes, and leads to `to`."""
    return f"{address}/login/{await sessions.invite(os_user(), to)}"


def open_browser(link: str) -> None:
    """Have the system's browser show the link. What programs on the way say is dropped: it could name the link."""
    silent = subprocess.DEVNULL
    command = [sys.executable, "-P", "-m", "webbrowser", "-t", link]
    # A relative entry of PATH must not find a program in the working directory, which may be a stranger's.
    elsewhere = Path(sys.executable).anchor or None
    try:
        subprocess.run(  # noqa: S603 - our own interpreter, and a link that we made
            command, stdin=silent, stdout=silent, stderr=silent, timeout=OPENING_S, check=False, cwd=elsewhere
        )
    except (OSError, subprocess.TimeoutExpired):
        logger.info("couldn't open a browser; run: knowledge-forge review --web")


class Inviting:
    """Opens the browser when something waits for a person, unless one looks already or was called a moment ago."""

    def __init__(self, page_context: PageContext, address: str, opener: Opener | None) -> None:
        self._house, self._address, self._opener = page_context, address, opener

    async def arrived(self, events: Collection[Event]) -> None:
        """Call a person if one of these events is a proposal that waits."""
        if any(event.topic == "proposal" for event in events):
            await self.call()

    async def call(self) -> bool:
        """Open the browser if something waits and nobody looks, and return whether it was opened."""
        if self._opener is None or self._house.live.looking:
            return False
        try:
            if not await self._house.services.state.trust.pending() or not await self._may_call():
                return False
            link = await login_link(self._house.sessions, self._address)
        except StorageError:
            logger.warning("can't reach a person right now", exc_info=True)
            return False
        await anyio.to_thread.run_sync(self._opener, link, abandon_on_cancel=True)
        return True

    async def _may_call(self) -> bool:
        """Return True once in ten minutes, to one process: under a lease that nobody gives back."""
        state, now = self._house.services.state, self._house.services.now()
        name = f"{lease_name()}:opened"
        return await state.acquire_lease(name, secrets.token_hex(8), now=now, ttl_s=QUIET_S) is not None
