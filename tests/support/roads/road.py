"""How clients reach the server in a test: in this process's memory, or signed in over HTTP.

Tests open the server with `opened` and connect clients with `connect`. Security tests are marked `security` and run on both roads;
all other tests use memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import anyio
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from mcp_server.app.composition import App, open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import HttpAddress
from mcp_server.transport import http_limits
from mcp_server.transport.http import http_app
from mcp_server.transport.shared_port import bound

MEMORY, HTTP = "memory", "http"
PUBLIC_URL = "https://kb.example.com/mcp"


@dataclass(slots=True)
class Road:
    """The road of the running test, and how many clients went it."""

    name: str = MEMORY
    clients: int = 0


@dataclass(frozen=True, slots=True)
class _Served:
    """Where an app is served over HTTP, and the token of its settings' host."""

    url: str
    token: str | None


CURRENT = Road()
_SERVED: dict[int, _Served] = {}


def over_http() -> bool:
    """Return whether the running test's clients sign in over HTTP."""
    return CURRENT.name == HTTP


def as_served(settings: Settings) -> Settings:
    """Return the settings with which a server for the road of the running test starts.

    Over HTTP there are no limits on calls, which tests of their own are about: these send as fast as they can.
    """
    if not over_http():
        return settings
    return replace(
        settings,
        http=HttpAddress("127.0.0.1", 0),
        http_url=PUBLIC_URL,
        open_browser=False,
        limit_calls=None,
        limit_heavy=None,
        limit_at_once=None,
    )


@asynccontextmanager
async def opened(settings: Settings, **more: Any) -> AsyncIterator[App]:
    """Open the app, on the HTTP road behind a real socket; `more` goes to `open_app`."""
    if not over_http():
        async with open_app(settings, **more) as app:
            yield app
        return
    served = as_served(settings)
    async with open_app(served, **more) as app, _serving(app, served) as url:
        _SERVED[id(app)] = _Served(url, settings.enrolment)
        try:
            yield app
        finally:
            del _SERVED[id(app)]


@asynccontextmanager
async def _serving(app: App, settings: Settings) -> AsyncIterator[str]:
    """Serve the app as `serve --http` does, and yield its address."""
    with bound(HttpAddress("127.0.0.1", 0)) as listening:
        web = http_app(app.server, settings.http_access)
        running = uvicorn.Server(
            http_limits.bounded(web, http_limits.MCP, log_level="warning", timeout_graceful_shutdown=1)
        )
        async with anyio.create_task_group() as tasks:
            # Not `serve`, which would take this process's signals.
            tasks.start_soon(running._serve, [listening])
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            finally:
                running.should_exit = True


def address(app: App) -> str:
    """Return where an app from `opened` is served over HTTP, to a client that signs in by itself."""
    CURRENT.clients += 1
    return _SERVED[id(app)].url


@asynccontextmanager
async def connect(app: App, *, token: str | None = None, **how: Any) -> AsyncIterator[Client]:
    """Connect a client to an app from `opened`; `how` goes to the client.

    Over HTTP it signs in with `token`, by default with the secret of the settings' host.
    """
    if not over_http():
        async with Client(app.server, **how) as client:
            yield client
        return
    headers = {"authorization": f"Bearer {token or _SERVED[id(app)].token}"}
    async with (
        create_mcp_http_client(headers=headers) as http,
        Client(streamable_http_client(address(app), http_client=http), **how) as client,
    ):
        yield client
