"""Predicates about the recorded work. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, ClassVar

from pydantic import Field

from agents.engine.agent import MET, ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json, canonical
from agents.engine.work.answers import unanswered
from agents.engine.work.form import items_in
from agents.spec.predicates.leaf import (
    NAMES_SHOWN,
    Leaf,
    Name,
    WorkLeaf,
    either,
    names_at,
    shown,
    some_items,
    unmet,
)
from agents.spec.yaml.block import Some
from agents.spec.yaml.field_path import Path, located, names_in, same, says_something, spread

Count = Annotated[int, Field(ge=1, le=1_000)]


class Filled(WorkLeaf):
    """Every one of these fields has a value."""

    NAME: ClassVar[str] = "filled"
    DEMAND: ClassVar[str] = "{fields} is filled in"
    BARE: ClassVar[str] = "fields"
    fields: Some[Path]

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the fields that are empty."""
        for path in self.fields:
            if not any(says_something(value) for _, value in path.found(facts)):
                yield f"{path} is empty: fill it in"


class Empty(WorkLeaf):
    """None of these fields has a value."""

    NAME: ClassVar[str] = "empty"
    DEMAND: ClassVar[str] = "{fields} is empty"
    BARE: ClassVar[str] = "fields"
    fields: Some[Path]

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the fields that have a value."""
        for path in self.fields:
            if any(says_something(value) for _, value in spread(path.found(facts))):
                yield f"{path} must be empty"


class Given(WorkLeaf):
    """Every one of these fields came with this submit, not with an earlier one."""

    NAME: ClassVar[str] = "given"
    DEMAND: ClassVar[str] = "this submit brings {fields}"
    BARE: ClassVar[str] = "fields"
    fields: Some[Path]

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the fields that the submit lacks."""
        for path in self.fields:
            if not any(says_something(value) for _, value in located(facts.given, path.parts)):
                yield f"{path} is not in this submit"


class AtLeast(WorkLeaf):
    """A list has at least `count` different items."""

    NAME: ClassVar[str] = "at_least"
    DEMAND: ClassVar[str] = "{field} has at least {count} different items"
    field: Path
    count: Count

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the number of items, if it is too low."""
        count = len({same(value) for _, value in self.field.items(facts) if says_something(value)})
        if count < self.count:
            yield f"{self.field} has {count}, at least {self.count} different ones are needed"


class EachHas(WorkLeaf):
    """Every item of a list has these fields, and the list has items."""

    NAME: ClassVar[str] = "each_has"
    DEMAND: ClassVar[str] = "every item of {field} has {fields}"
    field: Path
    fields: Some[Name]

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield which items lack which fields."""
        items = some_items(self.field, facts)
        if items == []:
            yield f"{self.field} is empty: fill it in"
        for loc, item in items or ():
            for name in self.fields:
                if not any(says_something(value) for _, value in located(item, name.split("."))):
                    yield f"{self.field.place(facts, loc)} lacks {name!r}"


class Covers(WorkLeaf):
    """The names in these fields include every id of other lists. `if_any`: those lists may be empty."""

    NAME: ClassVar[str] = "covers"
    DEMAND: ClassVar[str] = "{field} covers every id of {of}"
    field: Some[Path]
    of: Some[Path]
    if_any: bool = False

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the ids that nothing names."""
        wanted, named = names_at(self.of, facts), set(names_at(self.field, facts))
        if not wanted and not self.if_any and not all(path.nothing_such(facts) for path in self.of):
            yield f"{either(self.of)} has no ids yet: there is nothing to cover"
        if left := [name for name in wanted if name not in named]:
            yield f"{either(self.field)} has nothing for {shown(left)} of {either(self.of)}"


class KnownIn(WorkLeaf):
    """Every name in these fields is an id of other lists, and there is at least one. `if_any`: there may be none."""

    NAME: ClassVar[str] = "known_in"
    DEMAND: ClassVar[str] = "{field} names only what {of} has"
    field: Some[Path]
    of: Some[Path]
    if_any: bool = False

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the names that are not ids of the other list."""
        names, known = names_at(self.field, facts), set(names_at(self.of, facts))
        if not names and not self.if_any and not all(path.nothing_such(facts) for path in self.field):
            yield f"{either(self.field)} names nothing of {either(self.of)}"
        if strange := [name for name in names if name not in known]:
            yield f"{either(self.field)} names {shown(strange)}, which {either(self.of)} does not have"


class UnknownIn(Leaf):
    """At least one name in these fields is not in other lists, which need an entry for it."""

    NAME: ClassVar[str] = "unknown_in"
    DEMAND: ClassVar[str] = "{field} names something that {of} does not have"
    field: Some[Path]
    of: Some[Path]

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - only the work counts
        """Return the new names as the detail."""
        # A name that differs only in case or white space is not new.
        known = {same(name) for name in names_at(self.of, facts)}
        strange = [name for name in names_at(self.field, facts) if same(name) not in known]
        if not strange:
            return unmet(f"{either(self.field)} names nothing that {either(self.of)} does not have already")
        return ConditionFinding(met=True, detail=f"{either(self.of)} does not have {shown(strange)}")


