"""The state of a journey from its events: the fold of its log, and nothing else. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar, assert_never, cast

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
    Step,
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
"""The version of the fold. It grows when the same events lead to a different state, so that stored states are recomputed."""
FEEDBACK_TOKENS = 1_000
"""The room for each kind of feedback: many small gaps must not displace a judge's findings."""


def fold(log: Iterable[Logged], state: JourneyState | None = None) -> JourneyState:
    """Return `state` after these events; without a state the first of them starts the journey.

    The fold of a log up to a version is the state at that version.

    Raises:
        BadLog: an event cannot follow the ones before it.
    """
    for logged in log:
        _check_place(state, logged)
        state = _first(logged) if state is None else _next(state, logged)
    if state is None:
        raise BadLog(1, "there are no events")
    return state


def _check_place(state: JourneyState | None, logged: Logged) -> None:
    seq, version = (0, 0) if state is None else (state.seq, state.version)
    if logged.seq != seq + 1:
        raise BadLog(logged.seq, f"event {seq + 1} comes next")
    note = isinstance(logged.event, NOTES)
    # All events of a step share its version, so an event may keep the version or raise it by one. A note never raises it.
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
        conversations=_with_conversation({}, event.conversation),
    )


def _with_conversation(known: Mapping[str, str], conversation: str) -> Mapping[str, str]:
    # The name of a conversation begins with its speaker (`AutomaticPhases.conversation`).
    speaker, _, rest = conversation.rpartition("_iter")
    return {**known, speaker: conversation} if speaker and rest else known


def _next(state: JourneyState, logged: Logged) -> JourneyState:
    if isinstance(logged.event, NOTES):
        return replace(state, seq=logged.seq)
    step = cast("Step", logged.event)  # the type checker does not narrow by a tuple
    moved = replace(state, seq=logged.seq, version=logged.version, moved_at=logged.at)
    match step:
        case WorkRecorded():
            return _after_work(moved, logged, step)
        case PhaseChanged():
            return _after_move(moved, logged, step)
        case CheckpointReached():
            return _after_checkpoint(moved, logged, step)
        case Decided():
            return _after_decision(moved, logged, step)
        case FeedbackAdded(kind, phase, text):
            return _after_feedback(moved, Feedback(kind, phase, text, logged.version, step.kept))
        case Completed():
            return replace(moved, status="complete", checkpoint=None)
        case Forked():
            return _after_fork(moved, logged, step)
        case Started():
            raise BadLog(logged.seq, f"`{step.TYPE}` comes once")
        case unknown:
            assert_never(unknown)


def _after_fork(state: JourneyState, logged: Logged, event: Forked) -> JourneyState:
    forked = replace(
        state,
        forked_from=event.of,
        forked_at=event.at_version,
        principal=event.principal,
        # Time that passed in the other journey is not time spent in this one's phase.
        entered_at=logged.at,
    )
    if not event.conversation:
        return forked
    conversations = _with_conversation({}, event.conversation)
    return replace(forked, conversation=event.conversation, conversations=conversations)


def _after_feedback(state: JourneyState, new: Feedback) -> JourneyState:
    """Return the state with the new entry, without the oldest entries of its kind that no longer fit, which are counted."""
    same = [one for one in state.feedback if one.kind == new.kind]
    # The new entry is kept even if it alone is over the limit; a prompt cuts it when it shows it.
    kept = newest_within(same, FEEDBACK_TOKENS - count_tokens(new.text))
    gone = same[: len(same) - len(kept)]
    dropped = dict(state.feedback_dropped)
    for one in gone:
        dropped[f"{one.kind}/{one.phase}"] = dropped.get(f"{one.kind}/{one.phase}", 0) + 1
    left = [one for one in state.feedback if not any(one is old for old in gone)]
    return replace(state, feedback=(*left, new), feedback_dropped=in_order(dropped))


