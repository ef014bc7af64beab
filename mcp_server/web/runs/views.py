"""A run of `agent_run` as its page shows it: what it is to reach, each step and why, what it asks. Pure.

Models, tools and hosts wrote nearly all of it: it is shown inert.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, assert_never
from urllib.parse import quote

from markupsafe import Markup

from agents.loop.explanation import STATE_PHRASES, describe_frame, describe_spent
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
from agents.loop.record.run import Run
from agents.loop.store.ports import RunLine
from mcp_server.toolsets.runs.sentences import status_of
from mcp_server.web.text.sanitize import sanitize_line
from mcp_server.web.text.values import ANY_LENGTH, LONG_TEXT, Moment, ShownText, folded, moment

PROPOSED = {"suspended": "proposed"}


@dataclass(frozen=True, slots=True)
class RunLineView:
    """A run as one line of a list."""

    id: str
    address: str
    title: Markup
    status: str
    principal: Markup
    model: Markup
    moved: Moment


@dataclass(frozen=True, slots=True)
class FrameView:
    """A frame: what happened in a sentence, and the text that belongs to it."""

    number: int
    kind: str
    sentence: Markup
    at: Moment
    text: ShownText


@dataclass(frozen=True, slots=True)
class RunView:
    """Everything that the page of one run shows. `asks` is the id of the question that can be answered, "" for none."""

    id: str
    address: str
    title: Markup
    status: str
    stands: Markup
    principal: Markup
    model: Markup
    begun: Moment
    moved: Moment
    goal: ShownText
    context: ShownText
    bounds: Sequence[tuple[str, str]]
    took: str
    asks: str
    question: ShownText
    proposal: str
    answer: ShownText
    achieved: bool
    over: bool
    steps: Sequence[FrameView]
    left_out: bool


def address_of(run: str) -> str:
    """Return where the run's page is."""
    return f"/runs/{quote(run, safe='')}"


def run_line(line: RunLine, now: datetime) -> RunLineView:
    """Return the run as one line."""
    return RunLineView(
        id=line.id,
        address=address_of(line.id),
        title=sanitize_line(line.title),
        status=PROPOSED.get(line.state, line.state),
        principal=sanitize_line(line.principal),
        model=sanitize_line(line.model),
        moved=moment(line.moved_at, now),
    )


def run_view(run: Run, now: datetime, *, whole: bool = False) -> RunView:
    """Return everything that the page shows of the run; without `whole` long texts are folded."""
    head, longest = run.header, ANY_LENGTH if whole else LONG_TEXT
    steps = [_step(frame, now, longest) for frame in run.frames]
    goal, context = folded(head.goal, longest), folded(head.context, longest)
    answer = folded(run.response.text if run.response else "", longest)
    return RunView(
        id=run.id,
        address=address_of(run.id),
        title=sanitize_line(" ".join(head.goal.split())[:120]),
        status=status_of(run),
        stands=sanitize_line(f"The run {STATE_PHRASES[run.state]}{f': {run.why}' if run.why else ''}."),
        principal=sanitize_line(head.principal),
        model=sanitize_line(head.model),
        begun=moment(head.begun_at, now),
        moved=moment(run.moved_at, now),
        goal=goal,
        context=context,
        bounds=[*_bounds(head.limits), ("toolsets", ", ".join(head.toolsets) or "all")],
        took=describe_spent(run),
        asks=run.ask.id if run.ask else "",
        question=folded(run.ask.question if run.ask else "", ANY_LENGTH),
        proposal=run.proposal,
        answer=answer,
        achieved=bool(run.response and run.response.goal_achieved),
        over=run.over,
        steps=steps,
        left_out=any(text.left_out for text in (goal, context, answer, *(step.text for step in steps))),
    )


def _bounds(limits: RunLimits) -> list[tuple[str, str]]:
    counts = {name: value for name, value in asdict(limits).items() if name != "cost_micros" and value is not None}
    told = [(name.replace("_", " "), f"{value:,.15g}") for name, value in counts.items()]
    return told if limits.cost_micros is None else [*told, ("cost", f"{limits.cost_micros / 1_000_000:g}")]


def _step(frame: Frame, now: datetime, longest: int) -> FrameView:
    sentence, text = _said(frame)
    return FrameView(
        frame.number, frame.TYPE, sanitize_line(sentence), moment(frame.at, now), folded(text.strip("\n"), longest)
    )


def _said(frame: Frame) -> tuple[str, str]:
    """Return what happened in a sentence, and the text that belongs to it."""
    match frame:
        case PlanFrame():
            return next(describe_frame(frame)), frame.problem or frame.reasoning
        case ToolCallFrame():
            return f"{frame.tool} will be called", _json(dict(frame.arguments))
        case ToolResult():
            return f"{frame.tool} {_came(frame)}, after {frame.milliseconds:.0f} ms", _result(frame)
        case AskUser():
            return "Asked a person", frame.question
        case PersonAnswered():
            return f"{frame.by} answered", frame.text
        case ResponseFrame():
            return "The answer" if frame.goal_achieved else "Gave up", frame.text
        case Control():
            return next(describe_frame(frame)).strip(), ""
    assert_never(frame)


def _came(result: ToolResult) -> str:
    if result.unsure:
        return "may or may not have been carried out"
    if result.proposal:
        return "became a proposal"
    if not result.called:
        return "was not carried out"
    return "answered" if result.success else "failed"


def _result(result: ToolResult) -> str:
    return _json(result.structured) if result.structured is not None else result.text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
