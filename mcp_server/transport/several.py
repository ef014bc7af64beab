"""Several knowledge bases at one address: each has its endpoint `/kb/NAME/mcp`, with tokens and sessions of its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_server.app.settings.several import PREFIX
from mcp_server.transport.http import Parts, health, ready
from mcp_server.transport.sign_in.resource_metadata import AT_ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def several_app(apps: Mapping[str, Starlette], parts: Mapping[str, Parts]) -> Starlette:
    """Return the ASGI application that passes each request to the knowledge base that its path names.

    `/health` and `/ready` are those of the process: it is ready if every knowledge base is. They don't name the knowledge bases.
    """

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    every = {f"{part} of {name}": read for name, its in parts.items() for part, read in its.items()}
    routes = [Route("/health", health), Route("/ready", ready(every, naming=False))]
    outer = Starlette(routes=routes, lifespan=lifespan)
    outer.router.default = _ByPath(apps)
    return outer


class _ByPath:
    """Passes a request to the application of the knowledge base in its path; answers 404 if no knowledge base has that name."""

    def __init__(self, apps: Mapping[str, ASGIApp]) -> None:
        self._apps = apps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = str(scope["path"])
        about = path.startswith(AT_ROOT)
        name, slash, rest = path.removeprefix(AT_ROOT).removeprefix(PREFIX).partition("/")
        app = self._apps.get(name) if path.removeprefix(AT_ROOT).startswith(PREFIX) and slash else None
        if app is None:
            await JSONResponse({"error_description": "no knowledge base is at this address"}, 404)(scope, receive, send)
            return
        # The metadata has its whole path, as RFC 9728 wants it; everything else is below the address of the knowledge base.
        inner = scope if about else {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}
        await app(inner, receive, send)
