"""The state of a task. A task is a run of `agent_run`, or a call that became a proposal; beside their records nothing is kept.

So a handle is valid in every process and after each restart, and decisions made elsewhere are reported here. A call that answers a run
has its own handle: the run's id, a point, and the number of answers that the run had then.
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
from mcp_server.approvals.approvers import Approvals, Approver, requirement
from mcp_server.approvals.elicitation import proposal_form as asking
from mcp_server.approvals.elicitation import run_elicitation as run_rounds
from mcp_server.approvals.outcome import outcome_of
from mcp_server.approvals.proposals import begun_by, one_line, scopes_of
from mcp_server.approvals.summary import summary
from mcp_server.gate.dispatch import CallAnswered, Gate
from mcp_server.gate.host_registration import Principal
from mcp_server.ports import ProtocolServices
from mcp_server.protocol.gate_extension import as_result
from mcp_server.protocol.tasks.wire import MOST_ID, WAITING_MS, ProtocolTask, TaskForm
from mcp_server.protocol.wire_errors import without_surrogates
from mcp_server.toolsets.runs.decision_notes import chain_of

if TYPE_CHECKING:
    from agents.loop.record.frames import PersonAnswered as Answer
    from agents.loop.record.run import Run

logger = logging.getLogger("knowledge_forge.tasks")

AGENT_RUN = run_rounds.TOOL
REMEMBERED = timedelta(days=3_650)
CANCELLED = "the client cancelled the task"
LONGEST_QUESTION = 400
POINT = "."


class NoSuchTask(KnowledgeError):
    """The caller was given no such handle."""

    def __init__(self, task: str, also: str = "") -> None:
        self.task = task
        super().__init__(
            f"you were given no task {task[:60]!r}{also}; only the caller that was given a handle can use it"
        )


class BadAnswer(KnowledgeError):
    """An answer that is none to a form."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the answer to {key[:60]!r} is not the result of an elicitation; nothing was decided")


@dataclass(frozen=True, slots=True)
class _Traced:
    """The target of a handle: the call's proposal and the one that replaced it, or the run, or both.

    `answers`: how many a person had given to the run when the call returned.
    """

    id: str
    created_at: datetime
    proposal: Proposal | None = None
    run: Run | None = None
    answers: int = 0


