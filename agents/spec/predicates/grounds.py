"""Check that work rests on words that really exist: in pages, in the inputs, in the work of others. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ValidationInfo

from agents.engine.agent import ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json
from agents.engine.evidence.quote_check import LEAST_CHARACTERS, contains_quote, quoted_parts
from agents.engine.work.gaps import citations_in, short
from agents.spec.predicates.leaf import Leaf, Name, WorkLeaf, either, met_unless, names_at, shown, some_items, unmet
from agents.spec.yaml.block import Some
from agents.spec.yaml.field_path import FieldPath, Located, Path, located, read_path, same, says_something, spread

GROUNDS: Mapping[str, str] = {
    "brief": "the brief",
    "inputs": "the inputs",
    "answers": "the person's answers",
    "others": "what other agents of this journey recorded",
    "documents": "the memory documents of this journey",
}
"""The texts that a journey was given, with their names in messages."""
INPUTS = "inputs"
MOST_TEXT_CHARS = 80
"""The most characters of a requirement in the message that names it as left out."""
BETWEEN = "\n\0\n"
"""Separates joined texts, so that no quote can span two of them."""


@dataclass(frozen=True, slots=True)
class WordSource:
    """A place that words may come from: one of `GROUNDS`, or a field of the agent's own work (`path`).

    `parts` narrow the place. They name an input and a field in it; or a phase of other agents, by its own name, and a
    field of its work.
    """

    kind: str
    parts: tuple[str, ...] = ()
    path: FieldPath | None = None

    def fields(self) -> Iterator[FieldPath]:
        """Yield the field of this agent's work or inputs that it names."""
        if self.path is not None:
            yield self.path
        elif self.kind == INPUTS and self.parts:
            yield FieldPath(INPUTS, self.parts)

    def texts(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the texts at the place."""
        if self.path is not None:
            yield from _texts([value for _, value in self.path.found(facts)])
        elif self.kind == "brief":
            yield facts.brief
        elif self.kind == INPUTS:
            yield from _texts([value for _, value in located(facts.inputs, self.parts)])
        elif self.kind == "documents":
            yield from facts.documents.values()
        elif self.kind == "answers":
            yield from (one.get("answer", "") for asked in facts.answers.values() for one in asked.values())
        else:
            yield from _texts([value for _, value in self.recorded(facts)])

    def recorded(self, facts: SubmitFacts) -> Iterator[Located]:
        """Yield what other agents recorded at the place. Phases of other agents have a dot before their own name."""
        for name, work in facts.works.items():
            _, dot, phase = name.rpartition(".")
            if dot and (not self.parts or phase == self.parts[0]):
                yield from located(work, self.parts[1:])

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        return ".".join((self.kind, *self.parts)) if self.parts else GROUNDS[self.kind]


def _read_source(value: Json, info: ValidationInfo) -> WordSource:
    if isinstance(value, WordSource):
        return value
    first, _, rest = str(value).partition(".")
    if isinstance(value, str) and first in GROUNDS and all(part.strip() for part in rest.split(".") if rest):
        return WordSource(first, tuple(rest.split(".")) if rest else ())
    return WordSource("", path=read_path(value, info))


Source = Annotated[WordSource, BeforeValidator(_read_source)]
ALL_GIVEN = tuple(WordSource(kind) for kind in GROUNDS)


def _texts(values: Sequence[Json]) -> Iterator[str]:
    """Yield every text in the values, at any depth."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _texts(list(value.values()))
        elif isinstance(value, list):
            yield from _texts(value)


class _Texts:
    """Texts that may contain quoted words."""

    def __init__(self, texts: Iterator[str]) -> None:
        # A memory document is both a document of the journey and the work of another agent: it is searched once.
        self._distinct = list(dict.fromkeys(text for text in texts if says_something(text)))
        self._joined, self._complete = BETWEEN.join(self._distinct), {same(text) for text in self._distinct}

    def have(self, words: str) -> bool:
        """Return whether one of the texts contains the words, or equals them: a text too short to quote may be copied in full."""
        # Words with the separator in them could match across two texts, and so could the parts around an ellipsis.
        apart = len(quoted_parts(words)) > 1
        there = any(contains_quote(text, words) for text in (self._distinct if apart else [self._joined]))
        return BETWEEN.strip() not in words and (there or same(words) in self._complete)


def _words(item: Json, name: str) -> list[str]:
    """Return the texts in a field of an item."""
    found = [value for _, value in located(item, [name])] if name else []
    return [text for text in _texts(found) if says_something(text)]


class GroundedItems(Leaf):
    """Every item rests on words copied from allowed places, or on quotes of pages, and all its citations hold.

    `words` names the field of an item with words copied from `of`: enough of them to be distinctive, or the complete text.
    `tool`, if given, names the field with a tool that was called. `if_any`: there may be no items. `first`: only the first place
    in `of` that has any text counts.
    """

    NAME: ClassVar[str] = "grounded"
    BARE: ClassVar[str] = "field"
    INSIDE: ClassVar[tuple[str, ...]] = ("words", "tool")
    field: Path
    words: Name = "words"
    of: Some[Source] = ALL_GIVEN
    tool: Name = ""
    if_any: bool = False
    first: bool = False

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return which items cite nothing, and which words and quotes were not found."""
        items = some_items(self.field, facts)
        if items == [] and not self.if_any:
            return unmet(f"{self.field} is empty: fill it in")
        of = self.of
        if self.first:
            with_text = (source for source in of if any(says_something(text) for text in source.texts(facts)))
            of = (next(with_text, of[0]),)
        given = _Texts(text for source in of for text in source.texts(facts))
        # Of all visits: the result of an earlier call still shows what the item says.
        called = {call.tool for call in await look.calls(of_all_visits=True)} if self.tool else set()
        missing = []
        for loc, item in items or ():
            wrong = list(self._wrong(item, of, given, called))
            wrong += [f": {why}" for _, citation in citations_in(item) if (why := await look.cited(citation))]
            missing += [f"{self.field.place(facts, loc)}{text}" for text in wrong]
        return met_unless(missing)

    def _wrong(self, item: Json, of: tuple[WordSource, ...], given: _Texts, called: set[str]) -> Iterator[str]:
        """Yield the problems of an item's words and tool, and whether it cites nothing."""
        words, tool = _words(item, self.words), _words(item, self.tool)
        for text in words:
            if not given.have(text):
                yield f".{self.words} are not in {either(of)}: copy at least {LEAST_CHARACTERS} letters, word for word"
        for name in tool:
            if name not in called:
                yield f".{self.tool}: no call of {name[:60]!r} with the journey_id of this journey was answered in this phase"
        if not words and not tool and next(citations_in(item), None) is None:
            also = f", or name the {self.tool} that showed it" if self.tool else ""
            yield (
                f" rests on nothing: give {self.words!r} copied from {either(of)}, or quote a page (path, section, quote){also}"
            )

    def text(self) -> str:
        """Return the demand."""
        first = "the first with text of " if self.first else ""
        return f"every item of {self.field} rests on words of {first}{either(self.of)}, or of a page"


class TakesUp(WorkLeaf):
    """Items contain words from every text at the given places, so that no text is ignored."""

    NAME: ClassVar[str] = "takes_up"
    DEMAND: ClassVar[str] = "{field} covers everything of {of}"
    INSIDE: ClassVar[tuple[str, ...]] = ("words",)
    field: Path
    of: Some[Source]
    words: Name = "words"

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the numbers of texts that no item covers: the texts are long, and the model has them."""
        words = [text for _, item in self.field.items(facts) for text in _words(item, self.words)]
        for source in self.of:
            texts = [_Texts(iter([text])) for text in source.texts(facts)]
            left = [str(number) for number, text in enumerate(texts, 1) if not any(text.have(one) for one in words)]
            if left:
                yield f"no item of {self.field} covers number {', '.join(left)} of {source}: copy its words"


class AccountsFor(WorkLeaf):
    """Items name the id of every item that another agent recorded at `of`, and no other id.

    Holds if no other agent recorded any: an agent that runs alone has no requirements of an earlier one.
    """

    NAME: ClassVar[str] = "accounts_for"
    DEMAND: ClassVar[str] = "{field} names every id of {of}, if there are any"
    field: Some[Path]
    of: Source

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the ids that no item names, each with the beginning of its text, and the unknown ones."""
        items = [item for _, item in spread(list(self.of.recorded(facts)))]
        texts = {item["id"]: str(item.get("text", "")) for item in items if isinstance(item, Mapping) and "id" in item}
        if not texts:
            return
        named = names_at(self.field, facts)
        left = [f"{id_} ({short(text, MOST_TEXT_CHARS)})" for id_, text in texts.items() if id_ not in named]
        if left:
            yield f"{either(self.field)} leaves out {shown(left)} of {self.of}: name each where it is dealt with"
        if unknown := [name for name in named if name not in texts]:
            yield f"{either(self.field)} names {shown(unknown)}, and {self.of} has {shown(list(texts))}"


def sources_in(value: Any) -> Iterator[FieldPath]:
    """Yield the field paths in an argument of a predicate."""
    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, FieldPath):
            yield one
        elif isinstance(one, WordSource):
            yield from one.fields()
