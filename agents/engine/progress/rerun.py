"""A journey again, step by step, from one of its versions: what was recorded after it is submitted and said once more.

The answers are those on record, what they lead to is found anew: with the agent, the conditions and the pages of today. Tools are
not called again, and what the server does by itself it does as it is asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from agents.engine.agent import Agent
from agents.engine.events import Channel, Decided, FeedbackAdded, Json, Logged, PhaseChanged, StepUsage, WorkRecorded
from agents.engine.fold import fold
from agents.engine.runner import JourneyDecision, Runner, Submission
from agents.engine.state import JourneyState
from agents.engine.work.form import DROP, has_ids, joined
from agents.errors import AgentError, BadStart

MOST_TOLD = 300


@dataclass(frozen=True, slots=True)
class RerunOutcome:
    """Where a step led: the journey's status and phase then, and its moves, as `from`, `to` and why."""

    status: str
    phase: str
    moves: tuple[tuple[str, str, str], ...] = ()

    def __str__(self) -> str:
        """Return it in a few words."""
        way = " -> ".join([self.moves[0][0], *(move[1] for move in self.moves)]) if self.moves else self.phase
        why = f" ({self.moves[-1][2]})" if self.moves else ""
        return f"{way}{why}, {self.status}"


@dataclass(frozen=True, slots=True)
class RerunStep:
    """What led to a version: work that a host submitted in `phase`, or what a person said there; and where that led."""

    version: int
    phase: str
    what: Submission | JourneyDecision
    led: RerunOutcome
    automatic: Mapping[str, Json]
    """What the server did by itself on the way, by phase."""
    feedback: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return what it is: `submit`, or the decision."""
        return "submit" if isinstance(self.what, Submission) else self.what.decision


@dataclass(frozen=True, slots=True)
class Again:
    """An act that was done again: where it led now, None if it was refused, with why. `remarks`: what else is different."""

    act: RerunStep
    now: RerunOutcome | None
    refused: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Return whether it led where it led before."""
        return self.now == self.act.led


def acts_after(log: Sequence[Logged], version: int, agent: Agent) -> Sequence[RerunStep]:
    """Return what was submitted and said after that version, in order. Pure."""
    state = fold(logged for logged in log if logged.version <= version)
    found: list[RerunStep] = []
    after = (logged for logged in log if logged.version > version)
    for number, group in groupby(after, key=lambda logged: logged.version):
        events = list(group)
        before, state = state, fold(events, state)
        act = _act(number, events, before, agent)
        if act is not None:
            found.append(replace(act, led=outcome(events, state)))
    return found


def outcome(events: Sequence[Logged], state: JourneyState) -> RerunOutcome:
    """Return where the events of a version led, `state` being the state then."""
    moves = [event for logged in events if isinstance(event := logged.event, PhaseChanged)]
    return RerunOutcome(state.status, state.phase, tuple((move.source, move.target, move.reason) for move in moves))


def _act(version: int, events: Sequence[Logged], before: JourneyState, agent: Agent) -> RerunStep | None:
    steps = [logged.event for logged in events]
    automatic = {step.phase: step.work for step in steps if isinstance(step, WorkRecorded) and step.automatic}
    feedback = tuple(step.text for step in steps if isinstance(step, FeedbackAdded))
    nowhere = RerunOutcome(before.status, before.phase)
    for step in steps:
        if isinstance(step, Decided):
            return RerunStep(version, step.phase, _opinion(step), nowhere, automatic, feedback)
        if isinstance(step, WorkRecorded) and not step.automatic:
            return RerunStep(version, step.phase, _submission(step, before, agent), nowhere, automatic, feedback)
    return None  # it was forked there, which is nobody's word


def _opinion(word: Decided) -> JourneyDecision:
    changes: Mapping[str, Json] = word.changes if isinstance(word.changes, dict) else {}
    if word.answers:
        changes = {id_: one.get("answer", "") for id_, one in word.answers.items()}
    return JourneyDecision(word.decision, word.channel, word.note, changes)