class ProtocolTasks:
    """The tasks of all callers of one knowledge base, as one process tells and moves them."""

    def __init__(self, gate: Gate, approvals: Approvals, services: ProtocolServices) -> None:
        self._gate, self._approvals, self._services = gate, approvals, services

    @property
    def state(self) -> StateStore:
        """Return where tasks are on record."""
        return self._services.state

    async def task(self, task: str, who: Principal, *, forms: bool) -> ProtocolTask:
        """Return the state of the caller's task; `forms`: the client shows forms, and a person allowed them to count.

        Raises:
            NoSuchTask: it is unknown, or another caller's.
        """
        found = await self._traced(task, who)
        if found.run is not None:
            told = await self._run(found, found.run, forms=forms)
        elif found.proposal is not None:
            told = await self._proposal(found, found.proposal, forms=forms)
        else:
            raise NoSuchTask(task)
        told = _seen(told)
        open_forms = [form for form in told.forms if not await self._was_answered(task, form.key)]
        if told.forms and not open_forms:
            return replace(told, status="working", forms=())
        return told

    async def handle(self, task: str) -> str:
        """Return the id of the handle of a call that left this run, or this proposal, open."""
        from agents.loop.errors import NoSuchRun

        if await self._services.state.trust.proposal(task) is not None:
            return task
        try:
            run = await self._services.runs.store.run(task)
        except (NoSuchRun, NotConfigured):
            return task
        return f"{task}{POINT}{count}" if (count := len(_answers(run))) else task

    async def answer(self, task: str, who: Principal, answers: Mapping[str, Any], *, forms: bool) -> None:
        """Do what a person answered to what the task asks now; answers to anything else change nothing.

        An accepted form proves no person, so it decides what a form in the host may decide.

        Raises:
            NoSuchTask: it is unknown, or another caller's.
            BadAnswer: an answer to what is asked now is none.
        """
        there = await self.task(task, who, forms=forms)
        given = {form.key: _reply(form.key, answers[form.key]) for form in there.forms if form.key in answers}
        for key, reply in given.items():
            found = await self._traced(task, who)
            if found.run is not None and found.run.ask is not None and found.run.ask.id == key:
                await self._tell_run(found.run, key, reply, who)
            else:
                await self._decide(key, reply, who)
            await self.note_answered(task, key)

    async def cancel(self, task: str, who: Principal) -> None:
        """End the run, or take the proposal back if nobody has decided about it.

        Raises:
            NoSuchTask: it is unknown, or another caller's.
        """
        found = await self._traced(task, who)
        if found.run is not None:
            await self._services.runs.cancel(found.run.id, CANCELLED)
        elif found.proposal is not None and found.proposal.state == "pending":
            await self._services.state.trust.withdraw(found.proposal.id, who.id, at=self._services.now())

    async def note_answered(self, task: str, key: str) -> None:
        """Remember that a person was asked that and has answered, or dismissed the form: the task does not ask it again."""
        until = self._services.now() + REMEMBERED
        await self._services.state.trust.put_secret(_digest(task, key), "form", key, expires_at=until)
        await self._services.state.publish("task", [task])  # listeners are notified that it is no longer asked

    async def _was_answered(self, task: str, key: str) -> bool:
        digest = _digest(task, key)
        return await self._services.state.trust.secret(digest, "form", now=self._services.now()) is not None

    # --- what a handle leads to ---------------------------------------------------------------------------------------

    async def _traced(self, task: str, who: Principal) -> _Traced:
        if len(task) > MOST_ID or not task.isascii():
            raise NoSuchTask(task)
        first = await self._services.state.trust.proposal(task)
        if first is None:
            return await self._traced_run(task, who)
        if first.principal != who.id or first.kind != "call":
            raise NoSuchTask(task)
        newest = (await chain_of(self._services.state.trust, task))[-1]
        begun = begun_by(newest) if newest.tool == AGENT_RUN else ""
        run = await self._run_of(begun, who) if begun else None
        before = [frame for frame in _answers(run) if newest.ended_at and frame.at <= newest.ended_at] if run else []
        return _Traced(task, first.created_at, newest, run, len(before))

    async def _traced_run(self, task: str, who: Principal) -> _Traced:
        run, point, count = task.partition(POINT)
        there = await self._run_of(run, who)
        given = _answers(there)
        if not point:
            return _Traced(task, there.header.begun_at, run=there)
        if not count.isdecimal() or count != str(int(count)) or not 0 < int(count) <= len(given):
            raise NoSuchTask(task)
        return _Traced(task, given[int(count) - 1].at, run=there, answers=int(count))

    async def _run_of(self, run: str, who: Principal) -> Run:
        from agents.loop.errors import NoSuchRun

        try:
            there = await self._services.runs.store.run(run)
        except NoSuchRun:
            raise NoSuchTask(run) from None
        except NotConfigured:  # said of every id that is none of a proposal, so it tells of no run
            raise NoSuchTask(run, ", and no language model for runs is configured here") from None
        if there.header.principal != who.id:
            raise NoSuchTask(run)
        return there

    # --- where it stands ----------------------------------------------------------------------------------------------

    async def _proposal(self, found: _Traced, proposal: Proposal, *, forms: bool) -> ProtocolTask:
        await self._note_read(scopes_of(proposal), proposal.principal)
        told = ProtocolTask(found.id, "working", found.created_at, _moved_at(proposal))
        if proposal.state == "pending":
            told = replace(told, lasts=proposal.expires_at - found.created_at, poll_ms=WAITING_MS)
            return await self._asking_about(told, proposal, forms=forms)
        if proposal.underway:
            return replace(told, message="a person approved it; it is being carried out")
        if proposal.state == "withdrawn":
            return replace(told, status="cancelled", message="the proposal was taken back")
        page = await summary(proposal, self._services.review_address)
        outcome = outcome_of(proposal.tool, json.loads(proposal.preview)["answer"], proposal, page)
        result = as_result(outcome).model_dump(by_alias=True, mode="json", exclude_none=True)
        return replace(told, status="completed", message=f"the proposal is {proposal.state}", result=result)

    async def _asking_about(self, told: ProtocolTask, proposal: Proposal, *, forms: bool) -> ProtocolTask:
        """Return the task as one that waits for a decision: with a form if that may decide, and who decides where."""
        page = await summary(proposal, self._services.review_address)
        where = page["review_url"] or "`knowledge-forge review`"
        told = replace(told, message=f"a person decides at {where}: {page['preview']} ({proposal.why})")
        weak = requirement(proposal, "host", passkeys=False) == "word" and asking.can_be_shown(proposal)
        if not (forms and weak and self._services.now() < proposal.expires_at):
            return told
        form = TaskForm(proposal.id, asking.message(proposal, page), asking.SCHEMA)
        return replace(told, status="input_required", forms=(form,))

    async def _run(self, found: _Traced, run: Run, *, forms: bool) -> ProtocolTask:
        await self._note_read((run.id,), run.header.principal)
        if not forms and (asking := _when_it_asked(run, found.answers)):
            run = asking  # which its call is told whole: it can answer with another one, and in no form
        told = ProtocolTask(found.id, "working", found.created_at, run.moved_at)
        if not forms and run.ask is not None:
            return replace(told, status="completed", message="it asks a person", result=await self._answered(run))
        if run.state == "cancelled":
            return replace(told, status="cancelled", message=run.why)
        if run.over:
            return replace(told, status="completed", message=run.why, result=await self._answered(run))
        if run.ask is not None:
            return await self._asking(told, run)
        chain = await chain_of(self._services.state.trust, run.proposal) if run.proposal else ()
        if chain and chain[-1].state == "pending":
            return await self._asking_about(replace(told, poll_ms=WAITING_MS), chain[-1], forms=forms)
        if why := await self._services.runs.day.spent():
            return replace(told, poll_ms=WAITING_MS, message=f"it waits until there is room: {why}")
        return replace(told, message=_step(run))

    async def _asking(self, told: ProtocolTask, run: Run) -> ProtocolTask:
        """Return the task as one whose run asks a question, of a client that shows forms."""
        if run.ask is None:
            return told
        asked = f"it asks, and agent_run(run_id, answer) answers: “{one_line(run.ask.question, LONGEST_QUESTION)}”"
        told = replace(told, poll_ms=WAITING_MS, message=asked)
        shown = await run_rounds.form(self._services, run_rounds.RunQuestion(run.id, run.ask.id))
        return replace(told, status="input_required", forms=(TaskForm(run.ask.id, shown.text, shown.schema),))

    async def _answered(self, run: Run) -> Mapping[str, Any]:
        """Return what the call would have returned that began the run, had it waited."""
        from mcp_server.toolsets.runs.handlers import answered
        from mcp_server.toolsets.runs.tools import AGENT_RUN as TOOL

        outcome = CallAnswered(TOOL.as_json(await answered(self._services, run)))  # also where it is not listed
        return as_result(outcome).model_dump(by_alias=True, mode="json", exclude_none=True)

    async def _note_read(self, scopes: Sequence[str], principal: str) -> None:
        """Remember that the caller now gets text that may repeat what was read in these runs and journeys, however long ago."""
        taints = self._services.taints
        if origins := {origin for scope in scopes for origin in await taints.of_journey(scope)}:
            await taints.note(principal, "", origins)

    # --- what a person answered ---------------------------------------------------------------------------------------

    async def _tell_run(self, run: Run, ask: str, reply: asking.FormReply, who: Principal) -> None:
        """Continue the run with the answer, in the background; a form without an answer leaves it waiting."""
        text = reply.filled.get(run_rounds.ANSWER, "").strip()[: run_rounds.LONGEST_ANSWER]
        if not text or not await run_rounds.counts(self._services, who, run.id):
            return
        from agents.loop.errors import RunNotThere
        from mcp_server.runs.local import answer

        try:
            runs = self._services.runs.store
            await answer(self._services, runs, run, text, f"{who.id} (in the host)", ask=ask)
        except RunNotThere as error:
            logger.debug("%s: %s", run.id, error)  # it was answered elsewhere: where it stands now is asked for

    async def _decide(self, proposal_id: str, reply: asking.FormReply, who: Principal) -> None:
        proposal = await self._services.state.trust.proposal(proposal_id)
        if proposal is None or proposal.principal != who.id:
            return
        person = Approver(f"{who.id} (in the host)", "host")
        try:
            if reply.word == "approve":
                await self._approvals.approve(proposal.id, proposal.hash, person, reply.note)
            elif reply.word == "reject":
                await self._approvals.reject(proposal.id, proposal.hash, person, reply.note)
        except StorageError:
            raise  # nothing is on record: it is asked for again
        except KnowledgeError as error:
            logger.debug("%s: %s", proposal.id, error)  # somebody else decided first: what became of it is asked for


