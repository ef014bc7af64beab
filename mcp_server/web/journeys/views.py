"""The content of a journey's page, besides the state itself. Pure.

Models may have written the brief, the recorded work, and the phases of a team's agent. Here these texts are plain; the templates
make them inert.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from markupsafe import Markup

from agents.engine.agent import Agent
from agents.engine.events import Logged, PhaseChanged, Started, ToolError, ToolStart, ToolSuccess, canonical
from agents.engine.graph import Phase, PhaseGraph
from agents.engine.progress.conversations import conversations
from agents.engine.progress.feedback import KINDS
from agents.engine.progress.metrics import PhaseRow, costliest, lasting, slowest
from agents.engine.state import JourneyState
from agents.engine.work.questions import WorkQuestion, open_questions
from agents.engine.work.result import named
from agents.memory_documents import each
from agents.prompts.prompt import recorded_result
from agents.report.overview import (
    KEPT,
    answered_questions,
    kept_feedback,
    newest_feedback,
    phase_rows,
    question_asked,
    redone_because,
)
from agents.report.result import source_lines
from agents.report.sentences import EventSentence, event_sentence, response_facts
from knowledge.trust.ports import Proposal
from mcp_server.web.graph.parts import pictures
from mcp_server.web.graph.svg import JourneyPath, Move
from mcp_server.web.journeys.work_views import WorkHtml, work_html
from mcp_server.web.text.sanitize import sanitize_line, spelled_out
from mcp_server.web.text.values import ANY_LENGTH, LONG_TEXT

STEPS_SHOWN, CALLS_SHOWN = 40, 60
CONVERSATIONS_SHOWN = 60
MOST_NAME = 500
CALLS = (ToolStart, ToolSuccess, ToolError)
"""Events that are shown in a separate list."""


@dataclass(frozen=True, slots=True)
class JourneyPageData:
    """The page's data. `agent` is None if it no longer exists, and `trouble` says so; `log` leaves out the recorded work."""

    journey: str
    state: JourneyState
    agent: Agent | None
    trouble: str
    log: Sequence[Logged]
    proposals: Sequence[Proposal]
    now: datetime
    whole: bool = False
    before: int | None = None
    """Steps from this version on are not shown."""
    newest: int = 0
    """The journey's current version, if an earlier one is shown; else 0."""

    @property
    def until(self) -> datetime:
        """The time that is shown: now, or when the shown version was recorded."""
        return self.log[-1].at if self.newest and self.log else self.now


@dataclass(frozen=True, slots=True)
class WorkView:
    """The newest work of a phase. `facts`: remarks that came with it, and its cost."""

    phase: str
    visit: int
    version: int
    automatic: bool
    content: WorkHtml
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StepView:
    """The events at one version, in sentences, as HTML and as plain text.

    `took` is the time since the previous step, `calls` the number of tool calls.
    """

    version: int
    at: datetime
    by: str
    took: str
    sentences: Sequence[tuple[Markup, EventSentence]]
    calls: int


@dataclass(frozen=True, slots=True)
class CallView:
    """A tool call of the journey. `outcome`: answered, failed, or under way."""

    tool: str
    phase: str
    at: datetime
    outcome: str
    took: str
    text: str


@dataclass(frozen=True, slots=True)
class RowView:
    """The cost of a phase."""

    row: PhaseRow
    time: str
    waited: str
    each: str
    automatic: bool
    slowest: bool
    costliest: bool


