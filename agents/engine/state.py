"""The state of a journey: the result of its events. Converted to JSON and back without loss. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from agents.engine.events import Channel, Decision, Json, StepUsage
from agents.engine.graph import FeedbackKind
from agents.errors import BadState
from agents.records import BadRecord, codec

Status = Literal["active", "waiting", "complete", "cancelled"]
"""Waiting: a person has to decide before anything else can be submitted."""
NO_USAGE = StepUsage()
TRANSITIONS_KEPT = 10
"""How many of the newest transitions the state keeps: it must not grow with the journey. The events have all of them."""
FORM = 1
"""The version of the JSON form."""


@dataclass(frozen=True, slots=True)
class TransitionRecord:
    """One move."""

    source: str = field(metadata={"key": "from"})
    target: str = field(metadata={"key": "to"})
    reason: str
    is_backward: bool
    timestamp: datetime
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RecordedWork:
    """The newest work of a phase.

    It was done in the phase's visit number `visit` and recorded by the event `seq`, at `version`.

    The other fields are the host's remarks on the `content`, its cost, and the conversation that it came from. `automatic`: the
    server did it.
    """

    seq: int
    version: int
    visit: int
    content: Json
    confidence: float | None = None
    reasoning: str = ""
    signals: tuple[str, ...] = ()
    usage: StepUsage = NO_USAGE
    conversation: str = ""
    automatic: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The question to a person: may the work of `phase` continue to `target`, by `condition`?

    Optional: the work went on, and until the next submit the person may still send it back. `asks` names the field of the work
    with questions for the person; "" if they only approve.
    """

    phase: str
    target: str
    condition: str
    kind: Literal["optional", "blocking"]
    own_hand: bool
    since: datetime
    asks: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    """The last decision of a person."""

    decision: Decision
    channel: Channel
    by: str
    phase: str
    note: str
    changes: Json
    at: datetime


@dataclass(frozen=True, slots=True)
class Feedback:
    """Something that went wrong in a phase, for the next attempt; `kept`: work that was kept although a model disagrees."""

    kind: FeedbackKind
    phase: str
    text: str
    version: int
    kept: bool = False


@dataclass(frozen=True, slots=True)
class PhaseMetrics:
    """The cost of a phase so far; `seconds` only of finished visits.

    `counted` are tokens that no host reported: the server counted them from prompts and works.
    """

    visits: int = 0
    submits: int = 0
    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    counted: int = 0


@dataclass(frozen=True, slots=True)
class JourneyState:
    """The result of all events up to `seq`, except notes. Its size does not grow with their number."""

    agent: str
    brief: str
    inputs: Mapping[str, Json]
    principal: str
    phase: str
    version: int
    seq: int
    status: Status
    phase_visits: Mapping[str, int]
    metrics: Mapping[str, PhaseMetrics]
    started_at: datetime
    entered_at: datetime
    moved_at: datetime
    transitions: int = 0
    transition_history: tuple[TransitionRecord, ...] = ()
    backward_trigger: str | None = None
    backward_trigger_detail: str | None = None
    work: Mapping[str, RecordedWork] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    word: Word | None = None
    feedback: tuple[Feedback, ...] = ()
    conversation: str = ""
    forked_from: str = ""
    forked_at: int = 0
    entered_seq: int = 1
    """The event with which the present visit began."""
    returns: int = 0
    """How many moves went back."""
    conversations: Mapping[str, str] = field(default_factory=dict)
    """The conversation of each speaker."""
    answers: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    """A person's answers: by phase and id of the question, its wording (`question`) and the person's words (`answer`)."""
    answered_at: tuple[int, ...] = ()
    """The events that brought these answers."""
    feedback_dropped: Mapping[str, int] = field(default_factory=dict)
    """How many older entries of feedback no longer fit, by `kind/phase`; the events have them."""

    @property
    def visit(self) -> int:
        """The number of the present visit to the present phase."""
        return self.phase_visits[self.phase]

    @property
    def iteration(self) -> int:
        """The number of the present attempt: each move back begins another."""
        return self.returns + 1

    @property
    def works(self) -> Mapping[str, Mapping[str, Json]]:
        """The newest work of each phase, without works that are not JSON objects."""
        return {phase: kept.content for phase, kept in self.work.items() if isinstance(kept.content, dict)}

    @property
    def over(self) -> bool:
        """Whether nothing more can be submitted, unless a person sends it back."""
        return self.status in ("complete", "cancelled")


def get_state(state: JourneyState) -> dict[str, Json]:
    """Return the state as a JSON object, from which `restore_state` makes the same state on any machine."""
    # A stored state has many works, and most of them have few of their fields.
    works = {phase: codec(RecordedWork).short_form(work) for phase, work in state.work.items()}
    return {"form": FORM, **codec(JourneyState).form(state), "work": works}


def restore_state(form: Mapping[str, Json]) -> JourneyState:
    """Return the state from an object that `get_state` returned.

    Raises:
        BadState: it has another format, or a field is missing or wrong.
    """
    if form.get("form") != FORM:
        raise BadState(f"its format is {form.get('form')!r}; this program reads {FORM}")
    try:
        return codec(JourneyState).record({name: value for name, value in form.items() if name != "form"})
    except BadRecord as error:
        raise BadState(str(error)) from error


def without_content(state: JourneyState) -> JourneyState:
    """Return the state without the texts that its events hold word for word: brief, inputs, answers, and works' contents."""
    without = {phase: RecordedWork(work.seq, work.version, work.visit, None) for phase, work in state.work.items()}
    return replace(state, brief="", inputs={}, answers={}, work=without)


def content_events(state: JourneyState) -> tuple[int, ...]:
    """Return the events, by `seq`, that hold what `without_content` leaves out; the first one started the journey."""
    return (1, *sorted({*state.answered_at, *(work.seq for work in state.work.values())}))
