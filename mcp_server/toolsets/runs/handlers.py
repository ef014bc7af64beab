"""What the tools on runs do. Imported with the first call."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents.engine.work.markdown import counted, one_line
from agents.loop.errors import NoSuchRun, RunExists, RunLeft, RunNotThere
from agents.loop.explanation import STATE_PHRASES, explain, short_trace
from agents.loop.record.frames import Header, PersonAnswered
from knowledge.errors import DatabaseUnavailable, KnowledgeError
from mcp_server.approvals.proposals import calls_of
from mcp_server.approvals.summary import summary
from mcp_server.connectors.text.preview import shown_change
from mcp_server.gate.caller import Call
from mcp_server.gate.canonical_json import canonical
from mcp_server.ports import RunServices, RunViewServices
from mcp_server.toolsets.runs.gated_tools import WITHHELD
from mcp_server.toolsets.runs.schemas import RunAnswer, RunArguments, RunPlan, RunTrace, TraceArguments
from mcp_server.toolsets.runs.sentences import (
    GOES_ON,
    MOST_NAME,
    MOST_TEXT,
    NO_ROOM,
    STARTS,
    ended_with,
    note_on,
    status_of,
    step,
)
from mcp_server.toolsets.spec import CallPlan, CallPreview

if TYPE_CHECKING:
    from agents.loop.record.frames import Frame
    from agents.loop.record.run import Run
    from knowledge.state.ports import StateStore
    from mcp_server.approvals.summary import Address
    from mcp_server.gate.taint import Taints
    from mcp_server.runs.supervisor import Runs


MOST_CHARACTERS = {"goal": 8_000, "context": 100_000, "answer": 8_000}


PAGE = 8_000
"""Characters of an explanation that are told at once."""


MOST_SENTENCE = 200


MOST_FOLLOWED = 50
"""Proposals, each of which took the place of the one before."""


class WrongRun(KnowledgeError):
    """No run can be begun, or answered, with these arguments; the sentence says with which."""


async def plan_call(services: RunServices, call: Call, asked: RunArguments) -> CallPlan[RunAnswer]:
    """Return what the gate has to know of a run that would be begun, or gone on with. Raises as `plan_run`."""
    plan = await plan_run(services, call, asked)
    return CallPlan(
        execute=lambda agreed: carry_through(services, agreed, plan),
        preview=_shown(plan),
        # The question of a run may repeat what it has read.
        origins=tuple(await services.taints.of_journey(plan.header.id)) if plan.answer else (),
    )


async def plan_run(services: RunServices, call: Call, asked: RunArguments) -> RunPlan:
    """Work out which run would be begun, or gone on with. Changes nothing, but what the caller has read is remembered of the plan.

    Raises:
        WrongRun: the arguments do not go together. NoSuchRun: the caller has no such run. RunNotThere: it asks nothing.
    """
    plan = await _planned(services, call, asked)
    if not call.trusted:  # a person may agree when it is forgotten of the caller
        await services.taints.keep(call.principal.id, _texts_of(asked))
    return plan


def _texts_of(asked: RunArguments) -> str:
    """Return a hash of the texts that a run is handed, whatever its bounds and its model are to be."""
    return hashlib.sha256(canonical([asked.goal, asked.context, asked.run_id, asked.answer])).hexdigest()


async def _read_before(services: RunServices, proposal: str) -> Collection[str]:
    """Return where text comes from that was read before this was proposed, or that whose place it took."""
    origins: set[str] = set()
    following: str | None = proposal
    for _ in range(MOST_FOLLOWED):
        one = await services.state.trust.proposal(following) if following else None
        if one is None:
            break
        if one.cut is not None:  # only where an older program recorded it
            raise WrongRun(f"the original call of proposal {one.id} is no longer stored in full; propose it again")
        for arguments in calls_of(one):
            origins |= set(await services.taints.kept(_texts_of(RunArguments.model_validate(arguments))))
        following = one.origin
    return origins


async def _planned(services: RunServices, call: Call, asked: RunArguments) -> RunPlan:
    _require_short(asked)
    if asked.run_id is not None or asked.answer is not None:
        return await _plan_answer(services, call, asked)
    if not asked.goal.strip():
        raise WrongRun("'goal' is empty; say what to achieve, or answer a run's question with 'run_id' and 'answer'")
    model = services.model
    header = Header(
        id=f"r-{secrets.token_hex(10)}",
        goal=asked.goal,
        context=asked.context,
        principal=call.principal.id,
        begun_at=services.now(),
        toolsets=_toolsets(services, asked.toolsets),
        model=model.name,
        limits=model.run_limits(asked.max_iterations, float(asked.timeout_seconds)),
    )
    return RunPlan(header)


async def _plan_answer(services: RunServices, call: Call, asked: RunArguments) -> RunPlan:
    if asked.run_id is None:
        raise WrongRun("'answer' is given without 'run_id'; name the run that asked")
    if asked.answer is None or not asked.answer.strip():
        raise WrongRun("'run_id' is given without 'answer'; agent_trace(run_id) shows the run's status and question")
    usual = RunArguments().model_dump()
    names = ("goal", "context", "toolsets", "max_iterations", "timeout_seconds")
    if others := [name for name in names if getattr(asked, name) != usual[name]]:
        raise WrongRun(f"{_list(others)} cannot be given with 'run_id': a run keeps the values it started with")
    there = await own_run(services, call, asked.run_id)
    if there.ask is None:
        raise RunNotThere(there.id, STATE_PHRASES[there.state], "answered")
    return RunPlan(there.header, asked.answer, there.ask.id, there.ask.question)


async def own_run(services: RunViewServices, call: Call, run: str) -> Run:
    """Return a run of the caller.

    Raises:
        NoSuchRun: there is none, or it is somebody else's.
    """
    there = await services.runs.store.run(run)
    if there.header.principal != call.principal.id:
        raise NoSuchRun(run)
    return there


def _require_short(asked: RunArguments) -> None:
    for name in MOST_CHARACTERS:
        require_short(name, getattr(asked, name) or "")


def require_short(name: str, text: str) -> None:
    """Return if the text is no longer than that argument may be.

    Raises:
        WrongRun: it is.
    """
    if len(text) > MOST_CHARACTERS[name]:
        raise WrongRun(
            f"{name!r} has {len(text):,} characters; at most {MOST_CHARACTERS[name]:,} are allowed. "
            "Put the rest in a page and name that page"
        )


def _toolsets(services: RunServices, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the toolsets that a run is to have, each once.

    Raises:
        WrongRun: one has nothing here that a run may call.
    """
    there = _there(services)
    if unknown := [name for name in wanted if name not in there]:
        raise WrongRun(f"there is no toolset {one_line(unknown[0], MOST_NAME)!r} for runs here; use {_list(there)}")
    return tuple(dict.fromkeys(wanted))


