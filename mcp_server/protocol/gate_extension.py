"""The gate's two seams in the SDK: an extension around tool calls, a middleware around everything else."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.extension import Extension
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)
from mcp_types.version import is_version_at_least

from knowledge.errors import KnowledgeError, StorageError
from knowledge.trust.ports import Proposal
from mcp_server.approvals.approvers import Approvals, Approver, requirement
from mcp_server.approvals.elicitation import checkpoints
from mcp_server.approvals.elicitation import proposal_form as asking
from mcp_server.approvals.elicitation import run_elicitation as run_rounds
from mcp_server.approvals.elicitation.client_features import may_ask
from mcp_server.approvals.outcome import outcome_of
from mcp_server.approvals.proposals import calls_of, principal_of
from mcp_server.approvals.summary import summary
from mcp_server.approvals.wait import closed, has_room
from mcp_server.gate.caller import Call, caller
from mcp_server.gate.canonical_json import canonical_text
from mcp_server.gate.dispatch import CLOSED, CallAnswered, CallFailed, Gate, Outcome, UnknownTool
from mcp_server.gate.host_registration import Principal, UnknownSecret
from mcp_server.gate.policy import Refuse, Trust
from mcp_server.ports import ProtocolServices
from mcp_server.protocol.tasks.wire import declared
from mcp_server.protocol.wire_errors import LONGEST_MESSAGE, short

logger = logging.getLogger("knowledge_forge.gate")

REFUSED = -32003
"""JSON-RPC code of a refusal outside tools, from the range that is left to servers."""
MULTI_ROUND = "2026-07-28"
"""From this protocol on a server asks by its answer; before, by a request of its own."""
QUESTION = "decision"
ASKED = "proposal:"
"""Begins the state of the gate's own questions; what a tool itself has asked is its own to answer."""
CARRIED_OUT_S = 30.0
"""How long a call waits for what was approved to be carried out, where another process does it."""

Identify = Callable[[ServerRequestContext[Any, Any]], Awaitable[Principal]]

_UNGATED = frozenset({"initialize", "server/discover", "ping", "tools/list", "tools/call", "logging/setLevel"})
"""Methods that show nothing of the knowledge base, and `tools/call`, which has its own gate."""


