"""Paths to fields of the recorded work, as conditions name them: `events`, `gap.what`, `COLLECT.events`. Pure.

A path goes through a list item by item: `events.evidence` is the evidence of all events. A part with `=` or `!=` keeps only the
matching objects: `events.kind=alarm.at` is the times of all alarms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, ValidationInfo

from agents.engine.agent import SubmitFacts
from agents.engine.events import Json, canonical
from agents.engine.work.form import blank, field_path

Located = tuple[tuple[int | str, ...], Json]
"""A value of a work, after its place there."""
_NARROWING = re.compile(r"([^=!\s]+)(!?=)([^=!]*[^=!\s])")


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A part of a path that keeps only the objects whose field has this value, or (`unlike`) does not have it."""

    field: str
    value: str
    unlike: bool

    def keeps(self, item: Json) -> bool:
        """Return whether the object matches. An object without the field is unlike every value."""
        if not isinstance(item, Mapping):
            return False
        value = item.get(self.field)
        return ((value if isinstance(value, str) else canonical(value)) == self.value) is not self.unlike


def narrowing(part: str) -> Narrowing | None:
    """Return the condition in a part of a path; None if the part is the name of a field."""
    found = _NARROWING.fullmatch(part.strip())
    return Narrowing(found.group(1), found.group(3), found.group(2) == "!=") if found else None


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A place in the work of a phase; `phase` is "" for the work that a condition is about."""

    phase: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.phase, *self.parts) if self.phase else self.parts)

    def work(self, facts: SubmitFacts) -> Mapping[str, Json]:
        """Return the work that the path goes through."""
        return facts.works.get(self.phase, {}) if self.phase else facts.work

    def found(self, facts: SubmitFacts) -> list[Located]:
        """Return the values at the place."""
        return located(self.work(facts), self.parts)

    def items(self, facts: SubmitFacts) -> list[Located]:
        """Return the values at the place, with the items of lists instead of the lists."""
        return list(spread(self.found(facts)))

    def texts(self, facts: SubmitFacts) -> list[str]:
        """Return the texts among the items that are not blank."""
        return [value for _, value in self.items(facts) if isinstance(value, str) and value.strip()]

    def nothing_such(self, facts: SubmitFacts) -> bool:
        """Return whether the path selects only from objects that do not exist, so that every demand on them is met."""
        last = max((number for number, part in enumerate(self.parts) if narrowing(part)), default=-1)
        return last >= 0 and not located(self.work(facts), self.parts[: last + 1])

    def place(self, facts: SubmitFacts, loc: Sequence[int | str]) -> str:
        """Return the name of a place in that work, for messages."""
        name = field_path(self.work(facts), loc)
        return f"{self.phase}.{name}" if self.phase else name


def read_path(value: Json, info: ValidationInfo) -> FieldPath:
    """Return the path that a file writes as a text. Its first part may be a phase in the context of the validation.

    Raises:
        ValueError: it is not a path.
    """
    if isinstance(value, FieldPath):
        return value
    parts = value.split(".") if isinstance(value, str) else ()
    if not parts or not all(narrowing(part) if set(part) & {"=", "!"} else part.strip() for part in parts):
        what = "needs a field" if info.field_name is None else f"needs a field in {info.field_name!r}"
        raise ValueError(f"{what}, such as `events`, `events.what` or `events.kind=alarm.what`")
    first, *rest = parts
    return (
        FieldPath(first, tuple(rest))
        if rest and info.context and first in info.context.phases
        else FieldPath("", tuple(parts))
    )


Path = Annotated[FieldPath, BeforeValidator(read_path)]


def located(work: Json, parts: Sequence[str]) -> list[Located]:
    """Return all values at the path in a work, in order."""
    here: list[Located] = [((), work)]
    for part in parts:
        kept = narrowing(part)
        if kept:
            here = [(loc, value) for loc, value in spread(here) if kept.keeps(value)]
            continue
        here = [
            ((*loc, part), value[part])
            for loc, value in spread(here)
            if isinstance(value, Mapping) and value.get(part) is not None
        ]
    return here


def spread(here: Sequence[Located]) -> Iterator[Located]:
    """Yield the values, with the items of lists instead of the lists."""
    for loc, value in here:
        if isinstance(value, list):
            yield from (((*loc, number), item) for number, item in enumerate(value))
        else:
            yield loc, value


def says_something(value: Json) -> bool:
    """Return whether the value is anything but null, white space or an empty list or object; false and 0 count as values."""
    if isinstance(value, str):
        return not blank(value)
    return value is not None and value not in ([], {})


def names_in(found: Sequence[Located]) -> list[str]:
    """Return the names among the values: texts as they are, objects by their `id`."""
    names = []
    # Twice, because the field of each listed object may itself be a list of names.
    for _, value in spread(list(spread(found))):
        name = value.get("id") if isinstance(value, Mapping) else value
        if isinstance(name, str) and name.strip():
            names.append(name.strip())
    return list(dict.fromkeys(names))


def same(value: Json) -> str:
    """Return a key that is equal for values which differ only in case and white space."""
    text = value if isinstance(value, str) else canonical(value)
    return " ".join(text.split()).casefold()
