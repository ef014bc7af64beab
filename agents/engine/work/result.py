"""The result of a journey: the fields of its recorded work that its agent names, and what they leave open. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agents.engine.events import Json
from agents.engine.state import JourneyState
from agents.engine.work.markdown import work_lines

ResultKind = Literal["answer", "decision", "map", "artefact"]
KINDS: Mapping[ResultKind, str] = {
    "answer": "Answer",
    "decision": "Decision",
    "map": "What is known",
    "artefact": "Artefact",
}
"""The kinds of results, with their titles."""
LEFT_OPEN = "Open questions"


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A recorded value of the result. `source` is its place (`PHASE.field`); `name` is the last part of the place, in words."""

    source: str
    name: str
    value: Json


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The parts of a result in order, and what is left open; both without anything that says nothing."""

    kind: ResultKind = "answer"
    parts: tuple[ResultPart, ...] = ()
    left_open: tuple[ResultPart, ...] = ()

    @property
    def title(self) -> str:
        """The kind, as a title."""
        return KINDS[self.kind]

    @property
    def lead(self) -> str:
        """The first text of the result; "" if it has none."""
        return next((part.value.strip() for part in self.parts if isinstance(part.value, str)), "")


class ResultDeclaration(Protocol):
    """The declaration of an agent's result."""

    @property
    def fields(self) -> Sequence[str]:
        """The places of its parts, as texts."""
        ...

    def of(self, state: JourneyState) -> AgentResult:
        """Return what is recorded of it so far."""
        ...


NO_RESULT = AgentResult()


def named(parts: Sequence[ResultPart]) -> dict[str, Json]:
    """Return the values by name; if two parts have the same name, each has its place as its name."""
    names = Counter(part.name for part in parts)
    return {part.source if names[part.name] > 1 else part.name: part.value for part in parts}


def part_lines(parts: Sequence[ResultPart], most: int) -> list[str]:
    """Return the parts as a Markdown list within a number of characters."""
    return work_lines(named(parts), most)
