"""Judging work: the facts that conditions get, and the first condition that is met."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from agents.engine.agent import Agent, JourneySpent, Look, QuotedStatement, SubmitFacts
from agents.engine.events import FeedbackAdded, Json, StepUsage
from agents.engine.graph import ALWAYS, transitions_from
from agents.engine.progress.position import JourneyPosition
from agents.engine.state import JourneyState
from agents.prompts.prompt import OUTGROWN

Looking = Callable[[str, JourneyState], Look]


@dataclass(frozen=True, slots=True)
class Judged:
    """The first condition that is met (`met` has none or one), with its detail; otherwise the missing parts.

    `statements` are those of a forward transition that a second judge may be asked about; `note` says why the judge was not asked.
    """

    met: tuple[str, ...] = ()
    detail: str = ""
    missing: tuple[str, ...] = ()
    feedback: tuple[FeedbackAdded, ...] = ()
    statements: tuple[QuotedStatement, ...] = ()
    note: str = ""


def instructions(agent: Agent, phase: str) -> str:
    """Return what an agent tells a model to do in a phase: its texts as written, and the descriptions of the fields."""
    here = agent.graph.phase(phase)
    texts = [agent.texts.get(name, "") for name in (here.prompt, here.prompt_again) if name]
    form = agent.forms.get(phase)
    return "\n".join([*texts, *(_descriptions(form.schema) if form else ())])


def _descriptions(schema: Json) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for name, inside in schema.items():
            if name == "description" and isinstance(inside, str):
                yield inside
            else:
                yield from _descriptions(inside)
    elif isinstance(schema, list | tuple):
        for inside in schema:
            yield from _descriptions(inside)


class SubmissionJudge:
    """Judges work by the journey's record, by what `looking` can look up, and by the time."""

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
        """Return the facts for conditions; `usage` is the cost of this submit."""
        state, cost = here.state, usage or StepUsage()
        tokens = sum(took.tokens_in + took.tokens_out for took in state.metrics.values())
        # By visits, not since the start: the time before a fork and after completion was not spent on the work.
        ends, running = here.agent.graph.complete, (self.now() - state.entered_at).total_seconds()
        seconds = sum(took.seconds for phase, took in state.metrics.items() if phase not in ends) + max(0.0, running)
        try:
            documents = here.agent.documents(state)
        # Another version of the agent recorded the works. Conditions that do not need the documents can still be judged.
        except OUTGROWN:
            documents = {}
        return SubmitFacts(
            phase=state.phase,
            visit=state.visit,
            brief=state.brief,
            inputs=state.inputs,
            given=given,
            work=work,
            works={phase: kept.content for phase, kept in state.work.items()} | {state.phase: work},
            signals=signals,
            journey=here.journey,
            answers=state.answers,
            spent=JourneySpent(tokens + cost.tokens_in + cost.tokens_out, seconds, state.iteration),
            documents=documents,
            told=instructions(here.agent, state.phase),
        )

    async def judged(
        self,
        here: JourneyPosition,
        work: Mapping[str, Json],
        given: Mapping[str, Json],
        signals: tuple[str, ...],
        usage: StepUsage | None = None,
    ) -> Judged:
        """Judge the conditions of the transitions in their order, up to the first that is met."""
        state = here.state
        facts = self.facts(here, work, given, signals, usage)
        look, missing = self.looking(here.journey, state), list[str]()
        for transition in transitions_from(here.agent.graph, state.phase):
            if transition.condition == ALWAYS:
                return Judged((ALWAYS,))
            condition = here.agent.conditions.get(transition.condition)
            if condition is None:  # `human_rejected`: only a person's rejection meets it
                continue
            found = await condition(facts, look)
            if found.met:
                feedback = tuple(FeedbackAdded(found.kind, state.phase, text) for text in found.feedback)
                statements = () if transition.is_backward else found.statements
                return Judged((transition.condition,), found.detail, feedback=feedback, statements=statements)
            # An unmet way back is no gap in the work. It is explained only to a model that signalled it.
            if not transition.is_backward:
                missing += [text for text in found.missing if text not in missing]
            elif transition.condition in signals:
                why = "; ".join(found.missing) or "nothing in the work shows it"
                missing.append(f"the signal {transition.condition} is not confirmed: {why}")
        return Judged((), "", tuple(missing) or ("the work does not meet the condition of any transition yet",))
