"""Describe a journey at one moment, in the same words for terminal, page and report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from agents.engine.agent import Agent
from agents.engine.events import Logged
from agents.engine.graph import grouped
from agents.engine.progress.metrics import PhaseRow, table, waits
from agents.engine.state import Feedback, JourneyState, Status
from agents.prompts.prompt import question

KEPT = "Kept although the configured model disagrees"

STATUSES: Mapping[Status, str] = {
    "active": "active",
    "waiting": "waiting for a person",
    "complete": "complete",
    "cancelled": "cancelled",
}


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question that a person answered in a phase."""

    phase: str
    question: str
    answer: str


def moment_text(at: datetime) -> str:
    """Return the time to the minute, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def question_asked(agent: Agent | None, state: JourneyState) -> str:
    """Return the question that a person is asked at the open checkpoint, also if the agent is gone; "" if none is open."""
    checkpoint = state.checkpoint
    if checkpoint is None:
        return ""
    return question(agent, state) if agent else f"May the work continue from {checkpoint.phase} to {checkpoint.target}?"


def answered_questions(state: JourneyState) -> list[AnsweredQuestion]:
    """Return people's answers so far, by phase."""
    return [
        AnsweredQuestion(phase, one.get("question", ""), one.get("answer", ""))
        for phase, answers in state.answers.items()
        for one in answers.values()
    ]


def newest_feedback(state: JourneyState) -> list[Feedback]:
    """Return what the newest step was found to lack."""
    return [one for one in state.feedback if one.version == state.version and not one.kept]


def kept_feedback(state: JourneyState) -> list[Feedback]:
    """Return the notes on work that was kept although a model disagrees."""
    return [one for one in state.feedback if one.kept]


def redone_because(state: JourneyState) -> str:
    """Return why the current phase is redone, "" if it is not."""
    if state.backward_trigger is None or state.over:
        return ""
    detail = f": {state.backward_trigger_detail}" if state.backward_trigger_detail else ""
    return f"{state.backward_trigger}{detail}"


def phase_rows(agent: Agent | None, state: JourneyState, log: Sequence[Logged], now: datetime) -> Sequence[PhaseRow]:
    """Return the cost of each phase until `now`, in the order of the agent's phases."""
    order = [phase.name for phase in agent.graph.phases] if agent else []
    return table(state, now, order=order, waited=waits(log, now))


def parts_of(agent: Agent | None) -> Mapping[str, str]:
    """Return the part that each phase belongs to; nothing for an agent of one part."""
    groups = grouped(agent.graph) if agent else {}
    if agent is None or len(groups) < 2:
        return {}
    named = [(phase.name, part or agent.name) for part, phases in groups.items() for phase in phases]
    return {phase: part for phase, part in named if phase not in agent.graph.complete}
