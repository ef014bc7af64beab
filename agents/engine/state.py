"""Where a journey stands: what its events come to. To JSON and back without loss. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from agents.engine.events import Channel, Decision, Json, StepUsage
from agents.engine.graph import FeedbackKind
from agents.errors import BadState
from knowledge.history.timestamps import utc_text

Status = Literal["active", "waiting", "complete", "cancelled"]
"""Waiting: a person is to decide before anything else can be submitted."""
FREE = StepUsage()
TRANSITIONS_KEPT = 10
"""So many of the newest transitions are in the state, which must not grow with the journey; all of them are in its events."""
FORM = 1
"""The form that `get_state` gives."""


@dataclass(frozen=True, slots=True)
class TransitionRecord:
    """One move. `source` and `target` are told as `from` and `to`."""

    source: str
    target: str
    reason: str
    is_backward: bool
    timestamp: datetime
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RecordedWork:
    """The newest work of a phase, whole: that of its visit number `visit`, recorded by the event `seq`, at `version`.

    Beside the `content`: what was said about it, what it cost, and whose conversation it came from. `automatic`: the server
    itself did it.
    """

    seq: int
    version: int
    visit: int
    content: Json
    confidence: float | None = None
    reasoning: str = ""
    signals: tuple[str, ...] = ()
    usage: StepUsage = FREE
    conversation: str = ""
    automatic: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a person is asked: to let the work of `phase` go on to `target`, by `condition`.

    Optional: the work went on, and until the next submit the person may still send it back. `asks` names the field of the
    work that holds questions which the person is to answer; "" if they are to agree.
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
    """What a person said last."""

    decision: Decision
    channel: Channel
    by: str
    phase: str
    note: str
    changes: Json
    at: datetime


@dataclass(frozen=True, slots=True)
class Feedback:
    """Something that went wrong in a phase, which the next attempt should know of."""

    kind: FeedbackKind
    phase: str
    text: str
    version: int


@dataclass(frozen=True, slots=True)
class PhaseMetrics:
    """What a phase took so far; `seconds` are those of the visits that are over.

    `counted` are those of the tokens that no host reported, so that they were counted from prompts and works.
    """

    visits: int = 0
    submits: int = 0
    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    counted: int = 0


@dataclass(frozen=True, slots=True)
class JourneyState:
    """What all events up to `seq` come to, notes aside. Its size does not grow with their number."""

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
    """So many moves went back."""
    conversations: Mapping[str, str] = field(default_factory=dict)
    """The conversation that each speaker goes on in, by the speaker."""
    answers: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    """What a person answered: by phase and id of the question, its words (`question`) and the person's (`answer`)."""
    answered_at: tuple[int, ...] = ()
    """The events that brought these answers."""

    @property
    def visit(self) -> int:
        """Return the number of the present visit to the present phase."""
        return self.phase_visits[self.phase]

    @property
    def iteration(self) -> int:
        """Return the number of the present attempt: each way back begins another."""
        return self.returns + 1

    @property
    def works(self) -> Mapping[str, Mapping[str, Json]]:
        """Return the newest work of each phase, without works that are not JSON objects."""
        return {phase: kept.content for phase, kept in self.work.items() if isinstance(kept.content, dict)}

    @property
    def over(self) -> bool:
        """Return whether nothing more is to be submitted, ever, unless a person sends it back."""
        return self.status in ("complete", "cancelled")


Slotted = JourneyState | TransitionRecord | RecordedWork | Checkpoint | Word | Feedback | PhaseMetrics | StepUsage


def get_state(state: JourneyState) -> dict[str, Json]:
    """Return the state as a JSON object, of which `restore_state` makes the same state again, anywhere."""
    return {
        "form": FORM,
        **_told(state),
        "inputs": dict(state.inputs),
        "phase_visits": dict(state.phase_visits),
        "metrics": {phase: _told(metrics) for phase, metrics in state.metrics.items()},
        "transition_history": [_moved(record) for record in state.transition_history],
        "work": {phase: _recorded(work) for phase, work in state.work.items()},
        "checkpoint": state.checkpoint and _told(state.checkpoint),
        "word": state.word and _told(state.word),
        "feedback": [_told(feedback) for feedback in state.feedback],
        "answered_at": list(state.answered_at),
    }