def _there(services: RunServices) -> tuple[str, ...]:
    """Return the toolsets that have something here that a run may call."""
    return tuple(dict.fromkeys(spec.toolset for spec in services.tools() if spec.name not in WITHHELD))


def pinned(services: RunServices, header: Header) -> Header:
    """Return the header of a run that has the toolsets of the server in which it begins, also where one with more takes it up."""
    return replace(header, toolsets=header.toolsets or _there(services))


def _list(names: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in names)


def begun_for(call: Call) -> str:
    """Return the id of the run that begins because a person agreed to this call, one yes is one run; "" if nobody was asked."""
    if call.approval is None:
        return ""
    return f"r-{hashlib.sha256(f'agent_run {call.approval.proposal}'.encode()).hexdigest()[:20]}"


async def carry_through(services: RunServices, call: Call, plan: RunPlan) -> RunAnswer:
    """Begin the run, or answer it, and return where it stands when it is over or waits; at once where the caller does not wait."""
    runs, header = services.runs, pinned(services, plan.header)
    header = replace(header, id=(not plan.answer and begun_for(call)) or header.id)
    run = header.id
    aside = call.detached or call.approval is not None
    progress = reporting(call)
    await services.taints.carry(call.principal.id, run)  # before anybody can lead it
    if call.approval is not None and (before := await _read_before(services, call.approval.proposal)):
        await services.taints.note(call.principal.id, run, before)
    if plan.answer and aside:
        await runs.answer_aside(run, plan.answer, call.principal.id, ask=plan.ask)
    elif plan.answer:
        await runs.answer(run, plan.answer, call.principal.id, ask=plan.ask, progress=progress)
    elif aside:
        await (runs.begin_bounded(header) if call.approval is None else _begin(runs, header))
        runs.lead_aside(run)
    else:
        await runs.carry(header, progress=progress)
    try:
        return await _told(services, call, run)
    except DatabaseUnavailable as error:  # what it says of having changed nothing is not so of a run
        raise RunLeft(run, error.reason) from error


async def _told(services: RunViewServices, call: Call, run: str) -> RunAnswer:
    there = await services.runs.store.run(run)
    if origins := await services.taints.of_journey(run):
        await services.taints.note(call.principal.id, "", tuple(origins))
    told = await answered(services, there)
    if origins:
        await services.taints.saw(call.principal.id, [(min(origins), told.text)])
    return told


async def _begin(runs: Runs, header: Header) -> None:
    """Put the run on record, if it is not: another process may carry out the same decision."""
    try:
        await runs.begin(header)
    except RunExists:
        there = (await runs.store.run(header.id)).header
        if replace(there, begun_at=header.begun_at, toolsets=header.toolsets) != header:
            raise


def reporting(call: Call) -> Callable[[Run, Frame], Awaitable[None]]:
    """Return what tells the caller of each frame, without any text of it."""

    async def report(run: Run, frame: Frame) -> None:
        await call.report(frame.number + 1, None, step(run, frame))

    return report


