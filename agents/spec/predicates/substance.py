"""Predicates about what texts say: something at all, different things, and what their quotes say. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from agents.engine.agent import ConditionFinding, Look, QuotedStatement, SubmitFacts
from agents.engine.evidence.substance import emptiness, repetitions, same_words, unsupported
from agents.engine.work.gaps import citations_in
from agents.spec.predicates.leaf import Leaf, Name, WorkLeaf, met_unless
from agents.spec.yaml.block import Some
from agents.spec.yaml.field_path import Located, Path, located


class Tells(WorkLeaf):
    """Every text says something: it is no filler, repetition or placeholder, and no copy of the instructions or its field's name."""

    NAME: ClassVar[str] = "tells"
    DEMAND: ClassVar[str] = "{fields} says something"
    BARE: ClassVar[str] = "fields"
    fields: Some[Path]

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the texts that say nothing."""
        for path in self.fields:
            for loc, value in path.items(facts):
                # Whether there is a text at all is for `filled`.
                given = isinstance(value, str) and bool(value.strip())
                if given and (why := emptiness(str(value), name=path.parts[-1], told=facts.told)):
                    yield f"{path.place(facts, loc)} {why}"


class Differ(WorkLeaf):
    """No two texts have the same words. A text that names the id of the other one's item explains why it is the same."""

    NAME: ClassVar[str] = "differ"
    DEMAND: ClassVar[str] = "no two of {field} say the same"
    BARE: ClassVar[str] = "field"
    field: Path

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the texts that repeat an earlier one."""
        places = [(self.field.place(facts, loc), value) for loc, value in self.field.items(facts)]
        texts = [(place, value) for place, value in places if isinstance(value, str)]
        for at, (place, text) in enumerate(texts):
            first = next((earlier for earlier, before in texts[:at] if same_words(text, before)), "")
            if first:
                yield f"{place} says the same as {first}: say how they differ, or leave one out"


class Supported(Leaf):
    """The text of every item says something that its quotes say, in their words.

    `says` names the field with the text, or several. Without questions a text may sum up more than the quoted words, so the
    sections around them count too. `question` is the field with a question's id, `of` the list of questions, with their texts in
    `asks`. With them, the text and the quotes have words of the question too. And no two questions have the same answer, or rest on
    the same words of the same quotes, unless the text names the other question.
    """

    NAME: ClassVar[str] = "supported"
    DEMAND: ClassVar[str] = "{says} of every item of {field} says what its quotes say"
    INSIDE: ClassVar[tuple[str, ...]] = ("says",)
    field: Path
    says: Some[Name]
    question: Name = "question"
    of: Path | None = None
    asks: Name = "text"

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return the items whose text has nothing to do with their quotes, or repeats another one."""
        asked = {} if self.of is None else _texts_by_id(self.of.items(facts), self.asks)
        missing, answers = list[str](), list[tuple[str, str, Sequence[str]]]()
        statements = list[QuotedStatement]()
        for loc, item in self.field.items(facts):
            cited = [citation for _, citation in citations_in(item)]
            text = "\n".join(filter(None, (_first(item, name) for name in self.says)))
            if not cited or not text:
                continue
            id_ = _first(item, self.question)
            passages = [await look.passage(citation) for citation in cited]
            quotes = [citation.quote for citation in cited]
            place = self.field.place(facts, loc)
            around = "\n".join(passages) if self.of is None else ""
            statements.append(QuotedStatement(place, text, tuple(quotes), asked.get(id_, ""), around))
            if self.of is None:
                quotes = [f"{quote}\n{passage}" for quote, passage in zip(quotes, passages, strict=True)]
            if why := unsupported(text, quotes, question=asked.get(id_, ""), around="\n".join(passages)):
                missing.append(f"{place}.{self.says[0]} {why}")
            answers.append((id_, text, quotes))
        return met_unless([*missing, *(repetitions(answers) if asked else ())], statements)


def _texts_by_id(items: Sequence[Located], name: str) -> dict[str, str]:
    return {_first(item, "id"): _first(item, name) for _, item in items}


def _first(item: object, name: str) -> str:
    """Return the text in a field of an item, or ""."""
    found = [value for _, value in located(item, name.split(".")) if isinstance(value, str)]
    return found[0] if found else ""
