"""Asking a person in the host about what a run waits for, and leading it on within the same call.

A run waits for the answer to its question, or for a decision about a proposal. Proposals that may not be decided in a host, or don't
fit in a
form, wait for the page. A form that was dismissed leaves the run waiting, as does a request that is cancelled while it is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from knowledge.errors import KnowledgeError
from mcp_server.approvals.approvers import Approvals, Approver, requirement
from mcp_server.approvals.elicitation import proposal_form as asking
from mcp_server.approvals.summary import summary
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import Principal, forms_count
from mcp_server.gate.policy import Trust
from mcp_server.gate.trust.scores import grant_of, trust_record_of
from mcp_server.ports import ElicitationServices
from mcp_server.toolsets.runs.decision_notes import chain_of

if TYPE_CHECKING:
    from agents.loop.record.run import Run
    from knowledge.trust.ports import Proposal

logger = logging.getLogger("knowledge_forge.gate")

TOOL = "agent_run"
"""The tool whose answer may be that a run waits."""
ASKED = "run:"
"""Begins the state of such a question: then come its round, the run, and the question or proposal."""
MOST_ROUNDS = 8
"""Forms in one call. Clients give up on a call that asks ten times."""
ANSWER = "answer"
LONGEST_ANSWER, LONGEST_GOAL, LONGEST_QUESTION = 8_000, 300, 6_000
"""Characters."""
CLOSING_S = 5.0
"""So long a call that is cancelled may take to end its run."""
TRIES, TRY_S = 30, 1.0
"""How often, and for how long at most, a run is polled that another process is about to continue."""
FOLLOWED_S = 30.0
"""How long a call watches the run that a person let it start; the result of a longer run is fetched later."""

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
    """The thing that a run waits for: `on` is the id of its question, or of a proposal.

    `round` counts the forms of one call from 1.
    """

    run: str
    on: str
    round: int = 1

    @property
    def state(self) -> str:
        """Return what the client carries until it answers."""
        return f"{ASKED}{self.round}:{self.run}:{self.on}"


@dataclass(frozen=True, slots=True)
class _PersonAnswer:
    """The person's answer, the person, and the question that it belongs to."""

    text: str
    by: str
    ask: str


def run_in(content: Mapping[str, Any]) -> str:
    """Return the run that waits for a person according to an answer of `TOOL`; "" if none does."""
    return str(content.get("run_id") or "") if content.get("status") in ("asking", "proposed") else ""


def begun_in(tool: str, content: Mapping[str, Any]) -> str:
    """Return the run that, according to an answer of that tool, continues in the background; "" if none does."""
    return str(content.get("run_id") or "") if tool == TOOL and content.get("status") == "running" else ""


def question_of(state: str) -> RunQuestion | None:
    """Return the question in the state that a client sent back; None if it is not one of ours."""
    count, _, rest = state.removeprefix(ASKED).partition(":")
    run, _, on = rest.partition(":")
    if not state.startswith(ASKED) or not count.isdecimal() or not run or not on:
        return None
    return RunQuestion(run, on, int(count))


async def question(services: ElicitationServices, run: str, after: RunQuestion | None = None) -> RunQuestion | None:
    """Return what the run waits for and a form may be shown of; None if there is nothing, or nothing else than in the form before."""
    count = after.round + 1 if after else 1
    there = await services.runs.store.run(run)
    on = there.ask.id if there.ask else await _decidable(services, there)
    if not on or count > MOST_ROUNDS or (after and after.on == on):
        return None
    return RunQuestion(run, on, count)


async def _decidable(services: ElicitationServices, run: Run) -> str:
    """Return the proposal that the run waits for if a word in the host decides it; else ""."""
    proposal = await _newest(services, run.proposal)
    if proposal is None or proposal.state != "pending" or requirement(proposal, "host", passkeys=False) != "word":
        return ""
    return proposal.id if asking.can_be_shown(proposal) else ""


async def _newest(services: ElicitationServices, proposal: str) -> Proposal | None:
    """Return the proposal, or the one that took its place."""
    chain = await chain_of(services.state.trust, proposal) if proposal else ()
    return chain[-1] if chain else None


async def form(services: ElicitationServices, asked: RunQuestion) -> asking.ElicitationForm:
    """Return the form; hidden and direction-changing characters of its texts are made visible.

    Raises:
        RunNotThere: the run no longer waits for that.
    """
    from agents.loop.errors import RunNotThere
    from agents.loop.explanation import STATE_PHRASES

    run = await services.runs.store.run(asked.run)
    if run.ask and run.ask.id == asked.on:
        return asking.ElicitationForm(_marked(_question_text(run)), SCHEMA)
    proposal = await services.state.trust.proposal(asked.on)
    if proposal is None or not run.proposal:
        raise RunNotThere(run.id, STATE_PHRASES[run.state], f"asked about {asked.on[:60]}")
    return asking.ElicitationForm(
        asking.message(proposal, await summary(proposal, services.review_address)), asking.SCHEMA
    )


def _question_text(run: Run) -> str:
    """Return the text above the fields: each line of the question is quoted, so that none passes for the server's."""
    from agents.engine.work.markdown import one_line, quoted

    shown = "\n".join(quoted(run.ask.question if run.ask else "", LONGEST_QUESTION))
    return (
        f"A run of {run.header.principal} asks. Its goal: {one_line(run.header.goal, LONGEST_GOAL)}\n\n{shown}\n\n"
        "A language model wrote this question: never enter a password or key. Dismiss the form to answer later."
    )


