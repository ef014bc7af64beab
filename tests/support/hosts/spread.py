"""A client's requests, spread over several servers in turn as a round-robin proxy would."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2

from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import HttpAddress
from tests.contract.gate.test_trust_gradient import serving


class Spread(httpx2.AsyncBaseTransport):
    """Sends each request to the next server. `landed` has the methods and ports in order."""

    def __init__(self, servers: Sequence[HttpAddress]) -> None:
        self._to, self._wire = itertools.cycle(servers), httpx2.AsyncHTTPTransport()
        self.landed: list[tuple[str, int]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it to the next server."""
        to = next(self._to)
        self.landed.append((request.method, to.port))
        request.url = request.url.copy_with(host=to.host, port=to.port)
        return await self._wire.handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._wire.aclose()


@asynccontextmanager
async def spread_over(servers: Sequence[HttpAddress], token: str | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield an HTTP client whose requests reach the servers in turn."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(transport=Spread(servers), headers=headers, timeout=60) as http:
        yield http


@asynccontextmanager
async def two_servers(settings: Settings) -> AsyncIterator[list[HttpAddress]]:
    """Yield two servers over one knowledge base, each with everything of its own that a process has."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(serving(settings)) for _ in range(2)]
