"""The status of tasks. A task is a run of `agent_run`, or a call that became a proposal. Nothing is stored besides their records.

So a handle is valid in every process and after each restart, and shows decisions made elsewhere. A call that answers a run has
its own handle: the run's id, a dot, and the number of answers that the run had at that time.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mcp_types import ElicitResult
from pydantic import ValidationError

from knowledge.errors import KnowledgeError, StorageError
from knowledge.state.ports import StateStore
from knowledge.trust.ports import Proposal
from mcp_server.absent import NotConfigured
from mcp_server.approvals.approvers import Approvals, CannotDecide
from mcp_server.approvals.elicitation import proposal_form, run_elicitation
from mcp_server.approvals.elicitation.asking_tools import AGENT_RUN
from mcp_server.approvals.elicitation.proposal_form import FormReply
from mcp_server.approvals.proposals import begun_by, one_line, scopes_of
from mcp_server.approvals.summary import summary
from mcp_server.gate.dispatch import Gate
from mcp_server.gate.host_registration import Principal
from mcp_server.late_module import LateModule
from mcp_server.ports import ProtocolServices
from mcp_server.protocol.calls.results import as_result
from mcp_server.protocol.tasks.wire import MOST_ID, WAITING_MS, BadAnswer, NoSuchTask, ProtocolTask, TaskForm
from mcp_server.protocol.wire_errors import without_surrogates
from mcp_server.toolsets.runs.decision_notes import chain_of

if TYPE_CHECKING:
    from agents.loop.record.frames import PersonAnswered as Answer
    from agents.loop.record.run import Run
    from mcp_server.presenters import run as run_presenter
    from mcp_server.runs import local
    from mcp_server.toolsets.runs import handlers
    from mcp_server.web.text import sanitize
else:
    run_presenter = LateModule("mcp_server.presenters.run")
    local = LateModule("mcp_server.runs.local")
    handlers = LateModule("mcp_server.toolsets.runs.handlers")
    sanitize = LateModule("mcp_server.web.text.sanitize")

logger = logging.getLogger("knowledge_forge.tasks")

REMEMBERED = timedelta(days=3_650)  # in effect forever; a stored time needs an end
CANCELLED = "the client cancelled the task"
LONGEST_QUESTION = 400
POINT = "."


@dataclass(frozen=True, slots=True)
class _TracedTask:
    """The records behind a handle: the newest proposal of its call, the run, or both.

    `answers` is the number of answers that the run had when the call was answered.
    """

    id: str
    created_at: datetime
    proposal: Proposal | None = None
    run: Run | None = None
    answers: int = 0


class ProtocolTasks:
    """The tasks of all callers of one knowledge base, as one process serves them."""

    def __init__(self, gate: Gate, approvals: Approvals, services: ProtocolServices) -> None:
        self._gate, self._approvals, self._services = gate, approvals, services

    @property
    def state(self) -> StateStore:
        """The store that has the tasks' records."""
        return self._services.state

    async def task(self, task: str, who: Principal, *, forms: bool) -> ProtocolTask:
        """Return the caller's task as it is now. `forms`: the client shows forms, and a person allowed answers in them.

        Raises:
            NoSuchTask: it is unknown, or another caller's.
        """
        async with self._gate.as_caller(who):  # each time: the caller of a stream may lose rights while it is open
            found = await self._traced(task, who)
            if found.run is not None:
                current = await self._of_run(found, found.run, forms=forms)
            elif found.proposal is not None:
                current = await self._of_proposal(found, found.proposal, forms=forms)
            else:
                raise NoSuchTask(task)
        # Hosts show the message to people, and models wrote parts of it.
        current = replace(current, message=sanitize.spelled_out(current.message))
        if current.forms and all([await self._was_answered(task, form.key) for form in current.forms]):
            return replace(current, status="working", forms=())
        return current

    async def handle(self, task: str) -> str:
        """Return the id of the handle for a call that left this run or proposal open."""
        from agents.loop.errors import NoSuchRun

        if await self._services.state.trust.proposal(task) is not None:
            return task
        try:
            run = await self._services.runs.store.run(task)
        except (NoSuchRun, NotConfigured):
            return task
        return f"{task}{POINT}{count}" if (count := len(_answers(run))) else task

    async def answer(self, task: str, who: Principal, answers: Mapping[str, Any], *, forms: bool) -> None:
        """Decide or answer as a person did in the task's open forms. Answers to anything else change nothing.

        An accepted form doesn't prove that a person saw it, so it decides no more than a form in the host may.

        Raises:
            NoSuchTask: it is unknown, or another caller's.
            BadAnswer: an answer to an open form isn't the result of an elicitation. Nothing was decided.
        """
        current = await self.task(task, who, forms=forms)
        # All answers are parsed before the first one is used.
        given = {form.key: _reply(form.key, answers[form.key]) for form in current.forms if form.key in answers}
        for key, reply in given.items():
            found = await self._traced(task, who)
            if found.run is not None and found.run.ask is not None and found.run.ask.id == key:
                await self._answer_run(found.run, key, reply, who)
            else:
                await self._decide(key, reply, who)
            await self.note_answered(task, key)

    async def cancel(self, task: str, who: Principal) -> None:
        """Cancel the run, or withdraw the proposal if it is still pending.

        Raises:
            NoSuchTask: it is unknown, or another caller's.
        """
        found = await self._traced(task, who)
        if found.run is not None:
            await self._services.runs.cancel(found.run.id, CANCELLED)
        elif found.proposal is not None and found.proposal.state == "pending":
            await self._services.state.trust.withdraw(found.proposal.id, who.id, at=self._services.now())

    async def note_answered(self, task: str, key: str) -> None:
        """Record that a person answered or dismissed that form of the task, so that it is not shown again."""
        until = self._services.now() + REMEMBERED
        await self._services.state.trust.put_secret(_digest(task, key), "form", key, expires_at=until)
        await self._services.state.publish("task", [task])  # subscribers get the task without the form

    async def _was_answered(self, task: str, key: str) -> bool:
        digest = _digest(task, key)
        return await self._services.state.trust.secret(digest, "form", now=self._services.now()) is not None

    # --- the records behind a handle ----------------------------------------------------------------------------------

    async def _traced(self, task: str, who: Principal) -> _TracedTask:
        if len(task) > MOST_ID or not task.isascii():
            raise NoSuchTask(task)
        first = await self._services.state.trust.proposal(task)
        if first is None:
            run_id, point, count = task.partition(POINT)
            run = await self._run_of(run_id, who)
            given = _answers(run)
            if not point:
                return _TracedTask(task, run.header.begun_at, run=run)
            # One spelling for one task, because answered forms are recorded under it: not `.07` besides `.7`.
            if not count.isdecimal() or count != str(int(count)) or not 0 < int(count) <= len(given):
                raise NoSuchTask(task)
            return _TracedTask(task, given[int(count) - 1].at, run=run, answers=int(count))
        if first.principal != who.id or first.kind != "call":
            raise NoSuchTask(task)
        newest = (await chain_of(self._services.state.trust, task))[-1]
        begun = begun_by(newest) if newest.tool == AGENT_RUN else ""
        begun_run = await self._run_of(begun, who) if begun else None
        before = (
            [frame for frame in _answers(begun_run) if newest.ended_at and frame.at <= newest.ended_at]
            if begun_run
            else []
        )
        return _TracedTask(task, first.created_at, newest, begun_run, len(before))

    async def _run_of(self, run_id: str, who: Principal) -> Run:
        from agents.loop.errors import NoSuchRun

        try:
            run = await self._services.runs.store.run(run_id)
        except NoSuchRun:
            raise NoSuchTask(run_id) from None
        except NotConfigured:  # the same for every id without a proposal, so it reveals no run
            raise NoSuchTask(run_id, ", and no language model for runs is configured here") from None
        if run.header.principal != who.id:
            raise NoSuchTask(run_id)
        return run

    # --- status -------------------------------------------------------------------------------------------------------

    async def _of_proposal(self, found: _TracedTask, proposal: Proposal, *, forms: bool) -> ProtocolTask:
        await self._note_read(scopes_of(proposal), proposal.principal)
        moved_at = proposal.ended_at or (proposal.verdict.at if proposal.verdict else proposal.created_at)
        task = ProtocolTask(found.id, "working", found.created_at, moved_at)
        if proposal.state == "pending":
            task = replace(task, lasts=proposal.expires_at - found.created_at, poll_ms=WAITING_MS)
            return await self._waiting_for_decision(task, proposal, forms=forms)
        if proposal.underway:
            return replace(task, message="approved; being executed")
        if proposal.state == "withdrawn":
            return replace(task, status="cancelled", message="the proposal was withdrawn")
        outcome = await self._gate.outcome_of(proposal, json.loads(proposal.preview)["answer"])
        result = as_result(outcome).model_dump(by_alias=True, mode="json", exclude_none=True)
        return replace(task, status="completed", message=f"the proposal is {proposal.state}", result=result)

    async def _waiting_for_decision(self, task: ProtocolTask, proposal: Proposal, *, forms: bool) -> ProtocolTask:
        """Return the task with a message that says where a person decides, and with a form if one is enough."""
        page = await summary(proposal, self._services.review_address)
        where = page["review_url"] or "`knowledge-forge review`"
        task = replace(task, message=f"a person decides at {where}: {page['preview']} ({proposal.why})")
        in_time = self._services.now() < proposal.expires_at
        if not (forms and in_time and await proposal_form.is_enough(self._approvals, proposal)):
            return task
        form = proposal_form.form(proposal, page)
        return replace(task, status="input_required", forms=(TaskForm(proposal.id, form.text, form.schema),))

    async def _of_run(self, found: _TracedTask, run: Run, *, forms: bool) -> ProtocolTask:
        await self._note_read((run.id,), run.header.principal)
        # A client without forms gets the question as the call's result and answers with another call. A task is final once completed,
        # so this call's task keeps showing that question when the run has moved on.
        if not forms and (at_question := _when_it_asked(run, found.answers)):
            run = at_question
        task = ProtocolTask(found.id, "working", found.created_at, run.moved_at)
        if not forms and run.ask is not None:
            return replace(task, status="completed", message="it asks a person", result=await self._result_of(run))
        if run.state == "cancelled":
            return replace(task, status="cancelled", message=run.why)
        if run.over:
            return replace(task, status="completed", message=run.why, result=await self._result_of(run))
        if run.ask is not None:
            if why := await self._services.work_reviewers.on_run(run, run.header.principal):
                return replace(task, poll_ms=WAITING_MS, message=f"it asks a person, and you can't answer: {why}")
            asks = f"it asks, and agent_run(run_id, answer) answers: “{one_line(run.ask.question, LONGEST_QUESTION)}”"
            form = await run_elicitation.form(self._services, run_elicitation.RunQuestion(run.id, run.ask.id))
            open_form = TaskForm(run.ask.id, form.text, form.schema)
            return replace(task, status="input_required", poll_ms=WAITING_MS, message=asks, forms=(open_form,))
        chain = await chain_of(self._services.state.trust, run.proposal) if run.proposal else ()
        if chain and chain[-1].state == "pending":
            return await self._waiting_for_decision(replace(task, poll_ms=WAITING_MS), chain[-1], forms=forms)
        if why := await self._services.runs.day.spent():
            return replace(task, poll_ms=WAITING_MS, message=f"it waits until a limit allows more: {why}")
        return replace(task, message=run_presenter.progress_of(run, run.frames[-1]) if run.frames else "starting")

    async def _result_of(self, run: Run) -> Mapping[str, Any]:
        """Return the result of the call that began the run, as if it had waited."""
        # Imported here, because the spec works even where agent_run is not listed.
        from mcp_server.toolsets.runs.tools import AGENT_RUN as SPEC

        outcome = self._gate.answered(SPEC.as_json(await handlers.answered(self._services, run)))
        return as_result(outcome).model_dump(by_alias=True, mode="json", exclude_none=True)

    async def _note_read(self, scopes: Sequence[str], principal: str) -> None:
        """Record the untrusted reading of these runs and journeys for the caller: the task's texts may repeat it."""
        taints = self._services.taints
        if origins := {origin for scope in scopes for origin in await taints.of_journey(scope)}:
            await taints.note(principal, "", origins)

    # --- answers of people --------------------------------------------------------------------------------------------

    async def _answer_run(self, run: Run, ask: str, reply: FormReply, who: Principal) -> None:
        """Answer the run, which continues in the background. A form without an answer leaves it waiting."""
        text = reply.filled.get(run_elicitation.ANSWER, "").strip()[: run_elicitation.LONGEST_ANSWER]
        if not text or not await run_elicitation.counts(self._services, who, run.id):
            return
        from agents.loop.errors import RunNotThere

        try:
            runs = self._services.runs.store
            await local.answer(self._services, runs, run, text, run_elicitation.person_in_host(who), ask=ask)
        except (CannotDecide, RunNotThere) as error:
            logger.debug("%s: %s", run.id, error)  # answered elsewhere; the client's next request shows it

    async def _decide(self, proposal_id: str, reply: FormReply, who: Principal) -> None:
        proposal = await self._services.state.trust.proposal(proposal_id)
        if proposal is None or proposal.principal != who.id:
            return
        try:
            await proposal_form.decide(self._approvals, proposal, reply)
        except StorageError:
            raise  # nothing is recorded, so the client must send the answer again
        except KnowledgeError as error:
            logger.debug(
                "%s: %s", proposal.id, error
            )  # somebody else decided first; the client's next request shows it


def _answers(run: Run) -> Sequence[Answer]:
    """Return the answers that the run got from people, oldest first."""
    from agents.loop.record.frames import PersonAnswered

    return [frame for frame in run.frames if isinstance(frame, PersonAnswered)]


def _when_it_asked(run: Run, answers: int) -> Run | None:
    """Return the run as it was when it asked after that many answers; None if it did not ask then."""
    from agents.loop.record.frames import AskUser
    from agents.loop.record.run import fold

    asked = [frame.number for frame in run.frames if isinstance(frame, AskUser)]
    return fold(run.header, run.frames[: asked[answers] + 1]) if answers < len(asked) else None


def _reply(key: str, answer: Any) -> FormReply:
    try:
        given = ElicitResult.model_validate(without_surrogates(answer))
    except ValidationError:
        raise BadAnswer(key) from None
    return proposal_form.reply(given.action, given.content)


def _digest(task: str, key: str) -> bytes:
    return hashlib.sha256(f"task\0{task}\0{key}".encode()).digest()
