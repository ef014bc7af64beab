"""What a submit or a person's word brings: from a graph and a state to events. Pure; whoever calls puts them on record."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import replace

from agents.engine.events import (
    CheckpointReached,
    Completed,
    Decided,
    Decision,
    Json,
    PhaseChanged,
    Started,
    Step,
    StepUsage,
    WorkRecorded,
    canonical,
)
from agents.engine.graph import PhaseGraph, Transition, advance, checkpoint_on, is_earlier, transitions_from
from agents.engine.state import Checkpoint, JourneyState
from agents.engine.work.answers import unanswered_in
from agents.errors import JourneyOver, NeedsOwnHand, NotToDecide, WaitsForPerson

REJECTED = "human_rejected"
"""The condition that a rejection meets: a backward transition on it says where the work goes then."""


def started(graph: PhaseGraph, begun: Started) -> Started:
    """Return how a journey through the graph begins: `begun`, in the graph's first phase."""
    return replace(begun, agent=graph.name, phase=graph.initial)


def step_key(journey: str, version: int, content: Json) -> str:
    """Return the name of an act on a version of a journey: the same for the same content, however often it is sent."""
    return hashlib.sha256(canonical([journey, version, content]).encode()).hexdigest()[:32]


def submitted(
    graph: PhaseGraph,
    journey: str,
    state: JourneyState,
    recorded: WorkRecorded,
    met: Collection[str],
    *,
    detail: str = "",
) -> tuple[Step, ...]:
    """Return what a submit brings: the work on record, and where the first transition leads whose condition is met.

    `recorded.phase` and `recorded.visit` are set here. A forward transition out of a phase with a blocking checkpoint waits
    for a person. `detail` says more about why, for a way back.

    Raises:
        JourneyOver, WaitsForPerson: nothing can be submitted now.
    """
    if state.over:
        raise JourneyOver(journey, state.status)
    if state.status == "waiting":
        raise WaitsForPerson(journey, state.phase)
    work = replace(recorded, phase=state.phase, visit=state.visit)
    taken = advance(graph, state.phase, met)
    return (work,) if taken is None else (work, *_taking(graph, state, taken, work.work, detail))


def _taking(graph: PhaseGraph, state: JourneyState, taken: Transition, work: Json, detail: str) -> tuple[Step, ...]:
    if _asks(state, taken, work):
        return (_questions(graph, taken),)
    kind = checkpoint_on(graph, taken)
    if kind == "none":
        return _moved(graph, taken, detail)
    asked = CheckpointReached(taken.source, taken.target, taken.condition, kind, graph.phase(taken.source).own_hand)
    if kind == "blocking":
        return (asked,)
    if kind == "informational":
        return (asked, *_moved(graph, taken, detail))
    # The question stays open while the work goes on, so it is asked last.
    move, *rest = _moved(graph, taken, detail)
    return (move, asked, *rest)


def _asks(state: JourneyState, taken: Transition, work: Json) -> bool:
    """Return whether the way leads past questions that a person has not answered yet: nobody waits for nothing."""
    return bool(taken.asks and unanswered_in(work, taken.asks, state.answers.get(taken.source, {})))


def _questions(graph: PhaseGraph, taken: Transition) -> CheckpointReached:
    own_hand = graph.phase(taken.source).own_hand
    return CheckpointReached(taken.source, taken.target, taken.condition, "blocking", own_hand, taken.asks)


def _moved(graph: PhaseGraph, taken: Transition, detail: str) -> tuple[Step, ...]:
    told = detail if taken.is_backward else ""
    move = PhaseChanged(taken.source, taken.target, taken.condition, taken.is_backward, told, anew=taken.anew)
    return (move, Completed(taken.target)) if taken.target in graph.complete else (move,)


def modified(work: Json, changes: Json) -> Json:
    """Return the work with a person's changes: named fields are replaced, those that are null removed, all else stays.

    Source: RFC 7396, JSON Merge Patch, section 2.
    """
    if not isinstance(changes, dict):
        return changes
    target = dict(work) if isinstance(work, dict) else {}
    for name, change in changes.items():
        if change is None:
            target.pop(name, None)
        else:
            target[name] = modified(target.get(name), change)
    return target


