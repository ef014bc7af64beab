"""The SDK extension that answers slow calls with task handles, and serves the requests about tasks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolRequestParams, CallToolResult

from knowledge.errors import KnowledgeError
from mcp_server.approvals.elicitation.asking_tools import AGENT_RUN
from mcp_server.approvals.elicitation.client_features import may_ask
from mcp_server.gate.caller import caller
from mcp_server.gate.host_registration import Principal
from mcp_server.protocol.calls.results import ASKED, REFUSED
from mcp_server.protocol.gate_extension import Identify
from mcp_server.protocol.tasks.wire import (
    CANCEL,
    GET,
    IDENTIFIER,
    UPDATE,
    VERSIONS,
    BadAnswer,
    NoSuchTask,
    TaskParams,
    UpdateParams,
    declared,
    detailed,
    handle,
    require_declared,
    require_named,
)
from mcp_server.protocol.wire_errors import short

if TYPE_CHECKING:
    from mcp_server.protocol.tasks.states import ProtocolTasks

logger = logging.getLogger("knowledge_forge.tasks")

T = TypeVar("T")


class TasksExtension(Extension):
    """Answers a call with a handle if it takes long or waits for a person, and the request declares that its client knows tasks.

    It wraps the gate's extension, which determines the call's answer.
    """

    identifier = IDENTIFIER

    def __init__(self, load_tasks: Callable[[], ProtocolTasks], identify: Identify) -> None:
        self._load_tasks, self._identify = load_tasks, identify

    @property
    def _tasks(self) -> ProtocolTasks:
        return self._load_tasks()

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
        """Return the call's answer, or a handle for its later answer."""
        answer = await call_next(ctx)
        if not declared(ctx) or not isinstance(answer, CallToolResult) or answer.is_error:
            return answer
        task = handle_in(params.name, answer.structured_content or {})
        if not task:
            return answer
        try:
            # The person dismissed the form about this proposal, so the task must not show it again.
            if (params.request_state or "").startswith(ASKED):
                await self._tasks.note_answered(task, task)
            own = await self._tasks.handle(task)
            who = await self._identify(ctx)
            return handle(await self._tasks.task(own, who, forms=await may_ask(ctx, who, self._tasks.state)))
        except KnowledgeError:
            logger.warning("cannot make a task for %s now; its answer is sent instead", params.name, exc_info=True)
            return answer

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        """Return the task's status, and its result or forms."""
        who = _caller(ctx, params)
        forms = await may_ask(ctx, who, self._tasks.state)
        return detailed(await _with_wire_errors(self._tasks.task(params.task_id, who, forms=forms)))

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> HandlerResult:
        """Pass on the person's answers."""
        who = _caller(ctx, params)
        forms = await may_ask(ctx, who, self._tasks.state)
        await _with_wire_errors(self._tasks.answer(params.task_id, who, params.input_responses, forms=forms))
        return {}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        """Cancel the run or withdraw the proposal, if it is still open. A closed task is not an error."""
        await _with_wire_errors(self._tasks.cancel(params.task_id, _caller(ctx, params)))
        return {}


def handle_in(tool: str, content: Mapping[str, Any]) -> str:
    """Return the id of the run or proposal that the tool's answer leaves open; "" if the answer is final."""
    status, proposal = content.get("status"), content.get("proposal")
    if tool == AGENT_RUN and content.get("run_id"):
        return str(content["run_id"]) if status in ("running", "asking", "proposed") else ""
    waits = status == "proposed" and isinstance(proposal, Mapping) and proposal.get("state") == "pending"
    return str(proposal["id"]) if waits and isinstance(proposal, Mapping) else ""


def _caller(ctx: ServerRequestContext[Any, Any], params: TaskParams) -> Principal:
    """Check that the request may ask about tasks, and return its caller."""
    require_declared(ctx)
    require_named(ctx, params.task_id)
    return caller_of(ctx)


def caller_of(ctx: ServerRequestContext[Any, Any]) -> Principal:
    """Return the caller, which the middleware has identified and allowed to read."""
    who = caller.get()
    if who is None:
        raise MCPError(REFUSED, f"{ctx.method} has no caller")
    return who


async def _with_wire_errors(work: Awaitable[T]) -> T:
    """Return the result of `work`; turn its errors into JSON-RPC errors. Another caller's task gives the error of an unknown task."""
    try:
        return await work
    except (NoSuchTask, BadAnswer) as error:
        raise MCPError(INVALID_PARAMS, str(error)) from None
    except KnowledgeError as error:
        logger.warning("cannot read a task now", exc_info=True)
        raise MCPError(INTERNAL_ERROR, short(f"the task cannot be read now: {error}")) from error
