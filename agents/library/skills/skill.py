"""What a skill is: which agents work one after the other, what each is told, and where the work goes from there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.engine.events import Json
from agents.spec.yaml.values import Marked

END = "end"
"""What stands for the end of the skill where a phase is named."""
COMPLETE = "COMPLETE"


@dataclass(frozen=True, slots=True)
class SkillPhase:
    """An agent's place in a skill, with what it is told there beside its own words.

    `context` is whose memory documents it is given: `all`, `last`, or the ids of phases. `following` is the phase that comes
    after it, or `END`. `memory`: the memory agent runs when it is complete.
    """

    id: str
    agent: str
    line: int
    focus: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    context: tuple[str, ...] = ("all",)
    instructions: str = ""
    output: str = ""
    following: str = END
    memory: bool = True
    lines: Mapping[str, int] = field(default_factory=dict)
    """Where its texts begin."""


@dataclass(frozen=True, slots=True)
class SkillWay:
    """A way from the end of the phase `source` that is gone when a condition is met, tried before the one to what follows it.

    `target` is a phase of the skill, and `phase` one within that agent, "" for the first. `when` is the condition as it is
    written: it looks at the works of the source's agent, which have to be known before it can be read.
    """

    source: str
    target: str
    phase: str
    name: str
    when: Marked
    line: int
    to_line: int
    is_backward: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as its file says it. `closing` is what is left to tell when it is complete, written from `closing_line` on."""

    name: str
    title: str
    summary: str
    file: str
    domain: str
    inputs: Mapping[str, Json]
    phases: tuple[SkillPhase, ...]
    ways: tuple[SkillWay, ...]
    closing: str = ""
    closing_line: int = 1

    @property
    def origin(self) -> str:
        """Return where it comes from, as of agents: its file."""
        return self.file

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the names of the agents that work in it, each once."""
        return tuple(dict.fromkeys(phase.agent for phase in self.phases))

    def phase(self, id_: str) -> SkillPhase:
        """Return the phase of that id; a KeyError if there is none."""
        return {phase.id: phase for phase in self.phases}[id_]