def _marked(text: str) -> str:
    from mcp_server.web.text.sanitize import spelled_out

    return spelled_out(text)


async def settled(services: ElicitationServices, asked: RunQuestion) -> None:
    """Return when the run no longer waits for that, or it was decided."""
    async with services.waiting:
        while True:
            seen = await services.state.last_event()
            if not await _still_asked(services, asked):
                return
            await services.state.changed(seen)


async def _still_asked(services: ElicitationServices, asked: RunQuestion) -> bool:
    run = await services.runs.store.run(asked.run)
    if run.ask:
        return run.ask.id == asked.on
    proposal = await services.state.trust.proposal(asked.on) if run.proposal else None
    return proposal is not None and proposal.open


async def settle(
    services: ElicitationServices, approvals: Approvals, call: Call, asked: RunQuestion, reply: asking.FormReply
) -> Run:
    """Act on the form's answer, continue the run if possible, and return it when it has ended or waits again.

    An answer that the run no longer waits for does nothing. When this is cancelled while the run is led, so is the run.

    Raises:
        NoSuchRun: the caller has no such run.
    """
    from agents.loop.errors import NoSuchRun

    run = await services.runs.store.run(asked.run)
    if run.header.principal != call.principal.id:
        raise NoSuchRun(asked.run)
    text = reply.filled.get(ANSWER, "").strip()[:LONGEST_ANSWER]
    if run.ask and run.ask.id == asked.on and text and await counts(services, call.principal, run.id):
        return await _led_on(
            services, call, run.id, _PersonAnswer(text, f"{call.principal.id} (in the host)", asked.on)
        )
    if run.proposal:
        await _decide(services, approvals, run, asked.on, reply)
    return await _led_on(services, call, run.id)


async def counts(services: ElicitationServices, who: Principal, run: str) -> bool:
    """Return whether an answer in a form of that host counts: a person allowed it, and the host may propose, as for a yes there.

    Nothing proves that a person wrote it: it may repeat what the host has read, which is remembered of the run then.
    """
    if not await forms_count(services.state, who):
        return False
    if grant_of(await trust_record_of(services.state, who, now=services.now())).level < Trust.PROPOSE:
        return False
    await services.taints.carry(who.id, run)
    return True


async def _decide(
    services: ElicitationServices, approvals: Approvals, run: Run, on: str, reply: asking.FormReply
) -> None:
    """Do what the form says with the proposal, if it is the one that the run waits for."""
    proposal = await _newest(services, run.proposal)
    if proposal is None or proposal.id != on or proposal.principal != run.header.principal:
        return
    person = Approver(f"{proposal.principal} (in the host)", "host")
    try:
        if reply.word == "approve":
            await approvals.approve(proposal.id, proposal.hash, person, reply.note)
        elif reply.word == "reject":
            await approvals.reject(proposal.id, proposal.hash, person, reply.note)
    except KnowledgeError as error:
        logger.debug("%s: %s", proposal.id, error)  # somebody else decided first: the run gets that outcome


async def _led_on(services: ElicitationServices, call: Call, run: str, answer: _PersonAnswer | None = None) -> Run:
    """Return the run when it has ended, or waits for something that is still open. Where others lead it this follows."""
    there = await services.runs.store.run(run)
    for _ in range(TRIES):
        seen = await services.state.last_event()
        there = await _once(services, call, run, answer)
        answer = None
        if not await _goes_on(services, there):
            break
        with anyio.move_on_after(TRY_S):  # another process holds it and has not begun
            await services.state.changed(seen)
    await _note_read(services, call, run)
    return there


async def followed(services: ElicitationServices, call: Call, run: str) -> Run:
    """Return the run when it has ended or waits for a person, or its state after a while. Others lead it."""
    from mcp_server.toolsets.runs.handlers import reporting

    progress = reporting(call)
    with anyio.move_on_after(FOLLOWED_S):
        async for at, frame in services.runs.followed(run):
            await progress(at, frame)
    await _note_read(services, call, run)
    return await services.runs.store.run(run)


async def _note_read(services: ElicitationServices, call: Call, run: str) -> None:
    """Remember of the caller what the run has read, which it may repeat to them."""
    if origins := tuple(await services.taints.of_journey(run)):
        await services.taints.note(call.principal.id, "", origins)


async def _goes_on(services: ElicitationServices, run: Run) -> bool:
    """Return whether nobody has to be waited for, nor for another day."""
    from mcp_server.runs.resume import became

    if await services.runs.day.reached():
        return False
    if run.proposal:
        proposal = await _newest(services, run.proposal)
        underway = proposal is not None and proposal.underway
        return underway or await became(services, run) is not None
    return run.state == "running"


async def _once(services: ElicitationServices, call: Call, run: str, answer: _PersonAnswer | None) -> Run:
    """Return the run after it was continued as far as possible now."""
    from agents.loop.errors import RunNotThere
    from mcp_server.runs.resume import became
    from mcp_server.toolsets.runs.handlers import reporting

    runs, progress = services.runs, reporting(call)
    there = await runs.store.run(run)
    try:
        if answer is not None:
            return await runs.answer(run, answer.text, answer.by, ask=answer.ask, progress=progress)
        told = await became(services, there)
        if told is not None:
            return await runs.resume(run, there.proposal, told, progress=progress)
        return await runs.lead(run, progress=progress) if there.state == "running" else there
    except RunNotThere:  # somebody else led it on first
        return await runs.store.run(run)
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(CLOSING_S, shield=True), suppress(KnowledgeError):
            if (await runs.store.run(run)).state == "running":
                await runs.cancel(run, runs.why_cancelled())
        raise
