"""Shows the review page when something waits for a person, and finds its address. Loaded only then."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from knowledge.errors import KnowledgeError

if TYPE_CHECKING:
    from knowledge.state.ports import StateStore
    from knowledge.trust.ports import Proposal
    from mcp_server.app.settings.settings import Settings
    from mcp_server.approvals.approvers import Approvals
    from mcp_server.ports import SiteServices
    from mcp_server.web.address import Address

logger = logging.getLogger("knowledge_forge.review")


class Review:
    """Knows the review page's address, and shows the page from this process if something waits and no other process shows it."""

    def __init__(self, settings: Settings, state: StateStore) -> None:
        self._settings, self._state = settings, state
        self._wanted = anyio.Event()
        self._shown = anyio.Event()
        self._address: Address | None = None

    async def address(self) -> str | None:
        """Return the page's address without any login; None while nobody shows it."""
        if self._address is None:
            try:
                from mcp_server.web.address import Address
            except ImportError:
                return None
            self._address = Address(self._state)
        return await self._address.found()

    async def address_for_hosts(self) -> str | None:
        """Return the address of the page for hosts.

        If other machines reach the server, it is the public one: their `localhost` is not this one.
        """
        settings = self._settings
        if settings.http is None or settings.http_url is None:
            return await self.address()
        return settings.site_access.url if settings.site_access is not None else settings.public_url

    async def wanted(self, _proposal: Proposal | None = None) -> None:
        """Make sure that the page is shown, because something waits. Return as soon as its address is known, or after a moment."""
        self._wanted.set()
        with anyio.move_on_after(1.0):
            await self._shown.wait()

    async def run(self, services: SiteServices, load_approvals: Callable[[], Approvals]) -> None:
        """Show the page as soon as something waits, unless another process shows it, until cancelled."""
        # Over stdio each host starts a server, and most of them never have to load what the page takes.
        if self._settings.http is None:
            await self._wanted.wait()
        try:
            from mcp_server.web.server import show

            await show(services, load_approvals(), self._settings, self._shown)
        except (ImportError, KnowledgeError, OSError):
            logger.exception("the review page cannot be shown; decide with `knowledge-forge review`")
