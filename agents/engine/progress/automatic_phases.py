"""What follows from a step without anybody being asked: the work of automatic phases, and the conversation of each move."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime

from agents.bounds import MOST_WORK_CHARS, json_excess
from agents.engine.decide import submitted
from agents.engine.evaluation import SubmissionJudge
from agents.engine.events import CheckpointReached, Logged, PhaseChanged, Step, WorkRecorded
from agents.engine.fold import fold
from agents.engine.graph import PhaseGraph
from agents.engine.progress.position import JourneyPosition, as_kept
from agents.engine.state import JourneyState
from agents.errors import BadWork
from agents.store.codec import numbered

PROVISIONAL = "-"
"""The key of steps that are only tried out."""


class AutomaticPhases:
    """Takes the steps that the server takes by itself. `chance` gives what tells conversations apart."""

    def __init__(self, judge: SubmissionJudge, chance: Callable[[], str]) -> None:
        self._judge, self.chance = judge, chance

    async def after(
        self, here: JourneyPosition, steps: Sequence[Step], version: int, *, at: datetime, by: str
    ) -> Sequence[Step]:
        """Return the steps, and after them those that the server itself takes: the work of automatic phases, and where it leads.

        Each move is given the conversation that it goes on in. All of it is to be `version`.
        """
        graph = here.agent.graph
        if not (
            any(phase.automatic or phase.speaker for phase in graph.phases) or any(t.anew for t in graph.transitions)
        ):
            return steps
        taken, there, onward = list[Step](), here, steps
        while True:
            for step in onward:
                said = self._conversing(there, step)
                taken.append(said)
                there = replace(there, state=fold(placed(there.state, [said], version, by, at), there.state))
            stays = bool(taken) and not any(isinstance(step, PhaseChanged) for step in onward)
            if stays or there.state.status != "active" or not _automatic(graph, there.state.phase):
                return _asked_last(taken, there.state)
            onward = await self._by_itself(there)

    async def _by_itself(self, here: JourneyPosition) -> Sequence[Step]:
        """Return what an automatic phase brings.

        Raises:
            BadWork: what the server made of it is not as the phase asks for it.
        """
        state, before = here.state, here.before or {}
        look = self._judge.looking(here.journey, state)
        provide = here.agent.provides.get(state.phase)
        work = as_kept(dict(await provide(self._judge.facts(here, before, {}), look))) if provide else before
        form = here.agent.forms.get(state.phase)
        if problems := [*(form.problems(work) if form else ()), *json_excess(work, MOST_WORK_CHARS)]:
            raise BadWork(here.journey, state.phase, problems)
        judged = await self._judge.judged(here, work, work, ())
        recorded = WorkRecorded(state.phase, state.visit, work, automatic=True)
        steps = submitted(here.agent.graph, here.journey, state, recorded, judged.met, detail=judged.detail)
        return [*steps, *judged.feedback]

    def _conversing(self, here: JourneyPosition, step: Step) -> Step:
        """Return the step; of a move with the conversation in which its target goes on, if that changes."""
        if not isinstance(step, PhaseChanged):
            return step
        graph, state = here.agent.graph, here.state
        speaker = speaker_of(graph, step.target) or (here.agent.name if step.anew else "")
        if not speaker:
            return step
        known = {} if step.anew else state.conversations
        if speaker in known and not graph.phase(step.target).fresh:
            return replace(step, conversation=known[speaker])
        iteration = state.iteration + step.is_backward
        return replace(step, conversation=self.conversation(speaker, iteration, state.conversations.values()))

    def conversation(self, speaker: str, iteration: int, used: Collection[str]) -> str:
        """Return the name of a new conversation, none of those used."""
        while (made := f"{speaker}_iter{iteration}_{self.chance()}") in used:
            pass
        return made


def placed(state: JourneyState, steps: Sequence[Step], version: int, by: str, at: datetime) -> list[Logged]:
    """Return the steps as they follow `state`, all at one version."""
    return [replace(one, version=version) for one in numbered(state, steps, PROVISIONAL, by, at)] if steps else []


def _asked_last(steps: Sequence[Step], state: JourneyState) -> Sequence[Step]:
    """Return the steps, a question that stays open while the work goes on last: the server's own work is no answer to it."""
    asked = [step for step in steps if isinstance(step, CheckpointReached) and step.kind == "optional"]
    if not asked or state.checkpoint is not None or state.over:
        return steps
    return [*(step for step in steps if step not in asked), *asked]


def _automatic(graph: PhaseGraph, phase: str) -> bool:
    return any(one.automatic for one in graph.phases if one.name == phase)


def speaker_of(graph: PhaseGraph, phase: str) -> str:
    """Return whose conversation the phase goes on in, "" if it says none."""
    return next((one.speaker for one in graph.phases if one.name == phase), "")
