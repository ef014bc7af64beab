"""A run as people are shown it: plain data with finished sentences. Pure.

The tools, the resources, the terminal and the review page all show runs from here; they only lay it out, and make text of models,
tools and people safe for their own medium.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, assert_never

from agents.engine.work.markdown import one_line
from agents.loop.explanation import describe_frame, describe_spent, state_phrase
from agents.loop.record.frames import (
    Action,
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
from agents.loop.record.run import Run, RunSpent, State

Status = Literal["asking", "proposed", "running", "done", "failed", "cancelled"]
STATES: Mapping[Status, State] = {
    "asking": "asking",
    "proposed": "suspended",
    "running": "running",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""The status that hosts, programs and people see, and the state that the record has."""
MOST_NAME = 60
MOST_TITLE = 120
MOST_TEXT = 20_000
"""Characters of an answer in one result. The frames have the full text."""

ASKS = "Ask the person the question, then call agent_run with run_id and their answer."
WAITS = "The run needs a person to approve the proposal; then it continues by itself. Call agent_trace(run_id) for the result."
GOES_ON = "The run continues by itself. Call agent_trace(run_id) for its status and, at the end, its answer."
NO_ROOM = "The run is waiting because a limit is used up: {why}. {goes_on}"
STARTS = "Nothing has started. If a person approves, proposal_status returns the result with run_id; the run continues by itself."
LACKS = "The goal is not achieved: {why}."
CUT = "The text was shortened: run://{run} has all of it."
_DECIDED: Mapping[Action, str] = {
    "call": "the model chose tools",
    "ask": "the model asks the person",
    "respond": "the model answers",
    "give_up": "the model gives up",
    "correct": "the model's answer is invalid; asking again",
}


@dataclass(frozen=True, slots=True)
class PresentedRun:
    """A run as it is now.

    `phrase` is its state in words ("is done"), `why` the reason why it failed, was cancelled or did not achieve its goal.
    `took` is its time, tokens and cost in words. `text` is its `answer`, or why it ended without one. `ask` is the id of the
    question that a person can answer, "" for none.
    """

    run_id: str
    status: Status
    phrase: str
    why: str
    took: str
    title: str
    goal: str
    context: str
    principal: str
    model: str
    toolsets: Sequence[str]
    limits: RunLimits
    begun: datetime
    moved: datetime
    answer: str
    text: str
    goal_achieved: bool
    question: str
    ask: str
    proposal: str
    iterations: int
    tools_called: Sequence[str]
    frames: int
    spent: RunSpent
    over: bool

    @property
    def limit_rows(self) -> list[tuple[str, str]]:
        """The names and values of its limits and toolsets, for a table."""
        counts = {name: value for name, value in asdict(self.limits).items() if name != "cost_micros"}
        # 15 digits, because `g` alone writes a million as 1e+06.
        rows = [(name.replace("_", " "), f"{value:,.15g}") for name, value in counts.items() if value is not None]
        if self.limits.cost_micros is not None:
            rows.append(("cost", f"{self.limits.cost_micros / 1_000_000:g}"))
        return [*rows, ("toolsets", ", ".join(self.toolsets) or "all")]


@dataclass(frozen=True, slots=True)
class PresentedStep:
    """A frame: what happened in a sentence, and the text that belongs to it."""

    kind: str
    at: datetime
    sentence: str
    text: str
    value: Mapping[str, Any] | None = None


def present(run: Run) -> PresentedRun:
    """Return everything that is shown of the run except its steps."""
    head, response = run.header, run.response
    return PresentedRun(
        run_id=run.id,
        status=status_of(run.state),
        phrase=state_phrase(run),
        why=run.why,
        took=describe_spent(run),
        title=" ".join(head.goal.split())[:MOST_TITLE],
        goal=head.goal,
        context=head.context,
        principal=head.principal,
        model=head.model,
        toolsets=head.toolsets,
        limits=head.limits,
        begun=head.begun_at,
        moved=run.moved_at,
        answer=response.text if response else "",
        text=response.text if response else run.why,
        goal_achieved=bool(response and response.goal_achieved),
        question=run.ask.question if run.ask else "",
        ask=run.ask.id if run.ask else "",
        proposal=run.proposal,
        iterations=run.iterations,
        tools_called=run.tools_called,
        frames=run.count,
        spent=run.spent,
        over=run.over,
    )


