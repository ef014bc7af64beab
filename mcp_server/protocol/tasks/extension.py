"""The SDK extension that answers with task handles, and what clients ask about them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolRequestParams, CallToolResult

from knowledge.errors import KnowledgeError
from mcp_server.approvals.elicitation.client_features import may_ask
from mcp_server.gate.caller import caller
from mcp_server.gate.host_registration import Principal
from mcp_server.protocol.gate_extension import ASKED, REFUSED, Identify
from mcp_server.protocol.tasks.states import AGENT_RUN, BadAnswer, NoSuchTask, ProtocolTasks
from mcp_server.protocol.tasks.wire import (
    CANCEL,
    GET,
    IDENTIFIER,
    UPDATE,
    VERSIONS,
    TaskParams,
    UpdateParams,
    declared,
    detailed,
    handle,
    require_declared,
    require_named,
)
from mcp_server.protocol.wire_errors import short

logger = logging.getLogger("knowledge_forge.tasks")

T = TypeVar("T")


class TasksExtension(Extension):
    """Answers a call that takes long, or waits for a person, with a handle, where the request says that its client knows them.

    It wraps the gate's extension: the gate decides what a call returns, and this decides whether it returns a handle.
    """

    identifier = IDENTIFIER

    def __init__(self, tasks: ProtocolTasks, identify: Identify) -> None:
        self._tasks, self._identify = tasks, identify

    def methods(self) -> Sequence[MethodBinding]:
        """Return the three methods of the extension, for the protocol versions that have it."""
        return (
            MethodBinding(GET, TaskParams, self._get, VERSIONS),
            MethodBinding(UPDATE, UpdateParams, self._update, VERSIONS),
            MethodBinding(CANCEL, TaskParams, self._cancel, VERSIONS),
        )

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Return the call's answer, or a handle for what it will be.

        A question that was already shown in a form and not decided there is not asked again by the handle.
        """
        answer = await call_next(ctx)
        if not declared(ctx) or not isinstance(answer, CallToolResult) or answer.is_error:
            return answer
        content = answer.structured_content or {}
        task = handle_in(params.name, content)
        if not task:
            return answer
        try:
            if (params.request_state or "").startswith(ASKED):
                await self._tasks.note_answered(task, task)
            own = await self._tasks.handle(task)
            who = await self._identify(ctx)
            return handle(await self._tasks.task(own, who, forms=await self._forms(ctx, who)))
        except KnowledgeError:
            logger.warning("no handle can be given for %s now", params.name, exc_info=True)
            return answer

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        """Return the task's state."""
        who = _asking(ctx, params)
        forms = await self._forms(ctx, who)
        return detailed(await _answered(self._tasks.task(params.task_id, who, forms=forms)))

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> HandlerResult:
        """Apply a person's answer, and acknowledge it."""
        who = _asking(ctx, params)
        forms = await self._forms(ctx, who)
        await _answered(self._tasks.answer(params.task_id, who, params.input_responses, forms=forms))
        return {}

    async def _forms(self, ctx: ServerRequestContext[Any, Any], who: Principal) -> bool:
        return await may_ask(ctx, who, self._tasks.state)

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        """End what can be ended, and acknowledge it."""
        who = _asking(ctx, params)
        await _answered(self._tasks.cancel(params.task_id, who))
        return {}


def handle_in(tool: str, content: Mapping[str, Any]) -> str:
    """Return the id of the task that an answer of that tool leaves open; "" if the answer is the end of the call."""
    status, proposal = content.get("status"), content.get("proposal")
    if tool == AGENT_RUN and content.get("run_id"):
        return str(content["run_id"]) if status in ("running", "asking", "proposed") else ""
    waits = status == "proposed" and isinstance(proposal, Mapping) and proposal.get("state") == "pending"
    return str(proposal["id"]) if waits and isinstance(proposal, Mapping) else ""


def _asking(ctx: ServerRequestContext[Any, Any], params: TaskParams) -> Principal:
    """Return the caller that asks about a task, if the request may."""
    require_declared(ctx)
    require_named(ctx, params.task_id)
    return caller_of(ctx)


def caller_of(ctx: ServerRequestContext[Any, Any]) -> Principal:
    """Return the caller that the gate just allowed to read."""
    who = caller.get()
    if who is None:
        raise MCPError(REFUSED, f"{ctx.method} has no caller")
    return who


async def _answered(work: Awaitable[T]) -> T:
    """Return the result of the work; failures become JSON-RPC errors, the same for an unknown task and another caller's."""
    try:
        return await work
    except (NoSuchTask, BadAnswer) as error:
        raise MCPError(INVALID_PARAMS, str(error)) from None
    except KnowledgeError as error:
        logger.warning("a task cannot be read now", exc_info=True)
        raise MCPError(INTERNAL_ERROR, short(f"the task cannot be read now: {error}")) from error
