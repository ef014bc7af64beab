"""The steps that follow from a submit or from a person's decision, by graph and state alone. Pure: the caller records them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace

from agents.bounds import BACK_TO
from agents.engine.events import (
    CheckpointReached,
    Completed,
    Decided,
    Json,
    PhaseChanged,
    Step,
    StepUsage,
    WorkRecorded,
    canonical,
)
from agents.engine.graph import PhaseGraph, Transition, advance, checkpoint_on, is_earlier, transitions_from
from agents.engine.state import Checkpoint, JourneyState
from agents.engine.work.answers import unanswered_in
from agents.engine.work.form import DROP, first_problems, has_ids
from agents.errors import JourneyOver, NeedsOwnHand, NotToDecide, WaitsForPerson

REJECTED = "human_rejected"
"""The condition that a rejection meets: a backward transition on it says where the work goes then."""


def step_key(journey: str, version: int, by: str, content: Json) -> str:
    """Return the key of an act on a version of a journey. A retry with the same content has the same key.

    For a decision `by` names the caller, because two people who approve are not one person who repeats a lost call. For
    submitted work `by` is "": any host may repeat it.
    """
    # 128 bits: two different acts never get one key, and each event's row stays short.
    return hashlib.sha256(canonical([journey, version, by, content]).encode()).hexdigest()[:32]


def require_active(journey: str, state: JourneyState) -> None:
    """Check that work can be submitted now.

    Raises:
        JourneyOver, WaitsForPerson: it cannot.
    """
    if state.over:
        raise JourneyOver(journey, state.status)
    if state.status == "waiting":
        raise WaitsForPerson(journey, state.phase)


def submit_steps(
    graph: PhaseGraph,
    journey: str,
    state: JourneyState,
    recorded: WorkRecorded,
    met: Collection[str],
    *,
    detail: str = "",
) -> tuple[Step, ...]:
    """Return the steps of a submit: the recorded work, and those of the first transition whose condition is among `met`.

    `recorded.phase` and `recorded.visit` are set here. `detail` explains a move back.

    Raises:
        JourneyOver, WaitsForPerson: nothing can be submitted now.
    """
    require_active(journey, state)
    work = replace(recorded, phase=state.phase, visit=state.visit)
    taken = advance(graph, state.phase, met)
    if taken is None:
        return (work,)
    if _has_questions(state, taken, work.work):
        return (work, _questions(graph, taken))
    kind, moves = checkpoint_on(graph, taken), _moves(graph, taken, detail)
    if kind == "none":
        return (work, *moves)
    checkpoint = CheckpointReached(
        taken.source, taken.target, taken.condition, kind, graph.phase(taken.source).own_hand
    )
    if kind == "blocking":
        return (work, checkpoint)
    # Nobody is waited for, so this event only tells people; the fold ignores it.
    if kind == "informational":
        return (work, checkpoint, *moves)
    # Optional: the question stays open while the work continues. It follows the move, which closes any open question.
    return (work, moves[0], checkpoint, *moves[1:])


def _has_questions(state: JourneyState, taken: Transition, work: Json) -> bool:
    return bool(taken.asks and unanswered_in(work, taken.asks, state.answers.get(taken.source, {})))


def _questions(graph: PhaseGraph, taken: Transition) -> CheckpointReached:
    own_hand = graph.phase(taken.source).own_hand
    return CheckpointReached(taken.source, taken.target, taken.condition, "blocking", own_hand, taken.asks)


def _moves(graph: PhaseGraph, taken: Transition, detail: str) -> tuple[Step, ...]:
    why = detail if taken.is_backward else ""
    move = PhaseChanged(taken.source, taken.target, taken.condition, taken.is_backward, why, anew=taken.anew)
    return (move, Completed(taken.target)) if taken.target in graph.complete else (move,)


def merge_patch(work: Json, changes: Json) -> Json:
    """Return the work with a person's changes: a named field is replaced, or removed by null; all others stay.

    A list of items with an `id` is changed item by item: an item with a known id is merged into that one, others are added at the end,
    and only `drop` beside the list removes items, by their ids. Any other list is replaced.

    Source: RFC 7396, JSON Merge Patch, section 2, which replaces every list.
    """
    if not isinstance(changes, dict):
        return changes
    target = dict(work) if isinstance(work, dict) else {}
    lists = _lists_of_items(work)
    dropped = _dropped(work, changes)
    for name, change in changes.items():
        if change is None:
            target.pop(name, None)
        elif name in lists and has_ids(change):
            new = {item["id"]: item for item in change}
            changed = [merge_patch(item, new.pop(item["id"], {})) for item in lists[name]]
            target[name] = [*changed, *(merge_patch({}, item) for item in new.values())]
        # A work may have a field of its own called `drop`.
        elif name != DROP or dropped is None:
            target[name] = merge_patch(target.get(name), change)
    for name in lists:
        if dropped and isinstance(found := target.get(name), list):
            target[name] = [item for item in found if item["id"] not in dropped]
    return target


def change_problems(work: Json, changes: Json, where: str = "") -> list[str]:
    """Return why a person's changes would remove more than they name, or name items that do not exist: a sentence for each."""
    if not isinstance(changes, dict) or not isinstance(work, dict):
        return []
    problems, lists = list[str](), _lists_of_items(work)
    known = [item["id"][:60] for items in lists.values() for item in items]
    for id_ in sorted(
        (_dropped(work, changes) or frozenset()) - {item["id"] for items in lists.values() for item in items}
    ):
        problems.append(f"{where}{DROP}: nothing has the id {id_[:60]}; there are {', '.join(first_problems(known))}")
    for name, change in changes.items():
        if name in lists and isinstance(change, list) and not (change and has_ids(change)):
            problems.append(
                f"{where}{name[:60]} is a list of items with ids: give a list of only the changed and new items, each with its `id`; "
                f"to remove items, name their ids in `{DROP}`, as in {{{DROP!r}: [{lists[name][0]['id'][:60]!r}]}}"
            )
        elif name in lists and isinstance(change, list):
            items = {item["id"]: item for item in lists[name]}
            for item in change:
                problems += change_problems(items.get(item["id"]), item, f"{where}{name[:60]}[{item['id'][:60]}].")
        else:
            problems += change_problems(work.get(name), change, f"{where}{name[:60]}.")
    return problems