def decided(
    graph: PhaseGraph,
    journey: str,
    state: JourneyState,
    word: Decided,
    met: Collection[str] = (),
    *,
    target: str = "",
) -> tuple[Step, ...]:
    """Return what a person's word brings. `word.phase` is set here.

    - `approve`: the work goes on to where it waited to go.
    - `modify`: with changes they are made in the work, which goes on if `met` (by the work as it is then) still lets it; without
      changes, or if not, the phase is worked on again.
    - `reject`: the first way back on `human_rejected`, or on a condition of `met`, is taken; if there is none the phase is worked
      on again.
    - `revisit`: the work goes back to `target`, a phase in which it has been, from wherever it is. A relayed word sends it to
      an earlier phase only: forward it would pass by what the phases between ask for, and by what a person is asked there.
    - `answer`: what the person said is known from now on. Where questions were asked (`Checkpoint.asks`) it is what they are
      answered with, and the work goes on; elsewhere nothing moves. `word.answers` has the answers, by question.
    - `cancel`: nothing can be submitted any more.

    Raises:
        JourneyOver, NotToDecide, NeedsOwnHand: it does not fit where the journey stands.
    """
    if state.status == "cancelled" or (state.status == "complete" and word.decision != "revisit"):
        raise JourneyOver(journey, state.status)
    if word.decision == "revisit":
        return _revisit(graph, journey, state, word, target)
    if word.decision == "cancel" or (word.decision == "answer" and not (state.checkpoint and state.checkpoint.asks)):
        return (replace(word, phase=state.phase),)
    asked = _asked(journey, state, word.decision)
    if asked.asks and word.decision == "approve":
        raise NotToDecide(
            journey, word.decision, f"{asked.phase} asks questions: they are to be answered, with `answer`"
        )
    if asked.own_hand and word.channel == "relayed":
        raise NeedsOwnHand(journey, asked.phase)
    heard = replace(word, phase=asked.phase)
    if word.decision in ("approve", "answer"):
        return (heard, *_approved(graph, asked))
    if word.decision == "modify":
        return (heard, *_back(state, asked, heard), *_modified(graph, state, asked, heard, met))
    return (heard, *(_back(state, asked, heard) or _rejected(graph, asked, heard, met)))


def _asked(journey: str, state: JourneyState, decision: Decision) -> Checkpoint:
    if state.checkpoint is None:
        raise NotToDecide(
            journey, decision, f"nothing was asked about {state.phase}; a person may `revisit` or `cancel`"
        )
    return state.checkpoint


def _approved(graph: PhaseGraph, asked: Checkpoint) -> tuple[Step, ...]:
    if asked.kind == "optional":  # it went on already
        return ()
    return _moved(graph, _way(graph, asked), "")


def _way(graph: PhaseGraph, asked: Checkpoint) -> Transition:
    """Return the way that waits for the person; as it was asked about, if the graph does not have it any more."""
    ways = [
        t for t in transitions_from(graph, asked.phase) if (t.target, t.condition) == (asked.target, asked.condition)
    ]
    return ways[0] if ways else Transition(asked.phase, asked.target, asked.condition)


def _back(state: JourneyState, asked: Checkpoint, word: Decided) -> tuple[Step, ...]:
    """Return the way back to the phase that was asked about, if the work went on meanwhile."""
    if state.phase == asked.phase:
        return ()
    return (PhaseChanged(state.phase, asked.phase, word.decision, is_backward=True, detail=word.note),)


def _modified(
    graph: PhaseGraph, state: JourneyState, asked: Checkpoint, word: Decided, met: Collection[str]
) -> tuple[Step, ...]:
    if word.changes is None:
        return ()
    before = state.work[asked.phase]
    visit = state.phase_visits[asked.phase] + (state.phase != asked.phase)
    work = WorkRecorded(asked.phase, visit, modified(before.content, word.changes), usage=StepUsage())
    taken = advance(graph, asked.phase, met)
    if taken is not None and _asks(state, taken, work.work):
        return (work, _questions(graph, taken))
    # The person has just seen it and said what is to be in it: they are not asked again.
    return (work,) if taken is None else (work, *_moved(graph, taken, word.note))


def _rejected(graph: PhaseGraph, asked: Checkpoint, word: Decided, met: Collection[str]) -> tuple[Step, ...]:
    ways = [t for t in transitions_from(graph, asked.phase) if t.is_backward and t.condition in (REJECTED, *met)]
    return _moved(graph, ways[0], word.note) if ways else ()


def _revisit(graph: PhaseGraph, journey: str, state: JourneyState, word: Decided, target: str) -> tuple[Step, ...]:
    # Where the work is complete nothing can be done: whoever was sent there could not go on.
    been = [phase for phase in state.phase_visits if phase not in (state.phase, *graph.complete)]
    # Where the agent does not have the present phase any more, there is nothing that could be passed by.
    if word.channel == "relayed" and any(phase.name == state.phase for phase in graph.phases):
        been = [phase for phase in been if is_earlier(graph, phase, state.phase)]
    if target not in been:
        known = ", ".join(been) or "none yet"
        raise NotToDecide(journey, "revisit", f"there is no way back to {target[:60]!r}; earlier phases: {known}")
    back = PhaseChanged(state.phase, target, "revisit", is_backward=True, detail=word.note)
    return (replace(word, phase=state.phase), back)
