"""Asks a person in the host to answer a run or decide on its proposal, and leads the run within the same call.

Decisions that don't count in a host, and proposals that are too long for a form, are left to the page. A form that is dismissed leaves
the run waiting, as does a request that is cancelled while the form is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from knowledge.errors import KnowledgeError
from mcp_server.approvals.approvers import Approvals, Approver
from mcp_server.approvals.elicitation import proposal_form
from mcp_server.approvals.elicitation.asking_tools import AGENT_RUN
from mcp_server.approvals.elicitation.proposal_form import ElicitationForm, FormReply
from mcp_server.approvals.summary import summary
from mcp_server.approvals.wait import until
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import Principal, forms_count
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.scores import grant_of, trust_record_of
from mcp_server.late_module import LateModule
from mcp_server.ports import ElicitationServices
from mcp_server.toolsets.runs.decision_notes import chain_of

if TYPE_CHECKING:
    from agents.engine.work import markdown
    from agents.loop.record.run import Run
    from knowledge.trust.ports import Proposal
    from mcp_server.runs import resume
    from mcp_server.toolsets.runs import handlers
    from mcp_server.web.text import sanitize
else:
    markdown = LateModule("agents.engine.work.markdown")
    resume = LateModule("mcp_server.runs.resume")
    handlers = LateModule("mcp_server.toolsets.runs.handlers")
    sanitize = LateModule("mcp_server.web.text.sanitize")

logger = logging.getLogger("knowledge_forge.gate")

ASKED = "run:"
"""The prefix of the state of a run's question. Its round, the run, and the question or proposal follow."""
MOST_ROUNDS = 8
"""The most forms in one call: clients give up on a call that asks ten times."""
ANSWER = "answer"
LONGEST_ANSWER, LONGEST_GOAL, LONGEST_QUESTION = 8_000, 300, 6_000
"""Characters."""
CLOSING_S = 5.0
"""How long a cancelled call may take to end its run."""
TRIES, TRY_S = 30, 1.0
"""How many times a run that another process is about to lead is checked again, and the longest wait between two checks."""
FOLLOWED_S = 30.0
"""How long a call follows a run after a person approved its start. The result of a longer run is fetched later."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        ANSWER: {
            "type": "string",
            "title": "Answer",
            "description": "Your answer to the run, which then continues",
            "maxLength": LONGEST_ANSWER,
        },
    },
    "required": [ANSWER],
}


@dataclass(frozen=True, slots=True)
class RunQuestion:
    """A question of a run, or a proposal that it waits for: `on` is its id. `round` counts the forms of one call from 1."""

    run: str
    on: str
    round: int = 1

    @property
    def state(self) -> str:
        """The state that the client sends back with the answer."""
        return f"{ASKED}{self.round}:{self.run}:{self.on}"


@dataclass(frozen=True, slots=True)
class _PersonAnswer:
    """A person's answer, their name, and the id of the question."""

    text: str
    by: str
    ask: str


def run_in(content: Mapping[str, Any]) -> str:
    """Return the run that waits for a person according to an answer of `agent_run`; "" if none does."""
    return str(content.get("run_id") or "") if content.get("status") in ("asking", "proposed") else ""


def begun_in(tool: str, content: Mapping[str, Any]) -> str:
    """Return the run that continues in the background according to an answer of that tool; "" if none does."""
    return str(content.get("run_id") or "") if tool == AGENT_RUN and content.get("status") == "running" else ""


def question_of(state: str) -> RunQuestion | None:
    """Return the question that a client's state names; None if it is the state of something else."""
    count, _, rest = state.removeprefix(ASKED).partition(":")
    run, _, on = rest.partition(":")
    if not state.startswith(ASKED) or not count.isdecimal() or not run or not on:
        return None
    return RunQuestion(run, on, int(count))


async def question(
    services: ElicitationServices, approvals: Approvals, run: str, after: RunQuestion | None = None
) -> RunQuestion | None:
    """Return the next question for a form; None if no form can help, or if the previous form asked the same question."""
    current = await services.runs.store.run(run)
    if current.ask and await services.work_reviewers.on_run(current, current.header.principal):
        return None
    on = current.ask.id if current.ask else ""
    if not on and (proposal := await _newest(services, current.proposal)) is not None and proposal.state == "pending":
        on = proposal.id if await proposal_form.is_enough(approvals, proposal) else ""
    count = after.round + 1 if after else 1
    # A form that was dismissed is not shown again in the same call.
    if not on or count > MOST_ROUNDS or (after and after.on == on):
        return None
    return RunQuestion(run, on, count)


async def _newest(services: ElicitationServices, proposal: str) -> Proposal | None:
    """Return the proposal, or the one that replaced it."""
    chain = await chain_of(services.state.trust, proposal) if proposal else ()
    return chain[-1] if chain else None


async def form(services: ElicitationServices, asked: RunQuestion) -> ElicitationForm:
    """Return the form; hidden and direction-changing characters of its texts are made visible.

    Raises:
        RunNotThere: the run no longer waits for that.
    """
    from agents.loop.errors import RunNotThere
    from agents.loop.explanation import STATE_PHRASES

    run = await services.runs.store.run(asked.run)
    if run.ask and run.ask.id == asked.on:
        # Each line of the question is quoted, so that a model can't write one that looks like the server's.
        question = "\n".join(markdown.quoted(run.ask.question, LONGEST_QUESTION))
        text = (
            f"A run of {run.header.principal} asks. Its goal: {markdown.one_line(run.header.goal, LONGEST_GOAL)}\n\n{question}\n\n"
            "A language model wrote this question: never enter a password or key. Dismiss the form to answer later."
        )
        return ElicitationForm(sanitize.spelled_out(text), SCHEMA)
    proposal = await services.state.trust.proposal(asked.on)
    if proposal is None or not run.proposal:
        raise RunNotThere(run.id, STATE_PHRASES[run.state], f"asked about {asked.on[:60]}")
    return proposal_form.form(proposal, await summary(proposal, services.review_address))


