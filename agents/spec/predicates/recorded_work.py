"""What conditions of a team's agents may ask of the recorded work. Pure.

A predicate is a frozen dataclass. Its fields are its arguments; their types say how they are
read (`agents/spec/predicates/conditions.py`). `BARE` names the argument that stands for itself where no mapping is
written: `filled: summary`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import ClassVar, Protocol

from agents.engine.agent import MET, ConditionFinding, Look, SubmitFacts
from agents.engine.events import Json, canonical
from agents.spec.yaml.field_path import FieldPath, Located, located, names_in, same, says_something, spread

NAMES_TOLD = 8
DETAIL_CHARS = 600


class Predicate(Protocol):
    """One question about a submit, answered without the model's word about itself."""

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:
        """Return whether it holds, and if not what is missing."""
        ...

    def said(self) -> str:
        """Return what it holds, as the end of a sentence."""
        ...


def unmet(*missing: str) -> ConditionFinding:
    """Return that a predicate does not hold, and why."""
    return ConditionFinding(met=False, missing=missing)


def listing(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    told = ", ".join(name[:60] for name in names[:NAMES_TOLD])
    return told if len(names) <= NAMES_TOLD else f"{told} and {len(names) - NAMES_TOLD} more"


def either(paths: Sequence[FieldPath]) -> str:
    """Return how a sentence names places of which each will do."""
    return " or ".join(str(path) for path in paths)


def names_at(paths: Sequence[FieldPath], facts: SubmitFacts) -> list[str]:
    """Return the names that lie at any of these places, each once."""
    return names_in([located for path in paths for located in path.found(facts)])


@dataclass(frozen=True, slots=True)
class Filled:
    """Every one of these fields says something."""

    NAME: ClassVar[str] = "filled"
    BARE: ClassVar[str] = "fields"
    fields: tuple[FieldPath, ...]

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the work alone tells
        """Return which fields are empty."""
        empty = [str(path) for path in self.fields if not any(says_something(v) for _, v in path.found(facts))]
        return unmet(*(f"{name} is empty: fill it in" for name in empty)) if empty else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"{listing([str(path) for path in self.fields])} is filled in"


@dataclass(frozen=True, slots=True)
class Empty:
    """None of these fields says anything."""

    NAME: ClassVar[str] = "empty"
    BARE: ClassVar[str] = "fields"
    fields: tuple[FieldPath, ...]

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the works alone tell
        """Return which fields say something."""
        full = [str(path) for path in self.fields if any(says_something(v) for _, v in spread(path.found(facts)))]
        return unmet(*(f"{name} must be empty" for name in full)) if full else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"{listing([str(path) for path in self.fields])} is empty"


@dataclass(frozen=True, slots=True)
class Given:
    """Every one of these fields was brought by this submit, not by an earlier one."""

    NAME: ClassVar[str] = "given"
    BARE: ClassVar[str] = "fields"
    fields: tuple[FieldPath, ...]

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the submit alone tells
        """Return which fields the submit lacks."""
        absent = [
            str(path)
            for path in self.fields
            if not any(says_something(value) for _, value in located(facts.given, path.parts))
        ]
        return unmet(*(f"{name} is not in this submit" for name in absent)) if absent else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"this submit brings {listing([str(path) for path in self.fields])}"


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A list has so many items, counting those once that are the same."""

    NAME: ClassVar[str] = "at_least"
    BARE: ClassVar[str] = ""
    field: FieldPath
    count: int

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the work alone tells
        """Return how many there are."""
        there = len({same(value) for _, value in self.field.items(facts) if says_something(value)})
        if there >= self.count:
            return MET
        return unmet(f"{self.field} has {there}, at least {self.count} different ones are needed")

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} has at least {self.count} different items"


@dataclass(frozen=True, slots=True)
class EachHas:
    """Every item of a list has these fields, and the list has items."""

    NAME: ClassVar[str] = "each_has"
    BARE: ClassVar[str] = ""
    field: FieldPath
    fields: tuple[str, ...]

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the work alone tells
        """Return which items lack which fields."""
        if self.field.nothing_such(facts):
            return MET
        items = self.field.items(facts)
        if not items:
            return unmet(f"{self.field} is empty: fill it in")
        lacking = [
            f"{self.field.place(facts, loc)} lacks {name!r}"
            for loc, item in items
            for name in self.fields
            if not any(says_something(value) for _, value in located(item, name.split(".")))
        ]
        return unmet(*lacking) if lacking else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"every item of {self.field} has {listing(self.fields)}"


@dataclass(frozen=True, slots=True)
class Covers:
    """For every id of other lists something here names it. `if_any`: there may be no such ids."""

    NAME: ClassVar[str] = "covers"
    BARE: ClassVar[str] = ""
    field: tuple[FieldPath, ...]
    of: tuple[FieldPath, ...]
    if_any: bool = False

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the works alone tell
        """Return the ids that nothing names."""
        wanted, named = names_at(self.of, facts), set(names_at(self.field, facts))
        if not wanted:
            nothing = self.if_any or all(path.nothing_such(facts) for path in self.of)
            return MET if nothing else unmet(f"{either(self.of)} has no ids yet: there is nothing to cover")
        left = [name for name in wanted if name not in named]
        return unmet(f"{either(self.field)} has nothing for {listing(left)} of {either(self.of)}") if left else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"{either(self.field)} covers every id of {either(self.of)}"


@dataclass(frozen=True, slots=True)
class KnownIn:
    """Every name here is an id of another list, and there is at least one. `if_any`: there may be none."""

    NAME: ClassVar[str] = "known_in"
    BARE: ClassVar[str] = ""
    field: tuple[FieldPath, ...]
    of: tuple[FieldPath, ...]
    if_any: bool = False

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the works alone tell
        """Return the names that are not there."""
        names = names_at(self.field, facts)
        if not names and (self.if_any or all(path.nothing_such(facts) for path in self.field)):
            return MET
        if not names:
            return unmet(f"{either(self.field)} names nothing of {either(self.of)}")
        known = set(names_at(self.of, facts))
        strange = [name for name in names if name not in known]
        if not strange:
            return MET
        return unmet(f"{either(self.field)} names {listing(strange)}, which {either(self.of)} does not have")

    def said(self) -> str:
        """Return what it holds."""
        return f"{either(self.field)} names only what {either(self.of)} has"


@dataclass(frozen=True, slots=True)
class UnknownIn:
    """Something here is named that another list does not have: what was found out needs a place there."""

    NAME: ClassVar[str] = "unknown_in"
    BARE: ClassVar[str] = ""
    field: tuple[FieldPath, ...]
    of: tuple[FieldPath, ...]

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the works alone tell
        """Return the new names as the detail."""
        # What is only written otherwise is not new.
        known = {same(name) for name in names_at(self.of, facts)}
        strange = [name for name in names_at(self.field, facts) if same(name) not in known]
        if not strange:
            return unmet(f"{either(self.field)} names nothing that {either(self.of)} does not have already")
        return ConditionFinding(met=True, detail=f"{either(self.of)} does not have {listing(strange)}")

    def said(self) -> str:
        """Return what it holds."""
        return f"{either(self.field)} names something that {either(self.of)} does not have"


@dataclass(frozen=True, slots=True)
class Distinct:
    """No two values here are the same; case and white space make no difference."""

    NAME: ClassVar[str] = "distinct"
    BARE: ClassVar[str] = "field"
    field: FieldPath

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the work alone tells
        """Return which values are there twice."""
        first: dict[str, str] = {}
        doubled = []
        for loc, value in self.field.items(facts):
            where, key = self.field.place(facts, loc), same(value)
            if key in first:
                doubled.append(f"{where} says the same as {first[key]}")
            first.setdefault(key, where)
        return unmet(*doubled) if doubled else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"no two of {self.field} are the same"


@dataclass(frozen=True, slots=True)
class NoCircle:
    """Items of a list need each other, by id, without a circle, and name none that the list does not have."""

    NAME: ClassVar[str] = "no_circle"
    BARE: ClassVar[str] = ""
    field: FieldPath
    through: str

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the work alone tells
        """Return the circle, or the names that are not there."""
        known = set(names_in(self.field.found(facts)))
        needs = {name: needed for item in self.field.items(facts) for name, needed in self._needs(item)}
        strange = [
            f"{self.field}[{name[:60]}].{self.through} names {listing(left)}, which {self.field} does not have"
            for name, needed in needs.items()
            if (left := [one for one in needed if one not in known])
        ]
        if strange:
            return unmet(*strange)
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            circle = " -> ".join(str(name)[:60] for name in error.args[1][: NAMES_TOLD + 1])
            return unmet(f"{self.field} goes round in a circle: {circle}; take one {self.through} away")
        return MET

    def _needs(self, item: Located) -> Sequence[tuple[str, list[str]]]:
        needed = names_in(located(item[1], self.through.split(".")))
        return [(name, needed) for name in names_in([item])]

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} has no circle through {self.through}"


@dataclass(frozen=True, slots=True)
class Equals:
    """Every value here is this one, and there is at least one."""

    NAME: ClassVar[str] = "equals"
    BARE: ClassVar[str] = ""
    field: FieldPath
    value: Json

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the work alone tells
        """Return which values are others."""
        if self.field.nothing_such(facts):
            return MET
        items = self.field.items(facts)
        if not items:
            return unmet(f"{self.field} is empty: it must be {self._value()}")
        wanted = canonical(self.value)
        others = [self.field.place(facts, loc) for loc, value in items if canonical(value) != wanted]
        return unmet(*(f"{where} is not {self._value()}" for where in others)) if others else MET

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} is {self._value()}"

    def _value(self) -> str:
        return repr(self.value) if isinstance(self.value, str) else canonical(self.value)


@dataclass(frozen=True, slots=True)
class NumbersWithin:
    """Every value here is a number from `least` to `most`, and there is at least one."""

    NAME: ClassVar[str] = "within"
    BARE: ClassVar[str] = ""
    field: FieldPath
    least: float | None = None
    most: float | None = None

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - the work alone tells
        """Return which values are not."""
        if self.field.nothing_such(facts):
            return MET
        items = self.field.items(facts)
        if not items:
            return unmet(f"{self.field} is empty: it must be {self._bounds()}")
        outside = [self.field.place(facts, loc) for loc, value in items if not self._fits(value)]
        return unmet(*(f"{where} is not {self._bounds()}" for where in outside)) if outside else MET

    def _fits(self, value: Json) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def _bounds(self) -> str:
        least = "" if self.least is None else f"{self.least:g} or more"
        most = "" if self.most is None else f"{self.most:g} or less"
        return " and ".join(part for part in (least, most) if part) or "a number"

    def said(self) -> str:
        """Return what it holds."""
        return f"{self.field} is {self._bounds()}"


@dataclass(frozen=True, slots=True)
class Signal:
    """The model says so. A hint: it counts only beside a predicate that looks."""

    NAME: ClassVar[str] = "signal"
    BARE: ClassVar[str] = "name"
    name: str

    async def judge(self, facts: SubmitFacts, look: Look) -> ConditionFinding:  # noqa: ARG002 - a hint is a word
        """Return whether the hint was given."""
        return MET if self.name in facts.signals else unmet(f"the signal {self.name} was not given")

    def said(self) -> str:
        """Return what it holds."""
        return f"the signal {self.name} was given"