def _submission(recorded: WorkRecorded, before: JourneyState, agent: Agent) -> Submission:
    form = agent.forms.get(recorded.phase)
    kept = before.work.get(recorded.phase)
    work = given(kept.content if kept else None, recorded.work, form.asks if form else frozenset())
    usage = StepUsage(model=recorded.usage.model) if recorded.usage.counted else recorded.usage
    return Submission(work, recorded.signals, usage, recorded.conversation, recorded.confidence, recorded.reasoning)


def given(before: Json, after: Json, asks: frozenset[str]) -> dict[str, Json]:
    """Return what a submit brought that made `after` of `before`: what is new or another, and the ids of what was dropped.

    A value that was given once more as it stood there cannot be told from one that was not given.
    """
    whole: Mapping[str, Json] = after if isinstance(after, dict) else {}
    old: Mapping[str, Json] = before if isinstance(before, dict) else {}
    told: dict[str, Json] = {}
    dropped: list[str] = []
    for name, value in whole.items():
        there = old.get(name)
        if name in asks or name not in old:
            told[name] = value
        elif there == value:
            continue
        elif there and has_ids(there) and has_ids(value):
            known, kept = {item["id"]: item for item in there}, {item["id"] for item in value}
            told |= {name: new} if (new := [item for item in value if known.get(item["id"]) != item]) else {}
            dropped += [id_ for id_ in known if id_ not in kept]
        else:
            told[name] = value
    least = {**told, DROP: dropped} if dropped else told
    if joined(old, least, asks) == whole:
        return least
    # Something was dropped and given once more, so that it stands elsewhere now: all of it is given anew.
    ids = [item["id"] for value in old.values() if has_ids(value) for item in value]
    return {**whole, DROP: list(dict.fromkeys(ids))}


async def again(
    runner: Runner, journey: str, acts: Sequence[RerunStep], *, by: str, person: str, channel: Channel
) -> AsyncIterator[Again]:
    """Do these acts once more in `journey`, which stands where they began, and yield each with where it led.

    Work is submitted as that of `by`; what a person said is said again by `person`, in that channel. The first act that leads
    elsewhere, or is refused, is the last.
    """
    for act in acts:
        at = (await runner.store.journey(journey)).version
        try:
            if isinstance(act.what, Submission):
                here = await runner.submit(journey, at, act.what, by=by)
            else:
                here = await runner.decide(journey, at, replace(act.what, channel=channel), by=person)
        except AgentError as error:
            yield Again(act, None, str(error))
            return
        log = [logged for logged in await runner.store.events(journey) if logged.version == here.state.version]
        done = _act(here.state.version, log, here.state, here.agent)
        told = Again(act, outcome(log, here.state), remarks=_remarks(act, done))
        yield told
        if not told.same:
            return


def _remarks(act: RerunStep, done: RerunStep | None) -> tuple[str, ...]:
    """Return what is different though it may have led to the same place."""
    if done is None:
        return ()
    told = [
        f"what the server found in {phase} is different now"
        for phase, work in done.automatic.items()
        if phase in act.automatic and act.automatic[phase] != work
    ]
    told += [f"missing now: {text[:MOST_TOLD]}" for text in done.feedback if text not in act.feedback]
    return (*told, *(f"no longer missing: {text[:MOST_TOLD]}" for text in act.feedback if text not in done.feedback))


def checked_place(of: str, version: int, state: JourneyState, journey: str) -> None:
    """Return if the fork stands where acts after that version of the other journey can be done.

    Raises:
        BadStart: it is no fork of it, or was forked later.
    """
    if state.forked_from != of:
        raise BadStart(f"{journey} was not forked from {of}; without it a new fork is begun")
    if state.forked_at > version:
        raise BadStart(f"{journey} was forked from {of} at version {state.forked_at}, after version {version}")