def _moved(record: TransitionRecord) -> dict[str, Json]:
    told = _told(record)
    return {"from": told.pop("source"), "to": told.pop("target"), **told}


def _told(part: Slotted) -> dict[str, Json]:
    """Return the fields of a part of a state, times as text. Not `asdict`, which copies every work to the bottom."""
    found = {name: getattr(part, name) for name in part.__slots__}
    return {name: utc_text(value) if isinstance(value, datetime) else value for name, value in found.items()}


def _recorded(work: RecordedWork) -> dict[str, Json]:
    """Return the fields of a work; what says nothing is left out, as there are many works in a state that is kept."""
    told: dict[str, Json] = {
        "seq": work.seq,
        "version": work.version,
        "visit": work.visit,
        "content": work.content,
    }
    if work.confidence is not None:
        told["confidence"] = work.confidence
    if work.reasoning:
        told["reasoning"] = work.reasoning
    if work.signals:
        told["signals"] = list(work.signals)
    if work.usage != FREE:
        told["usage"] = _told(work.usage)
    if work.conversation:
        told["conversation"] = work.conversation
    if work.automatic:
        told["automatic"] = True
    return told


def restore_state(form: Mapping[str, Json]) -> JourneyState:
    """Return the state of which `get_state` made that form.

    Raises:
        BadState: it is another form, or lacks something.
    """
    if form.get("form") != FORM:
        raise BadState(f"its form is {form.get('form')!r}, this program reads {FORM}")
    try:
        return _restored({name: value for name, value in form.items() if name != "form"})
    except KeyError as error:
        raise BadState(f"it lacks {error.args[0]!r}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise BadState("a field holds something of another kind") from error


def _restored(form: dict[str, Any]) -> JourneyState:
    checkpoint, word = form["checkpoint"], form["word"]
    return JourneyState(
        **{
            **form,
            "metrics": {phase: PhaseMetrics(**told) for phase, told in form["metrics"].items()},
            "started_at": _time(form["started_at"]),
            "entered_at": _time(form["entered_at"]),
            "moved_at": _time(form["moved_at"]),
            "transition_history": tuple(_record(told) for told in form["transition_history"]),
            "work": {phase: _work(told) for phase, told in form["work"].items()},
            "checkpoint": checkpoint and Checkpoint(**{**checkpoint, "since": _time(checkpoint["since"])}),
            "word": word and Word(**{**word, "at": _time(word["at"])}),
            "feedback": tuple(Feedback(**told) for told in form["feedback"]),
            "answered_at": tuple(form.get("answered_at", ())),
        }
    )


def _work(told: dict[str, Any]) -> RecordedWork:
    rest = dict(told)
    usage, signals = StepUsage(**rest.pop("usage", {})), tuple(rest.pop("signals", ()))
    return RecordedWork(**rest, usage=usage, signals=signals)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _record(told: dict[str, Any]) -> TransitionRecord:
    rest = {**told, "timestamp": _time(told["timestamp"])}
    return TransitionRecord(rest.pop("from"), rest.pop("to"), **rest)


def bare(state: JourneyState) -> JourneyState:
    """Return the state without what its events hold word for word: brief, inputs, answers, and of works all but where they are."""
    without = {phase: RecordedWork(work.seq, work.version, work.visit, None) for phase, work in state.work.items()}
    return replace(state, brief="", inputs={}, answers={}, work=without)


def held(state: JourneyState) -> tuple[int, ...]:
    """Return the events, by `seq`, that hold what `bare` left out; the first is the one that started the journey."""
    return (1, *sorted({*state.answered_at, *(work.seq for work in state.work.values())}))
