"""Journeys as lines of a terminal. What people and models wrote is made visible where it would not be seen as it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from agents.engine.agent import Agent
from agents.engine.events import (
    Completed,
    Decided,
    ErrorRaised,
    Event,
    FeedbackAdded,
    Forked,
    Logged,
    PhaseChanged,
    QuestionAdded,
    SourceFound,
    Speaking,
    Started,
    Step,
    Thinking,
    ToolError,
    ToolStart,
    ToolSuccess,
    said,
)
from agents.engine.progress.metrics import PhaseAverage, bottleneck, lasting
from agents.engine.state import JourneyState, Status, get_state
from agents.engine.work.markdown import one_line, work_lines
from agents.engine.work.questions import open_questions
from agents.prompts.prompt import done_lines, question
from agents.report.journey_report import moment_text
from agents.report.spent import times
from agents.store.ports import JourneyLine
from mcp_server.cli.terminal.escape import visible

STATES: Mapping[Status, str] = {
    "active": "active",
    "waiting": "waiting for a person",
    "complete": "complete",
    "cancelled": "cancelled",
}
MOST_SAID, MOST_BRIEF = 200, 1_000
MOST_WORK = 12_000
GAP = "  "


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows with their cells one below the other; what comes last keeps its own length."""
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [
        GAP.join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)), row[-1]]).rstrip()
        for row in shown
    ]


def listed(lines: Sequence[JourneyLine]) -> list[str]:
    """Return a line for each journey: id, where it stands, when it moved last, and the beginning of its brief."""
    return columns(
        [(one.id, STATES.get(one.status, one.status), one.phase, moment_text(one.moved_at), one.title) for one in lines]
    )


def waiting_line(one: JourneyLine) -> str:
    """Return a journey that waits for a person as a line among other things that wait."""
    told = f"{one.id}{GAP}journey{GAP}{one.principal}{GAP}{one.agent}, {one.phase}: {one.title}"
    return visible(f"{told} (knowledge-forge journeys show {one.id})")


def line_fields(one: JourneyLine) -> dict[str, object]:
    """Return a journey of a list for a program to read."""
    return {
        "journey_id": one.id,
        "agent": one.agent,
        "title": one.title,
        "state": one.status,
        "waits_for_person": one.status == "waiting",
        "phase": one.phase,
        "version": one.version,
        "principal": one.principal,
        "started": one.started_at.isoformat(timespec="seconds"),
        "moved": one.moved_at.isoformat(timespec="seconds"),
    }


def state_fields(journey: str, agent: Agent | None, state: JourneyState) -> dict[str, object]:
    """Return all of a journey's state for a program to read, and what a person is asked, "" if nothing."""
    return {"journey_id": journey, "question": question(agent, state) if agent else "", **get_state(state)}


def shown(journey: str, agent: Agent | None, state: JourneyState) -> list[str]:
    """Return where a journey stands, what a person is asked about it, and the work of the phase that this is about."""
    asked = state.checkpoint.phase if state.checkpoint else state.phase
    name = agent.title if agent else state.agent
    at = f"version {state.version}, {STATES[state.status]} in {state.phase} (visit {state.visit})"
    told = [
        f"{name}: {one_line(state.brief, MOST_BRIEF)}",
        f"{journey}, {at} since {moment_text(state.moved_at)}",
        f"started {moment_text(state.started_at)} for {state.principal}",
    ]
    if state.forked_from:
        told.append(f"forked from {state.forked_from} at version {state.forked_at}")
    told += _back(state)
    if agent and (done := done_lines(agent, state)):
        told += ["", "Done so far:", *(f"- {one_line(line, MOST_SAID)}" for line in done)]
    told += [*_missing(state), *work_of(state, asked), *_answered(state), *_question(journey, agent, state)]
    return [visible(line) for line in told]


def _answered(state: JourneyState) -> list[str]:
    """Return what people answered, each question with its answer."""
    said = [(phase, one) for phase, answers in state.answers.items() for one in answers.values()]
    lines = [
        f"- {phase}: {one_line(one['question'], MOST_SAID)} {one_line(one['answer'], MOST_SAID)}" for phase, one in said
    ]
    return ["", "A person answered:", *lines] if lines else []


def _back(state: JourneyState) -> list[str]:
    if state.backward_trigger is None or state.over:
        return []
    detail = f": {one_line(state.backward_trigger_detail, MOST_SAID)}" if state.backward_trigger_detail else ""
    return [f"redone because of {state.backward_trigger}{detail}"]


def _missing(state: JourneyState) -> list[str]:
    newest = [f for f in state.feedback if f.version == state.version and not state.over]
    return ["", "Still missing:", *(f"- {one_line(f.text, MOST_SAID)}" for f in newest)] if newest else []


def work_of(state: JourneyState, phase: str) -> list[str]:
    """Return the recorded work of a phase, below a line that names it; nothing if there is none."""
    kept = state.work.get(phase)
    if kept is None:
        return []
    lines = work_lines(kept.content, MOST_WORK) or ["- nothing"]
    return ["", f"Recorded for {phase} (visit {kept.visit}, version {kept.version}):", *lines]


