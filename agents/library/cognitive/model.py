"""The parts of a cognitive agent: its own steps and the texts around them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.engine.agent import Agent, ModelAdvice
from agents.engine.events import Json
from agents.library.cognitive.sources import Source
from agents.prompts.context import Budget

ROUTING, LEARNING_INJECTION, JOHARI_DISCOVERY = "ROUTING", "LEARNING_INJECTION", "JOHARI_DISCOVERY"
CLOSING, COMPLETE, DONE = "CLOSING", "COMPLETE", "DONE"
SHARED_PHASES = (ROUTING, LEARNING_INJECTION, JOHARI_DISCOVERY, CLOSING, COMPLETE)
NOTHING_TO_ASK, QUESTIONS_TO_ASK, DOCUMENT_SOUND = "nothing_to_ask", "questions_to_ask", "document_sound"
SHARED_CONDITIONS = (NOTHING_TO_ASK, QUESTIONS_TO_ASK, DOCUMENT_SOUND)
DOCUMENT = "document"
"""The field of the closing work with the memory document."""
LEAST_FOCUS, MOST_FOCUS = 3, 5
LEAST_TERMS, MOST_TERMS = 7, 10


@dataclass(frozen=True)
class FollowingStep:
    """A step that the server does itself if its work follows from the record: if the field `empty` of an earlier step is empty.

    `work` has its fields; those in `copies` are copied from earlier steps. With `previous` the step reads the memory document of the
    agent before, and its work is taken from that.
    """

    empty: Source | None = None
    work: Mapping[str, Json] = field(default_factory=dict)
    copies: Mapping[str, Source] = field(default_factory=dict)
    previous: bool = False


@dataclass(frozen=True)
class Cognitive:
    """A cognitive agent as its folder describes it.

    `own` has its own steps, which end in `DONE`; the shared phases come around them. `sections` are the named sections of its
    context in their order, each with the sources it may come from; those in `priority` are trimmed last. `takes` names the
    agents whose memory documents it wants first. `follows` are the steps that the server may do.
    """

    name: str
    title: str
    summary: str
    function: str
    advice: ModelAdvice
    budget: Budget
    priority: tuple[str, ...]
    sections: Mapping[str, tuple[Source, ...]]
    focus: tuple[str, ...]
    terms: tuple[str, ...]
    takes: tuple[str, ...]
    own: Agent
    follows: Mapping[str, FollowingStep] = field(default_factory=dict)

    @property
    def steps(self) -> tuple[str, ...]:
        """All steps in their order: the two that every agent begins with, and its own."""
        return (LEARNING_INJECTION, JOHARI_DISCOVERY, *self.own_steps)

    @property
    def own_steps(self) -> tuple[str, ...]:
        """The agent's own steps in their order."""
        return tuple(phase.name for phase in self.own.graph.phases if phase.name not in self.own.graph.complete)

    @property
    def marker(self) -> str:
        """The marker that closes its memory document."""
        return f"{self.name.upper()}_COMPLETE"
