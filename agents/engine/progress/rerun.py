"""Repeating a journey from one of its versions: the later submissions and decisions are made again, step by step.

The submissions are those on record. Where they lead is computed again, with the agent, conditions and pages of today. Tools are not
called again; the work of automatic phases is repeated.
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

MOST_REMARK_CHARS = 300


@dataclass(frozen=True, slots=True)
class RerunOutcome:
    """The outcome of a step: the journey's status and phase after it, and its moves as `from`, `to` and reason."""

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
    """A recorded step: the work that a host submitted in `phase`, or a person's decision there, and its outcome."""

    version: int
    phase: str
    act: Submission | JourneyDecision
    outcome: RerunOutcome
    automatic: Mapping[str, Json]
    """The work of automatic phases in this step, by phase."""
    feedback: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return `submit`, or the decision."""
        return "submit" if isinstance(self.act, Submission) else self.act.decision


@dataclass(frozen=True, slots=True)
class RepeatedStep:
    """A step that was repeated, with its outcome now, None if it was refused. `remarks` name other differences."""

    step: RerunStep
    now: RerunOutcome | None
    refused: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the outcome is the same as before."""
        return self.now == self.step.outcome


def steps_after(log: Sequence[Logged], version: int, agent: Agent) -> Sequence[RerunStep]:
    """Return the steps that were recorded after that version, in order. Pure."""
    state = fold(logged for logged in log if logged.version <= version)
    found: list[RerunStep] = []
    after = (logged for logged in log if logged.version > version)
    for number, group in groupby(after, key=lambda logged: logged.version):
        events = list(group)
        before, state = state, fold(events, state)
        if (step := _step(number, events, before, state, agent)) is not None:
            found.append(step)
    return found


def _step(
    version: int, events: Sequence[Logged], before: JourneyState, after: JourneyState, agent: Agent
) -> RerunStep | None:
    """Return the step of these events, or None for a fork, which is neither a submission nor a decision."""
    steps = [logged.event for logged in events]
    moves = tuple((step.source, step.target, step.reason) for step in steps if isinstance(step, PhaseChanged))
    outcome = RerunOutcome(after.status, after.phase, moves)
    automatic = {step.phase: step.work for step in steps if isinstance(step, WorkRecorded) and step.automatic}
    feedback = tuple(step.text for step in steps if isinstance(step, FeedbackAdded))
    for step in steps:
        if isinstance(step, Decided):
            return RerunStep(version, step.phase, _decision(step), outcome, automatic, feedback)
        if isinstance(step, WorkRecorded) and not step.automatic:
            return RerunStep(version, step.phase, _submission(step, before, agent), outcome, automatic, feedback)
    return None


def _decision(word: Decided) -> JourneyDecision:
    changes: Mapping[str, Json] = word.changes if isinstance(word.changes, dict) else {}
    if word.answers:
        changes = {id_: one.get("answer", "") for id_, one in word.answers.items()}
    return JourneyDecision(word.decision, word.channel, word.note, changes)


def _submission(recorded: WorkRecorded, before: JourneyState, agent: Agent) -> Submission:
    form = agent.forms.get(recorded.phase)
    kept = before.work.get(recorded.phase)
    work = given(kept.content if kept else None, recorded.work, form.asks if form else frozenset())
    # Tokens that the server counted are left out, so that it counts them again from today's prompt.
    usage = StepUsage(model=recorded.usage.model) if recorded.usage.counted else recorded.usage
    return Submission(work, recorded.signals, usage, recorded.conversation, recorded.confidence, recorded.reasoning)


def given(before: Json, after: Json, asks: frozenset[str]) -> dict[str, Json]:
    """Return the submission that turns `before` into `after`: the new and changed items, and the ids of dropped ones.

    A value that the host repeated unchanged looks the same as one that it left out.
    """
    new: Mapping[str, Json] = after if isinstance(after, dict) else {}
    old: Mapping[str, Json] = before if isinstance(before, dict) else {}
    changes: dict[str, Json] = {}
    dropped: list[str] = []
    for name, value in new.items():
        there = old.get(name)
        if name in asks or name not in old:
            changes[name] = value
        elif there == value:
            continue
        elif there and has_ids(there) and has_ids(value):
            known, kept = {item["id"]: item for item in there}, {item["id"] for item in value}
            if changed := [item for item in value if known.get(item["id"]) != item]:
                changes[name] = changed
            dropped += [id_ for id_ in known if id_ not in kept]
        else:
            changes[name] = value
    submission = {**changes, DROP: dropped} if dropped else changes
    if joined(old, submission, asks) == new:
        return submission
    # An item was dropped and submitted again, which moves it to the end of the list: the whole list is replaced.
    ids = [item["id"] for value in old.values() if has_ids(value) for item in value]
    return {**new, DROP: list(dict.fromkeys(ids))}


async def repeat(
    runner: Runner, journey: str, steps: Sequence[RerunStep], *, by: str, person: str, channel: Channel
) -> AsyncIterator[RepeatedStep]:
    """Repeat these steps in `journey`, which is at the version where they began, and yield each with its outcome.

    Work is submitted by `by`; decisions are made by `person` in that channel. It ends after the first step that has another outcome
    or is refused.
    """
    for step in steps:
        at = (await runner.store.journey(journey)).version
        try:
            if isinstance(step.act, Submission):
                here = await runner.submit(journey, at, step.act, by=by)
            else:
                here = await runner.decide(journey, at, replace(step.act, channel=channel), by=person)
        except AgentError as error:
            yield RepeatedStep(step, None, str(error))
            return
        events = [logged for logged in await runner.store.events(journey) if logged.version == here.state.version]
        # Only outcome, automatic work and feedback are compared, so the state before the step does not matter here.
        now = _step(here.state.version, events, here.state, here.state, here.agent)
        if now is None:
            return
        repeated = RepeatedStep(step, now.outcome, remarks=_remarks(step, now))
        yield repeated
        if not repeated.same:
            return


def _remarks(before: RerunStep, now: RerunStep) -> tuple[str, ...]:
    """Return the differences besides the outcome."""
    remarks = [
        f"what the server found in {phase} is different now"
        for phase, work in now.automatic.items()
        if phase in before.automatic and before.automatic[phase] != work
    ]
    remarks += [f"missing now: {text[:MOST_REMARK_CHARS]}" for text in now.feedback if text not in before.feedback]
    no_longer = [text[:MOST_REMARK_CHARS] for text in before.feedback if text not in now.feedback]
    return (*remarks, *(f"no longer missing: {text}" for text in no_longer))


def check_fork(of: str, version: int, state: JourneyState, journey: str) -> None:
    """Check that steps after that version of the other journey can be repeated in this fork.

    Raises:
        BadStart: it is not a fork of that journey, or was forked later.
    """
    if state.forked_from != of:
        raise BadStart(f"{journey} was not forked from {of}; leave that out to begin a new fork")
    if state.forked_at > version:
        raise BadStart(f"{journey} was forked from {of} at version {state.forked_at}, after version {version}")
