"""What can happen in a journey, as frozen values, and the form in which each is kept. Pure.

A *step* moves the journey and its version. What is only noted (`NOTES`) says what went on meanwhile and moves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar, Literal, get_args, get_type_hints

from agents.engine.graph import FeedbackKind
from agents.engine.work.field_types import fits
from agents.errors import UnknownEvent
from knowledge.history.timestamps import aware, utc_text

Json = Any
"""A value as JSON has them."""
Channel = Literal["relayed", "host", "page", "terminal"]
"""Where a person said it: to the host's model, which passed it on; in the host's own form; on the review page; in a terminal."""
Decision = Literal["approve", "modify", "reject", "revisit", "answer", "cancel"]
STEPS_TOLD = 6
"""So many steps are told to somebody who comes too late."""


@dataclass(frozen=True, slots=True)
class StepUsage:
    """What a step cost, as the host reports it; `counted`: it reported nothing, and the tokens are those of prompt and work."""

    tokens_in: int = 0
    tokens_out: int = 0
    model: str = ""
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """The journey begins in `phase`."""

    TYPE: ClassVar[str] = "journey.started"
    agent: str
    brief: str
    phase: str
    principal: str
    inputs: Mapping[str, Json] = field(default_factory=dict)
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class Forked:
    """From here on this is a journey of its own; what came before happened in `of`, up to that version of it.

    `conversation` is the one in which it goes on, "" for those of the other journey.
    """

    TYPE: ClassVar[str] = "journey.forked"
    of: str
    at_version: int
    principal: str
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class WorkRecorded:
    """The work of a phase is `work` now, whole. `automatic`: the server itself did it."""

    TYPE: ClassVar[str] = "work.recorded"
    phase: str
    visit: int
    work: Json
    signals: tuple[str, ...] = ()
    usage: StepUsage = field(default_factory=StepUsage)
    confidence: float | None = None
    reasoning: str = ""
    conversation: str = ""
    automatic: bool = False


@dataclass(frozen=True, slots=True)
class PhaseChanged:
    """The work moved. `reason` is the condition that was met, or the decision that sent it; `detail` says more.

    `conversation` is the one in which the target goes on, "" for that in which the source was; `anew` ends all others.
    """

    TYPE: ClassVar[str] = "phase.changed"
    source: str
    target: str
    reason: str
    is_backward: bool
    detail: str = ""
    conversation: str = ""
    anew: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointReached:
    """A person is asked about `phase` before the work goes on to `target` by `condition`; blocking: it waits for them.

    `asks` names the field of the work that holds questions which the person is to answer.
    """

    TYPE: ClassVar[str] = "phase.checkpoint"
    phase: str
    target: str
    condition: str
    kind: Literal["informational", "optional", "blocking"]
    own_hand: bool = False
    asks: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """What a person said. Whose word it is says `Logged.by`; `channel` says how it got here.

    `answers` has, by the id of each question that was answered, its words (`question`) and the person's (`answer`).
    """

    TYPE: ClassVar[str] = "journey.decided"
    decision: Decision
    channel: Channel
    phase: str
    note: str = ""
    changes: Json = None
    answers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FeedbackAdded:
    """Something went wrong that the next attempt should know of."""

    TYPE: ClassVar[str] = "feedback.added"
    kind: FeedbackKind
    phase: str
    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The work is complete."""

    TYPE: ClassVar[str] = "agent.complete"
    phase: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """What the agent thinks, where it says so."""

    TYPE: ClassVar[str] = "agent.thinking"
    text: str


@dataclass(frozen=True, slots=True)
class Speaking:
    """What the agent tells the person."""

    TYPE: ClassVar[str] = "agent.speaking"
    text: str


@dataclass(frozen=True, slots=True)
class QuestionAdded:
    """The work has a new question."""

    TYPE: ClassVar[str] = "data.question.added"
    question_id: str
    text: str
    category: str = ""


@dataclass(frozen=True, slots=True)
class SourceFound:
    """The work rests on a new source, by its locator."""

    TYPE: ClassVar[str] = "data.source.found"
    source: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class ToolStart:
    """A tool is called for the journey. The arguments are kept as their hash, not themselves."""

    TYPE: ClassVar[str] = "tool.start"
    call: str
    tool: str
    arguments_hash: str
    phase: str = ""
    summary: str = ""


@dataclass(frozen=True, slots=True)
class ToolSuccess:
    """The call is answered. `facts` are the few of the answer that conditions look at, never text of a page."""

    TYPE: ClassVar[str] = "tool.success"
    call: str
    tool: str
    duration_ms: float
    summary: str = ""
    facts: Mapping[str, Json] = field(default_factory=dict)
    phase: str = ""


@dataclass(frozen=True, slots=True)
class ToolError:
    """The call failed, or was refused."""

    TYPE: ClassVar[str] = "tool.error"
    call: str
    tool: str
    duration_ms: float
    error: str


@dataclass(frozen=True, slots=True)
class ErrorRaised:
    """Something failed that was no tool."""

    TYPE: ClassVar[str] = "error"
    error: str


