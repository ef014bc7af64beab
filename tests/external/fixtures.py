"""How a fixture of the public conformance suite runs behind our own gate.

A tool of ours answers with one JSON object and never sees a request. The suite's fixtures answer with pictures, ask the
client back, or report progress. So the request is passed beside the call: the gate parses, decides and answers as
always, and the fixture's protocol-level answer replaces the gate's content only after the gate let the call pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult, ContentBlock, InputRequiredResult, TextContent

from knowledge.errors import KnowledgeError
from mcp_server.app.dependencies import Services
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust
from mcp_server.protocol.server import ForgeServer
from mcp_server.toolsets.spec import Arguments, ToolSpec

Reply = str | list[ContentBlock] | InputRequiredResult
Fixture = Callable[[Context[Any, Any], Any], Awaitable[Reply]]


class NoArguments(Arguments):
    """Arguments of a tool that takes none."""


@dataclass(frozen=True, slots=True)
class Said:
    """The gate's answer."""

    said: str


class IntendedFailure(KnowledgeError):
    """A fixture that fails on purpose."""


@dataclass(slots=True)
class _Carried:
    """The request beside the call, and the fixture's answer."""

    context: Context[Any, Any]
    reply: Reply | None = None
    error: MCPError | None = None

    def over(self, gates: object) -> object:
        """Return the fixture's own reply if the gate let the call pass, else the gate's answer."""
        if self.error is not None:
            raise self.error
        if isinstance(self.reply, InputRequiredResult):
            return self.reply
        if isinstance(self.reply, list) and isinstance(gates, CallToolResult) and not gates.is_error:
            return CallToolResult(content=self.reply, structured_content=gates.structured_content)
        return gates


_carried: ContextVar[_Carried] = ContextVar("carried")


def spec(
    name: str, description: str, run: Fixture, arguments: type[Arguments] = NoArguments
) -> ToolSpec[Any, Any, Any]:
    """Return a tool of level 1 that `run` answers, declared like every tool of the server."""
    return ToolSpec(**declaration(name, description, run, arguments))


def declaration(name: str, description: str, run: Fixture, arguments: type[Arguments] = NoArguments) -> dict[str, Any]:
    """Return the parts of a ToolSpec."""

    async def answer(_services: Services, _call: Call, asked: Arguments) -> Said:
        carried = _carried.get()
        try:
            carried.reply = await run(carried.context, asked)
        except MCPError as error:
            carried.error = error
            return Said("")
        return Said(carried.reply if isinstance(carried.reply, str) else "")

    return {
        "name": name,
        "title": name.replace("_", " ").capitalize(),
        "level": Trust.READ,
        "toolset": "trust",  # listed whatever toolsets are chosen
        "description": description,
        "arguments": arguments,
        "result": Said,
        "answer": answer,
        "read_only": True,
        "idempotent": True,
    }


def carry_requests(server: ForgeServer) -> None:
    """Pass each `tools/call` request along, around the gate and never past it."""
    lowlevel = server._lowlevel_server  # the SDK's documented hook for handlers is on this object
    entry = lowlevel.get_request_handler("tools/call")
    if entry is None:
        raise LookupError("the server answers no tools/call")
    gate = entry.handler

    async def handler(ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> Any:
        context: Context[Any, Any] = Context(
            request_context=ctx, mcp_server=server, input_params=params, subscriptions=server._subscriptions
        )
        carried = _Carried(context)
        token = _carried.set(carried)
        try:
            return carried.over(await gate(ctx, params))
        finally:
            _carried.reset(token)

    lowlevel.add_request_handler("tools/call", CallToolRequestParams, handler)


def text(words: str) -> TextContent:
    """Return `words` as content."""
    return TextContent(type="text", text=words)
