"""A journey in words, from which another host can go on: what it is about, the way it took, what it cost, and the work. Pure.

What people and models wrote is told inside of lines and quotations, so that nothing of it reads as a part of the report.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agents.engine.agent import Agent
from agents.engine.events import (
    Decided,
    ErrorRaised,
    FeedbackAdded,
    Forked,
    Logged,
    PhaseChanged,
    Started,
    ToolError,
    WorkRecorded,
    canonical,
)
from agents.engine.graph import ALWAYS
from agents.engine.progress.conversations import conversations
from agents.engine.progress.metrics import table, waits
from agents.engine.state import JourneyState, RecordedWork
from agents.engine.work.markdown import one_line, quoted, work_lines
from agents.memory_documents import each
from agents.prompts.prompt import REASONS, question
from agents.report.spent import parts_of, spent, times

if TYPE_CHECKING:
    from agents.engine.progress.position import JourneyPosition

MOST_TITLE, MOST_LINE, MOST_BRIEF = 100, 500, 24_000
MOST_MOVES, MOST_WORDS, MOST_WRONG = 60, 30, 30
MOST_WORK = 40_000
"""Characters of the work of one phase."""
WRONG = {
    "validation": "What was missing (validation failures):",
    "soft_failure": "What was to be refined (soft failures):",
    "hard_failure": "What was to be done anew (hard failures):",
    "error": "What failed:",
}
"""Kinds of what went wrong, and how each is called."""


def report(position: JourneyPosition, log: Sequence[Logged], now: datetime) -> str:
    """Return the report of a journey whose agent is there, as `whole` does."""
    return whole(position.journey, position.agent, position.state, log, now)


def whole(journey: str, agent: Agent | None, state: JourneyState, log: Sequence[Logged], now: datetime) -> str:
    """Return the report as Markdown; without an agent, because it is gone, what the record alone can tell.

    The same journey at the same time has the same report. The newest work comes first: whoever sees only the beginning of it
    sees what the next step rests on.
    """
    order = [phase.name for phase in agent.graph.phases] if agent else []
    rows = table(state, now, order=order, waited=waits(log, now))
    behind, spoken = _documents(journey, agent, state), _conversations(log)
    sections = (
        ("What it is about", _about(journey, state)),
        ("Where it stands", _standing(journey, agent, state)),
        ("The way it took", _way(agent, log)),
        ("What a person decided", _decided(log)),
        ("What was slow and what was costly", [*spent(rows, parts_of(agent)), *_shared(state)]),
        ("What went wrong", _wrong(log)),
        *([("Which conversations it went on in", spoken)] if spoken else []),
        *([("What was left behind", behind)] if behind else []),
        ("What was recorded", _work(state)),
    )
    title = f"# {one_line(agent.title if agent else state.agent, MOST_TITLE)}: {one_line(state.brief, MOST_TITLE)}"
    lines = [title, *(line for name, told in sections for line in ("", f"## {name}", "", *told))]
    return "\n".join(map(_kept_in, lines)) + "\n"


def _kept_in(line: str) -> str:
    """Return the line without breaks: names in a record that was made elsewhere may have some."""
    return line if len(line.splitlines()) < 2 else " ".join(line.splitlines())


def moment_text(at: datetime) -> str:
    """Return the time to the minute, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _about(journey: str, state: JourneyState) -> list[str]:
    told = quoted(state.brief, MOST_BRIEF)
    if state.inputs:
        told += ["", "Inputs:", "", *work_lines(state.inputs, MOST_BRIEF)]
    began = f"Journey `{journey}` of the agent `{state.agent}`, started {moment_text(state.started_at)}"
    fork = f" It was forked from `{state.forked_from}` at version {state.forked_at}." if state.forked_from else ""
    return [*told, "", f"{began} for {one_line(state.principal, MOST_TITLE)}.{fork}"]


