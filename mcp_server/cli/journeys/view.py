"""Lay out journeys as lines of a terminal, with every character that people and models wrote visible. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

from agents.engine.agent import Agent
from agents.engine.events import Completed, Decided, Logged, PhaseChanged, Step
from agents.engine.state import JourneyState, get_state
from agents.engine.work.markdown import one_line, work_lines
from agents.engine.work.questions import open_questions
from agents.engine.work.result import part_lines
from agents.prompts.prompt import done_lines, recorded_result
from agents.report.overview import (
    KEPT,
    STATUSES,
    answered_questions,
    kept_feedback,
    moment_text,
    newest_feedback,
    question_asked,
    redone_because,
)
from agents.report.sentences import event_sentence
from agents.store.ports import JourneyLine
from mcp_server.cli.terminal.escape import visible

MOST_SAID, MOST_BRIEF = 200, 1_000
MOST_WORK = 12_000
GAP = "  "


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows with their cells aligned; the last cell of a row keeps its own length."""
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [
        GAP.join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)), row[-1]]).rstrip()
        for row in shown
    ]


# --- in a list --------------------------------------------------------------------------------------------------------


def listed(lines: Sequence[JourneyLine]) -> list[str]:
    """Return a line for each journey: id, status, phase, last move, and the beginning of its brief."""
    return columns(
        [
            (one.id, STATUSES.get(one.status, one.status), one.phase, moment_text(one.moved_at), one.title)
            for one in lines
        ]
    )


def waiting_line(one: JourneyLine) -> str:
    """Return a journey that waits for a person as a line in the list of everything that waits."""
    cells = (one.id, "journey", one.principal, f"{one.agent}, {one.phase}: {one.title}")
    return visible(f"{GAP.join(cells)} (knowledge-forge journeys show {one.id})")


def line_fields(one: JourneyLine) -> dict[str, object]:
    """Return an entry of the list of journeys, for a program."""
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


# --- one in full ------------------------------------------------------------------------------------------------------


def state_fields(journey: str, agent: Agent | None, state: JourneyState) -> dict[str, object]:
    """Return a journey's whole state for a program, with the open question or ""."""
    return {"journey_id": journey, "question": question_asked(agent, state) if agent else "", **get_state(state)}


def at_version(journey: str, state: JourneyState) -> str:
    """Return a journey's position as a clause."""
    return f"{journey} is at version {state.version}, {STATUSES[state.status]} in {state.phase}"


def shown(journey: str, agent: Agent | None, state: JourneyState) -> list[str]:
    """Return a journey's position, the work of the phase in question, and any open question."""
    at = f"version {state.version}, {STATUSES[state.status]} in {state.phase} (visit {state.visit})"
    lines = [
        f"{agent.title if agent else state.agent}: {one_line(state.brief, MOST_BRIEF)}",
        f"{journey}, {at} since {moment_text(state.moved_at)}",
        f"started {moment_text(state.started_at)} for {state.principal}",
    ]
    if state.forked_from:
        lines.append(f"forked from {state.forked_from} at version {state.forked_at}")
    if found := part_lines(recorded_result(agent, state).parts, MOST_WORK):
        lines += ["", "Result:" if state.status == "complete" else "Result so far:", *found]
    if because := redone_because(state):
        lines.append(f"redone because of {one_line(because, MOST_SAID)}")
    if agent and (done := done_lines(agent, state)):
        lines += ["", "Done so far:", *(f"- {one_line(line, MOST_SAID)}" for line in done)]
    if missing := [] if state.over else newest_feedback(state):
        lines += ["", "Still missing:", *(f"- {one_line(one.text, MOST_SAID)}" for one in missing)]
    if doubted := kept_feedback(state):
        lines += ["", f"{KEPT}:", *(f"- {one.phase}: {one_line(one.text, MOST_SAID)}" for one in doubted)]
    phase = state.checkpoint.phase if state.checkpoint else state.phase
    if kept := state.work.get(phase):
        lines += ["", f"Recorded for {phase} (visit {kept.visit}, version {kept.version}):"]
        lines += work_lines(kept.content, MOST_WORK) or ["- nothing"]
    if answers := answered_questions(state):
        lines += ["", "Answers from people:"]
        lines += [f"- {a.phase}: {one_line(a.question, MOST_SAID)} {one_line(a.answer, MOST_SAID)}" for a in answers]
    return [visible(line) for line in (*lines, *_question(journey, agent, state))]


