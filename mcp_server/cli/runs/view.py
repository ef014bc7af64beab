"""Runs as lines of a terminal, and for programs to read. Text of people, models and tools is made visible. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agents.engine.work.markdown import one_line
from agents.loop.explanation import STATE_PHRASES, describe_frame, explain
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
from mcp_server.presenters.run import present, status_of

MOST_DOING, MOST_WHY = 60, 400
_LISTED: Mapping[State, str] = {**STATE_PHRASES, "running": "running"}
_STYLES: Mapping[type[Frame], str] = {AskUser: "yellow", Control: "yellow", ToolResult: "dim", ToolCallFrame: "cyan"}


# --- while it is led --------------------------------------------------------------------------------------------------


def step_lines(frame: Frame) -> list[str]:
    """Return a step as lines, without the answer itself, which is printed at the end."""
    if isinstance(frame, ResponseFrame):
        return []
    lines = [visible(line) for line in describe_frame(frame)]
    return lines[:1] if isinstance(frame, PlanFrame) and frame.next_action == "respond" else lines


def style_of(frame: Frame) -> str:
    """Return rich's style for the lines of a step."""
    failed = isinstance(frame, ToolResult) and not frame.success and not frame.proposal
    return "red" if failed else _STYLES.get(type(frame), "")


def doing(run: Run) -> str:
    """Return in a few words what the run does now."""
    if run.state != "running":
        return "waiting or over"
    if run.open_calls and not run.open_calls[0].problem:
        return visible(f"calling {one_line(run.open_calls[0].tool, MOST_DOING)}")
    return f"asking the model ({run.iterations + 1} of {run.header.limits.iterations})"


def head_line(run: Run) -> str:
    """Return the run's id, principal and model, in a line."""
    head = run.header
    return visible(f"run {head.id} of {head.principal}, with {head.model}")


def end_line(run: Run) -> str:
    """Return the run's state and cost in one line."""
    shown = present(run)
    why = f": {one_line(shown.why, MOST_WHY)}" if shown.why else ""
    return visible(f"run {run.id} {shown.phrase}{why}. Elapsed: {shown.took}")


def next_steps(run: Run) -> list[str]:
    """Return lines that say what a person can do about a run that has not ended."""
    if run.state == "asking":
        return [f'answer it: knowledge-forge runs answer {run.id} "..."']
    if run.state == "suspended":
        return [
            f"decide: knowledge-forge review --show {visible(run.proposal)}, then knowledge-forge review in a terminal, or --web",
            f"then resume it: knowledge-forge runs resume {run.id} (a server with the same model does so automatically)",
        ]
    return [f"follow it: knowledge-forge runs follow {run.id}"] if run.state == "running" else []


# --- for programs -----------------------------------------------------------------------------------------------------


def frame_line(frame: Frame) -> str:
    """Return the stored frame as JSON in a line of ASCII."""
    return json_text(json.loads(frame_text(frame)))


def header_line(run: Run) -> str:
    """Return the stored header as JSON in a line of ASCII."""
    return json_text({"type": "run", **json.loads(header_text(run.header))})


def line_fields(one: RunLine) -> dict[str, object]:
    """Return the JSON fields of a run in a list."""
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
    """Return the run as JSON fields, without its frames."""
    shown = present(run)
    fields = asdict(shown)
    # Sentences for people; programs have the fields that they are made from.
    for name in ("phrase", "why", "took", "title", "answer", "ask", "over"):
        del fields[name]
    times = {name: fields[name].isoformat(timespec="seconds") for name in ("begun", "moved")}
    return {**fields, **times, "explanation": explain(run)}


# --- on record --------------------------------------------------------------------------------------------------------


def listed(lines: Sequence[RunLine]) -> list[str]:
    """Return a line for each run: id, state, last change, principal, model, and the beginning of its goal."""
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
    """Return the explanation of the run, its question or answer, and what a person can do, in lines."""
    lines = [visible(line) for line in explain(run).split("\n")]
    if run.ask:
        lines += ["", "It asks:", *question_lines(run)]
    if run.response:
        lines += ["", "Its answer:", *answer_lines(run)]
    following = next_steps(run)
    return [*lines, *([""] if following else []), *following]


def question_lines(run: Run) -> list[str]:
    """Return the question of the run, quoted line by line, so that no line passes for text of this program."""
    return [f"> {visible(line)}".rstrip() for line in run.ask.question.split("\n")] if run.ask else []


def answer_lines(run: Run) -> list[str]:
    """Return the answer of the run in lines; none if it has no answer."""
    return [visible(line) for line in run.response.text.rstrip("\n").split("\n")] if run.response else []
