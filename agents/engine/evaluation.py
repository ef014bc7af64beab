"""Judging work: what its conditions are given to look at, and which of them is the first that is met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from agents.engine.agent import JourneySpent, Look, SubmitFacts
from agents.engine.events import FeedbackAdded, Json, StepUsage
from agents.engine.graph import ALWAYS, transitions_from
from agents.engine.progress.position import JourneyPosition
from agents.engine.state import JourneyState
from agents.prompts.prompt import OUTGROWN

Looking = Callable[[str, JourneyState], Look]


@dataclass(frozen=True, slots=True)
class Judged:
    """The first condition that is met, with its detail; or what is missing."""

    met: tuple[str, ...] = ()
    detail: str = ""
    missing: tuple[str, ...] = ()
    feedback: tuple[FeedbackAdded, ...] = ()


class SubmissionJudge:
    """Judges what is submitted, by the record, by what `looking` sees, and by the time."""

    def __init__(self, looking: Looking, now: Callable[[], datetime]) -> None:
        self.looking, self.now = looking, now

    def facts(
        self,
        here: JourneyPosition,
        work: Mapping[str, Json],
        given: Mapping[str, Json],
        signals: tuple[str, ...] = (),
        usage: StepUsage | None = None,
    ) -> SubmitFacts:
        """Return what conditions judge by; `usage` is what the present submit cost."""
        state, cost = here.state, usage or StepUsage()
        works = {phase: kept.content for phase, kept in state.work.items()}
        works[state.phase] = work
        tokens = sum(took.tokens_in + took.tokens_out for took in state.metrics.values())
        # By visits, not since the start: before a fork, and while all was complete, no time was spent.
        ends, running = here.agent.graph.complete, (self.now() - state.entered_at).total_seconds()
        seconds = sum(took.seconds for phase, took in state.metrics.items() if phase not in ends) + max(0.0, running)
        return SubmitFacts(
            state.phase,
            state.visit,
            state.brief,
            state.inputs,
            given,
            work,
            works,
            signals,
            here.journey,
            state.answers,
            JourneySpent(tokens + cost.tokens_in + cost.tokens_out, seconds, state.iteration),
            _documents(here),
        )

    async def judged(
        self,
        here: JourneyPosition,
        work: Mapping[str, Json],
        given: Mapping[str, Json],
        signals: tuple[str, ...],
        usage: StepUsage | None = None,
    ) -> Judged:
        """Look at the conditions of the ways out in their order, up to the first that is met."""
        state = here.state
        facts = self.facts(here, work, given, signals, usage)
        look, missing = self.looking(here.journey, state), list[str]()
        for way in transitions_from(here.agent.graph, state.phase):
            if way.condition == ALWAYS:
                return Judged((ALWAYS,))
            condition = here.agent.conditions.get(way.condition)
            if condition is None:  # only a person's rejection meets it
                continue
            found = await condition(facts, look)
            if found.met:
                told = tuple(FeedbackAdded(found.kind, state.phase, text) for text in found.feedback)
                return Judged((way.condition,), found.detail, feedback=told)
            if not way.is_backward:
                missing += [text for text in found.missing if text not in missing]
            elif way.condition in signals:
                why = "; ".join(found.missing) or "nothing that was submitted shows it"
                missing.append(f"the signal {way.condition} is not confirmed: {why}")
        return Judged((), "", tuple(missing) or ("what was submitted leads nowhere yet",))


def _documents(here: JourneyPosition) -> Mapping[str, str]:
    try:
        return here.agent.documents(here.state)
    except OUTGROWN:
        return {}
