"""The gate's hook in the SDK around tool calls: an extension."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams

from knowledge.errors import StorageError
from mcp_server.approvals.elicitation.asking_tools import AGENT_RUN, JOURNEY_SUBMIT
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CLOSED, CallFailed, Gate, UnknownTool
from mcp_server.gate.host_registration import Principal, UnknownSecret
from mcp_server.late_module import LateModule
from mcp_server.protocol.calls.results import as_result
from mcp_server.protocol.tasks.wire import declared

if TYPE_CHECKING:
    from mcp_server.approvals.approvers import Approvals
    from mcp_server.ports import ProtocolServices
    from mcp_server.protocol.calls import host_questions
else:
    # Only for calls that a person may have to decide on.
    host_questions = LateModule("mcp_server.protocol.calls.host_questions")

logger = logging.getLogger("knowledge_forge.gate")

Identify = Callable[[ServerRequestContext[Any, Any]], Awaitable[Principal]]


class GateExtension(Extension):
    """Answers every `tools/call` through the gate and never lets the SDK run a tool. A person may be asked in the host."""

    identifier = "io.github.knowledge-forge/gate"

    def __init__(
        self,
        gate: Gate,
        identify: Identify,
        load_approvals: Callable[[], Approvals],
        services: ProtocolServices,
    ) -> None:
        self._gate, self._identify, self._load_approvals, self._services = gate, identify, load_approvals, services

    @cached_property
    def _questions(self) -> host_questions.HostQuestions:
        """The questions to people in the host."""
        return host_questions.HostQuestions(self._gate, self._load_approvals(), self._services)

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Return the gate's answer as the tool's result, after asking in the host if a person may decide there."""
        del call_next  # the SDK's handler would run the tool without asking the gate
        try:
            who = await self._identify(ctx)
        except UnknownSecret as error:
            return as_result(CallFailed(f"{params.name} is refused: {error}"))
        except StorageError:
            logger.exception("cannot identify the caller of %s", params.name)
            return as_result(CallFailed(f"{params.name} is {CLOSED}"))
        try:
            return await self._answered(params, ctx, who)
        except UnknownTool as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        except StorageError as error:
            logger.exception("cannot settle what %s asked a person", params.name)
            return as_result(CallFailed(f"{params.name}: {error}"))

    async def _answered(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], who: Principal
    ) -> HandlerResult:
        call = Call(who, report=ctx.session.report_progress, detached=declared(ctx))
        if params.request_state and self._questions.is_reply(params):
            return await self._questions.replied(params, ctx, call)
        outcome = await self._gate.dispatch(params.name, params.arguments or {}, call)
        if isinstance(outcome, CallFailed):
            return as_result(outcome)
        if outcome.waits is None and params.name not in (AGENT_RUN, JOURNEY_SUBMIT):
            return as_result(outcome)  # nothing is left to a person
        return await self._questions.ask_or_answer(params.name, outcome, ctx, call)