Step = Started | Forked | WorkRecorded | PhaseChanged | CheckpointReached | Decided | FeedbackAdded | Completed
Note = Thinking | Speaking | QuestionAdded | SourceFound | ToolStart | ToolSuccess | ToolError | ErrorRaised
Event = Step | Note
NOTES: tuple[type[Note], ...] = get_args(Note)
_BY_TYPE: Mapping[str, type[Event]] = {kind.TYPE: kind for kind in get_args(Event)}


@dataclass(frozen=True, slots=True)
class Logged:
    """An event in its place.

    `seq` counts a journey's events from 1 without gaps; `version` is the one that the event led to, or met if it is a note.
    `by` is the principal, or the person who decided. `key` names the act of a step, on its first event only.
    """

    seq: int
    version: int
    at: datetime
    by: str
    event: Event
    key: str = ""


def canonical(value: Json) -> str:
    """Return the value as JSON, the same text for the same value, in ASCII, so that every database keeps every character.

    Raises:
        ValueError: it is no JSON (not a number, infinite): a mistake of the caller.
    """
    return json.dumps(value, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))


def event_text(event: Event) -> str:
    """Return the event as JSON with its type; what it leaves at its default is left out."""
    form, usual = {f.name: getattr(event, f.name) for f in fields(event)}, _defaults(event)
    told = {name: value for name, value in form.items() if value != usual.get(name, ...)}
    if isinstance(event, WorkRecorded) and "usage" in told:
        told["usage"] = {f.name: getattr(event.usage, f.name) for f in fields(StepUsage)}
    return canonical({"type": event.TYPE, **told})


def _defaults(event: Event) -> Mapping[str, Any]:
    made = {f.name: f.default_factory() for f in fields(event) if callable(f.default_factory)}
    return made | {f.name: f.default for f in fields(event) if f.name not in made}


def event_of(text: str) -> Event:
    """Return the event of which `event_text` made that text.

    Raises:
        UnknownEvent: it is none of ours.
    """
    try:
        form = dict(json.loads(text))
    except (TypeError, ValueError) as error:
        raise UnknownEvent("", "it is no JSON object") from error
    type_ = str(form.pop("type", ""))
    kind = _BY_TYPE.get(type_)
    if kind is None:
        raise UnknownEvent(type_, "there is no such type")
    try:
        if kind is WorkRecorded:
            form["signals"] = tuple(form.get("signals", ()))
            form["usage"] = StepUsage(**form.get("usage", {}))
        event = kind(**form)
    except TypeError as error:
        raise UnknownEvent(type_, str(error).rpartition("() ")[2]) from error
    for name in _validation_errors(event):
        raise UnknownEvent(type_, f"its {name} is of another kind")
    return event


def _validation_errors(event: Event) -> Sequence[str]:
    """Return which fields hold no such value as they are declared with."""
    wrong = [name for name, of_kind in _fitting(event.TYPE) if not of_kind(getattr(event, name))]
    if isinstance(event, WorkRecorded):
        wrong += [f"usage.{name}" for name, of_kind in _fitting("") if not of_kind(getattr(event.usage, name))]
    return wrong


@cache
def _fitting(type_: str) -> Sequence[tuple[str, Callable[[Any], bool]]]:
    """Return what tells for each field of an event of that type, or of `StepUsage` under "", whether a value is of its kind."""
    kind = _BY_TYPE[type_] if type_ else StepUsage
    hints = get_type_hints(kind)
    return [(f.name, fits(hints[f.name])) for f in fields(kind)]


def logged_form(logged: Logged) -> Mapping[str, Json]:
    """Return an event in its place as a JSON object, as files and resources show it."""
    told = {"seq": logged.seq, "version": logged.version, "at": utc_text(logged.at), "by": logged.by}
    return {**told, **({"key": logged.key} if logged.key else {}), "event": json.loads(event_text(logged.event))}


def logged_of(form: Mapping[str, Json]) -> Logged:
    """Return the event of which `logged_form` made that form.

    Raises:
        UnknownEvent: the event in it is none of ours.
        KeyError, TypeError, ValueError, OverflowError: it is no such form.
    """
    at = aware(datetime.fromisoformat(form["at"])).astimezone(UTC)
    event = event_of(canonical(form["event"]))
    return Logged(int(form["seq"]), int(form["version"]), at, str(form["by"]), event, str(form.get("key", "")))


def said(event: Event) -> str:
    """Return the event in a few words, for somebody who was not there. Nothing of the work itself."""
    match event:
        case PhaseChanged(source, target, reason, is_backward):
            return f"went {'back ' if is_backward else ''}from {source} to {target} ({reason})"
        case WorkRecorded(phase):
            return f"work on {phase} was recorded"
        case CheckpointReached(phase):
            return f"a person was asked about {phase}"
        case Decided(decision, channel, phase):
            return f"a person said {decision} at {phase} ({channel})"
        case FeedbackAdded(_, phase):
            return f"{phase} was found not done yet"
        case Completed():
            return "the work was complete"
        case Forked(of, at_version):
            return f"it was forked from {of} at version {at_version}"
        case _:
            return event.TYPE


def in_words(log: Sequence[Logged]) -> tuple[str, ...]:
    """Return the newest steps among the events in a few words each, oldest first, with whose they were."""
    steps = [e for e in log if not isinstance(e.event, NOTES)]
    return tuple(f"version {e.version}: {said(e.event)} by {e.by}" for e in steps[-STEPS_TOLD:])
