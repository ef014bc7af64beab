"""What events come to: a journey's state is nothing but the fold of its log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from agents.engine.events import (
    NOTES,
    CheckpointReached,
    Completed,
    Decided,
    FeedbackAdded,
    Forked,
    Logged,
    PhaseChanged,
    Started,
    WorkRecorded,
)
from agents.engine.progress.feedback import newest_within
from agents.engine.state import (
    TRANSITIONS_KEPT,
    Checkpoint,
    Feedback,
    JourneyState,
    PhaseMetrics,
    RecordedWork,
    TransitionRecord,
    Word,
)
from agents.errors import BadLog
from knowledge.tokens import count_tokens

T = TypeVar("T")
FOLDING = 3
"""Grows when the same events come to another state, so that states kept beside logs are made anew."""
FEEDBACK_TOKENS = 1_000
"""Of each kind: many small things that were missing do not push out what a judge said."""


def fold(log: Iterable[Logged], state: JourneyState | None = None) -> JourneyState:
    """Return what `state` becomes by the events after it; from the first event on, if there is no state yet.

    The fold of a log up to a version is the state at that version.

    Raises:
        BadLog: an event cannot have come after what was before.
    """
    for logged in log:
        _require_next(state, logged)
        state = _first(logged) if state is None else _next(state, logged)
    if state is None:
        raise BadLog(1, "there are no events")
    return state


def _require_next(state: JourneyState | None, logged: Logged) -> None:
    seq, version = (0, 0) if state is None else (state.seq, state.version)
    if logged.seq != seq + 1:
        raise BadLog(logged.seq, f"event {seq + 1} comes next")
    note = isinstance(logged.event, NOTES)
    if logged.version not in ((version,) if note else (version, version + 1)) or not logged.version:
        raise BadLog(logged.seq, f"it says version {logged.version} after version {version}")


def _first(logged: Logged) -> JourneyState:
    event, at = logged.event, logged.at
    if not isinstance(event, Started):
        raise BadLog(logged.seq, "a journey begins with `journey.started`")
    return JourneyState(
        agent=event.agent,
        brief=event.brief,
        inputs=event.inputs,
        principal=event.principal,
        phase=event.phase,
        version=logged.version,
        seq=logged.seq,
        status="active",
        phase_visits={event.phase: 1},
        metrics={event.phase: PhaseMetrics(visits=1)},
        started_at=at,
        entered_at=at,
        moved_at=at,
        conversation=event.conversation,
        conversations=_conversing({}, event.conversation),
    )


def _conversing(known: Mapping[str, str], conversation: str) -> Mapping[str, str]:
    """Return the conversations with that one, of which the name says whose it is."""
    speaker, _, rest = conversation.rpartition("_iter")
    return {**known, speaker: conversation} if speaker and rest else known


def _next(state: JourneyState, logged: Logged) -> JourneyState:
    if isinstance(logged.event, NOTES):
        return replace(state, seq=logged.seq)
    moved = replace(state, seq=logged.seq, version=logged.version, moved_at=logged.at)
    match logged.event:
        case WorkRecorded():
            return _worked(moved, logged, logged.event)
        case PhaseChanged():
            return _changed(moved, logged, logged.event)
        case CheckpointReached():
            return _asked(moved, logged.at, logged.event)
        case Decided():
            return _decided(moved, logged, logged.event)
        case FeedbackAdded(kind, phase, text):
            return replace(moved, feedback=_newest(moved.feedback, Feedback(kind, phase, text, logged.version)))
        case Completed():
            return replace(moved, status="complete", checkpoint=None)
        case Forked():
            return _forked(moved, logged.at, logged.event)
        case _:
            raise BadLog(logged.seq, f"`{logged.event.TYPE}` comes once")


def _forked(state: JourneyState, at: datetime, event: Forked) -> JourneyState:
    # Time that passed in the other journey is not time spent in this one's phase.
    forked = replace(state, forked_from=event.of, forked_at=event.at_version, principal=event.principal, entered_at=at)
    if not event.conversation:
        return forked
    return replace(forked, conversation=event.conversation, conversations=_conversing({}, event.conversation))


def _newest(feedback: tuple[Feedback, ...], new: Feedback) -> tuple[Feedback, ...]:
    """Return the feedback with the new one; the oldest of its kind that do not fit the budget any more are left out."""
    same = [one for one in feedback if one.kind == new.kind]
    left = FEEDBACK_TOKENS - count_tokens(new.text)
    kept = newest_within(same, left)
    gone = len(same) - len(kept)
    others: list[Feedback] = []
    for one in feedback:
        if one.kind == new.kind and gone:
            gone -= 1
        else:
            others.append(one)
    return (*others, new)


def _worked(state: JourneyState, logged: Logged, event: WorkRecorded) -> JourneyState:
    if event.phase != state.phase:
        raise BadLog(logged.seq, f"work on {event.phase} while the journey is in {state.phase}")
    before = state.metrics[event.phase]
    spent = replace(
        before,
        submits=before.submits + (not event.automatic),
        tokens_in=before.tokens_in + event.usage.tokens_in,
        tokens_out=before.tokens_out + event.usage.tokens_out,
        counted=before.counted + (event.usage.tokens_in + event.usage.tokens_out if event.usage.counted else 0),
    )
    return replace(
        state,
        work={**state.work, event.phase: recorded(event, logged.seq, logged.version)},
        metrics={**state.metrics, event.phase: spent},
        checkpoint=None,
        conversation=_reported(state, event.conversation),
    )


def _reported(state: JourneyState, conversation: str) -> str:
    """Return the conversation to go on in: that which the host names, but a speaker's keeps the name that it was given."""
    speakers = [known for speaker, known in state.conversations.items() if speaker != state.agent]
    return conversation if conversation and state.conversation not in speakers else state.conversation


