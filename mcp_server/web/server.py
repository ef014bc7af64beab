"""Serve the review page from one process of each knowledge base and machine. Another takes over when it ends."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from knowledge.errors import StorageError
from knowledge.state.ports import StateStore
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approvals
from mcp_server.ports import SiteServices
from mcp_server.web.address import LEASE_S, address, address_in, holder, holder_of, lease_name
from mcp_server.web.ports import listening, preferred_port

if TYPE_CHECKING:
    import uvicorn

    from mcp_server.web.application import RunningPage
    from mcp_server.web.whole_state.handover import Handover

logger = logging.getLogger("knowledge_forge.review")

RENEW_S = 3.0  # a third of the lease
STAND_BY_S = 2.0  # how often it is checked whether another process still shows the page
FINISH_S = 20
"""How long requests under way may take to end before the state is closed for a change."""
REQUEST_S = 0.2
"""How long a browser on this machine may take from its connection to its request."""
RELEASE_S = 1.0
"""How long releasing the lease may take when this process ends."""


@dataclass(frozen=True, slots=True)
class ServedPages:
    """The page that this process serves, and the name under which it holds the lease."""

    services: SiteServices
    approvals: Approvals
    settings: Settings
    process: str
    handover: Handover | None = None

    @property
    def state(self) -> StateStore:
        """The records that the page is about."""
        return self.services.state


async def show(
    services: SiteServices,
    approvals: Approvals,
    settings: Settings,
    known: anyio.Event,
    handover: Handover | None = None,
) -> None:
    """Serve the page whenever no other process does, until cancelled. Set `known` once the page has an address anywhere.

    With a `handover` its pages can have this process replace or move the state.
    """
    served = ServedPages(services, approvals, settings, f"{os.getpid()}-{secrets.token_hex(16)}", handover)
    while True:
        try:
            if await holder(served.state) is None:
                await _serve_under_lease(served, known)
            elif not known.is_set() and await address(served.state) is not None:
                known.set()  # without an address the holder has died, and its lease runs out in a few seconds
        except Exception:
            # The page is only one part of this process: whatever fails here must not end the MCP server.
            logger.exception("the review page can't be shown now; decide with: knowledge-forge review")
            await anyio.sleep(LEASE_S)
        await anyio.sleep(STAND_BY_S)


async def _serve_under_lease(served: ServedPages, known: anyio.Event) -> None:
    """Serve the page if this process gets the lease, and until it loses it."""
    root, handover = served.settings.kb, served.handover
    with handover.sockets(root) if handover else listening(preferred_port(root)) as sockets:
        port = sockets[0].getsockname()[1]
        name = holder_of(port, served.process)
        if not await _take_lease(served, name):
            return
        try:
            async with _served(served, name, port, sockets):
                known.set()
                logger.info("the review page is at %s", address_in(name))
                await _until_lease_lost(served, name)
        finally:
            # Shielded, because the page ends by being cancelled, and no other process could show it until the lease expires.
            with anyio.CancelScope(shield=True), anyio.move_on_after(RELEASE_S):
                try:
                    await served.state.release_lease(lease_name(), name)
                except StorageError:
                    logger.warning("the review page's lease could not be released; it will expire", exc_info=True)


async def _take_lease(served: ServedPages, name: str) -> bool:
    """Take or renew the lease; return whether this process holds it now."""
    now = served.services.now()
    return await served.state.acquire_lease(lease_name(), name, now=now, ttl_s=LEASE_S) is not None


async def _until_lease_lost(served: ServedPages, name: str) -> None:
    """Renew the lease; return when another process has it, because this one was suspended for too long."""
    while True:
        await anyio.sleep(RENEW_S)
        try:
            if not await _take_lease(served, name):
                return
        except StorageError:
            logger.warning("the review page's lease could not be renewed", exc_info=True)


@asynccontextmanager
async def _served(served: ServedPages, name: str, port: int, sockets: list[socket.socket]) -> AsyncIterator[None]:
    """Answer requests, follow changes, and notify people of waiting proposals."""
    running = await anyio.to_thread.run_sync(_build, served, name, port)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_serve_requests, running.server, sockets)
        tasks.start_soon(running.page_context.live.run, running.inviting.arrived)
        tasks.start_soon(running.inviting.call)
        try:
            yield
        finally:
            # First the streams, which would never end: the server waits for open requests.
            running.page_context.live.close()
            if served.handover and served.handover.confirmed:
                running.server.config.timeout_graceful_shutdown = FINISH_S
                await _hang_up(running.server)
            running.server.should_exit = True
            await running.page_context.close()
            tasks.cancel_scope.cancel()


def _build(served: ServedPages, name: str, port: int) -> RunningPage:
    # Templates and the web server are imported, in a thread, once a page is shown: starting the MCP server has a time budget.
    from mcp_server.web.application import running_page

    return running_page(
        served.services, served.approvals, served.settings, port=port, holder=name, handover=served.handover
    )


async def _serve_requests(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
    """Serve until `should_exit`, even if cancelled before, so that the server closes its connections properly."""
    with anyio.CancelScope(shield=True):
        # `serve` would take over the signals of the process, which belong to the MCP server.
        await server._serve(sockets=sockets)  # noqa: SLF001 - `serve` without the signals


async def _hang_up(server: uvicorn.Server) -> None:
    """Accept no more connections, and let accepted ones send their request: a browser shows an error for one without an answer."""
    for one in server.servers:
        one.close()
    with anyio.CancelScope(shield=True):
        await anyio.sleep(REQUEST_S)


@asynccontextmanager
async def away(handover: Handover, settings: Settings) -> AsyncIterator[None]:
    """Answer at the page's address that the state is being changed."""
    import uvicorn

    from mcp_server.transport.http_limits import PAGE, bounded
    from mcp_server.web.whole_state.waiting_page import waiting_app

    done = anyio.Event()
    with handover.sockets(settings.kb) as sockets:
        app = waiting_app(handover, done, sockets[0].getsockname()[1], settings.public_url)
        config = bounded(app, PAGE, server_header=False, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_serve_requests, server, sockets)
            try:
                yield
            finally:
                done.set()
                await _hang_up(server)
                server.should_exit = True
