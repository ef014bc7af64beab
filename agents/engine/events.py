"""The events of a journey as frozen values, and the form in which each is stored. Pure.

A *step* changes the state of a journey and its version. A *note* (`NOTES`) only records something that happened in between.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, get_args

from agents.engine.graph import FeedbackKind
from agents.errors import UnknownEvent
from agents.records import BadRecord, codec
from knowledge.history.timestamps import aware, utc_text

Json = Any
"""A value that `json.loads` returns."""
Channel = Literal["relayed", "host", "page", "terminal", "zulip"]
"""Where a person decided: in the chat (the model relays it), in a form of the host, on the review page, in a terminal, or by a message
in the topic in which the journey asked."""
Decision = Literal["approve", "modify", "reject", "revisit", "answer", "cancel"]
STEPS_LISTED = 6
"""How many of the steps that a caller missed are listed in the error."""


@dataclass(frozen=True, slots=True)
class StepUsage:
    """The cost of a step as the host reports it.

    `counted`: the host reported nothing, so the server counted the tokens itself.
    """

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
    """The journey is separate from here on. Everything before happened in the journey `of`, up to that version.

    It continues in `conversation`, or, if that is "", in the conversations of `of`.
    """

    TYPE: ClassVar[str] = "journey.forked"
    of: str
    at_version: int
    principal: str
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class WorkRecorded:
    """The complete work of a phase is now `work`. `automatic`: the server did it."""

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
    """The journey moved. `reason` is the condition that was met, or the person's decision; `detail` says more.

    The target continues in `conversation`, or, if that is "", in the source's; `anew` ends all other conversations.
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
    """A person is asked about `phase` before the journey continues to `target` by `condition`; a blocking one waits for the answer.

    `asks` names the field of the work with questions for the person.
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
    """A person's decision; `Logged.by` names them, and `channel` says where they decided.

    `answers` has, by question id, the wording of each answered question (`question`) and the person's words (`answer`).
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
    """Something went wrong that the next attempt should know about.

    `about` names the statements that a language model doubts, each as its fault and a hash: `validation` sends them back, and
    `soft_failure` notes that they were kept.
    """

    TYPE: ClassVar[str] = "feedback.added"
    kind: FeedbackKind
    phase: str
    text: str
    about: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether it only notes that work was kept although a model disagrees."""
        return self.kind == "soft_failure" and bool(self.about)


@dataclass(frozen=True, slots=True)
class Completed:
    """The work is complete."""

    TYPE: ClassVar[str] = "agent.complete"
    phase: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """A thought of the agent."""

    TYPE: ClassVar[str] = "agent.thinking"
    text: str


@dataclass(frozen=True, slots=True)
class Speaking:
    """A message of the agent to the person."""

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
    """The work has a new source: its locator."""

    TYPE: ClassVar[str] = "data.source.found"
    source: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class ToolStart:
    """A tool is called for the journey. Only the hash of its arguments is stored."""

    TYPE: ClassVar[str] = "tool.start"
    call: str
    tool: str
    arguments_hash: str
    phase: str = ""
    summary: str = ""


@dataclass(frozen=True, slots=True)
class ToolSuccess:
    """The call succeeded. `facts` has the parts of its result that conditions read, never text of a page."""

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
    """Something other than a tool failed."""

    TYPE: ClassVar[str] = "error"
    error: str


# A new event belongs to one of these two unions. A step also needs its case in `_next` (agents/engine/fold.py), and either needs its
# sentence in agents/report/sentences.py; the type checker names both.
Step = Started | Forked | WorkRecorded | PhaseChanged | CheckpointReached | Decided | FeedbackAdded | Completed
Note = Thinking | Speaking | QuestionAdded | SourceFound | ToolStart | ToolSuccess | ToolError | ErrorRaised
Event = Step | Note
NOTES: tuple[type[Note], ...] = get_args(Note)
_BY_TYPE: Mapping[str, type[Event]] = {kind.TYPE: kind for kind in get_args(Event)}


@dataclass(frozen=True, slots=True)
class Logged:
    """An event at its place in the log.

    `seq` counts the events of a journey from 1 without gaps; `version` is the version after the event. `by` is the principal, or
    the person who decided. `key` identifies the act that caused the step, on its first event only.
    """

    seq: int
    version: int
    at: datetime
    by: str
    event: Event
    key: str = ""


def canonical(value: Json) -> str:
    """Return the value as JSON, always the same text for the same value.

    It is ASCII, because not every database stores every character.

    Raises:
        ValueError: it is not JSON (a NaN, an infinite number): a mistake of the caller.
    """
    return json.dumps(value, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))


def event_text(event: Event) -> str:
    """Return the event as JSON with its type, without the fields that have their default."""
    # Defaults are left out, so a field that a later version adds changes no stored text and no digest of an export.
    return canonical({"type": event.TYPE, **codec(type(event)).short_form(event)})


def event_of(text: str) -> Event:
    """Return the event that `event_text` wrote as that text.

    Raises:
        UnknownEvent: there is no such event.
    """
    try:
        form = dict(json.loads(text))
    except (TypeError, ValueError) as error:
        raise UnknownEvent("", "it is not a JSON object") from error
    type_ = str(form.pop("type", ""))
    kind = _BY_TYPE.get(type_)
    if kind is None:
        raise UnknownEvent(type_, "there is no such type")
    try:
        return codec(kind).record(form)
    except BadRecord as error:
        raise UnknownEvent(type_, str(error)) from error


def logged_form(logged: Logged) -> Mapping[str, Json]:
    """Return an event with its place in the log as a JSON object, for files and resources."""
    place = {"seq": logged.seq, "version": logged.version, "at": utc_text(logged.at), "by": logged.by}
    return {**place, **({"key": logged.key} if logged.key else {}), "event": json.loads(event_text(logged.event))}


def logged_of(form: Mapping[str, Json]) -> Logged:
    """Return the event that `logged_form` turned into that object.

    Raises:
        UnknownEvent: there is no such event.
        KeyError, TypeError, ValueError, OverflowError: its place in the log cannot be read.
    """
    # A file may hold a time of the year 1 or 9999, which overflows when it is moved to UTC.
    at = aware(datetime.fromisoformat(form["at"])).astimezone(UTC)
    event = event_of(canonical(form["event"]))
    return Logged(int(form["seq"]), int(form["version"]), at, str(form["by"]), event, str(form.get("key", "")))


def newest_steps(log: Sequence[Logged]) -> tuple[str, ...]:
    """Return the newest steps in a few words each, oldest first, without text from the works."""
    steps = [e for e in log if not isinstance(e.event, NOTES)]
    return tuple(f"version {e.version}: {_summary(e.event)} by {e.by}" for e in steps[-STEPS_LISTED:])


def _summary(event: Event) -> str:
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
            return f"{phase} was found incomplete"
        case Completed():
            return "the work was completed"
        case Forked(of, at_version):
            return f"it was forked from {of} at version {at_version}"
        case _:
            return event.TYPE
