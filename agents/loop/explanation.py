"""A run in words, for people who did not watch it: made from its frames alone. Pure."""

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
    Signal,
    ToolCallFrame,
    ToolResult,
)
from agents.loop.record.run import Run, State
from knowledge.history.timestamps import utc_text

MOST_TEXT, MOST_ARGUMENTS, MOST_TRACE = 400, 240, 120
"""Characters of a model's or tool's text, of a tool's arguments, and of each line of a trace. The frames have the full text."""
STATE_PHRASES: dict[State, str] = {
    "running": "is running, or can be resumed",
    "asking": "waits for a person's answer",
    "suspended": "waits for a person's decision",
    "done": "is done",
    "failed": "failed",
    "cancelled": "was cancelled",
}
_HAPPENED: dict[Signal, str] = {
    "limit_reached": "A limit was reached",
    "cancelled": "It was cancelled",
    "suspended": "A person has to decide first",
    "resumed": "A person decided",
    "taken_up": "Another process took it up",
    "left": "Its process could not reach the model and left the run to others",
    "shortened": "The history was too long for the model and is shortened from here on",
    "provider_failed": "The model could not be asked",
    "failed": "It could not continue",
}
_DECIDED = {
    "call": "decided to call tools",
    "ask": "decided to ask the person",
    "respond": "answered",
    "give_up": "gave up",
    "correct": "gave an answer that could not be used",
}


def explain(run: Run) -> str:
    """Return the whole run as lines of plain text: its goal, each step with its reason, its end, and its cost."""
    head = run.header
    lines = [
        f"Run {head.id} of {one_line(head.principal, MOST_TEXT)}, started {utc_text(head.begun_at)}",
        f"Goal: {one_line(head.goal, MOST_TEXT)}",
        *([f"Context: {one_line(head.context, MOST_TEXT)}"] if head.context else []),
        *([f"Model: {one_line(head.model, MOST_TEXT)}"] if head.model else []),
        f"Bounds: {', '.join(limit_phrases(head.limits, cost='.6f'))}",
        "",
        *(line for frame in run.frames for line in describe_frame(frame)),
        "",
        f"{describe_state(run, MOST_TEXT)} It took {describe_spent(run)}.",
        *(f"Call {call.id} of {one_line(call.tool, MOST_TEXT)} has no result on record." for call in run.open_calls),
    ]
    return "\n".join(lines)


def short_trace(run: Run) -> str:
    """Return the run so far in a few lines: for each iteration the text or the calls, and their outcomes."""
    results = {frame.call: frame for frame in run.frames if isinstance(frame, ToolResult)}
    calls: dict[str, list[str]] = {}
    for call in run.calls:
        calls.setdefault(call.plan, []).append(f"{call.tool} ({_outcome(results.get(call.id))})")
    plans = [frame for frame in run.frames if isinstance(frame, PlanFrame)]
    return "\n".join(
        one_line(f"{plan.iteration}. {', '.join(calls.get(plan.id, ())) or _decided(plan)}", MOST_TRACE)
        for plan in plans
    )


def describe_state(run: Run, most: int) -> str:
    """Return the state of the run as a sentence, with at most this many characters of the reason."""
    return f"The run {state_phrase(run)}{f': {one_line(run.why, most)}' if run.why else ''}."


def state_phrase(run: Run) -> str:
    """Return the state of the run in words that follow "the run"."""
    if run.response is None or run.response.goal_achieved:
        return STATE_PHRASES[run.state]
    return "ended without achieving its goal" if run.why else "gave up"


def describe_spent(run: Run) -> str:
    """Return the cost of the run, in words."""
    spent = run.spent
    tokens = f"{counted(spent.tokens_in, 'token')} in and {spent.tokens_out} out"
    words = f"{counted(run.iterations, 'iteration')}, {spent.seconds:.1f} s, {tokens}"
    if spent.cost_micros:
        words += f", a cost of {spent.cost_micros / 1_000_000:.6f}"
    return words + (" and more at an unknown price" if spent.unpriced and spent.cost_micros else "")


def limit_phrases(limits: RunLimits, *, cost: str) -> list[str]:
    """Return the limits of a run that a person or a host sets, in words; `cost` is the format of its number."""
    phrases = [counted(limits.iterations, "iteration"), f"{limits.seconds:g} s"]
    phrases += [counted(limits.tokens, "token")] if limits.tokens is not None else []
    phrases += [f"a cost of {limits.cost_micros / 1_000_000:{cost}}"] if limits.cost_micros is not None else []
    return phrases


def describe_frame(frame: Frame) -> Iterator[str]:
    """Yield one step as lines of plain text, as `explain` has them."""
    match frame:
        case PlanFrame():
            tokens = f"{counted(frame.tokens_in, 'token')} in, {frame.tokens_out} out"
            yield f"{frame.iteration}. The model {_decided(frame)} ({tokens}, {frame.milliseconds:.0f} ms)"
            if frame.reasoning:
                yield f"   It said: {one_line(frame.reasoning, MOST_TEXT)}"
        case ToolCallFrame(tool=tool, arguments=arguments):
            given = one_line(canonical(dict(arguments)), MOST_ARGUMENTS)
            yield f"   Call {frame.id}: {one_line(tool, MOST_TEXT)} with {given}"
        case ToolResult():
            yield f"   Result of {frame.call} after {frame.milliseconds:.0f} ms: {_result(frame)}"
        case AskUser(question=question):
            yield f"   Asked the person: {one_line(question, MOST_TEXT)}"
        case PersonAnswered(text=text, by=by):
            yield f"   {one_line(by, MOST_TEXT)} answered: {one_line(text, MOST_TEXT)}"
        case ResponseFrame(text=text, goal_achieved=achieved, why=why):
            yield f"   {'Answer' if achieved or why else 'Gave up'}: {one_line(text, MOST_TEXT)}"
            if why:
                yield f"   The goal is not achieved: {why}"
        case Control(signal=signal, detail=detail):
            yield f"   {_HAPPENED[signal]}: {one_line(detail, MOST_TEXT)}"


def _decided(plan: PlanFrame) -> str:
    problem = f": {one_line(plan.problem, MOST_TEXT)}" if plan.next_action == "correct" else ""
    return f"{_DECIDED[plan.next_action]}{problem}"


def _result(result: ToolResult) -> str:
    if result.unsure:
        return f"it is not known whether it was done: {one_line(result.error, MOST_TEXT)}"
    if result.proposal:
        return f"not done, it became proposal {result.proposal}"
    if not result.called:
        return one_line(result.error, MOST_TEXT)
    return one_line(result.text, MOST_TEXT) if result.success else f"failed: {one_line(result.error, MOST_TEXT)}"


def _outcome(result: ToolResult | None) -> str:
    if result is None:
        return "no result"
    if result.unsure:
        return "not known whether done"
    if result.proposal:
        return "proposed"
    if not result.called:
        return "not called"
    return "done" if result.success else "failed"
