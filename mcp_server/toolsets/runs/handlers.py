"""The handlers of the tools on runs. Imported with the first call."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents.engine.work.markdown import one_line
from agents.loop.errors import NoSuchRun, RunExists, RunLeft, RunNotThere
from agents.loop.explanation import STATE_PHRASES, explain, limit_phrases, short_trace
from agents.loop.record.frames import Header, PersonAnswered
from knowledge.errors import DatabaseUnavailable, KnowledgeError
from mcp_server.approvals.proposals import calls_of
from mcp_server.approvals.reviewers.work_deciders import require_answerer
from mcp_server.approvals.summary import summary
from mcp_server.connectors.text.preview import shown_change
from mcp_server.gate.caller import Call
from mcp_server.gate.canonical_json import canonical
from mcp_server.ports import RunServices, RunViewServices
from mcp_server.presenters.run import (
    GOES_ON,
    MOST_NAME,
    MOST_TEXT,
    NO_ROOM,
    STARTS,
    note_on,
    present,
    progress_of,
)
from mcp_server.toolsets.runs.gated_tools import WITHHELD
from mcp_server.toolsets.runs.schemas import RunAnswer, RunArguments, RunPlan, RunTrace, TraceArguments
from mcp_server.toolsets.spec import CallPlan, CallPreview

if TYPE_CHECKING:
    from agents.loop.record.frames import Frame
    from agents.loop.record.run import Run
    from knowledge.state.ports import StateStore
    from mcp_server.approvals.summary import Address
    from mcp_server.gate.taint import Taints


MOST_CHARACTERS = {"goal": 8_000, "context": 100_000, "answer": 8_000}
PAGE = 8_000
"""Characters of an explanation in one answer."""
MOST_SENTENCE = 200
MOST_FOLLOWED = 50
"""The longest chain of proposals that is followed; each one replaced the one before."""


class WrongRun(KnowledgeError):
    """No run can be begun or answered with these arguments; the sentence says why."""


# --- planning ---------------------------------------------------------------------------------------------------------


async def plan_call(services: RunServices, call: Call, arguments: RunArguments) -> CallPlan[RunAnswer]:
    """Return the plan of a call that begins or answers a run. Raises as `plan_run`."""
    plan = await plan_run(services, call, arguments)
    header = plan.header
    limits = ", ".join([*limit_phrases(header.limits, cost="g"), f"toolsets {', '.join(header.toolsets) or 'all'}"])
    if plan.answer:
        shown = [("answer", f"It asks: {plan.question}\n\nThe answer: {plan.answer}")]
        sentence = f"answer the question of run {header.id}: {one_line(plan.answer, MOST_SENTENCE)}"
    else:
        shown = [("goal", header.goal), *([("context", header.context)] if header.context else [])]
        sentence = f"let {header.model} work by itself ({limits}): {one_line(header.goal, MOST_SENTENCE)}"
    # Without the id of a run to begin: each preview draws another one, and the effect is the same.
    about = [header.goal, header.context, list(header.toolsets), header.model, limits]
    about.append([header.id, plan.ask, plan.answer] if plan.answer else [])
    preview = CallPreview(
        answer=RunAnswer("", "analysis", "", False, "", None, 0, [], "", 0, 0, None, False, STARTS),  # noqa: FBT003 - in the order of its fields
        sentence=sentence,
        effect=hashlib.sha256(canonical(about)).hexdigest(),
        documents=(),
        # Everything that the model gets: a person must see all of it before they approve.
        files=[shown_change(f"model:{header.model} {what}", None, text) for what, text in shown],
    )
    return CallPlan(
        execute=lambda agreed: carry_out(services, agreed, plan),
        preview=preview,
        # The question of a run may repeat what it has read.
        origins=tuple(await services.taints.of_journey(header.id)) if plan.answer else (),
    )


async def plan_run(services: RunServices, call: Call, arguments: RunArguments) -> RunPlan:
    """Return the run that the call would begin or answer. It is not begun or answered yet.

    If the caller is not trusted, the record of its reading is kept for this call, because a person may approve it much
    later.

    Raises:
        WrongRun: the arguments do not go together. NoSuchRun: the caller has no such run. RunNotThere: it has no open question.
    """
    for name in MOST_CHARACTERS:
        require_short(name, getattr(arguments, name) or "")
    if arguments.run_id is not None or arguments.answer is not None:
        plan = await _plan_answer(services, call, arguments)
    elif not arguments.goal.strip():
        raise WrongRun("'goal' is empty; say what to achieve, or answer a run's question with 'run_id' and 'answer'")
    else:
        toolsets = _toolsets_for_runs(services)
        if unknown := [name for name in arguments.toolsets if name not in toolsets]:
            wrong = one_line(unknown[0], MOST_NAME)
            raise WrongRun(f"there is no toolset {wrong!r} for runs here; use {_list(toolsets)}")
        _require_named_toolsets(call, arguments, toolsets)
        plan = RunPlan(
            Header(
                id=f"r-{secrets.token_hex(10)}",
                goal=arguments.goal,
                context=arguments.context,
                principal=call.principal.id,
                begun_at=services.now(),
                toolsets=tuple(dict.fromkeys(arguments.toolsets)),
                model=services.model.name,
                limits=services.model.run_limits(arguments.max_iterations, float(arguments.timeout_seconds)),
            )
        )
    if not call.trusted:  # by the time a person approves, it may be forgotten that the caller read it
        await services.taints.keep(call.principal.id, _texts_hash(arguments))
    return plan


async def _plan_answer(services: RunServices, call: Call, arguments: RunArguments) -> RunPlan:
    if arguments.run_id is None:
        raise WrongRun("'answer' is given without 'run_id'; name the run that asked")
    if arguments.answer is None or not arguments.answer.strip():
        raise WrongRun("'run_id' is given without 'answer'; agent_trace(run_id) shows the run's status and question")
    usual = RunArguments().model_dump()
    names = ("goal", "context", "toolsets", "max_iterations", "timeout_seconds")
    if others := [name for name in names if getattr(arguments, name) != usual[name]]:
        raise WrongRun(f"{_list(others)} cannot be given with 'run_id': a run keeps the values it started with")
    run = await own_run(services, call, arguments.run_id)
    if run.ask is None:
        raise RunNotThere(run.id, STATE_PHRASES[run.state], "answered")
    await require_answerer(services, run, call.principal.id)
    return RunPlan(run.header, arguments.answer, run.ask.id, run.ask.question)


async def own_run(services: RunViewServices, call: Call, run: str) -> Run:
    """Return a run of the caller.

    Raises:
        NoSuchRun: there is no such run, or it is somebody else's.
    """
    found = await services.runs.store.run(run)
    if found.header.principal != call.principal.id:
        raise NoSuchRun(run)
    return found


def require_short(name: str, text: str) -> None:
    """Check that the text is short enough for that argument.

    Raises:
        WrongRun: it is not.
    """
    if len(text) > MOST_CHARACTERS[name]:
        raise WrongRun(
            f"{name!r} has {len(text):,} characters; at most {MOST_CHARACTERS[name]:,} are allowed. "
            "Put the rest in a page and name that page"
        )


def _require_named_toolsets(call: Call, arguments: RunArguments, toolsets: Sequence[str]) -> None:
    """Check that the run names its toolsets if the caller's credential is limited to some, and names only those.

    The run may continue when the credential is no longer at hand to limit it.
    """
    reach = call.principal.reach
    if reach is None or all(reach.allows(name) for name in toolsets):
        return
    allowed = [name for name in toolsets if reach.allows(name)]
    if not arguments.toolsets or not set(arguments.toolsets) <= set(allowed):
        raise WrongRun(f"{reach.why}; name in 'toolsets' only {_list(allowed)}")


def _toolsets_for_runs(services: RunServices) -> tuple[str, ...]:
    """Return the toolsets of this server with at least one tool that a run may call."""
    return tuple(dict.fromkeys(spec.toolset for spec in services.tools() if spec.name not in WITHHELD))


def pinned(services: RunServices, header: Header) -> Header:
    """Return the header with the run's toolsets: those that it names, else those of this server.

    Another server with more toolsets may resume the run.
    """
    return replace(header, toolsets=header.toolsets or _toolsets_for_runs(services))


def _list(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _texts_hash(arguments: RunArguments) -> str:
    """Return a hash of the texts that a run gets, whatever its limits and its model."""
    return hashlib.sha256(
        canonical([arguments.goal, arguments.context, arguments.run_id, arguments.answer])
    ).hexdigest()


# --- carrying out -----------------------------------------------------------------------------------------------------


def begun_for(call: Call) -> str:
    """Return the id of the run that an approved call begins, so that one approval is one run; "" if nobody was asked."""
    if call.approval is None:
        return ""
    return f"r-{hashlib.sha256(f'agent_run {call.approval.proposal}'.encode()).hexdigest()[:20]}"


async def carry_out(services: RunServices, call: Call, plan: RunPlan) -> RunAnswer:
    """Begin or answer the run, and return it when it is over or waits for a person; at once if the caller does not wait."""
    runs, header = services.runs, pinned(services, plan.header)
    # If a process dies after it began the run, the next one that carries out the approval finds it by this id.
    header = replace(header, id=(not plan.answer and begun_for(call)) or header.id)
    run = header.id
    # A person who approves waits for the outcome, and a run may take an hour.
    aside = call.detached or call.approval is not None
    progress = reporting(call)
    # Before any process can lead it: its first step may already act on what the caller has read.
    await services.taints.carry(call.principal.id, run)
    if call.approval is not None and (before := await _read_before(services, call.approval.proposal)):
        await services.taints.note(call.principal.id, run, before)
    if plan.answer and aside:
        await runs.answer_aside(run, plan.answer, call.principal.id, ask=plan.ask)
    elif plan.answer:
        await runs.answer(run, plan.answer, call.principal.id, ask=plan.ask, progress=progress)
    elif aside:
        await (runs.begin_bounded(header) if call.approval is None else _begin_once(services, header))
        runs.lead_aside(run)
    else:
        await runs.carry(header, progress=progress)
    try:
        origins = await services.taints.of_journey(run)
        if origins:
            await services.taints.note(call.principal.id, "", tuple(origins))
        answer = await answered(services, await runs.store.run(run))
        if origins:
            await services.taints.saw(call.principal.id, [(min(origins), answer.text)])
    except DatabaseUnavailable as error:  # its own sentence says that nothing was changed, but the run was begun
        raise RunLeft(run, error.reason) from error
    return answer


async def _begin_once(services: RunServices, header: Header) -> None:
    """Begin the run, unless another process that carries out the same decision has begun it."""
    try:
        await services.runs.begin(header)
    except RunExists:
        existing = (await services.runs.store.run(header.id)).header
        # The same decision makes the same header in each process, except for the time and the toolsets of the server.
        if replace(existing, begun_at=header.begun_at, toolsets=header.toolsets) != header:
            raise


async def _read_before(services: RunServices, proposal: str) -> Collection[str]:
    """Return the origins of the text that the caller had read when this proposal, or one that it replaced, was made."""
    origins: set[str] = set()
    following: str | None = proposal
    for _ in range(MOST_FOLLOWED):
        one = await services.state.trust.proposal(following) if following else None
        if one is None:
            break
        if one.cut is not None:  # only if an older program recorded it
            raise WrongRun(f"the original call of proposal {one.id} is no longer stored in full; propose it again")
        for arguments in calls_of(one):
            origins |= set(await services.taints.kept(_texts_hash(RunArguments.model_validate(arguments))))
        following = one.origin
    return origins


def reporting(call: Call) -> Callable[[Run, Frame], Awaitable[None]]:
    """Return a function that reports each frame to the caller, without any text from it."""

    async def report(run: Run, frame: Frame) -> None:
        await call.report(frame.number + 1, None, progress_of(run, frame))

    return report


async def recalled(services: RunServices, call: Call, arguments: RunArguments) -> RunAnswer | None:
    """Return the run that a person agreed to, if it was begun or answered before the process died."""
    try:
        run = await own_run(services, call, arguments.run_id or begun_for(call))
    except NoSuchRun:
        return None
    if arguments.run_id is not None:
        answers = [(frame.by, frame.text) for frame in run.frames if isinstance(frame, PersonAnswered)]
        if run.ask is not None or (call.principal.id, arguments.answer) not in answers:
            return None
    return await answered(services, run)


# --- answering --------------------------------------------------------------------------------------------------------


async def answered(services: RunViewServices, run: Run) -> RunAnswer:
    """Return the answer of `agent_run` for the run as it is now."""
    answer = await answer_of(services.state, services.taints, run, services.review_address)
    if run.state == "running" and (why := await services.runs.day.spent()):
        return replace(answer, note=NO_ROOM.format(why=why, goes_on=GOES_ON))
    return answer


async def answer_of(state: StateStore, taints: Taints, run: Run, page: Address) -> RunAnswer:
    """Return the answer of `agent_run` for the run, from its record alone, without a model.

    `page` returns the address of the review page.
    """
    shown, spent = present(run), run.spent
    return RunAnswer(
        run_id=run.id,
        status=shown.status,
        text=shown.text[:MOST_TEXT],
        goal_achieved=shown.goal_achieved,
        question=shown.question[:MOST_TEXT],
        proposal=await _waits_for(state, run, page),
        iterations=shown.iterations,
        tools_called=list(shown.tools_called),
        trace=short_trace(run),
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        cost=None if spent.unpriced else spent.cost_micros / 1_000_000,
        tainted=bool(await taints.of_journey(run.id)),
        note=note_on(shown),
    )


async def _waits_for(state: StateStore, run: Run, page: Address) -> Mapping[str, Any] | None:
    """Return the summary of the proposal that the run waits for."""
    waits = await state.trust.proposal(run.proposal) if run.proposal else None
    return await summary(waits, page) if waits else None


async def trace(services: RunViewServices, call: Call, arguments: TraceArguments) -> RunTrace:
    """Return a page of the run's explanation, with its status and outcome."""
    run = await own_run(services, call, arguments.run_id)
    shown, text = present(run), explain(run)
    if arguments.offset and arguments.offset >= len(text):
        raise WrongRun(f"the explanation has {len(text):,} characters; set offset to next_offset, or to 0")
    end = page_end(text, arguments.offset)
    return RunTrace(
        run_id=run.id,
        status=shown.status,
        answer="" if arguments.offset else shown.text[:MOST_TEXT],
        question=shown.question[:MOST_TEXT],
        proposal=await _waits_for(services.state, run, services.review_address),
        text=text[arguments.offset : end],
        next_offset=end if end < len(text) else None,
        tainted=bool(await services.taints.of_journey(run.id)),
    )


def page_end(text: str, start: int) -> int:
    """Return the end of the page of text that begins at `start`: after a whole line, if the page has one."""
    if len(text) - start <= PAGE:
        return len(text)
    line = text.rfind("\n", start, start + PAGE)
    return line + 1 if line >= start else start + PAGE


async def read_in(services: RunViewServices, _call: Call, trace: RunTrace) -> Sequence[str]:
    """Return the origins of untrusted text that the run has read."""
    return tuple(await services.taints.of_journey(trace.run_id))