def status_of(state: State) -> Status:
    """Return the status of a run in that state."""
    return "proposed" if state == "suspended" else state


def note_on(run: PresentedRun) -> str | None:
    """Return what the host can do now, or why the goal is not achieved; None if it is and the host has all of the text."""
    match run.status:
        case "asking":
            return ASKS
        case "proposed":
            return WAITS
        case "running":
            return GOES_ON
        case "done" | "failed" | "cancelled":
            lacks = LACKS.format(why=run.why) if run.status == "done" and run.why else ""
            cut = CUT.format(run=run.run_id) if len(run.text) > MOST_TEXT else ""
            return " ".join(filter(None, (lacks, cut))) or None


def present_step(frame: Frame) -> PresentedStep:
    """Return a step with the text that belongs to it."""
    sentence, text = _sentence_and_text(frame)
    return PresentedStep(frame.TYPE, frame.at, sentence, text.strip("\n"), _value(frame))


def _value(frame: Frame) -> Mapping[str, Any] | None:
    """Return the arguments of a call or the structured answer, without what has no value; None if the step has only text."""
    value = frame.arguments if isinstance(frame, ToolCallFrame) else None
    value = frame.structured if isinstance(frame, ToolResult) else value
    return {name: one for name, one in value.items() if one is not None} if isinstance(value, Mapping) else None


def _sentence_and_text(frame: Frame) -> tuple[str, str]:
    match frame:
        case PlanFrame():
            # The first line says what happened; the others repeat the texts that are shown below it.
            return next(describe_frame(frame)), frame.problem or frame.reasoning
        case ToolCallFrame():
            return f"{frame.tool} will be called", _json(dict(frame.arguments))
        case ToolResult():
            text = frame.text if frame.structured is None else _json(frame.structured)
            return f"{frame.tool} {_outcome(frame)}, after {frame.milliseconds:.0f} ms", text
        case AskUser():
            return "Asked a person", frame.question
        case PersonAnswered():
            return f"{frame.by} answered", frame.text
        case ResponseFrame():
            return "Gave up" if not (frame.goal_achieved or frame.why) else "The answer", frame.text
        case Control():
            return next(describe_frame(frame)).strip(), ""
    assert_never(frame)


def _outcome(result: ToolResult) -> str:
    if result.unsure:
        return "may or may not have been carried out"
    if result.proposal:
        return "became a proposal"
    if not result.called:
        return "was not carried out"
    return "answered" if result.success else "failed"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def progress_of(run: Run, frame: Frame) -> str:
    """Return a step in a few words without any text of a model, a person, a page or a tool: hosts show it as progress."""
    match frame:
        case PlanFrame():
            return f"iteration {frame.iteration} of {run.header.limits.iterations}: {_DECIDED[frame.next_action]}"
        case ToolCallFrame():
            # The name of a tool that does not exist is text of the model.
            return f"calling {one_line(frame.tool, MOST_NAME)}" if not frame.problem else "an invalid call"
        case ToolResult():
            return _result_progress(frame)
        case AskUser():
            return "a person is asked"
        case PersonAnswered():
            return "a person answered"
        case ResponseFrame():
            return "done" if frame.goal_achieved else "answered without achieving the goal" if frame.why else "gave up"
        case Control():
            return frame.signal.replace("_", " ")
    assert_never(frame)


def _result_progress(result: ToolResult) -> str:
    if not result.called:
        return "a call was not made"
    outcome = "answered" if result.success else "refused or failed"
    if result.unsure:
        outcome = "it is not known whether it was done"
    elif result.proposal:
        outcome = "waiting for approval"
    return f"{one_line(result.tool, MOST_NAME)}: {outcome}"
