"""Where a cognitive agent is at work: alone, or in a phase of a skill. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Pattern = Literal["all", "last", "named"]


@dataclass(frozen=True, slots=True)
class Predecessor:
    """An agent whose memory document is for this one. `phase` is the id that the skill gives it, "" outside of skills.

    `closing` is the whole name of the phase in which its document was recorded.
    """

    agent: str
    phase: str
    closing: str


@dataclass(frozen=True, slots=True)
class PhaseSetting:
    """What a skill says of one of its phases; nothing where an agent is started alone.

    `title` is the skill's, `phase` the id of its phase. In `agent_mode` nothing is routed. Of the `predecessors` those are loaded
    that left a document, the newest first; by the pattern `last` the newest alone. `earlier` has the prefixes of the other passes
    of the same agent. `instructions` and `output` are templates: `{{ brief }}` and `{{ inputs.NAME }}` are filled in.
    """

    skill: str = ""
    title: str = ""
    phase: str = ""
    domain: str = ""
    predecessors: tuple[Predecessor, ...] = ()
    pattern: Pattern = "all"
    earlier: tuple[str, ...] = ()
    focus: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    instructions: str = ""
    output: str = ""
    agent_mode: bool = False


ALONE = PhaseSetting()