def _lists_of_items(work: Json) -> Mapping[str, list[dict[str, Json]]]:
    """Return the fields of an object that are lists of items with ids."""
    found = work.items() if isinstance(work, dict) else ()
    return {name: value for name, value in found if value and has_ids(value)}


def _dropped(work: Json, changes: Mapping[str, Json]) -> frozenset[str] | None:
    """Return the ids of the items to remove, or None if `drop` is missing or a field of the work itself."""
    ids = changes.get(DROP)
    own = isinstance(work, dict) and DROP in work
    if own or not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in ids):
        return None
    return frozenset(id_ for id_ in ids if isinstance(id_, str)) if _lists_of_items(work) else None


def decision_steps(
    graph: PhaseGraph,
    journey: str,
    state: JourneyState,
    word: Decided,
    met: Collection[str] = (),
    *,
    target: str = "",
) -> tuple[Step, ...]:
    """Return the steps of a person's decision. `word.phase` is set here.

    - `approve`: the work moves on to the target of its checkpoint.
    - `modify`: with changes, they are made in the work, which moves on if `met` (the conditions that it meets then) allows it.
      Otherwise, and without changes, the phase is worked on again.
    - `reject`: the first transition back on `human_rejected` or on a condition of `met` is taken. Without one, the phase is worked on
      again.
    - `revisit`: the work goes back to `target`, a phase that it has visited. A relayed decision can only send it to an earlier
      phase: a later one would skip the conditions and the checkpoints between.
    - `answer`: the person's words are recorded. If the checkpoint asks questions (`Checkpoint.asks`), they answer these, and the
      work moves on; otherwise nothing moves. `word.answers` has the answers by question.
    - `cancel`: nothing more can be submitted.

    Raises:
        JourneyOver, NotToDecide, NeedsOwnHand: the decision is not possible in this state.
    """
    decision, checkpoint = word.decision, state.checkpoint
    if state.status == "cancelled" or (state.status == "complete" and decision != "revisit"):
        raise JourneyOver(journey, state.status)
    if decision == "revisit":
        return _revisit(graph, journey, state, word, target)
    # These two need no checkpoint: a person may stop the work, or say something for the next attempt, at any time.
    if decision == "cancel" or (decision == "answer" and not (checkpoint and checkpoint.asks)):
        return (replace(word, phase=state.phase),)
    if checkpoint is None:
        raise NotToDecide(
            journey, decision, f"nothing was asked about {state.phase}; a person may `revisit` or `cancel`"
        )
    if checkpoint.asks and decision == "approve":
        raise NotToDecide(journey, decision, f"{checkpoint.phase} asks questions: answer them with `answer`")
    if checkpoint.own_hand and word.channel == "relayed":
        raise NeedsOwnHand(journey, checkpoint.phase)
    heard = replace(word, phase=checkpoint.phase)
    if decision in ("approve", "answer"):
        # Past an optional checkpoint the journey has already moved, so the decision is only recorded.
        moved_on = checkpoint.kind == "optional"
        return (heard,) if moved_on else (heard, *_moves(graph, _pending(graph, checkpoint), ""))
    back: tuple[Step, ...] = ()
    if state.phase != checkpoint.phase:  # the work has moved on, past an optional checkpoint
        back = (PhaseChanged(state.phase, checkpoint.phase, decision, is_backward=True, detail=word.note),)
    if decision == "modify":
        return (heard, *back, *_modified(graph, state, checkpoint, heard, met))
    ways = [t for t in transitions_from(graph, checkpoint.phase) if t.is_backward and t.condition in (REJECTED, *met)]
    return (heard, *(back or (_moves(graph, ways[0], word.note) if ways else ())))