def _standing(journey: str, agent: Agent | None, state: JourneyState) -> list[str]:
    at = f"in {state.phase}, visit {state.visit}, version {state.version}, since {moment_text(state.moved_at)}"
    match state.status:
        case "waiting":
            told = [f"It waits for a person, {at}."]
        case "complete":
            told = [f"It is complete, version {state.version}, since {moment_text(state.moved_at)}."]
        case "cancelled":
            told = [f"A person cancelled it {at}. It can be forked at any version."]
        case _:
            told = [f"It is {at}."]
    if agent is None:
        return [*told, "", f"Its agent `{state.agent}` is not there, so nobody can go on with it now."]
    return [*told, *_asked(agent, state), *_missing(state), *_going_on(journey, state)]


def _asked(agent: Agent, state: JourneyState) -> list[str]:
    asked = state.checkpoint
    if asked is None:
        return []
    told = one_line(question(agent, state), MOST_LINE)
    if asked.kind == "optional":
        return ["", f"Until the next submit a person may still send {asked.phase} back. They were asked: {told}"]
    how = " Their own hand decides: their word may not be relayed." if asked.own_hand else ""
    return ["", f"They are asked before it goes on from {asked.phase} to {asked.target}: {told}{how}"]


def _missing(state: JourneyState) -> list[str]:
    if state.status != "active":
        return []
    newest = [f for f in state.feedback if f.phase == state.phase and f.version == state.version]
    lines = [f"- {one_line(f.text, MOST_LINE)}" for f in newest]
    return ["", "Still missing:", "", *lines] if lines else []


def _going_on(journey: str, state: JourneyState) -> list[str]:
    if state.over:
        return []
    return ["", f"To go on, call `journey_status` with `journey_id` `{journey}`: it says what to do now."]


def _way(agent: Agent | None, log: Sequence[Logged]) -> list[str]:
    several = {t.source for t in agent.graph.transitions if t.condition != ALWAYS} if agent else set[str]()
    told = []
    for logged in log:
        match logged.event:
            case Started(phase=phase):
                told.append(f"{_when(logged)}: began in {phase}")
            case Forked(of, at_version):
                told.append(f"{_when(logged)}: forked from `{of}` at version {at_version}")
            case PhaseChanged() as moved:
                told.append(f"{_when(logged)}: {_moved(moved, several)}")
            case WorkRecorded(automatic=True, phase=phase):
                told.append(f"{_when(logged)}: the server itself did {phase}")
    return _bounded(told, MOST_MOVES, numbered=True)


def _when(logged: Logged) -> str:
    return f"{moment_text(logged.at)}, version {logged.version}"


def _moved(moved: PhaseChanged, several: Collection[str]) -> str:
    back = "back from" if moved.is_backward else "from"
    detail = f": {one_line(moved.detail, MOST_LINE)}" if moved.detail else ""
    return f"{back} {moved.source} to {moved.target}, because {_because(moved, several)}{detail}"


def _because(moved: PhaseChanged, several: Collection[str]) -> str:
    """Return why the work moved; `several` are the phases that have other ways, too."""
    reason = moved.reason
    if reason == ALWAYS:
        return "no other way was open" if moved.source in several else "any work leads on from there"
    return REASONS.get(reason) or f"`{reason}` was met"


def _bounded(lines: Sequence[str], most: int, *, numbered: bool = False) -> list[str]:
    """Return the lines as a list; of too many the first and the newest, and how many are left out between them."""
    items = [f"{n}. {line}" if numbered else f"- {line}" for n, line in enumerate(lines, 1)]
    if len(items) <= most:
        return items or ["Nothing."]
    first = most // 4
    left = len(items) - most
    return [*items[:first], f"- ({left} more are left out here; the events have them)", *items[first - most :]]


def _decided(log: Sequence[Logged]) -> list[str]:
    told = []
    for logged in log:
        if isinstance(said := logged.event, Decided):
            note = f": {one_line(said.note, MOST_LINE)}" if said.note else ""
            changes = f"; changes: {one_line(canonical(said.changes), MOST_LINE)}" if said.changes else ""
            who = f"{one_line(logged.by, MOST_TITLE)} ({said.channel})"
            told.append(f"{_when(logged)}: {said.decision} at {said.phase}, by {who}{note}{changes}{_answers(said)}")
    return _bounded(told, MOST_WORDS)