class GateExtension(Extension):
    """Answers every `tools/call` through the gate; the SDK's own way to a tool is never taken."""

    identifier = "io.github.knowledge-forge/gate"

    def __init__(self, gate: Gate, identify: Identify, approvals: Approvals, services: ProtocolServices) -> None:
        self._gate, self._identify, self._approvals, self._services = gate, identify, approvals, services

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Return the gate's answer as the tool's result; where a person may decide in the host, ask there first."""
        del call_next  # the SDK's handler would run the tool without asking
        try:
            who = await self._identify(ctx)
            call = Call(who, report=ctx.session.report_progress, detached=declared(ctx))
            if (params.request_state or "").startswith(ASKED):
                return await self._second_round(params, ctx, call)
            if (params.request_state or "").startswith(checkpoints.ASKED):
                return await self._checkpoint_answered(params, who)
            if (params.request_state or "").startswith(run_rounds.ASKED):
                return await self._run_answered(params, ctx, call)
            outcome = await self._gate.dispatch(params.name, params.arguments or {}, call)
            return await self._answered_or_asked(params.name, outcome, ctx, call)
        except UnknownTool as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        except UnknownSecret as error:
            return as_result(CallFailed(f"{params.name} is refused: {error}"))
        except StorageError:
            logger.exception("cannot tell who calls %s", params.name)
            return as_result(CallFailed(f"{params.name} is {CLOSED}"))

    async def _answered_or_asked(
        self, name: str, outcome: Outcome, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> CallToolResult | InputRequiredResult:
        """Return the outcome; where it waits for a person who may decide in the host, ask there first."""
        if isinstance(outcome, CallFailed):
            return as_result(outcome)
        if outcome.waits is not None:
            return await self._asked(name, outcome, outcome.waits, ctx, call)
        if name == run_rounds.TOOL and not call.detached and (run := run_rounds.run_in(outcome.content)):
            return await self._at_run(name, outcome, run, ctx, call)  # of a detached call the handle asks
        if name == checkpoints.TOOL and (question := checkpoints.question_in(outcome.content)) is not None:
            return await self._at_checkpoint(name, outcome, question, ctx, Call(call.principal))
        return as_result(outcome)

    async def _asked(
        self, name: str, outcome: CallAnswered, proposal: Proposal, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> CallToolResult | InputRequiredResult:
        """Ask in the host if that is enough for this proposal and a person allowed it there; else return that it waits."""
        if not await self._may_ask(ctx, call) or requirement(proposal, "host", passkeys=False) != "word":
            return as_result(outcome)
        if not asking.can_be_shown(proposal):
            return as_result(outcome)
        text = asking.message(proposal, await summary(proposal, self._services.review_address))
        if is_version_at_least(ctx.protocol_version, MULTI_ROUND):
            form = ElicitRequestFormParams(message=text, requested_schema=asking.SCHEMA)
            return InputRequiredResult(
                input_requests={QUESTION: ElicitRequest(params=form)}, request_state=ASKED + proposal.id
            )
        if not has_room(self._services):
            return as_result(outcome)
        reply = await _answer_or_decision(text, asking.SCHEMA, partial(closed, self._services, proposal.id), ctx)
        return await self._begun(name, await self._follow(name, outcome.content, proposal, reply), ctx, call)

    async def _may_ask(self, ctx: ServerRequestContext[Any, Any], call: Call) -> bool:
        return await may_ask(ctx, call.principal, self._services.state)

    async def _at_checkpoint(
        self,
        name: str,
        outcome: Outcome,
        question: checkpoints.CheckpointQuestion,
        ctx: ServerRequestContext[Any, Any],
        call: Call,
    ) -> CallToolResult | InputRequiredResult:
        """Ask about the checkpoint in the host if a person allowed that there; else return that a person decides."""
        if not await self._may_ask(ctx, call):
            return as_result(outcome)
        if not await checkpoints.still_asked(self._services, question):  # the call was sent again after the answer
            return await self._checkpoint_settled(name, question, asking.FormReply("nothing"), call)
        shown = await checkpoints.form(self._services, question)
        if is_version_at_least(ctx.protocol_version, MULTI_ROUND):
            form = ElicitRequestFormParams(message=shown.text, requested_schema=shown.schema)
            return InputRequiredResult(
                input_requests={QUESTION: ElicitRequest(params=form)}, request_state=question.state
            )
        if not has_room(self._services):
            return as_result(outcome)
        settled = partial(checkpoints.decided, self._services, question)
        reply = await _answer_or_decision(shown.text, shown.schema, settled, ctx)
        return await self._checkpoint_settled(name, question, reply, call)

    async def _checkpoint_answered(self, params: CallToolRequestParams, who: Principal) -> CallToolResult:
        """Return the outcome of a checkpoint that was asked about; the SDK has checked that it is this very call's."""
        question = checkpoints.question_of(params.request_state or "")
        if params.name != checkpoints.TOOL or question is None:
            raise MCPError(INVALID_PARAMS, "this answer belongs to no call of yours")
        if (params.arguments or {}).get("journey_id") != question.journey:
            raise MCPError(INVALID_PARAMS, "this answer belongs to another call")
        return await self._checkpoint_settled(params.name, question, _reply(params), Call(who))

    async def _checkpoint_settled(
        self, name: str, question: checkpoints.CheckpointQuestion, reply: asking.FormReply, call: Call
    ) -> CallToolResult:
        """Do what the answer says and return the journey's position; nothing for a caller that was frozen in the meantime."""
        spec = self._gate.spec(name)
        allowed = await self._gate.decide(name, Trust.READ, call.principal)
        if isinstance(allowed, Refuse) or spec is None:
            return as_result(CallFailed(allowed.why if isinstance(allowed, Refuse) else f"there is no tool {name}"))
        from mcp_server.toolsets.journeys.answers import told

        position = await checkpoints.settle(self._services, call, question, reply)
        return as_result(CallAnswered(spec.as_json(await told(self._services, position))))

    async def _at_run(
        self,
        name: str,
        outcome: Outcome,
        run: str,
        ctx: ServerRequestContext[Any, Any],
        call: Call,
        *,
        before: run_rounds.RunQuestion | None = None,
    ) -> CallToolResult | InputRequiredResult:
        """Ask in the host for what the run waits for and continue it, as often as it waits; then return its state."""
        while isinstance(outcome, CallAnswered) and not call.detached and await self._may_ask(ctx, call):
            question = await run_rounds.question(self._services, run, before)
            if question is None:
                break
            try:
                shown = await run_rounds.form(self._services, question)
            except KnowledgeError:  # it was settled elsewhere just now
                outcome = await self._run_settled(name, question, asking.FormReply("nothing"), call)
                before = question
                continue
            if is_version_at_least(ctx.protocol_version, MULTI_ROUND):
                form = ElicitRequestFormParams(message=shown.text, requested_schema=shown.schema)
                return InputRequiredResult(
                    input_requests={QUESTION: ElicitRequest(params=form)}, request_state=question.state
                )
            if not has_room(self._services):
                break
            settled = partial(run_rounds.settled, self._services, question)
            reply = await _answer_or_decision(shown.text, shown.schema, settled, ctx)
            outcome, before = await self._run_settled(name, question, reply, call), question
        return as_result(outcome)

    async def _begun(
        self, name: str, outcome: Outcome, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> CallToolResult | InputRequiredResult:
        """Return the outcome; of a run that a person let begin in the host where it stands in a moment, and ask what it asks.

        It continues by itself, so a client that disconnects only stops watching.
        """
        run = run_rounds.begun_in(name, outcome.content) if isinstance(outcome, CallAnswered) else ""
        spec = self._gate.spec(name)
        if not run or not isinstance(outcome, CallAnswered) or spec is None or call.detached:
            return as_result(outcome)
        from mcp_server.toolsets.runs.handlers import answered

        there = await run_rounds.followed(self._services, call, run)
        if isinstance(allowed := await self._gate.decide(name, Trust.READ, call.principal), Refuse):
            return as_result(CallFailed(allowed.why))
        told = spec.as_json(await answered(self._services, there))
        outcome = CallAnswered({**told, "proposal": told["proposal"] or outcome.content["proposal"]})
        return await self._at_run(name, outcome, run, ctx, call)

    async def _run_answered(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> CallToolResult | InputRequiredResult:
        """Return the outcome of a run that was asked about; the SDK has checked that it is this very call's."""
        question = run_rounds.question_of(params.request_state or "")
        if question is None or params.name != run_rounds.TOOL:
            raise MCPError(INVALID_PARAMS, "this answer belongs to no call of yours")
        if (params.arguments or {}).get("run_id") not in (None, question.run):
            raise MCPError(INVALID_PARAMS, "this answer belongs to another call")
        outcome = await self._run_settled(params.name, question, _reply(params), call)
        return await self._at_run(params.name, outcome, question.run, ctx, call, before=question)

    async def _run_settled(
        self, name: str, question: run_rounds.RunQuestion, reply: asking.FormReply, call: Call
    ) -> Outcome:
        """Do what the answer says and return the run's state; nothing for a caller that was frozen in the meantime."""
        spec = self._gate.spec(name)
        allowed = await self._gate.decide(name, Trust.READ, call.principal)
        if isinstance(allowed, Refuse) or spec is None:
            return CallFailed(allowed.why if isinstance(allowed, Refuse) else f"there is no tool {name}")
        from mcp_server.toolsets.runs.handlers import answered

        try:
            run = await run_rounds.settle(self._services, self._approvals, call, question, reply)
            return CallAnswered(spec.as_json(await answered(self._services, run)))
        except KnowledgeError as error:
            return CallFailed(short(f"{name}: {error}", LONGEST_MESSAGE))

    async def _second_round(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> CallToolResult | InputRequiredResult:
        """Return the outcome of a proposal that was asked about; the SDK has checked that it is this very call's.

        The state database decides whether it is still open, so that an answer counts once.
        """
        proposal = await self._services.state.trust.proposal((params.request_state or "").removeprefix(ASKED))
        spec = self._gate.spec(params.name)
        if proposal is None or spec is None or proposal.principal != call.principal.id or proposal.tool != params.name:
            raise MCPError(INVALID_PARAMS, "this answer belongs to no call of yours")
        asked = spec.parse(params.arguments or {}).model_dump(mode="json")
        if proposal.cut is None and canonical_text(calls_of(proposal)[-1]) != canonical_text(asked):
            raise MCPError(INVALID_PARAMS, "this answer belongs to another call")
        answer = json.loads(proposal.preview)["answer"]
        outcome = await self._follow(params.name, answer, proposal, _reply(params))
        return await self._begun(params.name, outcome, ctx, call)

    async def _follow(
        self, name: str, answer: Mapping[str, Any], proposal: Proposal, reply: asking.FormReply
    ) -> Outcome:
        """Do what the answer says, and return what the call answers then; nothing to who was frozen meanwhile."""
        allowed = await self._gate.decide(name, Trust.READ, principal_of(proposal))
        if isinstance(allowed, Refuse):
            return CallFailed(allowed.why)
        person = Approver(f"{proposal.principal} (in the host)", "host")
        try:
            if reply.word == "approve":
                await self._approvals.approve(proposal.id, proposal.hash, person, reply.note)
            elif reply.word == "reject":
                await self._approvals.reject(proposal.id, proposal.hash, person, reply.note)
        except KnowledgeError as error:
            logger.debug("%s: %s", proposal.id, error)  # somebody else decided first: what became of it is told below
        return await self._outcome(name, answer, proposal.id)

    async def _outcome(self, name: str, answer: Mapping[str, Any], proposal_id: str) -> Outcome:
        state = self._services.state
        with anyio.move_on_after(CARRIED_OUT_S):
            while True:
                seen = await state.last_event()
                found = await state.trust.proposal(proposal_id)
                if found is None or not found.underway:
                    break
                await state.changed(seen)
        found = await state.trust.proposal(proposal_id)
        if found is None:
            return CallFailed(f"{name}: there is no longer a proposal {proposal_id}")
        told = await summary(found, self._services.review_address)
        return outcome_of(name, answer, found, told)


def _reply(params: CallToolRequestParams) -> asking.FormReply:
    """Return what the client's answer to the form says."""
    given = (params.input_responses or {}).get(QUESTION)
    return asking.reply(given.action, given.content) if isinstance(given, ElicitResult) else asking.FormReply("nothing")


async def _answer_or_decision(
    text: str, schema: dict[str, Any], settled: Callable[[], Awaitable[None]], ctx: ServerRequestContext[Any, Any]
) -> asking.FormReply:
    """Return what the form was answered with, or nothing once it is settled elsewhere."""
    replies: list[asking.FormReply] = []
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            try:
                result = await ctx.session.elicit_form(text, schema, related_request_id=ctx.request_id)
                replies.append(asking.reply(result.action, result.content))
            except MCPError:
                logger.info("the host could not ask", exc_info=True)
            tasks.cancel_scope.cancel()

        tasks.start_soon(ask)
        await settled()
        tasks.cancel_scope.cancel()
    return replies[0] if replies else asking.FormReply("nothing")


def as_result(outcome: Outcome) -> CallToolResult:
    """Return what a client gets: the same object as compact JSON text and as structured content, or an error's text.

    Some hosts show a model only the one, some only the other.
    """
    if isinstance(outcome, CallAnswered):
        text = json.dumps(outcome.content, ensure_ascii=False, separators=(",", ":"))
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=outcome.content)
    return CallToolResult(content=[TextContent(type="text", text=outcome.why)], is_error=True)


def refusing(gate: Gate, identify: Identify) -> ServerMiddleware[Any]:
    """Return a middleware that lets only those read resources, prompts and completions who may read."""

    async def middleware(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method in _UNGATED:
            return await call_next(ctx)
        try:
            who = await identify(ctx)
        except UnknownSecret as error:
            raise MCPError(REFUSED, f"{ctx.method} is refused: {error}") from error
        except StorageError as error:
            logger.exception("cannot tell who calls %s", ctx.method)
            raise MCPError(REFUSED, f"{ctx.method} is {CLOSED}") from error
        decision = await gate.decide(ctx.method, Trust.READ, who)
        if isinstance(decision, Refuse):
            raise MCPError(REFUSED, decision.why)
        token = caller.set(who)
        try:
            return await call_next(ctx)
        finally:
            caller.reset(token)

    return middleware
