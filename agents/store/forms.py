"""The forms in which engines keep journeys, and the few rules that are the same in all of them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from agents.engine.events import (
    NOTES,
    Decided,
    Event,
    Logged,
    Note,
    Started,
    ToolStart,
    WorkRecorded,
    canonical,
    event_of,
    event_text,
)
from agents.engine.fold import fold, in_order, recorded
from agents.engine.state import JourneyState, RecordedWork, bare, get_state, restore_state
from agents.errors import BadLog, NoSuchJourney, UnknownEvent
from agents.store.ports import MOST_KEY_CHARS, TITLE_CHARS
from knowledge.history.acts import storable
from knowledge.history.timestamps import aware
from knowledge.state.retention.cuts import RETENTION, shortened_object

MOST_OF_A_TEXT, MOST_OF_A_VALUE = 200, 1_000
"""Characters that are kept of a text, and of anything else, after its retention."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


def new_id(journey: str) -> str:
    """Return the id.

    Raises:
        ValueError: no journey can have it: a mistake of the caller.
    """
    if not _ID.fullmatch(journey):
        raise ValueError(
            "a journey's id has at most 100 letters, digits and . _ : -, and begins with a letter or digit"
        )
    return journey


def asked_id(journey: str) -> str:
    """Return the id of a journey that there may be.

    Raises:
        NoSuchJourney: no journey has such an id.
    """
    if not _ID.fullmatch(journey):
        raise NoSuchJourney(journey[:100])
    return journey


def as_kept(logged: Logged) -> Logged:
    """Return the event as it comes back from where it was kept."""
    return replace(logged, event=event_of(event_text(logged.event)))


def beginning(begun: Started, by: str, at: datetime) -> Logged:
    """Return the first event of a journey."""
    return Logged(1, 1, aware(at), storable(by), replace(begun, principal=storable(begun.principal)))


def alike(one: Event, other: Event) -> bool:
    """Return whether two journeys that begin like this are begun alike; each has a conversation of its own."""
    return _without_conversation(one) == _without_conversation(other)


def _without_conversation(event: Event) -> str:
    return event_text(replace(event, conversation="") if isinstance(event, Started) else event)


def numbered(state: JourneyState, events: Sequence[Event], key: str, by: str, at: datetime) -> list[Logged]:
    """Return the events as the next step after `state`.

    Raises:
        ValueError: there are none, or they have no usable key: a mistake of the caller.
    """
    if not events or not key.isascii() or not 0 < len(key) <= MOST_KEY_CHARS:
        raise ValueError("a step has at least one event, and a key of at most 200 ASCII characters")
    version, told = state.version + 1, storable(by)
    return [
        Logged(state.seq + n, version, aware(at), told, event, key if n == 1 else "")
        for n, event in enumerate(events, 1)
    ]


def noted(version: int, seq: int, notes: Sequence[Note], by: str, at: datetime) -> list[Logged]:
    """Return the notes in their places after event `seq`."""
    told = storable(by)
    return [Logged(seq + n, version, aware(at), told, note) for n, note in enumerate(notes, 1)]


def whole(log: Sequence[Logged]) -> JourneyState:
    """Return what a log that is taken over comes to.

    Raises:
        BadLog: its events do not follow each other, or a key of it is there twice.
    """
    keys = [logged.key for logged in log if logged.key]
    if len(set(keys)) < len(keys):
        raise BadLog(len(log), "two steps have one key")
    for logged in log:
        aware(logged.at)
    return fold(log)


def title(state: JourneyState) -> str:
    """Return the beginning of the brief on one line."""
    line = " ".join(storable(state.brief).split())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "\u2026"


def state_text(state: JourneyState) -> str:
    """Return the state as JSON, without what its events hold word for word."""
    return canonical(get_state(bare(state)))


def state_of(text: str) -> JourneyState:
    """Return the state of which `state_text` made that text; it is still bare."""
    return restore_state(json.loads(text))


def filled(state: JourneyState, events: Mapping[int, Event]) -> JourneyState:
    """Return the state with what `bare` left out, from the events that hold it, by `seq`."""
    begun = events[1]
    if not isinstance(begun, Started):
        raise UnknownEvent(begun.TYPE, "a journey begins with `journey.started`")
    work = {phase: _recorded(work, events[work.seq]) for phase, work in state.work.items()}
    answers = _answered([events[seq] for seq in state.answered_at])
    return replace(state, brief=begun.brief, inputs=begun.inputs, work=work, answers=answers)


def _answered(events: Sequence[Event]) -> dict[str, dict[str, Mapping[str, str]]]:
    """Return what a person answered by these events: of the same question the newest."""
    found: dict[str, dict[str, Mapping[str, str]]] = {}
    for event in events:
        if not isinstance(event, Decided):
            raise UnknownEvent(event.TYPE, "the state says that it has answers")
        found.setdefault(event.phase, {}).update(event.answers)
    return in_order({phase: in_order(answers) for phase, answers in found.items()})


def _recorded(work: RecordedWork, event: Event) -> RecordedWork:
    if not isinstance(event, WorkRecorded):
        raise UnknownEvent(event.TYPE, "the state says that it records work")
    return recorded(event, work.seq, work.version)


def is_bounded(events: Sequence[Event]) -> bool:
    """Return whether the events may be refused for a quota: a host asks for them, and no person has said them with their own hand."""
    first = events[0]
    if isinstance(first, NOTES):
        return isinstance(first, ToolStart)  # the end of a call, or what comes along, is not lost for it
    return not (isinstance(first, Decided) and first.channel != "relayed")


def shorter(log: Sequence[Logged]) -> list[Logged]:
    """Return the log as it is kept after its retention."""
    return [replace(logged, event=event_of(_shorter(event_text(logged.event)))) for logged in log]


def _shorter(body: str) -> str:
    return shortened_object(body, MOST_OF_A_TEXT, MOST_OF_A_VALUE, RETENTION)


def texts(log: Sequence[Logged]) -> dict[int, str]:
    """Return the text of each event by its number."""
    return {logged.seq: event_text(logged.event) for logged in log}


def upto(journey: str, log: Sequence[Logged], version: int) -> list[Logged]:
    """Return the part of the log that led to that version, with what was noted at it.

    Raises:
        NoSuchJourney: it never had that version.
    """
    newest = log[-1].version
    if not 1 <= version <= newest:
        raise NoSuchJourney(journey, version, newest)
    return [logged for logged in log if logged.version <= version]


def logged_row(row: Sequence[object]) -> Logged:
    """Return the event in a row of number, version, time, by, key and text."""
    seq, version, at, by, key, text = row
    if not (isinstance(seq, int) and isinstance(version, int) and isinstance(at, datetime)):
        raise TypeError("no row of an event")
    return Logged(seq, version, at, str(by), event_of(str(text)), str(key or ""))