class Distinct(WorkLeaf):
    """No two values are the same, ignoring case and white space."""

    NAME: ClassVar[str] = "distinct"
    DEMAND: ClassVar[str] = "no two of {field} are the same"
    BARE: ClassVar[str] = "field"
    field: Path

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the values that occur twice."""
        first: dict[str, str] = {}
        for loc, value in self.field.items(facts):
            where, key = self.field.place(facts, loc), same(value)
            if key in first:
                yield f"{where} says the same as {first[key]}"
            first.setdefault(key, where)


class NoCircle(WorkLeaf):
    """Items of a list name the items that they need by id, without a circle, and name only items of the list."""

    NAME: ClassVar[str] = "no_circle"
    DEMAND: ClassVar[str] = "{field} has no circle through {through}"
    field: Path
    through: Name

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the names that are not in the list, or else the circle."""
        known, needs = set(names_in(self.field.found(facts))), dict[str, list[str]]()
        for item in self.field.items(facts):
            needed = names_in(located(item[1], self.through.split(".")))
            needs |= dict.fromkeys(names_in([item]), needed)
        strange = {
            name: left for name, needed in needs.items() if (left := [one for one in needed if one not in known])
        }
        for name, left in strange.items():
            yield f"{self.field}[{name[:60]}].{self.through} names {shown(left)}, which {self.field} does not have"
        try:
            TopologicalSorter({} if strange else needs).prepare()
        except CycleError as error:
            # The circle is the error's second argument, and its first name is also its last: one more than shown.
            circle = " -> ".join(str(name)[:60] for name in error.args[1][: NAMES_SHOWN + 1])
            yield f"{self.field} has a circle: {circle}; remove one {self.through}"


class _EveryValue(WorkLeaf):
    """Every value is as demanded, and there is at least one."""

    field: Path

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the values that are not as demanded."""
        items = some_items(self.field, facts)
        if items == []:
            yield f"{self.field} is empty: it must be {self._wanted()}"
        for loc, value in items or ():
            if not self._fits(value):
                yield f"{self.field.place(facts, loc)} is not {self._wanted()}"

    def text(self) -> str:
        """Return the demand."""
        return f"{self.field} is {self._wanted()}"

    def _fits(self, value: Json) -> bool:
        raise NotImplementedError

    def _wanted(self) -> str:
        raise NotImplementedError


class Equals(_EveryValue):
    """Every value is this one, and there is at least one."""

    NAME: ClassVar[str] = "equals"

    value: Json

    def _fits(self, value: Json) -> bool:
        # As JSON texts, because Python takes true for 1.
        return canonical(value) == canonical(self.value)

    def _wanted(self) -> str:
        return repr(self.value) if isinstance(self.value, str) else canonical(self.value)


class NumbersWithin(_EveryValue):
    """Every value is a number from `least` to `most`, and there is at least one."""

    NAME: ClassVar[str] = "within"

    least: float | None = None
    most: float | None = None

    def _fits(self, value: Json) -> bool:
        # Python counts true and false as numbers, which no author means.
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def _wanted(self) -> str:
        least = "" if self.least is None else f"{self.least:g} or more"
        most = "" if self.most is None else f"{self.most:g} or less"
        return " and ".join(part for part in (least, most) if part) or "a number"


class EveryQuestionAnswered(WorkLeaf):
    """A person answered every question of a list, as it is worded now. A list without questions is answered."""

    NAME: ClassVar[str] = "answered"
    DEMAND: ClassVar[str] = "every question of {field} is answered"
    BARE: ClassVar[str] = "field"
    field: Path

    def missing(self, facts: SubmitFacts) -> Iterator[str]:
        """Yield the open questions."""
        work: Json = self.field.work(facts)
        for part in self.field.parts[:-1]:
            work = work.get(part) if isinstance(work, Mapping) else None
        questions = items_in(work, self.field.parts[-1]) if isinstance(work, Mapping) else []
        if left := list(unanswered(questions, facts.answers.get(self.field.phase or facts.phase, {}))):
            yield f"a person has not answered {shown(left)} of {self.field}"


class Signal(Leaf):
    """The model gave this signal. It counts only together with a predicate about the work."""

    NAME: ClassVar[str] = "signal"
    DEMAND: ClassVar[str] = "the signal {name} was given"
    BARE: ClassVar[str] = "name"
    name: Name

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - a signal is about neither
        """Return whether the signal was given."""
        return MET if self.name in facts.signals else unmet(f"the signal {self.name} was not given")