def _answers(run: Run) -> Sequence[Answer]:
    """Return a person's answers to the run, oldest first."""
    from agents.loop.record.frames import PersonAnswered

    return [frame for frame in run.frames if isinstance(frame, PersonAnswered)]


def _when_it_asked(run: Run, answers: int) -> Run | None:
    """Return the run as it stood when it asked after so many answers; None if it has not."""
    from agents.loop.record.frames import AskUser
    from agents.loop.record.run import fold

    asked = [frame.number for frame in run.frames if isinstance(frame, AskUser)]
    return fold(run.header, run.frames[: asked[answers] + 1]) if answers < len(asked) else None


def _seen(told: ProtocolTask) -> ProtocolTask:
    """Return the task with a message in which every character is seen: hosts show it to people, and models wrote parts of it."""
    from mcp_server.web.text.sanitize import spelled_out

    return replace(told, message=spelled_out(told.message))


def _reply(key: str, answer: Any) -> asking.FormReply:
    try:
        given = ElicitResult.model_validate(without_surrogates(answer))
    except ValidationError:
        raise BadAnswer(key) from None
    return asking.reply(given.action, given.content)


def _digest(task: str, key: str) -> bytes:
    return hashlib.sha256(f"task\0{task}\0{key}".encode()).digest()


def _moved_at(proposal: Proposal) -> datetime:
    return proposal.ended_at or (proposal.verdict.at if proposal.verdict else proposal.created_at)


def _step(run: Run) -> str:
    from mcp_server.presenters.run import progress_of

    return progress_of(run, run.frames[-1]) if run.frames else "it begins"
