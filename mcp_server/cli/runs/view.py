"""Runs as lines of a terminal, and for programs to read. What people, models and tools wrote is made visible. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agents.engine.work.markdown import one_line
from agents.loop.explanation import STATE_PHRASES, describe_frame, describe_spent, explain
from agents.loop.record.frames import (
    AskUser,
    Control,
    Frame,
    PlanFrame,
    ResponseFrame,
    ToolCallFrame,
    ToolResult,
    frame_text,
    header_text,
)
from agents.loop.record.run import Run, State
from agents.loop.store.ports import RunLine
from agents.report.overview import moment_text
from mcp_server.cli.journeys.view import GAP, columns
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.output import json_text

STATES: Mapping[str, State] = {
    "running": "running",
    "asking": "asking",
    "proposed": "suspended",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""How a host is told where a run stands, and how its record calls that."""
MOST_DOING = 60
_NAMES = {state: name for name, state in STATES.items()}
_LISTED: Mapping[State, str] = {**STATE_PHRASES, "running": "running"}
_STYLES: Mapping[type[Frame], str] = {AskUser: "yellow", Control: "yellow", ToolResult: "dim", ToolCallFrame: "cyan"}


def status_of(state: State) -> str:
    """Return what a host is told of a run in that state."""
    return _NAMES[state]


# --- while it is led --------------------------------------------------------------------------------------------------


def step_lines(frame: Frame) -> list[str]:
    """Return a step as lines; the answer itself, which has its own place, is left out."""
    if isinstance(frame, ResponseFrame):
        return []
    lines = [visible(line) for line in describe_frame(frame)]
    return lines[:1] if isinstance(frame, PlanFrame) and frame.next_action == "respond" else lines


def style_of(frame: Frame) -> str:
    """Return rich's style for the lines of a step."""
    wrong = isinstance(frame, ToolResult) and not frame.success and not frame.proposal
    return "red" if wrong else _STYLES.get(type(frame), "")


def doing(run: Run) -> str:
    """Return in a few words what goes on now."""
    if run.state != "running":
        return "it stands"
    if run.open_calls and not run.open_calls[0].problem:
        return visible(f"{one_line(run.open_calls[0].tool, MOST_DOING)} is called")
    return f"asking the model ({run.iterations + 1} of {run.header.limits.iterations})"


def head_line(run: Run) -> str:
    """Return what is being led, in a line."""
    head = run.header
    return visible(f"run {head.id} of {head.principal}, with {head.model}")


def end_line(run: Run) -> str:
    """Return how the run stands and what it took, in a line."""
    gave_up = run.response is not None and not run.response.goal_achieved
    stands = "gave up" if gave_up else STATE_PHRASES[run.state]
    why = f": {one_line(run.why, 400)}" if run.why else ""
    return visible(f"run {run.id} {stands}{why}. Elapsed: {describe_spent(run)}")


def ways_on(run: Run) -> list[str]:
    """Return what a person can do about a run that waits, in lines."""
    if run.state == "asking":
        return [f'answer it: knowledge-forge runs answer {run.id} "..."']
    if run.state == "suspended":
        return [
            f"decide: knowledge-forge review --show {visible(run.proposal)}, then knowledge-forge review in a terminal, or --web",
            f"then resume it: knowledge-forge runs resume {run.id} (a server with the same model does so automatically)",
        ]
    if run.state == "running":
        return [f"follow it: knowledge-forge runs follow {run.id}"]
    return []


# --- for programs -----------------------------------------------------------------------------------------------------


def frame_line(frame: Frame) -> str:
    """Return the frame as it is on record, as JSON in a line of ASCII."""
    return json_text(json.loads(frame_text(frame)))


def header_line(run: Run) -> str:
    """Return what the run began with, likewise."""
    return json_text({"type": "run", **json.loads(header_text(run.header))})


def line_fields(one: RunLine) -> dict[str, object]:
    """Return a run of a list for a program to read."""
    return {
        "run_id": one.id,
        "status": status_of(one.state),
        "title": one.title,
        "principal": one.principal,
        "model": one.model,
        "frames": one.count,
        "begun": one.begun_at.isoformat(timespec="seconds"),
        "moved": one.moved_at.isoformat(timespec="seconds"),
    }


def run_fields(run: Run) -> dict[str, Any]:
    """Return all there is to say of where a run stands, for a program to read."""
    head, response = run.header, run.response
    return {
        "run_id": run.id,
        "status": status_of(run.state),
        "goal": head.goal,
        "context": head.context,
        "principal": head.principal,
        "model": head.model,
        "toolsets": list(head.toolsets),
        "limits": asdict(head.limits),
        "begun": head.begun_at.isoformat(timespec="seconds"),
        "moved": run.moved_at.isoformat(timespec="seconds"),
        "text": response.text if response else run.why,
        "goal_achieved": bool(response and response.goal_achieved),
        "question": run.ask.question if run.ask else "",
        "proposal": run.proposal,
        "iterations": run.iterations,
        "tools_called": list(run.tools_called),
        "frames": run.count,
        "spent": asdict(run.spent),
        "explanation": explain(run),
    }


# --- on record --------------------------------------------------------------------------------------------------------


def listed(lines: Sequence[RunLine]) -> list[str]:
    """Return a line for each run: id, where it stands, when it moved last, whose it is, the model, and what it is to do."""
    return columns(
        [
            (one.id, _LISTED.get(one.state, one.state), moment_text(one.moved_at), one.principal, one.model, one.title)
            for one in lines
        ]
    )


def waiting_line(one: RunLine) -> str:
    """Return a run that asks a person as a line among other things that wait."""
    return visible(f"{one.id}{GAP}run{GAP}{one.principal}{GAP}asks: {one.title} (knowledge-forge runs show {one.id})")


def shown(run: Run) -> list[str]:
    """Return the run in words, made of its record alone, and what can be done about it."""
    told = [visible(line) for line in explain(run).split("\n")]
    if run.ask:
        told += ["", "It asks:", *question_lines(run)]
    if run.response:
        told += ["", "Its answer:", *answer_lines(run)]
    return [*told, *([""] if ways_on(run) else []), *ways_on(run)]


def question_lines(run: Run) -> list[str]:
    """Return what the run asks, quoted line by line: a model wrote it, and none of it passes for this program's own."""
    return [f"> {visible(line)}".rstrip() for line in run.ask.question.split("\n")] if run.ask else []


def answer_lines(run: Run) -> list[str]:
    """Return what the run has to say, in lines; none if it did not come to that."""
    return [visible(line) for line in run.response.text.rstrip("\n").split("\n")] if run.response else []
