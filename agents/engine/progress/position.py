"""The position of a journey: its state, and the agent that leads it. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from agents.engine.agent import Agent
from agents.engine.events import Json, canonical
from agents.engine.graph import Phase
from agents.engine.state import JourneyState
from agents.engine.work.several import Recorded
from agents.errors import PhaseGone


@dataclass(frozen=True, slots=True)
class JourneyPosition:
    """A journey with its agent and state. `agents.prompts.prompt` makes a host's instructions from these.

    `repeated`: the start was a retry, and this is the journey that the first call began. `recorded_now` says how far
    the submission that led here came. `note` says why the second judge could not be asked about it. `came_from` is the
    state before the act that led here, if the host continues in the same conversation: what has not changed since then,
    it was told already.
    """

    journey: str
    agent: Agent
    state: JourneyState
    repeated: bool = False
    recorded_now: Recorded | None = None
    came_from: JourneyState | None = None
    note: str = ""

    @property
    def phase(self) -> Phase:
        """The present phase.

        Raises:
            PhaseGone: the agent no longer has it.
        """
        try:
            return self.agent.graph.phase(self.state.phase)
        except KeyError:
            names = [phase.name for phase in self.agent.graph.phases]
            raise PhaseGone(self.journey, self.agent.name, self.state.phase, names) from None

    @property
    def recorded(self) -> Json:
        """The recorded work of the present phase, or None."""
        kept = self.state.work.get(self.state.phase)
        return kept.content if kept else None


def as_recorded(value: Json) -> Json:
    """Return the value as the store returns it: tuples become lists, keys become text."""
    return json.loads(canonical(value))
