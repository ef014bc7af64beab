"""Whether what a work says rests on words that really stand somewhere: in pages, in what was given, in what others did. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agents.agent import MET, Facts, Finding, Look
from agents.citing import LEAST_CHARACTERS, stands_in
from agents.events import Json
from agents.team.field_path import FieldPath, located, says_something
from agents.work import citations_in

GROUNDS: Mapping[str, str] = {
    "brief": "the brief",
    "inputs": "the inputs",
    "answers": "the person's answers",
    "others": "what other agents of this journey recorded",
    "documents": "the memory documents of this journey",
}
"""What a journey was given, and how messages call it."""
BETWEEN = "\n\0\n"
"""Stands between two texts, so that no words reach from one into the next."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where words may come from: one of `GROUNDS`, or a field of the agent's own work (`path`).

    `parts` narrow it: an input's name and what lies in it; a phase of others, by its own name, and a field of its work.
    """

    kind: str
    parts: tuple[str, ...] = ()
    path: FieldPath | None = None

    def texts(self, facts: Facts) -> Iterator[str]:
        """Yield the texts there."""
        if self.path is not None:
            yield from _texts([value for _, value in self.path.found(facts)])
        elif self.kind == "brief":
            yield facts.brief
        elif self.kind == "inputs":
            yield from _texts([value for _, value in located(facts.inputs, self.parts)])
        elif self.kind == "documents":
            yield from facts.documents.values()
        elif self.kind == "answers":
            yield from (said.get("answer", "") for asked in facts.answers.values() for said in asked.values())
        else:
            yield from _texts([value for work in self._others(facts) for _, value in located(work, self.parts[1:])])

    def _others(self, facts: Facts) -> Iterator[Mapping[str, Json]]:
        """Yield what other agents recorded: their phases have the name of their part before a dot."""
        for name, work in facts.works.items():
            part, _, phase = name.rpartition(".")
            if part and (not self.parts or phase == self.parts[0]):
                yield work

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        return ".".join((self.kind, *self.parts)) if self.parts else GROUNDS[self.kind]


GIVEN = tuple(Ground(kind) for kind in GROUNDS)


def _texts(values: Sequence[Json]) -> Iterator[str]:
    """Yield every text in the values, at any depth."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _texts(list(value.values()))
        elif isinstance(value, list):
            yield from _texts(value)


@dataclass(frozen=True, slots=True)
class Grounded:
    """Every item rests on words that stand where they may come from, or on quotes of pages; and all that it gives is right.

    `words` names the field of an item with words copied from `of`; `tool`, if any, the one that names a tool that was called.
    """

    NAME: ClassVar[str] = "grounded"
    BARE: ClassVar[str] = "field"
    INSIDE: ClassVar[tuple[str, ...]] = ("words", "tool")
    field: FieldPath
    words: str = "words"
    of: tuple[Ground, ...] = GIVEN
    tool: str = ""

    async def judge(self, facts: Facts, look: Look) -> Finding:
        """Return which items rest on nothing, and which words and quotes stand nowhere."""
        if self.field.nothing_such(facts):
            return MET
        items = self.field.items(facts)
        if not items:
            return Finding(met=False, missing=(f"{self.field} is empty: fill it in",))
        given = BETWEEN.join(text for ground in self.of for text in ground.texts(facts))
        called = {call.tool for call in await look.calls()} if self.tool else set()
        missing = [
            f"{self.field.place(facts, loc)}{wrong}"
            for loc, item in items
            for wrong in [*self._spoken(item, given, called), *await _cited(item, look)]
        ]
        return Finding(met=not missing, missing=tuple(missing))

    def _spoken(self, item: Json, given: str, called: set[str]) -> Iterator[str]:
        """Yield what is wrong with the words and the tool of an item, and that it rests on nothing."""
        words, tool = self._said(item, self.words), self._said(item, self.tool)
        for text in words:
            if BETWEEN.strip() in text or not stands_in(text, given):
                yield f".{self.words} do not stand in {self._places()}: copy {LEAST_CHARACTERS} letters or more, word for word"
        for name in tool:
            if name not in called:
                yield f".{self.tool}: no call of {name[:60]!r} with the journey_id of this journey was answered in this phase"
        if not words and not tool and next(citations_in(item), None) is None:
            also = f", or name the {self.tool} that showed it" if self.tool else ""
            yield (
                f" rests on nothing: give {self.words!r} copied from {self._places()}, or quote a page (path, section, quote){also}"
            )

    def _said(self, item: Json, name: str) -> list[str]:
        found = [value for _, value in located(item, [name])] if name else []
        return [text for text in _texts(found) if says_something(text)]

    def _places(self) -> str:
        *first, last = [str(ground) for ground in self.of]
        return f"{', '.join(first)} or {last}" if first else last

    def said(self) -> str:
        """Return what it holds."""
        return f"every item of {self.field} rests on words of {self._places()}, or of a page"


async def _cited(item: Json, look: Look) -> list[str]:
    """Return which quotes in an item do not stand where they are said to."""
    wrong = [await look.cited(citation) for _, citation in citations_in(item)]
    return [f": {text}" for text in wrong if text]