def recorded(event: WorkRecorded, seq: int, version: int) -> RecordedWork:
    """Return the work that an event records, with all that was said about it."""
    return RecordedWork(
        seq,
        version,
        event.visit,
        event.work,
        event.confidence,
        event.reasoning,
        event.signals,
        event.usage,
        event.conversation,
        event.automatic,
    )


def _changed(state: JourneyState, logged: Logged, event: PhaseChanged) -> JourneyState:
    if event.source != state.phase:
        raise BadLog(logged.seq, f"it leaves {event.source} while the journey is in {state.phase}")
    record = TransitionRecord(event.source, event.target, event.reason, event.is_backward, logged.at, event.detail)
    return replace(
        state,
        phase=event.target,
        status="active",
        phase_visits={**state.phase_visits, event.target: state.phase_visits.get(event.target, 0) + 1},
        metrics=_left(state, event.target, logged.at),
        entered_at=logged.at,
        entered_seq=logged.seq,
        transitions=state.transitions + 1,
        transition_history=(*state.transition_history, record)[-TRANSITIONS_KEPT:],
        backward_trigger=event.reason if event.is_backward else None,
        backward_trigger_detail=event.detail if event.is_backward else None,
        checkpoint=None,
        returns=state.returns + event.is_backward,
        conversation=event.conversation or state.conversation,
        conversations=_conversing({} if event.anew else state.conversations, event.conversation),
    )


def _left(state: JourneyState, target: str, at: datetime) -> Mapping[str, PhaseMetrics]:
    """Return the metrics after the present phase was left for `target`."""
    # Clocks of two machines may disagree: a visit never takes less than nothing.
    seconds = max(0.0, (at - state.entered_at).total_seconds())
    old = state.metrics[state.phase]
    metrics = {**state.metrics, state.phase: replace(old, seconds=old.seconds + seconds)}
    new = metrics.get(target, PhaseMetrics())
    return {**metrics, target: replace(new, visits=new.visits + 1)}


def _asked(state: JourneyState, at: datetime, event: CheckpointReached) -> JourneyState:
    if event.kind == "informational":
        return state
    waits = event.kind == "blocking"
    asked = Checkpoint(event.phase, event.target, event.condition, event.kind, event.own_hand, at, event.asks)
    return replace(state, checkpoint=asked, status="waiting" if waits else state.status)


def in_order(known: Mapping[str, T]) -> dict[str, T]:
    """Return what is known in the order in which it also comes back from the record, so that all are told the same."""
    return dict(sorted(known.items()))


def _decided(state: JourneyState, logged: Logged, event: Decided) -> JourneyState:
    word = Word(event.decision, event.channel, logged.by, event.phase, event.note, event.changes, logged.at)
    if event.answers:
        before = state.answers.get(event.phase, {})
        told = in_order({**before, **event.answers})
        answers = in_order({**state.answers, event.phase: told})
        state = replace(state, answers=answers, answered_at=(*state.answered_at, logged.seq))
    if event.decision == "answer":
        # The answers to questions are told by themselves, for as long as the journey lasts.
        return state if event.answers and not event.note else replace(state, word=word)
    if event.decision == "cancel":
        return replace(state, word=word, checkpoint=None, status="cancelled")
    again = event.decision in ("modify", "reject")
    return replace(
        state,
        word=word,
        checkpoint=None,
        status="active" if state.status == "waiting" else state.status,
        # Where no way back follows, the phase is worked on again, for this reason.
        backward_trigger=event.decision if again else state.backward_trigger,
        backward_trigger_detail=event.note if again else state.backward_trigger_detail,
    )
