"""Whether what a work says rests on words that really stand somewhere: in pages, in what was given, in what others did. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agents.engine.agent import MET, ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json
from agents.engine.evidence.quote_check import LEAST_CHARACTERS, stands_in
from agents.engine.work.form import citations_in
from agents.spec.yaml.field_path import FieldPath, located, same, says_something

GROUNDS: Mapping[str, str] = {
    "brief": "the brief",
    "inputs": "the inputs",
    "answers": "the person's answers",
    "others": "what other agents of this journey recorded",
    "documents": "the memory documents of this journey",
}
"""What a journey was given, and how messages call it."""
INPUTS = "inputs"
BETWEEN = "\n\0\n"
"""Stands between two texts, so that no words reach from one into the next."""


@dataclass(frozen=True, slots=True)
class WordSource:
    """Where words may come from: one of `GROUNDS`, or a field of the agent's own work (`path`).

    `parts` narrow it: an input's name and what lies in it; a phase of others, by its own name, and a field of its work.
    """

    kind: str
    parts: tuple[str, ...] = ()
    path: FieldPath | None = None

    def fields(self) -> Iterator[FieldPath]:
        """Yield the field of this agent's works, or of its inputs, that it names."""
        if self.path is not None:
            yield self.path
        elif self.kind == INPUTS and self.parts:
            yield FieldPath(INPUTS, self.parts)

    def texts(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the texts there."""
        if self.path is not None:
            yield from _texts([value for _, value in self.path.found(facts)])
        elif self.kind == "brief":
            yield facts.brief
        elif self.kind == INPUTS:
            yield from _texts([value for _, value in located(facts.inputs, self.parts)])
        elif self.kind == "documents":
            yield from facts.documents.values()
        elif self.kind == "answers":
            yield from (said.get("answer", "") for asked in facts.answers.values() for said in asked.values())
        else:
            yield from _texts([value for work in self._others(facts) for _, value in located(work, self.parts[1:])])

    def _others(self, facts: SubmitFacts) -> Iterator[Mapping[str, Json]]:
        """Yield what other agents recorded: their phases have a dot before their own name."""
        for name, work in facts.works.items():
            _, dot, phase = name.rpartition(".")
            if dot and (not self.parts or phase == self.parts[0]):
                yield work

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        return ".".join((self.kind, *self.parts)) if self.parts else GROUNDS[self.kind]


GIVEN = tuple(WordSource(kind) for kind in GROUNDS)


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
class _Texts:
    """Texts in which words are looked for."""

    joined: str
    whole: frozenset[str]

    def have(self, words: str) -> bool:
        """Return whether the words stand in one of the texts, or are one: so short ones can be copied, too."""
        return BETWEEN.strip() not in words and (stands_in(words, self.joined) or same(words) in self.whole)


def _texts_of(grounds: Sequence[WordSource], facts: SubmitFacts) -> _Texts:
    # A memory document is a document of the journey and work of another agent: it is read once.
    texts = dict.fromkeys(text for ground in grounds for text in ground.texts(facts) if says_something(text))
    return _Texts(BETWEEN.join(texts), frozenset(same(text) for text in texts))


def _words(item: Json, name: str) -> list[str]:
    """Return the texts in that field of an item."""
    found = [value for _, value in located(item, [name])] if name else []
    return [text for text in _texts(found) if says_something(text)]


def _named(grounds: Sequence[WordSource]) -> str:
    *first, last = [str(ground) for ground in grounds]
    return f"{', '.join(first)} or {last}" if first else last


@dataclass(frozen=True, slots=True)
class GroundedItems:
    """Every item rests on words that stand where they may come from, or on quotes of pages; and all that it gives is right.

    `words` names the field of an item with words copied from `of`: enough of them to show something, or all that is said there.
    `tool`, if any, names the field with a tool that was called. `if_any`: there may be no items. `first`: of the places in `of`
    only the first counts that says anything.
    """

    NAME: ClassVar[str] = "grounded"
    BARE: ClassVar[str] = "field"
    INSIDE: ClassVar[tuple[str, ...]] = ("words", "tool")
    field: FieldPath
    words: str = "words"
    of: tuple[WordSource, ...] = GIVEN
    tool: str = ""
    if_any: bool = False
    first: bool = False

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return which items rest on nothing, and which words and quotes stand nowhere."""
        if self.field.nothing_such(facts):
            return MET
        items = self.field.items(facts)
        if not items and not self.if_any:
            return ConditionFinding(met=False, missing=(f"{self.field} is empty: fill it in",))
        of = self._places(facts)
        given = _texts_of(of, facts)
        called = {call.tool for call in await look.calls(of_all_visits=True)} if self.tool else set()
        missing = [
            f"{self.field.place(facts, loc)}{wrong}"
            for loc, item in items
            for wrong in [*self._spoken(item, of, given, called), *await _cited(item, look)]
        ]
        return ConditionFinding(met=not missing, missing=tuple(missing))

    def _places(self, facts: SubmitFacts) -> Sequence[WordSource]:
        """Return where words may come from now."""
        saying = (ground for ground in self.of if any(says_something(text) for text in ground.texts(facts)))
        return [next(saying, self.of[0])] if self.first else self.of

    def _spoken(self, item: Json, of: Sequence[WordSource], given: _Texts, called: set[str]) -> Iterator[str]:
        """Yield what is wrong with the words and the tool of an item, and that it rests on nothing."""
        words, tool = _words(item, self.words), _words(item, self.tool)
        for text in words:
            if not given.have(text):
                yield f".{self.words} do not stand in {_named(of)}: copy {LEAST_CHARACTERS} letters or more, word for word"
        for name in tool:
            if name not in called:
                yield f".{self.tool}: no call of {name[:60]!r} with the journey_id of this journey was answered in this phase"
        if not words and not tool and next(citations_in(item), None) is None:
            also = f", or name the {self.tool} that showed it" if self.tool else ""
            yield (
                f" rests on nothing: give {self.words!r} copied from {_named(of)}, or quote a page (path, section, quote){also}"
            )

    def said(self) -> str:
        """Return what it holds."""
        first = "the first that says anything of " if self.first else ""
        return f"every item of {self.field} rests on words of {first}{_named(self.of)}, or of a page"


async def _cited(item: Json, look: Look) -> list[str]:
    """Return which quotes in an item do not stand where they are said to."""
    wrong = [await look.cited(citation) for _, citation in citations_in(item)]
    return [f": {text}" for text in wrong if text]


@dataclass(frozen=True, slots=True)
class TakesUp:
    """Every text that was given there is where words of some item come from: nothing of it is passed over."""

    NAME: ClassVar[str] = "takes_up"
    BARE: ClassVar[str] = ""
    INSIDE: ClassVar[tuple[str, ...]] = ("words",)
    field: FieldPath
    of: tuple[WordSource, ...]
    words: str = "words"

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - what was given and the work tell
        """Return which texts nothing takes up, by their number: they are the model's to read, and long."""
        words = [text for _, item in self.field.items(facts) for text in _words(item, self.words)]
        missing = []
        for ground in self.of:
            given = [_Texts(text, frozenset([same(text)])) for text in ground.texts(facts)]
            left = [str(number) for number, text in enumerate(given, 1) if not any(text.have(said) for said in words)]
            if left:
                missing.append(f"no item of {self.field} takes up number {', '.join(left)} of {ground}: copy its words")
        return ConditionFinding(met=not missing, missing=tuple(missing))

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} takes up everything of {_named(self.of)}"
