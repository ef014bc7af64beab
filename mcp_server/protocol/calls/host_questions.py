"""Asks a person in the host about what a call leaves to a person, and does what the reply says."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import is_version_at_least

from knowledge.errors import KnowledgeError, StorageError
from knowledge.trust.ports import Proposal
from mcp_server.approvals.approvers import Approvals
from mcp_server.approvals.elicitation import checkpoints, proposal_form, run_elicitation
from mcp_server.approvals.elicitation.asking_tools import AGENT_RUN, JOURNEY_SUBMIT
from mcp_server.approvals.elicitation.client_features import may_ask
from mcp_server.approvals.elicitation.proposal_form import ElicitationForm, FormReply
from mcp_server.approvals.proposals import calls_of, principal_of
from mcp_server.approvals.summary import summary
from mcp_server.approvals.wait import closed, has_room, until
from mcp_server.gate.caller import Call
from mcp_server.gate.canonical_json import canonical_text
from mcp_server.gate.dispatch import CallAnswered, CallFailed, Gate, Outcome
from mcp_server.gate.host_registration import Principal
from mcp_server.gate.policy import Refuse, Trust
from mcp_server.late_module import LateModule
from mcp_server.ports import ProtocolServices
from mcp_server.protocol.calls.results import ASKED, MULTI_ROUND, as_result
from mcp_server.protocol.wire_errors import LONGEST_MESSAGE, short
from mcp_server.toolsets.spec import AnySpec

if TYPE_CHECKING:
    from mcp_server.toolsets.journeys import answers as journey_answers
    from mcp_server.toolsets.runs import handlers as run_handlers
else:
    journey_answers = LateModule("mcp_server.toolsets.journeys.answers")
    run_handlers = LateModule("mcp_server.toolsets.runs.handlers")

logger = logging.getLogger("knowledge_forge.gate")

QUESTION = "decision"
CARRIED_OUT_S = 30.0
"""How long a call waits for another process to execute an approved proposal."""
NOT_YOURS = "this answer belongs to none of your calls"
OTHER_CALL = "this answer belongs to another call"


class HostQuestions:
    """The questions that calls leave to a person, as forms in the host.

    Clients of the 2026 protocol get a result that asks and call again with the answer; older ones are sent `elicitation/create` while
    the call waits.
    """

    def __init__(self, gate: Gate, approvals: Approvals, services: ProtocolServices) -> None:
        self._gate, self._approvals, self._services = gate, approvals, services

    def is_reply(self, params: CallToolRequestParams) -> bool:
        """Return whether the call brings the reply to one of these questions, and not to one that its tool asked."""
        return (params.request_state or "").startswith((ASKED, checkpoints.ASKED, run_elicitation.ASKED))

    async def replied(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> HandlerResult:
        """Do what the reply says, and return the answer of the call that asked."""
        state = params.request_state or ""
        async with self._gate.as_caller(call.principal):
            if state.startswith(ASKED):
                return await self._proposal_answered(params, ctx, call)
            if state.startswith(checkpoints.ASKED):
                return await self._checkpoint_answered(params, call.principal)
            return await self._run_answered(params, ctx, call)

    async def ask_or_answer(
        self, name: str, outcome: CallAnswered, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> CallToolResult | InputRequiredResult:
        """Return the outcome, after asking in the host if it needs a decision that counts there."""
        ask = self._asking(name, outcome, ctx, call)
        if ask is None:
            return as_result(outcome)
        async with self._gate.as_caller(call.principal):
            return await ask()

    def _asking(
        self, name: str, outcome: CallAnswered, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> Callable[[], Awaitable[CallToolResult | InputRequiredResult]] | None:
        """Return the function that asks a person about this outcome, None if it leaves nothing to a person."""
        if outcome.waits is not None:
            return partial(self._ask_about_proposal, name, outcome, outcome.waits, ctx, call)
        # A detached call has a task, which asks by itself.
        if name == AGENT_RUN and not call.detached and (run := run_elicitation.run_in(outcome.content)):
            return partial(self._ask_about_run, name, outcome, run, ctx, call)
        if name == JOURNEY_SUBMIT and (question := checkpoints.question_in(outcome.content)) is not None:
            return partial(self._ask_about_checkpoint, name, outcome, question, ctx, Call(call.principal))
        return None

    async def _show(
        self,
        form: ElicitationForm,
        state: str,
        settled: Callable[[], Awaitable[None]],
        ctx: ServerRequestContext[Any, Any],
    ) -> FormReply | InputRequiredResult | None:
        """Show the form and return the reply: "nothing" if `settled` returned first, None if too many calls wait already.

        For a client of the newer protocol, return the result that asks; its next call brings `state` back.

        Raises:
            StorageError: whether it is settled can't be read. Nothing was decided.
        """
        if is_version_at_least(ctx.protocol_version, MULTI_ROUND):
            params = ElicitRequestFormParams(message=form.text, requested_schema=form.schema)
            return InputRequiredResult(input_requests={QUESTION: ElicitRequest(params=params)}, request_state=state)
        if not has_room(self._services):
            return None
        replies: list[FormReply] = []
        unread: list[StorageError] = []
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                try:
                    result = await ctx.session.elicit_form(form.text, form.schema, related_request_id=ctx.request_id)
                    replies.append(proposal_form.reply(result.action, result.content))
                except MCPError:
                    logger.info("the host could not show a form", exc_info=True)
                except StorageError as error:  # the reply may arrive at another process, by way of the state database
                    unread.append(error)
                tasks.cancel_scope.cancel()

            # The page, a terminal or another process may decide first. Then the form no longer matters.
            tasks.start_soon(ask)
            try:
                await settled()
            except StorageError as error:
                unread.append(error)
            tasks.cancel_scope.cancel()
        if unread:
            raise unread[0]  # here, where no group of tasks wraps it
        return replies[0] if replies else FormReply("nothing")

    async def _spec_for(self, name: str, who: Principal) -> AnySpec | CallFailed:
        """Return the tool, or the reason for a refusal: a person may have frozen the caller while it waited."""
        allowed = await self._gate.decide(name, Trust.READ, who)
        if isinstance(allowed, Refuse):
            return CallFailed(allowed.why)
        return self._gate.spec(name) or CallFailed(f"there is no tool {name}")

    # --- proposals ----------------------------------------------------------------------------------------------------

    async def _ask_about_proposal(
        self, name: str, outcome: CallAnswered, proposal: Proposal, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> CallToolResult | InputRequiredResult:
        """Ask in the host if a form is enough for this proposal and counts there. Otherwise return that it waits."""
        asks = await may_ask(ctx, call.principal, self._services.state)
        if not asks or not await proposal_form.is_enough(self._approvals, proposal):
            return as_result(outcome)
        form = proposal_form.form(proposal, await summary(proposal, self._services.review_address))
        reply = await self._show(form, ASKED + proposal.id, partial(closed, self._services, proposal.id), ctx)
        if not isinstance(reply, FormReply):
            return reply or as_result(outcome)
        settled = await self._settle_proposal(name, outcome.content, proposal, reply)
        return await self._follow_begun_run(name, settled, ctx, call)

    async def _proposal_answered(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> CallToolResult | InputRequiredResult:
        """Return the outcome of the proposal that the client was asked about.

        The SDK has checked that the state was sealed for this server. It can be replayed while it is valid, so the state database
        decides whether the answer still counts, and counts it once.
        """
        proposal = await self._services.state.trust.proposal((params.request_state or "").removeprefix(ASKED))
        spec = self._gate.spec(params.name)
        if proposal is None or spec is None or proposal.principal != call.principal.id or proposal.tool != params.name:
            raise MCPError(INVALID_PARAMS, NOT_YOURS)
        arguments = spec.parse(params.arguments or {}).model_dump(mode="json")
        # Retention removes the arguments of old proposals (`cut`), which are closed and can only be reported.
        if proposal.cut is None and canonical_text(calls_of(proposal)[-1]) != canonical_text(arguments):
            raise MCPError(INVALID_PARAMS, OTHER_CALL)
        answer = json.loads(proposal.preview)["answer"]
        outcome = await self._settle_proposal(params.name, answer, proposal, _reply(params))
        return await self._follow_begun_run(params.name, outcome, ctx, call)

    async def _settle_proposal(
        self, name: str, answer: Mapping[str, Any], proposal: Proposal, reply: FormReply
    ) -> Outcome:
        """Decide as the form says, wait until the proposal is executed, and return the call's answer."""
        spec = await self._spec_for(name, principal_of(proposal))
        if isinstance(spec, CallFailed):
            return spec
        async with self._gate.as_caller(principal_of(proposal)):
            try:
                await proposal_form.decide(self._approvals, proposal, reply)
            except KnowledgeError as error:
                logger.debug("%s: %s", proposal.id, error)  # somebody else decided first; the outcome below says how
            state = self._services.state

            async def is_done() -> bool:
                found = await state.trust.proposal(proposal.id)
                return found is None or not found.underway

            with anyio.move_on_after(CARRIED_OUT_S):
                await until(state, is_done)
            found = await state.trust.proposal(proposal.id)
            if found is None:
                return CallFailed(f"{name}: there is no longer a proposal {proposal.id}")
            return await self._gate.outcome_of(found, answer)

    # --- checkpoints of journeys --------------------------------------------------------------------------------------

    async def _ask_about_checkpoint(
        self,
        name: str,
        outcome: Outcome,
        question: checkpoints.CheckpointQuestion,
        ctx: ServerRequestContext[Any, Any],
        call: Call,
    ) -> CallToolResult | InputRequiredResult:
        """Ask about the checkpoint in the host if forms count there. Otherwise return that a person decides."""
        asks = await may_ask(ctx, call.principal, self._services.state)
        if not asks or not await checkpoints.is_enough(self._services, question, call.principal.id):
            return as_result(outcome)
        if not await checkpoints.still_asked(self._services, question):  # the call was sent again after the answer
            return await self._settle_checkpoint(name, question, FormReply("nothing"), call)
        form = await checkpoints.form(self._services, question)
        settled = partial(checkpoints.decided, self._services, question)
        reply = await self._show(form, question.state, settled, ctx)
        if not isinstance(reply, FormReply):
            return reply or as_result(outcome)
        return await self._settle_checkpoint(name, question, reply, call)

    async def _checkpoint_answered(self, params: CallToolRequestParams, who: Principal) -> CallToolResult:
        """Return the outcome of the checkpoint that the client was asked about."""
        question = checkpoints.question_of(params.request_state or "")
        if params.name != JOURNEY_SUBMIT or question is None:
            raise MCPError(INVALID_PARAMS, NOT_YOURS)
        if (params.arguments or {}).get("journey_id") != question.journey:
            raise MCPError(INVALID_PARAMS, OTHER_CALL)
        return await self._settle_checkpoint(params.name, question, _reply(params), Call(who))

    async def _settle_checkpoint(
        self, name: str, question: checkpoints.CheckpointQuestion, reply: FormReply, call: Call
    ) -> CallToolResult:
        """Decide as the form says, and return the journey's position after it."""
        spec = await self._spec_for(name, call.principal)
        if isinstance(spec, CallFailed):
            return as_result(spec)
        async with self._gate.as_caller(call.principal):
            position = await checkpoints.settle(self._services, call, question, reply)
            answer = await journey_answers.journey_answer(self._services, position)
            return as_result(self._gate.answered(spec.as_json(answer)))

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def _ask_about_run(
        self,
        name: str,
        outcome: Outcome,
        run: str,
        ctx: ServerRequestContext[Any, Any],
        call: Call,
        *,
        before: run_elicitation.RunQuestion | None = None,
    ) -> CallToolResult | InputRequiredResult:
        """Ask in the host each time the run waits for a person, lead it after each answer, and return the last outcome."""
        while (
            isinstance(outcome, CallAnswered)
            and not call.detached
            and await may_ask(ctx, call.principal, self._services.state)
        ):
            question = await run_elicitation.question(self._services, self._approvals, run, before)
            if question is None:
                break
            try:
                form = await run_elicitation.form(self._services, question)
            except KnowledgeError:  # it was settled elsewhere just now
                outcome = await self._settle_run(name, question, FormReply("nothing"), call)
                before = question
                continue
            settled = partial(run_elicitation.settled, self._services, question)
            reply = await self._show(form, question.state, settled, ctx)
            if not isinstance(reply, FormReply):
                return reply or as_result(outcome)
            outcome, before = await self._settle_run(name, question, reply, call), question
        return as_result(outcome)

    async def _follow_begun_run(
        self, name: str, outcome: Outcome, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> CallToolResult | InputRequiredResult:
        """Return the outcome. If a person has just approved a run, follow it for a while and pass its questions on.

        The run continues by itself in the background, so a caller that leaves doesn't end it.
        """
        run = run_elicitation.begun_in(name, outcome.content) if isinstance(outcome, CallAnswered) else ""
        if not run or not isinstance(outcome, CallAnswered) or call.detached:
            return as_result(outcome)
        current = await run_elicitation.followed(self._services, call, run)
        spec = await self._spec_for(name, call.principal)
        if isinstance(spec, CallFailed):
            return as_result(spec)
        content = spec.as_json(await run_handlers.answered(self._services, current))
        outcome = self._gate.answered({**content, "proposal": content["proposal"] or outcome.content["proposal"]})
        return await self._ask_about_run(name, outcome, run, ctx, call)

    async def _run_answered(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call: Call
    ) -> CallToolResult | InputRequiredResult:
        """Return the outcome of the run that the client was asked about, and ask again if it waits again."""
        question = run_elicitation.question_of(params.request_state or "")
        if question is None or params.name != AGENT_RUN:
            raise MCPError(INVALID_PARAMS, NOT_YOURS)
        # The call that began the run couldn't name it yet.
        if (params.arguments or {}).get("run_id") not in (None, question.run):
            raise MCPError(INVALID_PARAMS, OTHER_CALL)
        outcome = await self._settle_run(params.name, question, _reply(params), call)
        return await self._ask_about_run(params.name, outcome, question.run, ctx, call, before=question)

    async def _settle_run(
        self, name: str, question: run_elicitation.RunQuestion, reply: FormReply, call: Call
    ) -> Outcome:
        """Answer or decide as the form says, lead the run, and return it when it is over or waits again."""
        spec = await self._spec_for(name, call.principal)
        if isinstance(spec, CallFailed):
            return spec
        async with self._gate.as_caller(call.principal):
            try:
                run = await run_elicitation.settle(self._services, self._approvals, call, question, reply)
                return self._gate.answered(spec.as_json(await run_handlers.answered(self._services, run)))
            except KnowledgeError as error:
                return CallFailed(short(f"{name}: {error}", LONGEST_MESSAGE))


def _reply(params: CallToolRequestParams) -> FormReply:
    """Return the client's answer to the form."""
    given = (params.input_responses or {}).get(QUESTION)
    return proposal_form.reply(given.action, given.content) if isinstance(given, ElicitResult) else FormReply("nothing")