def _pending(graph: PhaseGraph, asked: Checkpoint) -> Transition:
    """Return the transition that waits for the person, even if the graph no longer has it."""
    for transition in transitions_from(graph, asked.phase):
        if (transition.target, transition.condition) == (asked.target, asked.condition):
            return transition
    return Transition(asked.phase, asked.target, asked.condition)


def _modified(
    graph: PhaseGraph, state: JourneyState, asked: Checkpoint, word: Decided, met: Collection[str]
) -> tuple[Step, ...]:
    if word.changes is None:
        return ()
    # If the work had moved on, the caller puts a move back before this step, and that move begins another visit.
    visit = state.phase_visits[asked.phase] + (state.phase != asked.phase)
    changed = merge_patch(state.work[asked.phase].content, word.changes)
    work = WorkRecorded(asked.phase, visit, changed, usage=StepUsage())
    taken = advance(graph, asked.phase, met)
    if taken is not None and _has_questions(state, taken, changed):
        return (work, _questions(graph, taken))
    # The person saw the work and said what must be in it, so the checkpoint does not ask them again.
    return (work,) if taken is None else (work, *_moves(graph, taken, word.note))


def _revisit(graph: PhaseGraph, journey: str, state: JourneyState, word: Decided, target: str) -> tuple[Step, ...]:
    # Nothing can be submitted in a phase that the agent no longer has, or in which the work is complete.
    phases = [phase.name for phase in graph.phases]
    visited = [name for name in phases if name in state.phase_visits and name not in (state.phase, *graph.complete)]
    # If the agent no longer has the present phase, there is nothing that a later phase would skip.
    if word.channel == "relayed" and state.phase in phases:
        visited = [phase for phase in visited if is_earlier(graph, phase, state.phase)]
    if target not in visited:
        known = ", ".join(visited) or "none yet"
        raise NotToDecide(journey, "revisit", f"name an earlier phase in changes.{BACK_TO}: {known}")
    back = PhaseChanged(state.phase, target, "revisit", is_backward=True, detail=word.note)
    return (replace(word, phase=state.phase), back)