def journey_values(seen: JourneyPageData) -> dict[str, Any]:
    """Return the values for the page's template."""
    state, agent = seen.state, seen.agent
    phases = [phase.name for phase in agent.graph.phases] if agent else None
    works = [_work_view(seen, name) for name in sorted(state.work, key=lambda name: -state.work[name].seq)]
    documents = each(agent, state) if agent else ()
    longest = ANY_LENGTH if seen.whole else LONG_TEXT
    steps, older = _steps(seen)
    calls = list(_calls(seen.log))
    feedback = [
        (f"{kind}s", [f for f in state.feedback if f.kind == name and not f.kept]) for name, kind in KINDS.items()
    ]
    feedback.append((KEPT, kept_feedback(state)))
    return {
        "journey": seen.journey,
        "state": state,
        "trouble": seen.trouble,
        # The agent was changed, and no longer has the phase that the journey is in.
        "phase_gone": phases is not None and state.phase not in phases,
        "can_be_led": state.status != "cancelled" and not seen.trouble and not seen.newest,
        "question": question_asked(agent, state),
        "questions": [(field_of(one), one) for one in open_questions(state)],
        "asked_work": next((w for w in works if state.checkpoint and w.phase == state.checkpoint.phase), None),
        "missing": [one.text for one in newest_feedback(state) if one.phase == state.phase],
        "back": redone_because(state)[:1_000],
        "pictures": pictures(_graph(seen), journey_path(state, seen.log)),
        "answers": answered_questions(state),
        "feedback": [found for found in feedback if found[1]],
        "conversations": conversations(seen.log)[-CONVERSATIONS_SHOWN:],
        "documents": documents,
        "result": _result(seen),
        "newest": seen.newest,
        "works": works,
        "steps": steps,
        "older": older,
        "calls": calls[:CALLS_SHOWN],
        "calls_left_out": max(0, len(calls) - CALLS_SHOWN),
        "rows": _rows(seen),
        "proposals": seen.proposals,
        # Spelled out, because a form can't show what is invisible in a name.
        "earlier": [
            spelled_out(name)
            for name in state.phase_visits
            if name != state.phase and (phases is None or name in phases)
        ],
        "longest": longest,
        "folded": len(state.brief) > longest
        or any(work.content.folded for work in works)
        or any(len(one.text) > longest for one in documents),
    }


@dataclass(frozen=True, slots=True)
class ResultView:
    """The journey's result, what it leaves open, and the places that it rests on."""

    title: str
    content: WorkHtml
    left_open: WorkHtml | None
    sources: Sequence[str]


def _result(seen: JourneyPageData) -> ResultView | None:
    """Return the recorded result, or None if nothing of it is recorded yet."""
    found = recorded_result(seen.agent, seen.state)
    if not found.parts:
        return None
    left_open = (
        work_html({part.name: part.value for part in found.left_open}, whole=seen.whole) if found.left_open else None
    )
    sources = [line.removeprefix("- ") for line in source_lines(seen.state)]
    return ResultView(found.title, work_html(named(found.parts), whole=seen.whole), left_open, sources)


def _work_view(seen: JourneyPageData, phase: str) -> WorkView:
    work = seen.state.work[phase]
    content = work_html(work.content, whole=seen.whole)
    return WorkView(phase, work.visit, work.version, work.automatic, content, response_facts(work))


def field_of(one: WorkQuestion) -> str:
    """Return the name of the form field for the answer to that question, and to no other.

    The page is updated while somebody types. A name made from the id alone could carry the typed text over to another question.
    """
    return f"answer-{hashlib.sha256(canonical([one.id, one.question]).encode()).hexdigest()[:12]}"


def answers_in(state: JourneyState, form: Mapping[str, str]) -> dict[str, str]:
    """Return the answers in a form about this state's questions, by question id."""
    filled = {one.id: form.get(field_of(one), "") for one in open_questions(state)}
    return {id_: text.replace("\r\n", "\n").strip() for id_, text in filled.items() if text.strip()}


def _graph(seen: JourneyPageData) -> PhaseGraph:
    """Return the agent's graph; if the agent is gone, a graph to which the drawing adds what the journey visited."""
    if seen.agent is not None:
        return seen.agent.graph
    first = next((logged.event.phase for logged in seen.log if isinstance(logged.event, Started)), seen.state.phase)
    return PhaseGraph(seen.state.agent, (Phase(first),), (), first, ())


