"""How journeys are stored, and the rules that every engine applies to them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

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
from agents.engine.state import JourneyState, get_state, restore_state, without_content
from agents.errors import BadLog, NoSuchJourney, UnknownEvent
from agents.store.ports import MOST_KEY_CHARS, TITLE_CHARS
from knowledge.history.acts import storable
from knowledge.history.timestamps import aware, moment
from knowledge.state.retention.cuts import after_retention

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


def new_id(journey: str) -> str:
    """Return the id of a new journey. Raises: ValueError: it cannot be an id, which is a mistake of the caller."""
    if not _ID.fullmatch(journey):
        raise ValueError(
            "a journey's id has at most 100 letters, digits and . _ : -, and begins with a letter or digit"
        )
    return journey


def checked_id(journey: str) -> str:
    """Return the id if it has the form of one.

    Raises:
        NoSuchJourney: no journey has such an id.
    """
    if not _ID.fullmatch(journey):
        raise NoSuchJourney(journey[:100])
    return journey


def first_event(begun: Started, by: str, at: datetime) -> Logged:
    """Return the first event of a journey."""
    return Logged(1, 1, aware(at), storable(by), replace(begun, principal=storable(begun.principal)))


def same_start(one: Event, other: Event) -> bool:
    """Return whether two first events are equal apart from the conversation, which differs for each journey."""
    first, second = (event_text(replace(e, conversation="") if isinstance(e, Started) else e) for e in (one, other))
    return first == second


def numbered(state: JourneyState, events: Sequence[Event], key: str, by: str, at: datetime) -> list[Logged]:
    """Return the events as the next step after `state`.

    Raises: ValueError: there are no events, or no usable key, which is a mistake of the caller.
    """
    if not events or not key.isascii() or not 0 < len(key) <= MOST_KEY_CHARS:
        raise ValueError("a step has at least one event, and a key of at most 200 ASCII characters")
    version, actor = state.version + 1, storable(by)
    return [
        Logged(state.seq + n, version, aware(at), actor, event, key if n == 1 else "")
        for n, event in enumerate(events, 1)
    ]


def numbered_notes(version: int, seq: int, notes: Sequence[Note], by: str, at: datetime) -> list[Logged]:
    """Return the notes as the events after event `seq`."""
    actor = storable(by)
    return [Logged(seq + n, version, aware(at), actor, note) for n, note in enumerate(notes, 1)]


def state_of_log(log: Sequence[Logged]) -> JourneyState:
    """Return the state that a log from elsewhere leads to.

    Raises: BadLog: its events do not follow each other, or two steps have the same key.
    """
    keys = [logged.key for logged in log if logged.key]
    if len(set(keys)) < len(keys):
        raise BadLog(len(log), "two steps have one key")
    for logged in log:
        # Only for its error: a time without a zone could not be compared with the others.
        aware(logged.at)
    return fold(log)


def title_of(state: JourneyState) -> str:
    """Return the beginning of the brief on one line."""
    line = " ".join(storable(state.brief).split())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "\u2026"


def state_text(state: JourneyState) -> str:
    """Return the state as JSON, without the texts that its events hold word for word."""
    return canonical(get_state(without_content(state)))


def state_of(text: str) -> JourneyState:
    """Return the state without contents, from its JSON."""
    return restore_state(json.loads(text))


def filled(state: JourneyState, events: Mapping[int, Event]) -> JourneyState:
    """Return the state with the texts that `without_content` left out. `events` hold them, by `seq`."""
    begun = events[1]
    if not isinstance(begun, Started):
        raise UnknownEvent(begun.TYPE, "a journey begins with `journey.started`")
    work = {}
    for phase, one in state.work.items():
        event = events[one.seq]
        if not isinstance(event, WorkRecorded):
            raise UnknownEvent(event.TYPE, "the state says that it records work")
        work[phase] = recorded(event, one.seq, one.version)
    answers: dict[str, dict[str, Mapping[str, str]]] = {}
    for seq in state.answered_at:  # the newest answer to a question counts
        event = events[seq]
        if not isinstance(event, Decided):
            raise UnknownEvent(event.TYPE, "the state says that it has answers")
        answers.setdefault(event.phase, {}).update(event.answers)
    sorted_answers = in_order({phase: in_order(given) for phase, given in answers.items()})
    return replace(state, brief=begun.brief, inputs=begun.inputs, work=work, answers=sorted_answers)


def may_be_refused(events: Sequence[Event]) -> bool:
    """Return whether a quota may refuse the events: it may if a host requests them, but not if they are a person's own decision."""
    first = events[0]
    if isinstance(first, NOTES):
        return isinstance(first, ToolStart)  # the end of a call, with its notes, must not be lost
    return not (isinstance(first, Decided) and first.channel != "relayed")


def log_after_retention(log: Sequence[Logged]) -> list[Logged]:
    """Return the log in the shortened form that is kept after its retention time."""
    return [replace(logged, event=event_of(after_retention(event_text(logged.event)))) for logged in log]


def texts_by_seq(log: Sequence[Logged]) -> dict[int, str]:
    """Return the text of each event by its number."""
    return {logged.seq: event_text(logged.event) for logged in log}


def upto(journey: str, log: Sequence[Logged], version: int) -> list[Logged]:
    """Return the log up to that version, with its notes. Raises: NoSuchJourney: the journey never had that version."""
    newest = log[-1].version
    if not 1 <= version <= newest:
        raise NoSuchJourney(journey, version, newest)
    return [logged for logged in log if logged.version <= version]


def logged_of_row(row: Sequence[Any]) -> Logged:
    """Return the event in a row of number, version, time, actor, key and text."""
    seq, version, at, by, key, text = row
    return Logged(seq, version, moment(at), by, event_of(text), key or "")