async def settled(services: ElicitationServices, asked: RunQuestion) -> None:
    """Wait until the question is answered or the proposal decided, so that the run no longer waits for it."""

    async def is_settled() -> bool:
        run = await services.runs.store.run(asked.run)
        if run.ask:
            return run.ask.id != asked.on
        proposal = await services.state.trust.proposal(asked.on) if run.proposal else None
        return proposal is None or not proposal.open

    async with services.waiting:
        await until(services.state, is_settled)


async def settle(
    services: ElicitationServices, approvals: Approvals, call: Call, asked: RunQuestion, reply: FormReply
) -> Run:
    """Answer or decide as the form says, lead the run if possible, and return it when it is over or waits again.

    A reply to a question that the run no longer asks does nothing. If this is cancelled while it leads the run, the run is cancelled.

    Raises:
        NoSuchRun: this caller has no such run.
    """
    from agents.loop.errors import NoSuchRun

    run = await services.runs.store.run(asked.run)
    if run.header.principal != call.principal.id:
        raise NoSuchRun(asked.run)
    text = reply.filled.get(ANSWER, "").strip()[:LONGEST_ANSWER]
    answer: _PersonAnswer | None = None
    if run.ask and run.ask.id == asked.on and text and await counts(services, call.principal, run.id):
        answer = _PersonAnswer(text, person_in_host(call.principal).name, asked.on)
    elif run.proposal:
        proposal = await _newest(services, run.proposal)
        # Only the proposal that the form showed: another one may have replaced it, with another effect.
        if proposal is not None and proposal.id == asked.on and proposal.principal == run.header.principal:
            try:
                await proposal_form.decide(approvals, proposal, reply)
            except KnowledgeError as error:
                logger.debug("%s: %s", proposal.id, error)  # somebody else decided first; the run gets that outcome
    return await _lead(services, call, run.id, answer)


def person_in_host(who: Principal) -> Approver:
    """Return the person who answers a form of that host."""
    return Approver(f"{who.id} (in the host)", "host", principal=who.id)


async def counts(services: ElicitationServices, who: Principal, run: str) -> bool:
    """Return whether an answer in a form of that host counts.

    Its forms must count, it must be allowed to propose, and its person must be allowed to answer the run. If so, the
    host's untrusted reading is recorded for the run: nothing proves that a person wrote the answer, which may repeat
    text that the host has read.
    """
    if not await forms_count(services.state, who):
        return False
    if await services.work_reviewers.on_run(await services.runs.store.run(run), who.id):
        return False
    if grant_of(await trust_record_of(services.state, who, now=services.now())).level < Trust.PROPOSE:
        return False
    await services.taints.carry(who.id, run)
    return True


async def _lead(services: ElicitationServices, call: Call, run: str, answer: _PersonAnswer | None) -> Run:
    """Return the run when it is over or waits for something that is still open, whichever process leads it."""
    current = await services.runs.store.run(run)
    for _ in range(TRIES):
        seen = await services.state.last_event()
        current = await _lead_once(services, call, run, answer)
        answer = None
        if not await _continues(services, current):
            break
        with anyio.move_on_after(TRY_S):  # another process holds it, and has not begun
            await services.state.changed(seen)
    await _note_read(services, call, run)
    return current


async def followed(services: ElicitationServices, call: Call, run: str) -> Run:
    """Return the run, which is led elsewhere, when it is over or waits for a person, or as it is after `FOLLOWED_S`."""
    progress = handlers.reporting(call)
    with anyio.move_on_after(FOLLOWED_S):
        async for at, frame in services.runs.followed(run):
            await progress(at, frame)
    await _note_read(services, call, run)
    return await services.runs.store.run(run)


async def _note_read(services: ElicitationServices, call: Call, run: str) -> None:
    """Record the run's untrusted reading for the caller: the run's answer may repeat it."""
    if origins := tuple(await services.taints.of_journey(run)):
        await services.taints.note(call.principal.id, "", origins)


async def _continues(services: ElicitationServices, run: Run) -> bool:
    """Return whether the run can continue now: it needs neither a person nor more room in the daily limit."""
    if await services.runs.day.reached():
        return False
    if run.proposal:
        proposal = await _newest(services, run.proposal)
        underway = proposal is not None and proposal.underway
        return underway or await resume.became(services, run) is not None
    return run.state == "running"


async def _lead_once(services: ElicitationServices, call: Call, run: str, answer: _PersonAnswer | None) -> Run:
    """Lead the run as far as possible now, and return it."""
    from agents.loop.errors import RunNotThere

    runs, progress = services.runs, handlers.reporting(call)
    current = await runs.store.run(run)
    try:
        if answer is not None:
            return await runs.answer(run, answer.text, answer.by, ask=answer.ask, progress=progress)
        outcome = await resume.became(services, current)
        if outcome is not None:
            return await runs.resume(run, current.proposal, outcome, progress=progress)
        return await runs.lead(run, progress=progress) if current.state == "running" else current
    except RunNotThere:  # another process was faster
        return await runs.store.run(run)
    except anyio.get_cancelled_exc_class():
        # No call waits for the run now, so it is cancelled. Without the shield this task's cancellation would prevent that.
        with anyio.move_on_after(CLOSING_S, shield=True), suppress(KnowledgeError):
            if (await runs.store.run(run)).state == "running":
                await runs.cancel(run, runs.why_cancelled())
        raise
