"""A run in words, for whoever was not there: made of its frames alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from agents.engine.events import canonical
from agents.engine.work.markdown import counted, one_line
from agents.loop.record.frames import (
    AskUser,
    Control,
    Frame,
    PersonAnswered,
    PlanFrame,
    ResponseFrame,
    RunLimits,
    ToolCallFrame,
    ToolResult,
)
from agents.loop.record.run import Run, State
from knowledge.history.timestamps import utc_text

MOST_TEXT, MOST_ARGUMENTS, MOST_TRACE = 400, 240, 120
"""Characters of what a model or a tool said, of what a tool was given, and of each line of a trace. Frames hold all of it."""
STANDS: dict[State, str] = {
    "running": "is being led, or can be led on",
    "asking": "waits for a person's answer",
    "suspended": "waits for a person's decision",
    "done": "is done",
    "failed": "failed",
    "cancelled": "was cancelled",
}
_DID = {
    "limit_reached": "A limit was reached",
    "cancelled": "It was cancelled",
    "suspended": "A person has to decide first",
    "resumed": "A person decided",
    "taken_up": "Another process took it up",
    "left": "The process that led it could not ask the model, and left it to others",
    "shortened": "The model had no room, and is told less from here on",
    "provider_failed": "The model could not be asked",
    "failed": "It could not go on",
}


def explained(run: Run) -> str:
    """Return the whole run as lines of plain text: what it was to do, each step and why, how it ended, what it took."""
    head = run.header
    lines = [
        f"Run {head.id} of {one_line(head.principal, MOST_TEXT)}, started {utc_text(head.begun_at)}",
        f"Goal: {one_line(head.goal, MOST_TEXT)}",
        *([f"Context: {one_line(head.context, MOST_TEXT)}"] if head.context else []),
        *([f"Model: {one_line(head.model, MOST_TEXT)}"] if head.model else []),
        f"Bounds: {_bounds(head.limits)}",
        "",
        *(line for frame in run.frames for line in told_of(frame)),
        "",
        f"The run {STANDS[run.state]}{f': {one_line(run.why, MOST_TEXT)}' if run.why else ''}. It took {taken(run)}.",
        *(_open(call) for call in run.open_calls),
    ]
    return "\n".join(lines)


def traced(run: Run) -> str:
    """Return the run so far in a few lines: of each iteration what was said or called, and what came of it."""
    return "\n".join(_line(run, frame) for frame in run.frames if isinstance(frame, PlanFrame))


def taken(run: Run) -> str:
    """Return what the run took, in words."""
    spent = run.spent
    tokens = f"{counted(spent.tokens_in, 'token')} in and {spent.tokens_out} out"
    told = f"{counted(run.iterations, 'iteration')}, {spent.seconds:.1f} s, {tokens}"
    if spent.cost_micros:
        told += f", a cost of {spent.cost_micros / 1_000_000:.6f}"
    return told + (" and more that nobody knows the price of" if spent.unpriced and spent.cost_micros else "")


def _bounds(limits: RunLimits) -> str:
    told = [counted(limits.iterations, "iteration"), f"{limits.seconds:g} s"]
    told += [counted(limits.tokens, "token")] if limits.tokens is not None else []
    told += [f"a cost of {limits.cost_micros / 1_000_000:.6f}"] if limits.cost_micros is not None else []
    return ", ".join(told)


def told_of(frame: Frame) -> Iterator[str]:
    """Yield one step as lines of plain text, as they stand in `explained`."""
    match frame:
        case PlanFrame():
            asked = f"{counted(frame.tokens_in, 'token')} in, {frame.tokens_out} out"
            yield f"{frame.iteration}. The model {_decided(frame)} ({asked}, {frame.milliseconds:.0f} ms)"
            if frame.reasoning:
                yield f"   It said: {one_line(frame.reasoning, MOST_TEXT)}"
        case ToolCallFrame(tool=tool, arguments=arguments):
            yield f"   Call {frame.id}: {one_line(tool, MOST_TEXT)} with {one_line(canonical(dict(arguments)), MOST_ARGUMENTS)}"
        case ToolResult():
            yield f"   Result of {frame.call} after {frame.milliseconds:.0f} ms: {_came(frame)}"
        case AskUser(question=question):
            yield f"   Asked the person: {one_line(question, MOST_TEXT)}"
        case PersonAnswered(text=text, by=by):
            yield f"   {one_line(by, MOST_TEXT)} answered: {one_line(text, MOST_TEXT)}"
        case ResponseFrame(text=text, goal_achieved=achieved):
            yield f"   {'Answer' if achieved else 'Gave up'}: {one_line(text, MOST_TEXT)}"
        case Control(signal=signal, detail=detail):
            yield f"   {_DID[signal]}: {one_line(detail, MOST_TEXT)}"


def _decided(plan: PlanFrame) -> str:
    match plan.next_action:
        case "call":
            return "decided to call tools"
        case "ask":
            return "decided to ask the person"
        case "respond":
            return "answered"
        case "give_up":
            return "gave up"
        case "correct":
            return f"gave an answer that could not be used: {one_line(plan.problem, MOST_TEXT)}"


def _came(result: ToolResult) -> str:
    if result.unsure:
        return f"nobody knows whether it was done: {one_line(result.error, MOST_TEXT)}"
    if result.proposal:
        return f"not done, it became proposal {result.proposal}"
    if not result.called:
        return one_line(result.error, MOST_TEXT)
    return one_line(result.text, MOST_TEXT) if result.success else f"failed: {one_line(result.error, MOST_TEXT)}"


def _open(call: ToolCallFrame) -> str:
    return f"Call {call.id} of {one_line(call.tool, MOST_TEXT)} has no result on record."


def _line(run: Run, plan: PlanFrame) -> str:
    results = {frame.call: frame for frame in run.frames if isinstance(frame, ToolResult)}
    calls = [call for call in run.calls if call.plan == plan.id]
    told = [f"{call.tool} ({_short(results.get(call.id))})" for call in calls]
    return one_line(f"{plan.iteration}. {', '.join(told) or _decided(plan)}", MOST_TRACE)


def _short(result: ToolResult | None) -> str:
    if result is None:
        return "no result"
    if result.unsure:
        return "not known whether done"
    if result.proposal:
        return "proposed"
    if not result.called:
        return "not called"
    return "done" if result.success else "failed"