def _question(journey: str, agent: Agent | None, state: JourneyState) -> list[str]:
    asked = state.checkpoint
    if asked is None:
        return []
    if asked.asks:
        return ["", *_asking(state), f"knowledge-forge journeys answer {journey}"]
    told = (question(agent, state) if agent else "") or f"Continue from {asked.phase} to {asked.target}?"
    own = " (must be answered by the person, not relayed)" if asked.own_hand else ""
    head = "Decision needed" if asked.kind == "blocking" else "You can still decide"
    return [
        "",
        f"{head}{own}: {one_line(told, MOST_BRIEF)}",
        f"knowledge-forge journeys decide {journey} approve|modify|reject [--note TEXT]",
    ]


def _asking(state: JourneyState) -> list[str]:
    """Return the questions that a person is asked, each as a line."""
    told = [f"- {one.id}: {one.question}" + (f" ({one.why})" if one.why else "") for one in open_questions(state)]
    return ["Questions to answer:", *(one_line(line, MOST_BRIEF) for line in told)]


def standing_line(journey: str, state: JourneyState) -> str:
    """Return in a few words where a journey stands."""
    return f"{journey} is at version {state.version}, {STATES[state.status]} in {state.phase}"


def standing_fields(answer: Mapping[str, Any], state: JourneyState) -> dict[str, Any]:
    """Return where a journey stands for a program to read: of what a host is told all but what it does next."""
    kept = ("journey_id", "version", "agent", "state", "phase", "visit", "conversation", "checkpoint")
    newest = [f.text for f in state.feedback if f.version == state.version and not state.over]
    took = state.metrics.values()
    return {
        **{name: answer[name] for name in kept},
        "iteration": state.iteration,
        "missing": newest,
        "tokens_in": sum(one.tokens_in for one in took),
        "tokens_out": sum(one.tokens_out for one in took),
        "moved": state.moved_at.isoformat(timespec="seconds"),
    }


def standing_lines(fields: Mapping[str, Any]) -> list[str]:
    """Return the same in lines."""
    spent = f"tokens: {fields['tokens_in']:,} in, {fields['tokens_out']:,} out"
    told = [head_of(fields), f"attempt {fields['iteration']}, {spent}"]
    told += [f"not done yet: {one_line(text, MOST_SAID)}" for text in fields["missing"]]
    asked = fields["checkpoint"]
    if asked and "questions" in asked:
        told.append("questions to answer:")
        told += [f"- {one['id']}: {one_line(one['question'], MOST_BRIEF)}" for one in asked["questions"]]
    elif asked:
        told.append(f"decision needed: {one_line(asked['question'], MOST_BRIEF)}")
    return [visible(line) for line in (*told, *ways_on(fields))]


def head_of(answer: Mapping[str, Any]) -> str:
    """Return the first line of what is told of a journey: which it is, and where."""
    at = f"version {answer['version']}, {STATES[answer['state']]} in {answer['phase']} (visit {answer['visit']})"
    return f"{answer['journey_id']}, {at}" + (f", in {answer['conversation']}" if answer["conversation"] else "")


def ways_on(answer: Mapping[str, Any]) -> list[str]:
    """Return the command that goes on with the journey from where it stands, below an empty line."""
    verb = "knowledge-forge journeys"
    asked = answer["checkpoint"] or {}
    match answer["state"]:
        case "active":
            on = f"{verb} submit {answer['journey_id']} --work FILE"
        case "waiting" if "questions" in asked:
            on = f"{verb} answer {answer['journey_id']}"
        case "waiting":
            on = f"{verb} decide {answer['journey_id']} approve|modify|reject [--note TEXT]"
        case _:
            on = f"{verb} report {answer['journey_id']}"
    return ["", f"to continue: {on}"]


def coming(state: JourneyState, word: Decided, steps: Sequence[Step]) -> str:
    """Return in a few words what follows from a person's word, which brings these steps before any work is judged anew."""
    moves = [step for step in steps if isinstance(step, PhaseChanged)]
    if word.decision == "modify" and word.changes is not None:
        return f"the work of {word.phase} is changed as given and checked again"
    if moves:
        way = "goes back" if moves[-1].is_backward else "goes on"
        end = " and is complete" if any(isinstance(step, Completed) for step in steps) else ""
        return f"the work {way} from {moves[0].source} to {moves[-1].target}{end}"
    if word.decision == "approve":
        return "work has already continued; nothing changes"
    if word.decision == "answer":
        return "the agent gets your message with its next prompt; the phase stays the same"
    if word.decision == "cancel":
        return "the journey can't be resumed, only forked"
    return f"{state.phase} will be redone"


def happened(logged: Logged) -> str:
    """Return an event as one line: its number, the version, when, whose it was, and what happened."""
    at = f"{logged.at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    told = one_line(event_words(logged.event), MOST_SAID)
    return visible(f"{logged.seq:>4}{GAP}v{logged.version:<4}{GAP}{at}{GAP}{one_line(logged.by, 40)}{GAP}{told}")


