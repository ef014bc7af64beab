"""Hosts of one app that call tools as the gate's own callers do, and over HTTP as clients that sign in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp import Client
from mcp_types import TextContent

from mcp_server.app.composition import App
from mcp_server.app.knowledge_base import utc_now
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CallAnswered, CallFailed, Outcome
from mcp_server.gate.host_registration import enrol
from tests.support.roads.road import connect, over_http


@dataclass
class Callers:
    """The callers of an app: straight at its gate in memory, and over HTTP each as a registered host of this account."""

    app: App
    _stack: AsyncExitStack
    _clients: dict[str, Client] = field(default_factory=dict)

    async def dispatch(self, tool: str, arguments: dict[str, Any], call: Call) -> Outcome:
        """Return the outcome of a call by the principal of `call`."""
        if not over_http():
            return await self.app.gate.dispatch(tool, arguments, call)
        client = await self._client(call.principal.host)
        result = await client.call_tool(tool, arguments)
        if result.is_error:
            assert isinstance(result.content[0], TextContent)
            return CallFailed(result.content[0].text)
        return CallAnswered(dict(result.structured_content or {}))

    async def _client(self, host: str) -> Client:
        if host not in self._clients:
            secret = await enrol(self.app.base.state, host, now=utc_now())
            self._clients[host] = await self._stack.enter_async_context(connect(self.app, token=secret))
        return self._clients[host]


@asynccontextmanager
async def callers(app: App) -> AsyncIterator[Callers]:
    """Yield the callers of an app from `opened`."""
    async with AsyncExitStack() as stack:
        yield Callers(app, stack)
