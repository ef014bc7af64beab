"""Describe each event of a journey in a sentence, in the same words wherever it is shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from agents.engine.events import (
    Channel,
    CheckpointReached,
    Completed,
    Decided,
    ErrorRaised,
    Event,
    FeedbackAdded,
    Forked,
    Note,
    PhaseChanged,
    QuestionAdded,
    SourceFound,
    Speaking,
    Started,
    StepUsage,
    Thinking,
    ToolError,
    ToolStart,
    ToolSuccess,
    WorkRecorded,
)
from agents.engine.graph import ALWAYS, PhaseGraph
from agents.engine.state import RecordedWork
from agents.prompts.prompt import REASONS

CHANNELS: Mapping[Channel, str] = {
    "page": "on the review page",
    "terminal": "in a terminal",
    "host": "in the host's form",
    "relayed": "relayed by the host",
    "zulip": "by a message in Zulip",
}
_CHECKPOINTS = {
    "blocking": "A person must decide on {0} before work continues.",
    "optional": "A person can still comment on {0}; work has continued.",
    "informational": "A person was notified that {0} is done.",
}

SentenceKind = Literal["start", "work", "move", "back", "person", "missing", "note", "call"]


@dataclass(frozen=True, slots=True)
class EventSentence:
    """An event as a sentence. `names`, which people and models chose, go where `form` has {0}, {1} and so on.

    `text` is a message recorded with the event, `facts` are other recorded values by name.
    """

    kind: SentenceKind
    form: str
    names: tuple[str, ...] = ()
    text: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.form.format(*self.names)


def event_sentence(event: Event, graph: PhaseGraph | None = None) -> EventSentence:
    """Return the event in a sentence. With the agent's graph it also says why a move needed no condition."""
    match event:
        case Started(agent=agent, phase=phase, brief=brief):
            return EventSentence("start", "{0} started in {1}.", (agent, phase), brief)
        case Forked(of, at_version):
            return EventSentence("start", "Forked from {0} at version {1}.", (of, str(at_version)))
        case WorkRecorded(phase=phase, visit=visit):
            form = "The server ran {0}, visit {1}." if event.automatic else "Work on {0} was recorded, visit {1}."
            return EventSentence("work", form, (phase, str(visit)), facts=response_facts(event))
        case PhaseChanged():
            return _moved(event, graph)
        case CheckpointReached(phase, kind=kind, asks=asks):
            form = "Asked a person questions from {0}." if asks else _CHECKPOINTS.get(kind, _CHECKPOINTS["blocking"])
            return EventSentence("person", form, (phase,))
        case Decided(decision, channel, phase, note):
            changes = event.changes if isinstance(event.changes, Mapping) else {}
            answers = {one.get("question", "")[:500]: one.get("answer", "") for one in event.answers.values()}
            names = (decision, phase, CHANNELS.get(channel, channel))
            facts = {str(name): value for name, value in changes.items()} | answers
            return EventSentence("person", "Response from a person: {0}, in {1}, {2}.", names, note, facts)
        case FeedbackAdded(_, phase, text) if event.kept:
            return EventSentence("missing", "Kept in {0}, although a model disagrees:", (phase,), text)
        case FeedbackAdded(kind, phase, text):
            return EventSentence("missing", "Incomplete in {0} ({1}):", (phase, kind.replace("_", " ")), text)
        case Completed():
            return EventSentence("move", "The work is complete.")
        case _:
            return _note_sentence(event)


def _note_sentence(event: Note) -> EventSentence:
    match event:
        case Thinking(text):
            return EventSentence("note", "Agent's reasoning:", text=text)
        case Speaking(text):
            return EventSentence("note", "Told to the person:", text=text)
        case QuestionAdded(question_id, text, category):
            where = f"{question_id}, {category}" if category else question_id
            return EventSentence("note", "Question added ({0}):", (where,), text)
        case SourceFound(source, title):
            return EventSentence("note", "Source found: {0}", (f"{title} ({source})" if title else source,))
        case ToolStart(tool=tool, summary=summary):
            return EventSentence("call", "{0} called:" if summary else "{0} called.", (tool,), summary)
        case ToolSuccess(tool=tool, duration_ms=took, summary=summary):
            end = ":" if summary else "."
            return EventSentence("call", "{0} answered in {1} ms" + end, (tool, f"{took:,.0f}"), summary)
        case ToolError(tool=tool, duration_ms=took, error=error):
            return EventSentence("missing", "{0} failed after {1} ms:", (tool, f"{took:,.0f}"), error)
        case ErrorRaised(error):
            return EventSentence("missing", "Something failed:", text=error)
        case unknown:
            assert_never(unknown)


def _moved(event: PhaseChanged, graph: PhaseGraph | None) -> EventSentence:
    form = "Returned from {0} to {1}: {2}." if event.is_backward else "Moved from {0} to {1}: {2}."
    why = REASONS.get(event.reason, event.reason)
    if why == ALWAYS:
        others = graph and any(t.source == event.source and t.condition != ALWAYS for t in graph.transitions)
        why = "no other condition was met" if others else "any work leads there"
    facts = {"conversation": event.conversation} if event.conversation else {}
    facts |= {"conversations": "all start again"} if event.anew else {}
    return EventSentence(
        "back" if event.is_backward else "move", form, (event.source, event.target, why), event.detail, facts
    )


def response_facts(work: RecordedWork | WorkRecorded) -> dict[str, Any]:
    """Return the facts that a host gave with a work, such as its model, by name, without those that it left out."""
    usage, facts = work.usage, dict[str, Any]()
    if usage.tokens_in or usage.tokens_out:
        facts["tokens"] = tokens_text(usage)
    texts = {
        "model": usage.model,
        "signals": ", ".join(work.signals),
        "reasoning": work.reasoning,
        "conversation": work.conversation,
    }
    facts |= {name: text for name, text in texts.items() if text}
    return facts if work.confidence is None else {**facts, "confidence": work.confidence}


def tokens_text(usage: StepUsage) -> str:
    """Return the tokens of a step."""
    how = ", estimated by the server" if usage.counted else ""
    return f"{usage.tokens_in:,} in, {usage.tokens_out:,} out{how}"
