"""What callers are told of a run beside its own text: where it stands, what to do where it waits, each step of it. Pure."""

from __future__ import annotations

from typing import Literal, assert_never

from agents.engine.work.markdown import one_line
from agents.loop.record.frames import (
    Action,
    AskUser,
    Control,
    Frame,
    PersonAnswered,
    PlanFrame,
    ResponseFrame,
    ToolCallFrame,
    ToolResult,
)
from agents.loop.record.run import Run

Status = Literal["done", "failed", "cancelled", "asking", "proposed", "running"]
MOST_NAME = 60
MOST_TEXT = 20_000
"""Characters of an answer that a caller is told at once; the frames hold all of it."""

ASKS = "Ask the person the question, then call agent_run with run_id and their answer."
WAITS = "The run needs a person to approve the proposal; then it continues by itself. Call agent_trace(run_id) for the result."
GOES_ON = "The run continues by itself. Call agent_trace(run_id) for its status and, at the end, its answer."
NO_ROOM = "The run is waiting because a limit is used up: {why}. {goes_on}"
STARTS = "Nothing has started. If a person approves, proposal_status returns the result with run_id; the run continues by itself."
CUT = "The text was shortened: run://{run} has all of it."
_DECIDED: dict[Action, str] = {
    "call": "the model chose tools",
    "ask": "the model asks the person",
    "respond": "the model answers",
    "give_up": "the model gives up",
    "correct": "the model's answer is invalid; asking again",
}


def status_of(run: Run) -> Status:
    """Return where the run stands, as callers are told."""
    return "proposed" if run.state == "suspended" else run.state


def ended_with(run: Run) -> str:
    """Return the whole answer of the run, or why it ended without one."""
    return run.response.text if run.response else run.why


def note_on(run: Run) -> str | None:
    """Return what the caller can do now; None where the run is over and all of it is told."""
    match status_of(run):
        case "asking":
            return ASKS
        case "proposed":
            return WAITS
        case "running":
            return GOES_ON
        case "done" | "failed" | "cancelled":
            return CUT.format(run=run.id) if len(ended_with(run)) > MOST_TEXT else None


def step(run: Run, frame: Frame) -> str:
    """Return the step in a few words, without any text of a model, a person, a page or a tool."""
    match frame:
        case PlanFrame():
            return f"iteration {frame.iteration} of {run.header.limits.iterations}: {_DECIDED[frame.next_action]}"
        case ToolCallFrame():
            return f"calling {_name(frame.tool)}" if not frame.problem else "an invalid call"
        case ToolResult():
            return f"{_name(frame.tool)}: {_came(frame)}" if frame.called else "a call was not made"
        case AskUser():
            return "a person is asked"
        case PersonAnswered():
            return "a person answered"
        case ResponseFrame():
            return "done" if frame.goal_achieved else "gave up"
        case Control():
            return frame.signal.replace("_", " ")
    assert_never(frame)


def _name(tool: str) -> str:
    """Return a tool's name: what is called is one of those that there are."""
    return one_line(tool, MOST_NAME)


def _came(result: ToolResult) -> str:
    if result.unsure:
        return "it is not known whether it was done"
    if result.proposal:
        return "waiting for approval"
    return "answered" if result.success else "refused or failed"
