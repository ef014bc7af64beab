"""What agents and people said in a journey, as its page shows it: responses, answers, feedback, conversations, documents. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from agents.engine.agent import Agent
from agents.engine.events import Logged, StepUsage, canonical
from agents.engine.progress.conversations import conversations
from agents.engine.progress.feedback import KINDS
from agents.engine.state import JourneyState
from agents.engine.work.questions import WorkQuestion, open_questions
from agents.memory_documents import each
from mcp_server.web.journeys.work_views import WorkHtml, work_html
from mcp_server.web.text.sanitize import sanitize_line
from mcp_server.web.text.values import ShownField, ShownText, fields_of, folded, joined

CONVERSATIONS_SHOWN, PHASES_NAMED = 60, 12


@dataclass(frozen=True, slots=True)
class WorkView:
    """What was recorded in a phase, the newest of it. `facts`: what was said beside it, what it cost, whose it was."""

    phase: Markup
    visit: int
    version: int
    content: WorkHtml
    now: bool
    automatic: bool
    facts: Sequence[ShownField]


@dataclass(frozen=True, slots=True)
class QuestionView:
    """A question that a person is to answer, and the field in which they do."""

    field: str
    question: ShownText
    why: ShownText | None


@dataclass(frozen=True, slots=True)
class AnswerView:
    """What a person answered in a phase."""

    phase: Markup
    question: ShownText
    answer: ShownText


@dataclass(frozen=True, slots=True)
class FeedbackView:
    """Feedback of one kind, oldest first: the phase and the version that it is of, and its words."""

    kind: str
    items: Sequence[tuple[Markup, int, ShownText]]


@dataclass(frozen=True, slots=True)
class ConversationView:
    """A conversation that the journey went on in. `present`: it goes on in this one."""

    id: Markup
    phases: Markup
    submits: int
    tokens: int
    present: bool


@dataclass(frozen=True, slots=True)
class DocumentView:
    """A memory document, with the names under which it is read."""

    name: Markup
    others: Markup
    text: ShownText


def work_view(state: JourneyState, phase: str, *, whole: bool) -> WorkView:
    """Return the newest work of a phase, with all that was said about it."""
    work = state.work[phase]
    facts = response_facts(work.usage, work.signals, work.confidence, work.reasoning, work.conversation)
    content = work_html(work.content, whole=whole)
    now = phase == state.phase
    return WorkView(sanitize_line(phase), work.visit, work.version, content, now, work.automatic, fields_of(facts))


def response_facts(
    usage: StepUsage, signals: Sequence[str], confidence: float | None, reasoning: str, conversation: str
) -> dict[str, Any]:
    """Return what was said beside a work, by name; nothing of what was not said."""
    facts: dict[str, Any] = {}
    if usage.tokens_in or usage.tokens_out:
        how = ", estimated by the server" if usage.counted else ""
        facts["tokens"] = f"{usage.tokens_in:,} in, {usage.tokens_out:,} out{how}"
    told = {"model": usage.model, "signals": ", ".join(signals), "reasoning": reasoning, "conversation": conversation}
    facts |= {name: text for name, text in told.items() if text}
    return facts if confidence is None else {**facts, "confidence": confidence}


def question_views(state: JourneyState) -> Sequence[QuestionView]:
    """Return the questions that a person is to answer now, in order; none where they are asked for a yes."""
    return [
        QuestionView(field_of(one), folded(one.question), folded(one.why) if one.why else None)
        for one in open_questions(state)
    ]


def field_of(one: WorkQuestion) -> str:
    """Return the name of the field for the answer to that question, and to no other.

    The page follows the journey while somebody types: what was typed must not become the answer to what is asked instead.
    """
    return f"answer-{hashlib.sha256(canonical([one.id, one.question]).encode()).hexdigest()[:12]}"


def answers_in(state: JourneyState, form: Mapping[str, str]) -> dict[str, str]:
    """Return what a form of the questions asked in this state was filled in with, by question."""
    filled = {one.id: form.get(field_of(one), "") for one in open_questions(state)}
    return {id_: text.replace("\r\n", "\n").strip() for id_, text in filled.items() if text.strip()}


def answer_views(state: JourneyState) -> Sequence[AnswerView]:
    """Return what people answered so far."""
    return [
        AnswerView(sanitize_line(phase), folded(one.get("question", "")), folded(one.get("answer", "")))
        for phase, answers in state.answers.items()
        for one in answers.values()
    ]


def feedback_views(state: JourneyState) -> Sequence[FeedbackView]:
    """Return the feedback that the next attempts know of, by its kind; no kind of which there is none."""
    found = [
        FeedbackView(
            f"{said}s",
            [(sanitize_line(one.phase), one.version, folded(one.text)) for one in state.feedback if one.kind == kind],
        )
        for kind, said in KINDS.items()
    ]
    return [one for one in found if one.items]


def conversation_views(state: JourneyState, log: Iterable[Logged]) -> Sequence[ConversationView]:
    """Return the newest conversations, oldest first."""
    return [
        ConversationView(
            sanitize_line(one.id[:200]),
            joined([sanitize_line(phase[:200]) for phase in one.phases[:PHASES_NAMED]]),
            one.submits,
            one.tokens,
            one.id == state.conversation,
        )
        for one in conversations(log)[-CONVERSATIONS_SHOWN:]
    ]


def document_views(agent: Agent | None, state: JourneyState, *, whole: bool) -> Sequence[DocumentView]:
    """Return the memory documents."""
    return [
        DocumentView(
            sanitize_line(one.name),
            joined([sanitize_line(name) for name in one.others]),
            folded(one.text, len(one.text)) if whole else folded(one.text),
        )
        for one in (each(agent, state) if agent else ())
    ]
