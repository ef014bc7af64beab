"""The setting of a cognitive agent: alone, or in a phase of a skill. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Pattern = Literal["all", "last", "named"]


@dataclass(frozen=True, slots=True)
class Predecessor:
    """An agent whose memory document this one receives. `phase` is its id in the skill, "" outside of skills.

    `closing` is the full name of the phase that recorded its document.
    """

    agent: str
    phase: str
    closing: str


@dataclass(frozen=True, slots=True)
class PhaseSetting:
    """A skill's settings for one of its phases; empty for an agent that is started alone.

    `title` is the skill's, `phase` the id of its phase. In `agent_mode` nothing is routed. The documents that `predecessors` left
    are loaded, newest first; with the pattern `last` only the newest. `earlier` are the prefixes of other passes of the
    same agent. `instructions` and `output` are templates: `{{ brief }}` and `{{ inputs.NAME }}` are filled in. An agent that
    `looks_back` reviews the work of its predecessor, and has nothing to discover before.
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
    looks_back: bool = False


ALONE = PhaseSetting()
