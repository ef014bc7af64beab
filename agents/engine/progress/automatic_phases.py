"""The steps that follow without a host: the work of automatic phases, work that follows from the record, and conversations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime

from agents.bounds import MOST_WORK_CHARS, json_excess
from agents.engine.decide import submit_steps
from agents.engine.evaluation import SubmissionJudge
from agents.engine.events import CheckpointReached, Json, Logged, PhaseChanged, Step, WorkRecorded
from agents.engine.fold import fold
from agents.engine.graph import PhaseGraph
from agents.engine.progress.position import JourneyPosition, as_recorded
from agents.engine.state import JourneyState
from agents.errors import BadWork
from agents.store.codec import numbered

PROVISIONAL = "-"
"""The key of steps that are folded before they are recorded."""


class AutomaticPhases:
    """Adds the steps that the server takes itself. `chance` returns the random end of a conversation's name."""

    def __init__(self, judge: SubmissionJudge, chance: Callable[[], str]) -> None:
        self._judge, self.chance = judge, chance

    async def extend(
        self,
        here: JourneyPosition,
        steps: Sequence[Step],
        version: int,
        *,
        at: datetime,
        by: str,
        brought: Collection[str] = (),
    ) -> Sequence[Step]:
        """Return the steps with those that the server takes after them: automatic phases, and work that follows from the record.

        The host does the phases `brought` itself: their work is in the same submission. Every move gets the conversation in which it
        continues. All steps belong to `version`.
        """
        graph = here.agent.graph
        # Without automatic phases and speakers there is nothing to add, and the steps need not be folded twice.
        speaks = here.agent.provides or any(phase.automatic or phase.speaker for phase in graph.phases)
        if not speaks and not any(transition.anew for transition in graph.transitions):
            return steps
        taken, there, following = list[Step](), here, steps
        while True:
            for step in following:
                # One by one, because the conversation of a move depends on the state just before it.
                taken.append(self._with_conversation(there, step))
                there = replace(there, state=fold(placed(there.state, taken[-1:], version, by, at), there.state))
            # Without a move the journey stays where it is, even in an automatic phase. A start has no steps yet, but works there.
            stays = bool(taken) and not any(isinstance(step, PhaseChanged) for step in following)
            automatic = any(phase.automatic for phase in graph.phases if phase.name == there.state.phase)
            if stays or there.state.status != "active":
                return _optional_last(taken, there.state)
            following = await self._work(there) if automatic else await self._following_work(there, brought)
            if not following:
                return _optional_last(taken, there.state)

    async def _work(self, here: JourneyPosition) -> Sequence[Step]:
        """Return the steps of an automatic phase.

        Raises:
            BadWork: the server's own work does not fit the phase's form.
        """
        work = await self._provided(here)
        work = (here.recorded or {}) if work is None else work
        if problems := self._problems(here, work):
            raise BadWork(here.journey, here.state.phase, problems)
        return await self._steps(here, work)

    async def _following_work(self, here: JourneyPosition, brought: Collection[str]) -> Sequence[Step]:
        """Return the steps of a phase whose work follows from the record; none if a host has to do it."""
        state = here.state
        # The work was sent back to this phase to be done differently from how the server did it.
        if state.phase in brought or state.backward_trigger is not None:
            return ()
        work = await self._provided(here)
        if work is None or self._problems(here, work):
            return ()
        steps = await self._steps(here, work)
        forward = any(isinstance(step, PhaseChanged) and not step.is_backward for step in steps)
        return steps if forward and not any(isinstance(step, CheckpointReached) for step in steps) else ()

    async def _provided(self, here: JourneyPosition) -> dict[str, Json] | None:
        provide = here.agent.provides.get(here.state.phase)
        if provide is None:
            return None
        look = self._judge.looking(here.journey, here.state)
        work = await provide(self._judge.facts(here, here.recorded or {}, {}), look)
        return None if work is None else as_recorded(dict(work))

    def _problems(self, here: JourneyPosition, work: Json) -> Sequence[str]:
        form = here.agent.forms.get(here.state.phase)
        return [*(form.problems(work) if form else ()), *json_excess(work, MOST_WORK_CHARS)]

    async def _steps(self, here: JourneyPosition, work: dict[str, Json]) -> Sequence[Step]:
        judged = await self._judge.judged(here, work, work, ())
        recorded = WorkRecorded(here.state.phase, here.state.visit, work, automatic=True)
        steps = submit_steps(here.agent.graph, here.journey, here.state, recorded, judged.met, detail=judged.detail)
        return [*steps, *judged.feedback]

    def _with_conversation(self, here: JourneyPosition, step: Step) -> Step:
        """Return the step. A move also names the conversation that begins or continues in its target, if there is one."""
        if not isinstance(step, PhaseChanged):
            return step
        graph, state = here.agent.graph, here.state
        speaker = speaker_of(graph, step.target) or (here.agent.name if step.anew else "")
        if not speaker:
            return step
        known = {} if step.anew else state.conversations
        if speaker in known and not graph.phase(step.target).fresh:
            return replace(step, conversation=known[speaker])
        # `state` is from before the move, and a move back begins the next iteration.
        iteration = state.iteration + step.is_backward
        return replace(step, conversation=self.conversation(speaker, iteration, state.conversations.values()))

    def conversation(self, speaker: str, iteration: int, used: Collection[str]) -> str:
        """Return the name of a new conversation that is not among those used."""
        while (name := f"{speaker}_iter{iteration}_{self.chance()}") in used:
            pass
        return name


def placed(state: JourneyState, steps: Sequence[Step], version: int, by: str, at: datetime) -> list[Logged]:
    """Return the steps as the events after `state`, all at one version."""
    return [replace(one, version=version) for one in numbered(state, steps, PROVISIONAL, by, at)] if steps else []


def _optional_last(steps: Sequence[Step], state: JourneyState) -> Sequence[Step]:
    """Return the steps with an optional question moved to the end, so that the server's own work does not close it."""
    asked = [step for step in steps if isinstance(step, CheckpointReached) and step.kind == "optional"]
    if not asked or state.checkpoint is not None or state.over:
        return steps
    return [*(step for step in steps if step not in asked), *asked]


def speaker_of(graph: PhaseGraph, phase: str) -> str:
    """Return the speaker whose conversation the phase continues, or "" if it names none."""
    return next((one.speaker for one in graph.phases if one.name == phase), "")
