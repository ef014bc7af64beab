"""The gate's two seams in the SDK: an extension around tool calls, a middleware around everything else."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.extension import Extension
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, TextContent

from knowledge.errors import StorageError
from mcp_server.gate.dispatch import CLOSED, Answered, Failed, Gate, Outcome, UnknownTool
from mcp_server.gate.enrolment import Principal
from mcp_server.gate.policy import Refuse, Trust
from mcp_server.services import Call

logger = logging.getLogger("knowledge_forge.gate")

REFUSED = -32003
"""JSON-RPC code of a refusal outside tools, from the range that is left to servers."""

Identify = Callable[[ServerRequestContext[Any, Any]], Awaitable[Principal]]

_UNGATED = frozenset({"initialize", "server/discover", "ping", "tools/list", "tools/call", "logging/setLevel"})
"""Methods that show nothing of the knowledge base, and `tools/call`, which has its own gate."""


class GateExtension(Extension):
    """Answers every `tools/call` through the gate; the SDK's own way to a tool is never taken."""

    identifier = "io.github.knowledge-forge/gate"

    def __init__(self, gate: Gate, identify: Identify) -> None:
        self._gate, self._identify = gate, identify

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Return the gate's answer as the tool's result."""
        del call_next  # the SDK's handler would run the tool without asking
        try:
            call = Call(await self._identify(ctx))
            return as_result(await self._gate.dispatch(params.name, params.arguments or {}, call))
        except UnknownTool as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        except StorageError:
            logger.exception("cannot tell who calls %s", params.name)
            return as_result(Failed(f"{params.name} is {CLOSED}"))


def as_result(outcome: Outcome) -> CallToolResult:
    """Return what a client gets: the same object as compact JSON text and as structured content, or an error's text.

    Some hosts show a model only the one, some only the other.
    """
    if isinstance(outcome, Answered):
        text = json.dumps(outcome.content, ensure_ascii=False, separators=(",", ":"))
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=outcome.content)
    return CallToolResult(content=[TextContent(type="text", text=outcome.why)], is_error=True)


def refusing(gate: Gate, identify: Identify) -> ServerMiddleware[Any]:
    """Return a middleware that lets only those read resources, prompts and completions who may read."""

    async def middleware(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is not None and ctx.method not in _UNGATED:
            try:
                caller = await identify(ctx)
            except StorageError as error:
                logger.exception("cannot tell who calls %s", ctx.method)
                raise MCPError(REFUSED, f"{ctx.method} is {CLOSED}") from error
            decision = await gate.decide(ctx.method, Trust.READ, caller)
            if isinstance(decision, Refuse):
                raise MCPError(REFUSED, decision.why)
        return await call_next(ctx)

    return middleware
