"""The site beside the MCP endpoint, in each process that serves it over HTTP: at the same port, under its own host name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge.state.ports import Event
from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.several import PREFIX
from mcp_server.approvals.approvers import Approvals
from mcp_server.ports import SiteServices
from mcp_server.web.application import context_of, page_app

NO_PORT = 0
"""No request names this port, so the site has no local address here: the owner logs in at that of `review --web`."""
OF_MCP = ("/mcp", PREFIX, "/.well-known/")
OF_BOTH = ("/health", "/ready")
"""Paths that both have. The site answers requests for HTML, which come from browsers; the endpoint answers load balancers."""


class BesideMcp:
    """Passes requests for a site's host name to that site, and all others to the application of the MCP endpoint.

    If both have the same host name, the endpoint's paths belong to the endpoint.
    """

    def __init__(self, app: ASGIApp, sites: Mapping[str, ASGIApp], shared: str = "") -> None:
        """`sites` are found by the host that requests name, `shared` is the host of the MCP endpoint."""
        self._app, self._sites, self._shared = app, dict(sites), shared

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or follow the lifespan of the endpoint."""
        app = self._app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host = headers.get("host", "").lower()
            if host in self._sites and not (host == self._shared and self._is_of_mcp(scope["path"], headers)):
                app = self._sites[host]
        await app(scope, receive, send)

    @staticmethod
    def _is_of_mcp(path: str, headers: Headers) -> bool:
        return path.startswith(OF_MCP) or (path in OF_BOTH and "text/html" not in headers.get("accept", ""))


def host_of(settings: Settings) -> str:
    """Return the host of the site that these settings serve beside the MCP endpoint; "" if they serve none."""
    access = settings.site_access
    return access.url.partition("://")[2] if access is not None else ""


def require_different_hosts(bases: Mapping[str, Settings]) -> None:
    """Check that each knowledge base of a service has a host name for its site.

    Raises:
        BadSetting: two have the same.
    """
    seen: dict[str, str] = {}
    for name, settings in bases.items():
        if (host := host_of(settings)) and seen.setdefault(host, name) != name:
            raise BadSetting(
                "FORGE_PUBLIC_URL", host, f"{seen[host]} and {name} both have it: each site needs its own host name"
            )


@asynccontextmanager
async def team_site(services: SiteServices, approvals: Approvals, settings: Settings) -> AsyncIterator[ASGIApp]:
    """Yield the site of a knowledge base, which follows changes until the end."""
    context = context_of(services, approvals, settings, port=NO_PORT, holder="")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(context.live.run, _told_nobody)
        try:
            yield page_app(context)
        finally:
            context.live.close()
            await context.close()
            tasks.cancel_scope.cancel()


async def _told_nobody(_events: Collection[Event]) -> None:
    """Do nothing: people on other machines are notified by the open page and in chats."""
