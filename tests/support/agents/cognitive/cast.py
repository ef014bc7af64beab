"""The agents of a journey of cognitive agents, and each one's script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tests.support.agents.cognitive.scripts import Act, Scene, Script, clarification, shared


@dataclass(frozen=True)
class Cast:
    """A journey's agents, by prefix of phase names, longest first."""

    parts: Mapping[str, str]

    def of(self, phase: str) -> tuple[str, str]:
        """Return the agent of that phase, and the phase by its own name."""
        prefix = next(p for p in sorted(self.parts, key=len, reverse=True) if phase.startswith(p))
        return self.parts[prefix], phase.removeprefix(prefix)

    @staticmethod
    def alone(agent: str) -> Cast:
        """Return the cast of an agent that is started by itself."""
        return Cast({"": agent} if agent == "memory" else {"": agent, "memory.": "memory"})

    @staticmethod
    def skill(phases: Mapping[str, str]) -> Cast:
        """Return the cast of a skill: the agent of each phase, and the memory agent after it."""
        own = {f"{id_}.": agent for id_, agent in phases.items()}
        return Cast({**own, **{f"{prefix}memory.": "memory" for prefix in own}})


def script_of(agent: str) -> Script:
    """Return the script of an agent's own phases."""
    module = import_module(f"tests.support.agents.cognitive.scripts.{agent.replace('-', '_')}")
    script: Script = module.acts
    return script


def acts(cast: Cast, told: Mapping[str, Any], inputs: Mapping[str, Any]) -> Sequence[Act]:
    """Return the acts for the journey's present phase."""
    agent, phase = cast.of(told["phase"])
    clarified = agent != "clarification" and "clarification" in cast.parts.values()
    recorded = [one["id"] for one in clarification.requirements(inputs)] if clarified else []
    scene = Scene(told["journey_id"], told["prompt"], told["visit"], inputs=inputs, requirements=recorded)
    if phase in shared.PHASES:
        return shared.acts(agent, phase, scene)
    return script_of(agent)(phase, scene)
