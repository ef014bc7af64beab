"""A report of a journey in Markdown, from which another host can continue: result, task, steps, cost and work. Pure.

Texts of people and models go inside list items and quotations, so that no text can read as a part of the report itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

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
from agents.engine.progress.conversations import conversations
from agents.engine.progress.metrics import PhaseRow, by_part, costliest, lasting, slowest
from agents.engine.progress.position import JourneyPosition
from agents.engine.state import JourneyState
from agents.engine.work.markdown import counted, one_line, quoted, work_lines
from agents.engine.work.result import LEFT_OPEN
from agents.memory_documents import each
from agents.prompts.prompt import recorded_result
from agents.report.overview import KEPT, moment_text, newest_feedback, parts_of, phase_rows, question_asked
from agents.report.result import RESULT, SOURCES, open_lines, result_lines, source_lines
from agents.report.sentences import event_sentence, response_facts

MOST_TITLE, MOST_LINE, MOST_BRIEF = 100, 500, 24_000
MOST_MOVES, MOST_WORDS, MOST_WRONG = 60, 30, 30
MOST_WORK = 40_000
"""Characters of the work of one phase."""
PROBLEMS = {
    "validation": "Missing (validation failures):",
    "soft_failure": "To refine (soft failures):",
    "hard_failure": "To redo (hard failures):",
    KEPT: f"{KEPT}:",
    "error": "Failed:",
}
"""The headings of problems by kind, in order."""


def report(position: JourneyPosition, log: Sequence[Logged], now: datetime) -> str:
    """Return the report of a journey whose agent is available, as `full_report` does."""
    return full_report(position.journey, position.agent, position.state, log, now)


def full_report(journey: str, agent: Agent | None, state: JourneyState, log: Sequence[Logged], now: datetime) -> str:
    """Return the report as Markdown. If the agent is gone (None), it says what the record alone shows.

    The result comes first, with what it leaves open and its sources; then the way there. The same journey at the same time has the
    same report. The newest work comes first, so that a reader who sees only the beginning of it sees what the next step builds on.
    """
    cost = _cost(phase_rows(agent, state, log, now), parts_of(agent))
    if state.forked_from:
        cost += [
            "",
            f"Time and tokens before the fork were spent in `{state.forked_from}` and are counted here as well.",
        ]
    spoken, documents = _conversations(log), _documents(journey, agent, state)
    found = recorded_result(agent, state)
    left_open, sources = open_lines(found, state), source_lines(state)
    sections = (
        (RESULT, result_lines(found, state)),
        *([(LEFT_OPEN, left_open)] if left_open else []),
        *([(SOURCES, sources)] if sources else []),
        ("Brief", _brief(journey, state)),
        ("Status", _status(journey, agent, state)),
        ("Steps", _steps(agent, log)),
        ("Decisions", _decisions(log)),
        ("Time and tokens", cost),
        ("Problems", _problems(log)),
        *([("Conversations", spoken)] if spoken else []),
        *([("Memory documents", documents)] if documents else []),
        ("Recorded work", _work(state)),
    )
    title = f"# {one_line(agent.title if agent else state.agent, MOST_TITLE)}: {one_line(state.brief, MOST_TITLE)}"
    lines = [title, *(line for name, body in sections for line in ("", f"## {name}", "", *body))]
    # Names of phases, tools and people in an imported record may have line breaks, after which a text could begin a section.
    return "\n".join(" ".join(line.splitlines()) for line in lines) + "\n"


def _brief(journey: str, state: JourneyState) -> list[str]:
    lines = quoted(state.brief, MOST_BRIEF)
    if state.inputs:
        lines += ["", "Inputs:", "", *work_lines(state.inputs, MOST_BRIEF)]
    began = f"Journey `{journey}` of the agent `{state.agent}`, started {moment_text(state.started_at)}"
    fork = f" Forked from `{state.forked_from}` at version {state.forked_at}." if state.forked_from else ""
    return [*lines, "", f"{began} for {one_line(state.principal, MOST_TITLE)}.{fork}"]


def _status(journey: str, agent: Agent | None, state: JourneyState) -> list[str]:
    at = f"in {state.phase}, visit {state.visit}, version {state.version}, since {moment_text(state.moved_at)}"
    match state.status:
        case "waiting":
            lines = [f"Waiting for a person, {at}."]
        case "complete":
            lines = [f"Complete, version {state.version}, since {moment_text(state.moved_at)}."]
        case "cancelled":
            lines = [f"A person cancelled it {at}. It can be forked at any version."]
        case _:
            lines = [f"Active {at}."]
    if agent is None:
        return [*lines, "", f"Its agent `{state.agent}` is not available, so work can't continue now."]
    if checkpoint := state.checkpoint:
        question = one_line(question_asked(agent, state), MOST_LINE)
        if checkpoint.kind == "optional":
            lines += [
                "",
                f"Until the next submission a person can still send {checkpoint.phase} back. The question: {question}",
            ]
        else:
            how = " The person must answer personally; the answer can't be relayed." if checkpoint.own_hand else ""
            lines += [
                "",
                f"Question before it continues from {checkpoint.phase} to {checkpoint.target}: {question}{how}",
            ]
    newest = [one for one in newest_feedback(state) if one.phase == state.phase] if state.status == "active" else []
    if newest:
        lines += ["", "Still missing:", "", *(f"- {one_line(one.text, MOST_LINE)}" for one in newest)]
    if not state.over:
        lines += ["", f"To continue, call `journey_status` with `journey_id` `{journey}`: it returns what to do now."]
    return lines


def _when(logged: Logged) -> str:
    return f"{moment_text(logged.at)}, version {logged.version}"


def _steps(agent: Agent | None, log: Sequence[Logged]) -> list[str]:
    graph = agent.graph if agent else None
    lines = []
    for logged in log:
        event = logged.event
        if isinstance(event, Started | Forked | PhaseChanged) or (isinstance(event, WorkRecorded) and event.automatic):
            sentence = event_sentence(event, graph)
            # The text of a start is the brief, which has its own section.
            detail = f" {one_line(sentence.text, MOST_LINE)}" if sentence.text and sentence.kind != "start" else ""
            lines.append(f"{_when(logged)}: {sentence}{detail}")
    return _bounded(lines, MOST_MOVES, numbered=True)


def _bounded(lines: Sequence[str], most: int, *, numbered: bool = False) -> list[str]:
    """Return the lines as a list; if there are too many, the first and the newest, and the number between them."""
    items = [f"{n}. {line}" if numbered else f"- {line}" for n, line in enumerate(lines, 1)]
    if len(items) <= most:
        return items or ["None."]
    # A quarter shows how it began; the newest steps matter more to a reader who continues.
    first = most // 4
    left = len(items) - most
    return [*items[:first], f"- ({left} more in the events)", *items[first - most :]]


def _decisions(log: Sequence[Logged]) -> list[str]:
    lines = []
    for logged in log:
        if isinstance(logged.event, Decided):
            sentence = event_sentence(logged.event)
            note = f" {one_line(sentence.text, MOST_LINE)}" if sentence.text else ""
            facts = "; ".join(
                f"{one_line(name, MOST_LINE)} - {_value(value)}" for name, value in sentence.facts.items()
            )
            about = f" ({facts})" if facts else ""
            lines.append(f"{_when(logged)}, {one_line(logged.by, MOST_TITLE)}: {sentence}{note}{about}")
    return _bounded(lines, MOST_WORDS)


def _value(value: object) -> str:
    text = value if isinstance(value, str) else canonical(value)
    return one_line(text, MOST_LINE)


def _problems(log: Sequence[Logged]) -> list[str]:
    """Return the feedback on missing and failed work, by kind, in order. Repeated problems are listed once, with their number."""
    found: dict[str, dict[str, tuple[str, int]]] = {}
    for logged in log:
        kind = "error"
        match logged.event:
            case FeedbackAdded(phase=phase, text=text) as feedback:
                kind = KEPT if feedback.kept else str(feedback.kind)
                what = f"{phase}: {one_line(text, MOST_LINE)}"
            case ToolError(tool=tool, error=error):
                what = f"the tool {tool}: {one_line(error, MOST_LINE)}"
            case ErrorRaised(error):
                what = one_line(error, MOST_LINE)
            case _:
                continue
        of_kind = found.setdefault(kind, {})
        first, count = of_kind.get(what, (_when(logged), 0))
        of_kind[what] = first, count + 1
    lines = []
    for kind in sorted(found, key=list(PROBLEMS).index):
        items = [
            f"{first}: {what}{f' ({count} times)' if count > 1 else ''}" for what, (first, count) in found[kind].items()
        ]
        lines += ["", PROBLEMS[kind], "", *_bounded(items, MOST_WRONG)]
    return lines[1:] or ["None."]


def _conversations(log: Sequence[Logged]) -> list[str]:
    """Return the conversations with their phases and cost; nothing if there was only one."""
    found = conversations(log)
    lines = [
        f"`{one_line(one.id, MOST_TITLE)}`: {', '.join(one.phases)} ({counted(one.submits, 'submission')}, {one.tokens:,} tokens)"
        for one in found
    ]
    return _bounded(lines, MOST_MOVES) if len(found) > 1 else []


def _documents(journey: str, agent: Agent | None, state: JourneyState) -> list[str]:
    """Return where each memory document can be read; its text is in the work that holds it."""
    lines = []
    for one in each(agent, state) if agent else ():
        name = one_line(one.name, MOST_TITLE)
        others = one_line(f", also {', '.join(one.others)}", MOST_TITLE) if one.others else ""
        lines.append(f"{name}{others}: `memory://{journey}/{name}`, {len(one.text):,} characters")
    return _bounded(lines, MOST_MOVES) if lines else []


def _work(state: JourneyState) -> list[str]:
    lines = []
    for phase, kept in sorted(state.work.items(), key=lambda kept: -kept[1].seq):
        whose = ", by the server itself" if kept.automatic else ""
        lines += ["", f"### {phase} (visit {kept.visit}, version {kept.version}{whose})", ""]
        if facts := response_facts(kept):
            lines += [f"({'; '.join(f'{name}: {_value(value)}' for name, value in facts.items())})", ""]
        lines += work_lines(kept.content, MOST_WORK) or ["None."]
    return lines[1:] or ["None yet."]


# --- time and tokens --------------------------------------------------------------------------------------------------


def _cost(rows: Sequence[PhaseRow], parts: Mapping[str, str]) -> list[str]:
    """Return the costliest phases and a table of all phases; for an agent of several `parts`, a table of those first."""
    lines = []
    if parts:
        sums = by_part(rows, parts)
        lines = [_most(sums, "the part "), "", *_table("Part", sums), ""]
    return [*lines, _most(rows) or "Nothing took any time yet.", "", *_table("Phase", rows)]


def _most(rows: Sequence[PhaseRow], what: str = "") -> str:
    """Return sentences about the phases that took most time and most tokens, or ""."""
    sentences, of_phases = [], " to its phases" if what else ""
    if slow := slowest(rows):
        waited = f", including {lasting(slow.waited_s)} waiting for a person" if slow.waited_s else ""
        sentences.append(
            f"Most time went into {what}{slow.phase}: {lasting(slow.seconds)}{waited}; "
            f"{counted(slow.visits, 'visit')}{of_phases}, {lasting(slow.seconds_per_visit)} on average."
        )
    if dear := costliest(rows):
        how = " (estimated by the server)" if dear.counted == dear.tokens else ""
        sentences.append(
            f"Most tokens went into {what}{dear.phase}: {dear.tokens:,}{how}; "
            f"{counted(dear.visits, 'visit')}{of_phases}, {dear.tokens_per_visit:,.0f} on average."
        )
    return " ".join(sentences)


def _table(head: str, rows: Sequence[PhaseRow]) -> list[str]:
    lines = [
        # A bar would end the table's cell.
        f"| {r.phase.replace('|', '/')} | {r.visits} | {r.submits} | {lasting(r.seconds)} | {lasting(r.waited_s)} "
        f"| {r.tokens_in:,} | {r.tokens_out:,} | {r.counted:,} |"
        for r in rows
    ]
    titles = f"| {head} | Visits | Submissions | Time | Waiting time | Tokens in | Tokens out | Estimated tokens |"
    return [titles, "|---|--:|--:|--:|--:|--:|--:|--:|", *lines]