def _after_work(state: JourneyState, logged: Logged, event: WorkRecorded) -> JourneyState:
    if event.phase != state.phase:
        raise BadLog(logged.seq, f"work on {event.phase} while the journey is in {state.phase}")
    usage, before = event.usage, state.metrics[event.phase]
    metrics = replace(
        before,
        submits=before.submits + (not event.automatic),
        tokens_in=before.tokens_in + usage.tokens_in,
        tokens_out=before.tokens_out + usage.tokens_out,
        counted=before.counted + (usage.tokens_in + usage.tokens_out if usage.counted else 0),
    )
    # The host names its own conversation. That of another speaker keeps the name that the server gave it.
    speakers = [known for speaker, known in state.conversations.items() if speaker != state.agent]
    named = event.conversation and state.conversation not in speakers
    return replace(
        state,
        work={**state.work, event.phase: recorded(event, logged.seq, logged.version)},
        metrics={**state.metrics, event.phase: metrics},
        checkpoint=None,
        conversation=event.conversation if named else state.conversation,
    )


def recorded(event: WorkRecorded, seq: int, version: int) -> RecordedWork:
    """Return the work that the event `seq` records."""
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


def _after_move(state: JourneyState, logged: Logged, event: PhaseChanged) -> JourneyState:
    if event.source != state.phase:
        raise BadLog(logged.seq, f"it leaves {event.source} while the journey is in {state.phase}")
    # The clocks of two machines may disagree: a visit never takes less than no time.
    seconds = max(0.0, (logged.at - state.entered_at).total_seconds())
    left = state.metrics[state.phase]
    metrics = {**state.metrics, state.phase: replace(left, seconds=left.seconds + seconds)}
    entered = metrics.get(event.target, PhaseMetrics())
    record = TransitionRecord(event.source, event.target, event.reason, event.is_backward, logged.at, event.detail)
    return replace(
        state,
        phase=event.target,
        status="active",
        phase_visits={**state.phase_visits, event.target: state.phase_visits.get(event.target, 0) + 1},
        metrics={**metrics, event.target: replace(entered, visits=entered.visits + 1)},
        entered_at=logged.at,
        entered_seq=logged.seq,
        transitions=state.transitions + 1,
        transition_history=(*state.transition_history, record)[-TRANSITIONS_KEPT:],
        backward_trigger=event.reason if event.is_backward else None,
        backward_trigger_detail=event.detail if event.is_backward else None,
        checkpoint=None,
        returns=state.returns + event.is_backward,
        conversation=event.conversation or state.conversation,
        conversations=_with_conversation({} if event.anew else state.conversations, event.conversation),
    )


def _after_checkpoint(state: JourneyState, logged: Logged, event: CheckpointReached) -> JourneyState:
    if event.kind == "informational":
        return state
    checkpoint = Checkpoint(
        event.phase, event.target, event.condition, event.kind, event.own_hand, logged.at, event.asks
    )
    return replace(state, checkpoint=checkpoint, status="waiting" if event.kind == "blocking" else state.status)


def in_order(known: Mapping[str, T]) -> dict[str, T]:
    """Return the mapping sorted by key, the order in which JSON from the store has it too: prompts must not differ."""
    return dict(sorted(known.items()))


def _after_decision(state: JourneyState, logged: Logged, event: Decided) -> JourneyState:
    word = Word(event.decision, event.channel, logged.by, event.phase, event.note, event.changes, logged.at)
    if event.answers:
        phase_answers = in_order({**state.answers.get(event.phase, {}), **event.answers})
        answers = in_order({**state.answers, event.phase: phase_answers})
        state = replace(state, answers=answers, answered_at=(*state.answered_at, logged.seq))
    if event.decision == "answer":
        # `answers` keeps the answers to questions until the end of the journey; `word` has only the last decision.
        return state if event.answers and not event.note else replace(state, word=word)
    if event.decision == "cancel":
        return replace(state, word=word, checkpoint=None, status="cancelled")
    again = event.decision in ("modify", "reject")
    return replace(
        state,
        word=word,
        checkpoint=None,
        status="active" if state.status == "waiting" else state.status,
        # If no move back follows, the phase is worked on again for this reason.
        backward_trigger=event.decision if again else state.backward_trigger,
        backward_trigger_detail=event.note if again else state.backward_trigger_detail,
    )
