"""A skill's definition: its agents in order, the text added to each, and the transitions between them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from agents.engine.events import Json
from agents.library.cognitive.model import LEAST_FOCUS, MOST_FOCUS, MOST_TERMS
from agents.spec.graph.transitions import CONDITION_NAME
from agents.spec.problems import meant, short
from agents.spec.yaml.block import FileBlock, Some, Words, entries
from agents.spec.yaml.values import Marked

END = "end"
"""Names the end of the skill where a phase is expected."""
ALL, LAST = "all", "last"
COMPLETE = "COMPLETE"
ID = re.compile(r"[a-z][a-z0-9-]{0,29}")
MOST_TOLD, MOST_CLOSING = 600, 1_600
"""Characters. Instructions and output are part of every prompt of an agent, whose budget is small."""


@dataclass(frozen=True, slots=True)
class SkillContext:
    """The names that a skill may and may not refer to: `agents` may work in it, other `skills` may not; `name` is its own."""

    name: str
    agents: Collection[str]
    skills: Collection[str]


def _id(text: str) -> str:
    if not ID.fullmatch(text) or text in (END, ALL, LAST):
        raise ValueError(
            f"has an invalid id: use small letters, digits and hyphens, at most 30, and not {END}, {ALL} or {LAST}"
        )
    return text


def _agent(name: str, info: ValidationInfo) -> str:
    known: SkillContext = info.context  # type: ignore[assignment]  # `read_skill` sets it
    if name in known.agents:
        return name
    if name in known.skills or name == known.name:
        raise ValueError(f"uses {short(name)}, which is a skill: only agents work in a skill")
    raise ValueError(f"uses the unknown agent {short(name)}{meant(name, sorted(known.agents))}")


def _way_name(name: str) -> str:
    if not CONDITION_NAME.fullmatch(name):
        raise ValueError(f"cannot be called {short(name)}: use small letters, digits and underscores")
    return name


class SkillPhase(FileBlock):
    """An agent's place in a skill, with the text that is added to its own prompts there.

    `context` selects the memory documents that it gets: `all`, `last`, or the ids of phases. `next` is the phase that comes after it,
    or `END`; "" for the next in the list.
    """

    id: Annotated[str, AfterValidator(_id)]
    agent: Annotated[str, Field(min_length=1), AfterValidator(_agent)]
    focus: Annotated[Words[str], entries(LEAST_FOCUS, MOST_FOCUS, 120)] = ()
    terms: Annotated[Words[str], entries(1, MOST_TERMS, 60)] = ()
    context: Some[str] = (ALL,)
    instructions: str = Field(default="", max_length=MOST_TOLD)
    output: str = Field(default="", max_length=MOST_TOLD)
    next: str = Field(default="", max_length=30)

    @property
    def prefix(self) -> str:
        """The prefix of its agent's phase names in the skill."""
        return f"{self.id}."


class SkillWay(FileBlock):
    """A transition from the end of the phase `source`, tried before the one to the next phase, and taken if `when` is met.

    `to` is a phase of the skill; a dot and a phase of its agent follow if that is not the agent's first phase. The condition
    looks at the works of the source's agent, so it is read when the skill is assembled.
    """

    source: str = Field(alias="from", min_length=1, max_length=30)
    to: str = Field(min_length=1, max_length=80)
    name: Annotated[str, Field(max_length=60), AfterValidator(_way_name)]
    when: Json = Field()
    is_backward: bool = False
    priority: int = Field(default=0, ge=-100, le=100)

    @property
    def target(self) -> str:
        """The phase of the skill that it leads to."""
        return self.to.partition(".")[0]

    @property
    def phase(self) -> str:
        """The phase within that agent; "" for the first."""
        return self.to.partition(".")[2]


class SkillBlock(FileBlock):
    """A skill as its file writes it."""

    title: str = Field(min_length=1, max_length=60)
    summary: str = Field(min_length=1, max_length=300)
    domain: str = Field(default="", max_length=60)
    inputs: Json = None
    without_memory: Words[str] = ()
    phases: Json = Field()
    ways: Json = None
    result: Words[str] = ()
    closing: str = Field(default="", max_length=MOST_CLOSING)


@dataclass(frozen=True)
class Skill:
    """A skill, with the file that it was read from (`source`), for the lines of problems that are found later.

    `without_memory` are the phases after which the memory agent does not run. `result` names the phases whose results
    are the skill's; by default it is the result of the last phase.
    """

    name: str
    file: str
    title: str
    summary: str
    domain: str
    inputs: Mapping[str, Json]
    phases: tuple[SkillPhase, ...]
    ways: tuple[SkillWay, ...]
    without_memory: frozenset[str]
    result: tuple[str, ...]
    closing: str
    source: Marked

    @property
    def origin(self) -> str:
        """Its origin, as for an agent: its file."""
        return self.file

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents that work in it, each once."""
        return tuple(dict.fromkeys(phase.agent for phase in self.phases))

    def following(self, phase: SkillPhase) -> str:
        """Return the phase that comes after another, or `END`."""
        order = [one.id for one in self.phases]
        return phase.next or [*order, END][order.index(phase.id) + 1]

    def line(self, block: SkillPhase | SkillWay, key: str = "") -> int:
        """Return the line of a phase or transition in its file, or of one of its keys."""
        path = (
            ("phases", self.phases.index(block)) if isinstance(block, SkillPhase) else ("ways", self.ways.index(block))
        )
        return self.source.line_at([*path, key])

    def condition(self, way: SkillWay) -> Marked:
        """Return the condition of a transition as its file writes it."""
        return self.source.entries["ways"].items[self.ways.index(way)].entries["when"]

    def text_line(self, key: str, phase: SkillPhase | None = None) -> int:
        """Return the line on which a text of a phase, or of the skill itself, begins; 1 if it has no such text."""
        block = self.source.entries["phases"].items[self.phases.index(phase)] if phase else self.source
        return block.entries[key].text_line if key in block.entries else 1
