"""The gate's hook in the SDK around requests other than tool calls: a middleware that refuses those that a caller may not make."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.shared.exceptions import MCPError

from knowledge.errors import KnowledgeError, StorageError
from mcp_server.fair_use.limits import Lane
from mcp_server.gate.caller import caller
from mcp_server.gate.dispatch import CLOSED, Gate
from mcp_server.gate.host_registration import Principal, UnknownSecret
from mcp_server.gate.policy import Limits, Refuse, Trust
from mcp_server.protocol.calls.results import REFUSED
from mcp_server.protocol.gate_extension import Identify

logger = logging.getLogger("knowledge_forge.gate")

UNGATED = frozenset({"initialize", "server/discover", "ping", "tools/list", "tools/call", "logging/setLevel"})
"""Methods that reveal nothing about the knowledge base, and `tools/call`, which has its own gate."""
LISTEN = "subscriptions/listen"
_BY_URI = {"kb": "knowledge", "audit": "knowledge", "agent": "journeys", "journey": "journeys", "run": "runs"}
_OWN = ("tasks/", "proposal://", "ui://")
"""The beginnings of methods and addresses that show only what the caller itself began, or cards, which have no data of their own."""
_OF_A_RESOURCE = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


def toolsets_of(method: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the toolsets whose data a request may reveal. Lists, prompts, completions and events name pages and journeys. Pure."""
    uri = str(params.get("uri", "")) if method in _OF_A_RESOURCE else ""
    if method.startswith(_OWN) or uri.startswith(_OWN):
        return ()
    toolset = _BY_URI.get(uri.partition(":")[0])
    return ("knowledge", "journeys") if toolset is None else (toolset,)


def beyond(reach: Limits, method: str, params: Mapping[str, Any]) -> str:
    """Return the first toolset that the request needs and the credential does not allow, "" if there is none. Pure."""
    return next((one for one in toolsets_of(method, params) if not reach.allows(one)), "")


def refusing(gate: Gate, identify: Identify) -> ServerMiddleware[Any]:
    """Return a middleware that refuses resources, prompts and completions to callers that may not read them.

    Everybody may list tools; the list leaves out those that the caller's credential does not allow.
    """

    async def middleware(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        # A message without an id is a notification, which gets no answer.
        if ctx.request_id is None or ctx.method in UNGATED - {"tools/list"}:
            return await call_next(ctx)
        try:
            who = await identify(ctx)
        except UnknownSecret as error:
            raise MCPError(REFUSED, f"{ctx.method} is refused: {error}") from error
        except StorageError as error:
            if ctx.method in UNGATED:
                return await call_next(ctx)
            logger.exception("cannot identify the caller of %s", ctx.method)
            raise MCPError(REFUSED, f"{ctx.method} is {CLOSED}") from error
        if ctx.method == "tools/list":
            async with _admitted(gate, who, ctx.method):
                return _within(await call_next(ctx), who.reach, gate)
        if who.reach is not None and (toolset := beyond(who.reach, ctx.method, ctx.params or {})):
            raise MCPError(REFUSED, f"{ctx.method} is refused: {who.reach.why} (toolset {toolset})")
        decision = await gate.decide(ctx.method, Trust.READ, who)
        if isinstance(decision, Refuse):
            raise MCPError(REFUSED, decision.why)
        token = caller.set(who)
        try:
            async with _admitted(gate, who, ctx.method), _limited(gate, who, ctx.method):
                return await call_next(ctx)
        finally:
            caller.reset(token)

    return middleware


@asynccontextmanager
async def _limited(gate: Gate, who: Principal, method: str) -> AsyncIterator[None]:
    """Show the request only what its caller may read."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(gate.as_caller(who))
        except StorageError as error:
            logger.exception("cannot read the rights of the caller of %s", method)
            raise MCPError(REFUSED, f"{method} is {CLOSED}") from error
        yield


@asynccontextmanager
async def _admitted(gate: Gate, who: Principal, method: str) -> AsyncIterator[None]:
    """Hold one of its caller's turns for the request. If a limit of the caller is reached, refuse the request."""
    # A stream may stay open for hours. Open streams are limited where HTTP is served.
    if method == LISTEN:
        yield
        return
    async with AsyncExitStack() as stack:
        try:
            lane: Lane = "none" if method.startswith(_OWN) else "read"
            await stack.enter_async_context(gate.fair_use.admitted(who.id, lane, ("called",)))
        except KnowledgeError as error:
            raise MCPError(REFUSED, f"{method}: {error}") from None
        yield


def _within(result: HandlerResult, reach: Limits | None, gate: Gate) -> HandlerResult:
    """Return the list of tools without those that are out of reach."""
    if reach is None or not isinstance(result, dict):  # what the SDK passes to a middleware is already a dictionary
        return result
    specs = ((tool, gate.spec(str(tool["name"]))) for tool in result["tools"])
    return {**result, "tools": [tool for tool, spec in specs if spec is not None and reach.allows(spec.toolset)]}