def event_words(event: Event) -> str:
    """Return what happened in a few words."""
    match event:
        case Started(agent=agent, phase=phase, brief=brief):
            return f"{agent} started in {phase}: {brief}"
        case Forked(of, at_version):
            return f"forked from {of} at version {at_version}"
        case FeedbackAdded(kind, phase, text):
            return f"{phase} lacks: {text}" if kind == "validation" else f"{phase}, {kind.replace('_', ' ')}: {text}"
        case Completed():
            return "the work is complete"
        case Thinking(text) | Speaking(text):
            return f"{'thinks' if isinstance(event, Thinking) else 'says'}: {text}"
        case QuestionAdded(question_id, text):
            return f"new question {question_id}: {text}"
        case SourceFound(source, title):
            return f"new source {source}{f' ({title})' if title else ''}"
        case ToolStart() | ToolSuccess() | ToolError() | ErrorRaised():
            return _call_words(event)
        case _:
            return said(event)


def _call_words(event: ToolStart | ToolSuccess | ToolError | ErrorRaised) -> str:
    match event:
        case ToolStart(tool=tool, summary=summary):
            return f"{tool} called{f': {summary}' if summary else ''}"
        case ToolSuccess(tool=tool, duration_ms=took, summary=summary):
            return f"{tool} answered in {took:.0f} ms{f': {summary}' if summary else ''}"
        case ToolError(tool=tool, duration_ms=took, error=error):
            return f"{tool} failed after {took:.0f} ms: {error}"
        case ErrorRaised(error):
            return f"error: {error}"


@dataclass(frozen=True, slots=True)
class Averages:
    """What the journeys of an agent took. `forks` are in `counts` and not in `phases`: they begin with another one's time."""

    agent: str
    counts: Mapping[Status, int]
    forks: int
    phases: Sequence[PhaseAverage]
    parts: Sequence[PhaseAverage] = ()
    """Of an agent that is made of several: each part, its phases together."""


def average_fields(found: Averages) -> dict[str, Any]:
    """Return the averages for a program to read."""
    slow = bottleneck(found.phases)
    return {
        "agent": found.agent,
        "journeys": sum(found.counts.values()),
        "states": dict(found.counts),
        "forks_left_out": found.forks,
        "phases": [
            {
                "phase": one.phase,
                "journeys": one.journeys,
                "visits_per_journey": round(one.visits_per_journey, 2),
                "came_back": one.back,
                "submits": one.submits,
                "seconds_per_visit": round(one.seconds_per_visit, 3),
                "seconds_per_journey": round(one.seconds_per_journey, 3),
                "waited_s": round(one.waited_s, 3),
                "tokens_per_journey": round(one.tokens_per_journey, 1),
            }
            for one in found.phases
        ],
        "bottleneck": slow.phase if slow else None,
        "parts": [
            {
                "part": one.phase,
                "journeys": one.journeys,
                "submits": one.submits,
                "seconds_per_journey": round(one.seconds_per_journey, 3),
                "waited_s": round(one.waited_s, 3),
                "tokens_per_journey": round(one.tokens_per_journey, 1),
            }
            for one in found.parts
        ],
    }


def averaged(found: Averages) -> list[str]:
    """Return in lines how many journeys there are, a table of the phases, and where most time went."""
    states = ", ".join(f"{count} {STATES[status]}" for status, count in found.counts.items() if count)
    told = [visible(f"{found.agent}: {times(sum(found.counts.values()), 'journey')} ({states})")]
    if found.forks:
        told.append(f"{times(found.forks, 'fork')} left out below: a fork's time includes that of its original")
    slow = bottleneck(found.phases)
    told += [*_table(found.phases), *([visible(_slow_words(slow))] if slow else [])]
    slow = bottleneck(found.parts)
    return [*told, *_part_table(found.parts), *([visible(_slow_words(slow, "the part "))] if slow else [])]


def _part_table(parts: Sequence[PhaseAverage]) -> list[str]:
    if not parts:
        return []
    rows = [
        (
            one.phase,
            str(one.journeys),
            str(one.submits),
            lasting(one.seconds_per_journey),
            lasting(one.waited_s / one.journeys),
            f"{one.tokens_per_journey:,.0f}",
        )
        for one in parts
    ]
    return ["", *columns([("part", "journeys", "submits", "a journey", "waiting", "tokens"), *rows])]


def _table(phases: Sequence[PhaseAverage]) -> list[str]:
    if not phases:
        return []
    head = ("phase", "journeys", "visits each", "came back", "submits", "a visit", "a journey", "waiting", "tokens")
    rows = [
        (
            one.phase,
            str(one.journeys),
            f"{one.visits_per_journey:.1f}",
            str(one.back),
            str(one.submits),
            lasting(one.seconds_per_visit),
            lasting(one.seconds_per_journey),
            lasting(one.waited_s / one.journeys),
            f"{one.tokens_per_journey:,.0f}",
        )
        for one in phases
    ]
    return columns([head, *rows])


def _slow_words(slow: PhaseAverage, what: str = "") -> str:
    took = f"Most time goes into {what}{slow.phase}: {lasting(slow.seconds_per_journey)} a journey"
    waited = slow.waited_s / slow.journeys
    return f"{took}, {lasting(waited)} of that waiting for a person" if waited else took
