"""Showing the page: one process does, for all of its knowledge base on this machine; another takes over when it is gone."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from knowledge.errors import StorageError
from knowledge.state.ports import StateStore
from mcp_server.app.settings.environment import has_display
from mcp_server.app.settings.settings import Settings
from mcp_server.web.address import LEASE_S, address, address_in, holder, holder_of, lease_name
from mcp_server.web.ports import listening, preferred_port

if TYPE_CHECKING:
    import socket

    import uvicorn

    from mcp_server.approvals.approvers import Approvals
    from mcp_server.ports import WebServices
    from mcp_server.web.access.login_links import Inviting
    from mcp_server.web.page_context import PageContext

logger = logging.getLogger("knowledge_forge.review")

RENEW_S = 3.0
STAND_BY_S = 2.0
LAST_WORDS_S = 1.0


@dataclass(frozen=True, slots=True)
class ServedPages:
    """What this process shows, and under which name it holds the lease."""

    services: WebServices
    approvals: Approvals
    settings: Settings
    process: str

    @property
    def state(self) -> StateStore:
        """Return the records that the page is about."""
        return self.services.state


async def show(services: WebServices, approvals: Approvals, settings: Settings, known: anyio.Event) -> None:
    """Show the page whenever no other process does, until cancelled. `known` is set once its address is, here or there."""
    showing = ServedPages(services, approvals, settings, f"{os.getpid()}-{secrets.token_hex(16)}")
    while True:
        try:
            if await holder(showing.state) is None:
                await _in_turn(showing, known)
            elif not known.is_set() and await address(showing.state) is not None:
                known.set()  # else its process died, and its lease has a few seconds to go
        except Exception:
            # Whatever fails here, the server that this process is for goes on.
            logger.exception("the review page can't be shown now; decide with: knowledge-forge review")
            await anyio.sleep(LEASE_S)
        await anyio.sleep(STAND_BY_S)


async def _in_turn(showing: ServedPages, known: anyio.Event) -> None:
    """Show the page if this process gets the lease, and until it loses it."""
    with listening(preferred_port(showing.settings.kb)) as sockets:
        port = sockets[0].getsockname()[1]
        name = holder_of(port, showing.process)
        if not await _take(showing, name):
            return
        try:
            async with _served(showing, name, port, sockets):
                known.set()
                logger.info("the review page is at %s", address_in(name))
                await _while_ours(showing, name)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(LAST_WORDS_S):
                await _give_back(showing, name)


async def _take(showing: ServedPages, name: str) -> bool:
    now = showing.services.now()
    return await showing.state.acquire_lease(lease_name(), name, now=now, ttl_s=LEASE_S) is not None


async def _give_back(showing: ServedPages, name: str) -> None:
    try:
        await showing.state.release_lease(lease_name(), name)
    except StorageError:
        logger.warning("the review page's lease could not be released; it will expire", exc_info=True)


async def _while_ours(showing: ServedPages, name: str) -> None:
    """Return when another process has taken over, because this one was stopped for too long."""
    while True:
        await anyio.sleep(RENEW_S)
        try:
            if not await _take(showing, name):
                return
        except StorageError:
            logger.warning("the review page's lease could not be renewed", exc_info=True)


@asynccontextmanager
async def _served(showing: ServedPages, name: str, port: int, sockets: list[socket.socket]) -> AsyncIterator[None]:
    """Answer requests, follow changes and call people meanwhile."""
    # Templates and the web server are loaded when a page is shown, and not before: starting a server has a budget.
    running = await anyio.to_thread.run_sync(_wired, showing, name, port)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_to_the_end, running.server, sockets)
        tasks.start_soon(running.page_context.live.run, running.inviting.arrived)
        tasks.start_soon(running.inviting.call)
        try:
            yield
        finally:
            running.page_context.live.close()
            running.server.should_exit = True
            await running.page_context.close()
            tasks.cancel_scope.cancel()


@dataclass(frozen=True, slots=True)
class _Running:
    page_context: PageContext
    inviting: Inviting
    server: uvicorn.Server


def _wired(showing: ServedPages, name: str, port: int) -> _Running:
    import uvicorn

    from mcp_server.transport.http_limits import PAGE, bounded
    from mcp_server.web.access.login_links import Inviting, open_browser
    from mcp_server.web.application import page_app
    from mcp_server.web.live_updates import Live
    from mcp_server.web.page_context import PageContext

    settings = showing.settings
    page_context = PageContext(showing.services, showing.approvals, Live(showing.state), settings.kb.name, port, name)
    opener = open_browser if settings.open_browser and has_display() else None
    config = bounded(page_app(page_context), PAGE, server_header=False, lifespan="off", timeout_graceful_shutdown=1)
    return _Running(page_context, Inviting(page_context, f"http://localhost:{port}", opener), uvicorn.Server(config))


async def _to_the_end(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
    """Serve until `should_exit`. The process's signals belong to whoever runs it, and cancelling lets it close properly."""
    with anyio.CancelScope(shield=True):
        await server._serve(sockets=sockets)  # noqa: SLF001 - `serve` is this, with the signals taken over
