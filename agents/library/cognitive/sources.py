"""Sources of the named sections in a cognitive agent's context. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["brief", "task", "answers", "previous", "input", "step", "earlier", "work", "memory", "johari"]
ALONE: tuple[Kind, ...] = ("brief", "task", "answers", "previous")
NAMED: tuple[Kind, ...] = ("input", "step", "earlier", "work", "memory", "johari")
QUADRANTS = ("open", "hidden", "blind", "unknown")
CONTEXT_LOADED, STEP_OVERVIEW = "Context Loaded", "Step Overview"
JOHARI_SUMMARY, DOWNSTREAM_DIRECTIVES = "Johari Summary", "Downstream Directives"
HEADINGS = (CONTEXT_LOADED, STEP_OVERVIEW, JOHARI_SUMMARY, DOWNSTREAM_DIRECTIVES)
"""The sections of a memory document, in their order."""
WAYS = (
    *ALONE,
    "input:NAME",
    "step:STEP.field",
    "earlier:STEP.field",
    "work:AGENT.STEP.field",
    "memory:AGENT",
    "memory:AGENT#Heading",
    *(f"johari:{quadrant}" for quadrant in QUADRANTS),
)
"""The spellings of sources in a file."""


@dataclass(frozen=True, slots=True)
class Source:
    """Something that a section can be filled with.

    `brief`: the request. `task`: what a skill asks of this phase. `answers`: what the person answered. `previous`: the memory
    document of the agent that was just completed. `input`: an input of the journey. `step`: a field (`part`) of the agent's own
    step. `earlier`: the same field in its previous pass of this journey. `work`: a field (`part`) of a step of another agent whose
    memory document is loaded, such as what it made. `memory`: the newest loaded memory document of an agent, or its section
    `part`. `johari`: what was found for one of the four quadrants.
    """

    kind: Kind
    name: str = ""
    part: str = ""

    def __str__(self) -> str:
        between = "#" if self.kind == "memory" else "."
        return self.kind + (f":{self.name}" if self.name else "") + (f"{between}{self.part}" if self.part else "")


def source_of(text: str) -> Source | None:
    """Return the source with that spelling; None if it is not one. The thing that it names may not exist."""
    kind, colon, rest = text.strip().partition(":")
    if not colon:
        return Source(kind) if kind in ALONE else None
    if kind not in NAMED or not rest:
        return None
    mark = "#" if kind == "memory" else "." if kind in ("step", "earlier", "work") else ""
    name, _, part = rest.partition(mark) if mark else (rest, "", "")
    return Source(kind, name.strip(), part.strip()) if name.strip() else None
