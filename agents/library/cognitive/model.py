"""What a cognitive agent is: its own steps, and what is told around them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.engine.agent import Agent, ModelAdvice
from agents.engine.events import Json
from agents.library.cognitive.sources import Source
from agents.prompts.context import Budget

ROUTING, LEARNING_INJECTION, JOHARI_DISCOVERY = "ROUTING", "LEARNING_INJECTION", "JOHARI_DISCOVERY"
CLOSING, COMPLETE, DONE = "CLOSING", "COMPLETE", "DONE"
SHARED_PHASES = (ROUTING, LEARNING_INJECTION, JOHARI_DISCOVERY, CLOSING, COMPLETE)
NOTHING_TO_ASK, QUESTIONS_TO_ASK, DOCUMENT_SOUND = "nothing_to_ask", "questions_to_ask", "document_sound"
SHARED_CONDITIONS = (NOTHING_TO_ASK, QUESTIONS_TO_ASK, DOCUMENT_SOUND)
LEAST_FOCUS, MOST_FOCUS = 3, 5
LEAST_TERMS, MOST_TERMS = 7, 10


def _texts(description: str, most: int, *, least: int = 0, chars: int = 500) -> dict[str, Json]:
    bounds = {"maxItems": most, **({"minItems": least} if least else {})}
    items = {"type": "string", "minLength": 1, "maxLength": chars}
    return {"type": "array", "items": items, **bounds, "description": description}


INPUTS: Mapping[str, Json] = {
    "domain": {"type": "string", "minLength": 1, "maxLength": 60, "description": "Field whose learnings count."},
    "constraints": _texts("What must hold.", 30),
    "focus": _texts("What to look at most.", MOST_FOCUS, least=LEAST_FOCUS, chars=120),
    "terms": _texts("Words to search for.", MOST_TERMS, chars=60),
    "johari": {
        "type": "object",
        "properties": {
            "open": _texts("Known to all.", 20),
            "hidden": _texts("Known to the model.", 20),
            "blind": _texts("Known to the person.", 20),
            "unknown": _texts("Known to nobody yet.", 20),
        },
        "description": "What was found out before.",
    },
    "criteria": _texts("By what the result is judged.", 30),
    "specification": {"type": "string", "minLength": 1, "maxLength": 20_000, "description": "What is to be made."},
    "findings": {"type": "string", "minLength": 1, "maxLength": 20_000, "description": "What was found before."},
}
"""What every cognitive agent takes beside the brief."""


@dataclass(frozen=True)
class Cognitive:
    """A cognitive agent as its folder describes it.

    `own` has its own steps, which end in `DONE`; what is shared comes around them. `sections` has for each named section of its
    context the sources it may come from, in the order in which they are told; those of `priority` are trimmed last. `takes`
    names the agents whose memory documents it wants first.
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

    @property
    def steps(self) -> tuple[str, ...]:
        """Return all steps that count, in their order: the two that every agent begins with, and its own."""
        return (LEARNING_INJECTION, JOHARI_DISCOVERY, *self.own_steps)

    @property
    def own_steps(self) -> tuple[str, ...]:
        """Return the agent's own steps in their order."""
        return tuple(phase.name for phase in self.own.graph.phases if phase.name not in self.own.graph.complete)

    @property
    def marker(self) -> str:
        """Return what closes its memory document."""
        return f"{self.name.upper()}_COMPLETE"