def _question(journey: str, agent: Agent | None, state: JourneyState) -> list[str]:
    checkpoint = state.checkpoint
    if checkpoint is None:
        return []
    if checkpoint.asks:
        questions = [f"- {q.id}: {q.question}" + (f" ({q.why})" if q.why else "") for q in open_questions(state)]
        lines = [one_line(question, MOST_BRIEF) for question in questions]
        return ["", "Questions to answer:", *lines, f"knowledge-forge journeys answer {journey}"]
    own = " (must be answered by the person, not relayed)" if checkpoint.own_hand else ""
    head = "Decision needed" if checkpoint.kind == "blocking" else "You can still decide"
    return [
        "",
        f"{head}{own}: {one_line(question_asked(agent, state), MOST_BRIEF)}",
        f"knowledge-forge journeys decide {journey} approve|modify|reject [--note TEXT]",
    ]


def consequence(state: JourneyState, word: Decided, steps: Sequence[Step]) -> str:
    """Return the effect of a person's decision as a sentence; `steps` are the decision's events, before any work is checked again."""
    moves = [step for step in steps if isinstance(step, PhaseChanged)]
    if word.decision == "modify" and word.changes is not None:
        return f"the work of {word.phase} is changed as requested and checked again"
    if moves:
        way = "returns" if moves[-1].is_backward else "moves"
        end = " and is complete" if any(isinstance(step, Completed) for step in steps) else ""
        return f"the work {way} from {moves[0].source} to {moves[-1].target}{end}"
    return {
        "approve": "work has already continued; nothing changes",
        "answer": "the agent gets your message with its next prompt; the phase stays the same",
        "cancel": "the journey can't be resumed, only forked",
    }.get(word.decision, f"{state.phase} will be redone")


# --- as a host gets it ------------------------------------------------------------------------------------------------


def status_fields(answer: Mapping[str, Any], state: JourneyState) -> dict[str, Any]:
    """Return a journey's position for a program: the fields that a host gets, without the prompt for the next step."""
    kept = ("journey_id", "version", "agent", "state", "phase", "visit", "conversation", "checkpoint")
    took = state.metrics.values()
    return {
        **{name: answer[name] for name in kept},
        "iteration": state.iteration,
        "missing": [] if state.over else [one.text for one in newest_feedback(state)],
        "tokens_in": sum(one.tokens_in for one in took),
        "tokens_out": sum(one.tokens_out for one in took),
        "moved": state.moved_at.isoformat(timespec="seconds"),
    }


def status_lines(fields: Mapping[str, Any]) -> list[str]:
    """Return `status_fields` as lines."""
    spent = f"tokens: {fields['tokens_in']:,} in, {fields['tokens_out']:,} out"
    lines = [head_of(fields), f"attempt {fields['iteration']}, {spent}"]
    lines += [f"still missing: {one_line(text, MOST_SAID)}" for text in fields["missing"]]
    checkpoint = fields["checkpoint"]
    if checkpoint and "questions" in checkpoint:
        lines.append("questions to answer:")
        lines += [f"- {one['id']}: {one_line(one['question'], MOST_BRIEF)}" for one in checkpoint["questions"]]
    elif checkpoint:
        lines.append(f"decision needed: {one_line(checkpoint['question'], MOST_BRIEF)}")
    return [visible(line) for line in (*lines, *how_to_continue(fields))]


def head_of(answer: Mapping[str, Any]) -> str:
    """Return the first line about a journey: its name and its position."""
    at = f"version {answer['version']}, {STATUSES[answer['state']]} in {answer['phase']} (visit {answer['visit']})"
    return f"{answer['journey_id']}, {at}" + (f", in {answer['conversation']}" if answer["conversation"] else "")


def how_to_continue(answer: Mapping[str, Any]) -> list[str]:
    """Return the command that continues the journey, below an empty line."""
    journey, questions = answer["journey_id"], "questions" in (answer["checkpoint"] or {})
    match answer["state"]:
        case "active":
            command = f"submit {journey} --work FILE"
        case "waiting" if questions:
            command = f"answer {journey}"
        case "waiting":
            command = f"decide {journey} approve|modify|reject [--note TEXT]"
        case _:
            command = f"report {journey}"
    return ["", f"to continue: knowledge-forge journeys {command}"]


def event_text(logged: Logged) -> str:
    """Return an event as one line: its number, version, time, principal, and what happened."""
    at = f"{logged.at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    sentence = event_sentence(logged.event)
    text = one_line(f"{sentence} {sentence.text}", MOST_SAID)
    return visible(GAP.join((f"{logged.seq:>4}", f"v{logged.version:<4}", at, one_line(logged.by, 40), text)))
