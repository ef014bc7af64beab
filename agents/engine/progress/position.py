"""Where a journey stands, and with whom. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from agents.engine.agent import Agent
from agents.engine.events import Json, canonical
from agents.engine.graph import Phase
from agents.engine.state import JourneyState
from agents.errors import PhaseGone


@dataclass(frozen=True, slots=True)
class JourneyPosition:
    """Where a journey stands, and with whom. What to tell a host follows from these (`agents.prompts.prompt`).

    `repeated`: it was to be begun, and had been begun a moment before.
    """

    journey: str
    agent: Agent
    state: JourneyState
    repeated: bool = False

    @property
    def phase(self) -> Phase:
        """Return the present phase.

        Raises:
            PhaseGone: the agent does not have it any more.
        """
        try:
            return self.agent.graph.phase(self.state.phase)
        except KeyError:
            names = [phase.name for phase in self.agent.graph.phases]
            raise PhaseGone(self.journey, self.agent.name, self.state.phase, names) from None

    @property
    def before(self) -> Json:
        """Return what is recorded of the present phase's work; None if nothing is."""
        kept = self.state.work.get(self.state.phase)
        return kept.content if kept else None


def as_kept(value: Json) -> Json:
    """Return the value as it comes back from the record."""
    return json.loads(canonical(value))
