"""The base of predicates that are not made of others, and their common helpers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Protocol

from pydantic import Field

from agents.engine.agent import MET, ConditionFinding, Look, QuotedStatement, SubmitFacts
from agents.engine.work.gaps import listing
from agents.spec.yaml.block import FileBlock
from agents.spec.yaml.field_path import FieldPath, Located, names_in

NAMES_SHOWN = 8
DETAIL_CHARS = 600
Name = Annotated[str, Field(min_length=1)]


class Predicate(Protocol):
    """A demand on a submit, checked without the model."""

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return whether it holds, and otherwise what is missing."""
        ...

    def text(self) -> str:
        """Return the demand, as the end of a sentence."""
        ...


class Leaf(FileBlock):
    """A predicate that is not made of others. Its fields are its arguments, as a file writes them.

    `NAME` is its name in files; `DEMAND` is its demand in words, with its arguments in braces. `BARE` names the argument that may
    be written without a mapping, as in `filled: summary`. `INSIDE` are arguments that name fields of each item of `field`.
    """

    NAME: ClassVar[str]
    DEMAND: ClassVar[str] = ""
    BARE: ClassVar[str] = ""
    INSIDE: ClassVar[tuple[str, ...]] = ()

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return whether it holds, and otherwise what is missing."""
        raise NotImplementedError

    def text(self) -> str:
        """Return the demand, as the end of a sentence."""
        values = {name: shown(value) if name == "fields" else either(value) for name, value in self}
        return self.DEMAND.format(**values)


class WorkLeaf(Leaf):
    """A predicate about the recorded work alone."""

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - only the work counts
        """Return whether it holds, and otherwise what is missing."""
        return met_unless(self.missing(facts))

    def missing(self, facts: SubmitFacts) -> Iterable[str]:
        """Yield what is missing."""
        raise NotImplementedError


def unmet(*missing: str) -> ConditionFinding:
    """Return that a predicate does not hold, and why."""
    return ConditionFinding(met=False, missing=missing)


def met_unless(missing: Iterable[str], statements: Sequence[QuotedStatement] = ()) -> ConditionFinding:
    """Return that a predicate holds, with the statements that it compared with their quotes, unless something is missing."""
    if texts := tuple(missing):
        return unmet(*texts)
    return ConditionFinding(met=True, statements=tuple(statements)) if statements else MET


def some_items(field: FieldPath, facts: SubmitFacts) -> list[Located] | None:
    """Return the items of a field; None if the path selects from objects that do not exist, so that every demand is met."""
    return None if field.nothing_such(facts) else field.items(facts)


def either(value: object) -> str:
    """Return an argument as a sentence names it: several places as alternatives."""
    *others, last = map(str, value) if isinstance(value, tuple) else [str(value)]
    return f"{', '.join(others)} or {last}" if others else last


def names_at(paths: Sequence[FieldPath], facts: SubmitFacts) -> list[str]:
    """Return the names at these places, without duplicates."""
    return names_in([located for path in paths for located in path.found(facts)])


def shown(names: Sequence[object]) -> str:
    """Return the first names, and the number of others."""
    return listing([str(name) for name in names], NAMES_SHOWN)