async def recalled(services: RunServices, call: Call, asked: RunArguments) -> RunAnswer | None:
    """Return where the run stands that a person agreed to, if it was begun, or answered, before the process died."""
    try:
        there = await own_run(services, call, asked.run_id or begun_for(call))
    except NoSuchRun:
        return None
    who, text = call.principal.id, asked.answer
    said = [
        frame for frame in there.frames if isinstance(frame, PersonAnswered) and (frame.by, frame.text) == (who, text)
    ]
    if asked.run_id is not None and (there.ask is not None or not said):
        return None
    return await answered(services, there)


async def answered(services: RunViewServices, run: Run) -> RunAnswer:
    """Return where the run stands, as plain data."""
    answer = await answer_of(services.state, services.taints, run, services.review_address)
    if run.state == "running" and (why := await services.runs.day.spent()):
        return replace(answer, note=NO_ROOM.format(why=why, goes_on=GOES_ON))
    return answer


async def answer_of(state: StateStore, taints: Taints, run: Run, page: Address) -> RunAnswer:
    """Return the same where nothing but the record is open. `page` tells the address of the review page."""
    response, spent = run.response, run.spent
    return RunAnswer(
        run_id=run.id,
        status=status_of(run),
        text=ended_with(run)[:MOST_TEXT],
        goal_achieved=bool(response and response.goal_achieved),
        question=run.ask.question[:MOST_TEXT] if run.ask else "",
        proposal=await _waits_for(state, run, page),
        iterations=run.iterations,
        tools_called=list(run.tools_called),
        trace=short_trace(run),
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        cost=None if spent.unpriced else spent.cost_micros / 1_000_000,
        tainted=bool(await taints.of_journey(run.id)),
        note=note_on(run),
    )


async def _waits_for(state: StateStore, run: Run, page: Address) -> Mapping[str, Any] | None:
    """Return the proposal that the run waits for, as its caller is told of it."""
    waits = await state.trust.proposal(run.proposal) if run.proposal else None
    return await summary(waits, page) if waits else None


def _shown(plan: RunPlan) -> CallPreview:
    """Return what a person is shown of the plan before they agree to it: all that the model is told, and its bounds."""
    header, place = plan.header, f"model:{plan.header.model}"
    if plan.answer:
        told = [("answer", f"It asks: {plan.question}\n\nThe answer: {plan.answer}")]
        sentence = f"answer the question of run {header.id}: {one_line(plan.answer, MOST_SENTENCE)}"
    else:
        told = [("goal", header.goal), *([("context", header.context)] if header.context else [])]
        sentence = f"let {header.model} work by itself ({_bounds(header)}): {one_line(header.goal, MOST_SENTENCE)}"
    return CallPreview(
        answer=RunAnswer("", "analysis", "", False, "", None, 0, [], "", 0, 0, None, False, STARTS),  # noqa: FBT003 - in the order of its fields
        sentence=sentence,
        effect=_effect(plan),
        documents=(),
        files=[shown_change(f"{place} {what}", None, text) for what, text in told],
    )


def _effect(plan: RunPlan) -> str:
    """Return a hash that is the same as long as the same would begin, or go on; the id that a run would have is drawn anew."""
    header, ask = plan.header, [plan.header.id, plan.ask, plan.answer] if plan.answer else []
    about = [header.goal, header.context, list(header.toolsets), header.model, _bounds(header), ask]
    return hashlib.sha256(canonical(about)).hexdigest()


def _bounds(header: Header) -> str:
    limits = header.limits
    told = [counted(limits.iterations, "iteration"), f"{limits.seconds:g} s"]
    told += [counted(limits.tokens, "token")] if limits.tokens is not None else []
    told += [f"a cost of {limits.cost_micros / 1_000_000:g}"] if limits.cost_micros is not None else []
    return ", ".join([*told, f"toolsets {', '.join(header.toolsets) or 'all'}"])


async def trace(services: RunViewServices, call: Call, asked: TraceArguments) -> RunTrace:
    """Return the run in words."""
    run = await own_run(services, call, asked.run_id)
    whole = explain(run)
    if asked.offset and asked.offset >= len(whole):
        raise WrongRun(f"the explanation has {len(whole):,} characters; set offset to next_offset, or to 0")
    end = page_end(whole, asked.offset)
    return RunTrace(
        run_id=run.id,
        status=status_of(run),
        answer="" if asked.offset else ended_with(run)[:MOST_TEXT],
        question=run.ask.question[:MOST_TEXT] if run.ask else "",
        proposal=await _waits_for(services.state, run, services.review_address),
        text=whole[asked.offset : end],
        next_offset=end if end < len(whole) else None,
        tainted=bool(await services.taints.of_journey(run.id)),
    )


def page_end(text: str, start: int) -> int:
    """Return where the piece ends that begins there: after a line, if it has one."""
    if len(text) - start <= PAGE:
        return len(text)
    line = text.rfind("\n", start, start + PAGE)
    return line + 1 if line >= start else start + PAGE


async def read_in(services: RunViewServices, told: RunTrace) -> Sequence[str]:
    """Return where text of the run comes from that nobody vouches for."""
    return tuple(await services.taints.of_journey(told.run_id))