def journey_path(state: JourneyState, log: Iterable[Logged]) -> JourneyPath:
    """Return the journey's way through its phases."""
    moves: dict[Move, int] = {}
    for logged in log:
        if isinstance(event := logged.event, PhaseChanged):
            move = Move(event.source, event.target, event.reason, event.is_backward)
            moves[move] = moves.get(move, 0) + 1
    return JourneyPath(state.phase, state.status, state.phase_visits, moves)


def _steps(seen: JourneyPageData) -> tuple[list[StepView], int]:
    """Return a page of steps, newest first, and the version below which older ones continue, 0 at the end."""
    graph = seen.agent.graph if seen.agent else None
    shown, before = list[StepView](), None
    for version, group in groupby(seen.log, key=lambda logged: logged.version):
        events = list(group)
        first = events[0]
        if seen.before is None or version < seen.before:
            took = lasting(max(0.0, (first.at - before).total_seconds())) if before else ""
            sentences = [event_sentence(one.event, graph) for one in events if not isinstance(one.event, CALLS)]
            calls = sum(isinstance(one.event, ToolStart) for one in events)
            shown.append(StepView(version, first.at, first.by, took, [(_html(one), one) for one in sentences], calls))
        before = first.at
    newest = shown[-STEPS_SHOWN:]
    return newest[::-1], newest[0].version if len(newest) < len(shown) else 0


def _html(sentence: EventSentence) -> Markup:
    """Return the sentence as HTML, its names in bold."""
    name = Markup("<bdi><strong>{0}</strong></bdi>")
    names = [name.format(sanitize_line(one[:MOST_NAME])) for one in sentence.names]
    return Markup(sentence.form).format(*names)  # noqa: S704 - the sentences of agents/report, without names


def _calls(log: Sequence[Logged]) -> Iterable[CallView]:
    """Yield the tool calls, newest first."""
    ended = {one.event.call: one.event for one in log if isinstance(one.event, ToolSuccess | ToolError)}
    started = {one.event.call for one in log if isinstance(one.event, ToolStart)}
    for logged in reversed(log):
        event = logged.event
        if isinstance(event, ToolStart):
            yield _call(logged, event, ended.get(event.call))
        elif isinstance(event, ToolError) and event.call not in started:
            # A call that was refused has an end only.
            yield _call(logged, ToolStart(event.call, event.tool, ""), event)


def _call(logged: Logged, begun: ToolStart, end: ToolSuccess | ToolError | None) -> CallView:
    outcome, text = "under way", begun.summary
    if isinstance(end, ToolError):
        outcome, text = "failed", end.error
    elif end is not None:
        facts = ", ".join(f"{name} {value}" for name, value in sorted(end.facts.items()) if value not in (None, ""))
        outcome, text = "answered", "; ".join(part for part in (begun.summary, end.summary, facts) if part)
    took = f"{end.duration_ms:,.0f} ms" if end else ""
    return CallView(begun.tool, begun.phase, logged.at, outcome, took, text[:1_000])


def proposals_in(log: Iterable[Logged]) -> list[str]:
    """Return the proposals that calls of the journey made, newest first."""
    found = [logged.event.facts.get("proposal") for logged in log if isinstance(logged.event, ToolSuccess)]
    return list(dict.fromkeys(str(one) for one in reversed(found) if one))


def _rows(seen: JourneyPageData) -> list[RowView]:
    rows = phase_rows(seen.agent, seen.state, seen.log, seen.until)
    slow, dear = slowest(rows), costliest(rows)
    automatic = {phase.name for phase in seen.agent.graph.phases if phase.automatic} if seen.agent else set[str]()
    return [
        RowView(
            row=row,
            time=lasting(row.seconds),
            waited=lasting(row.waited_s) if row.waited_s else "",
            each=lasting(row.seconds_per_visit),
            automatic=row.phase in automatic,
            slowest=len(rows) > 1 and row == slow,
            costliest=len(rows) > 1 and row == dear,
        )
        for row in rows
    ]