def _answers(said: Decided) -> str:
    """Return the questions that were answered, each with the person's words."""
    pairs = [
        f"{one_line(one.get('question', ''), MOST_LINE)} - {one_line(one.get('answer', ''), MOST_LINE)}"
        for one in said.answers.values()
    ]
    return f"; answers: {'; '.join(pairs)}" if pairs else ""


def _shared(state: JourneyState) -> list[str]:
    if not state.forked_from:
        return []
    return ["", f"What was spent up to the fork was spent in `{state.forked_from}`, and is counted here as well."]


def _wrong(log: Sequence[Logged]) -> list[str]:
    """Return what was missing and what failed, by its kind, in order; what was said several times once, with how often."""
    told: dict[str, dict[str, tuple[str, int]]] = {}
    for logged in log:
        kind, what = _failure(logged)
        if what:
            of_kind = told.setdefault(kind, {})
            first, often = of_kind.get(what, (_when(logged), 0))
            of_kind[what] = first, often + 1
    lines = []
    for kind in sorted(told, key=list(WRONG).index):
        items = [
            f"{first}: {what}{f' ({often} times)' if often > 1 else ''}" for what, (first, often) in told[kind].items()
        ]
        lines += ["", WRONG[kind], "", *_bounded(items, MOST_WRONG)]
    return lines[1:] or ["Nothing."]


def _failure(logged: Logged) -> tuple[str, str]:
    """Return what kind of failure the event tells, and which; "" if none."""
    match logged.event:
        case FeedbackAdded(kind, phase, text):
            return kind, f"{phase}: {one_line(text, MOST_LINE)}"
        case ToolError(tool=tool, error=error):
            return "error", f"the tool {tool} failed: {one_line(error, MOST_LINE)}"
        case ErrorRaised(error):
            return "error", f"error: {one_line(error, MOST_LINE)}"
        case _:
            return "", ""


def _conversations(log: Sequence[Logged]) -> list[str]:
    """Return the conversations with what was done in each; nothing where there was one alone."""
    found = conversations(log)
    told = [
        f"`{one_line(one.id, MOST_TITLE)}`: {', '.join(one.phases)} ({times(one.submits, 'submit')}, {one.tokens:,} tokens)"
        for one in found
    ]
    return _bounded(told, MOST_MOVES) if len(found) > 1 else []


def _documents(journey: str, agent: Agent | None, state: JourneyState) -> list[str]:
    """Return where each memory document is read; its words stand in the work that holds it."""
    told = []
    for one in each(agent, state) if agent else ():
        others = f", also {', '.join(one.others)}" if one.others else ""
        named = f"{one_line(one.name, MOST_TITLE)}{one_line(others, MOST_TITLE)}"
        told.append(f"{named}: `memory://{journey}/{one_line(one.name, MOST_TITLE)}`, {len(one.text):,} characters")
    return _bounded(told, MOST_MOVES) if told else []


def _work(state: JourneyState) -> list[str]:
    told = []
    for phase, kept in sorted(state.work.items(), key=lambda kept: -kept[1].seq):
        whose = ", by the server itself" if kept.automatic else ""
        told += ["", f"### {phase} (visit {kept.visit}, version {kept.version}{whose})", "", *_response(kept)]
        told += work_lines(kept.content, MOST_WORK) or ["Nothing."]
    return told[1:] or ["Nothing yet."]


def _response(kept: RecordedWork) -> list[str]:
    """Return what was said beside a work, as one line; nothing if nothing was."""
    usage, facts = kept.usage, list[str]()
    if usage.tokens_in or usage.tokens_out:
        model = f" by {one_line(usage.model, MOST_TITLE)}" if usage.model else ""
        counted = ", counted by the server" if usage.counted else ""
        facts.append(f"{usage.tokens_in:,} tokens in, {usage.tokens_out:,} out{model}{counted}")
    if kept.confidence is not None:
        facts.append(f"confidence {kept.confidence:g}")
    if kept.signals:
        facts.append(f"signals {one_line(', '.join(kept.signals), MOST_LINE)}")
    if kept.conversation:
        facts.append(f"in the conversation {one_line(kept.conversation, MOST_TITLE)}")
    if kept.reasoning:
        facts.append(f"because: {one_line(kept.reasoning, MOST_LINE)}")
    return [f"({'; '.join(facts)})", ""] if facts else []
