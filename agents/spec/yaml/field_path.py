"""Where in the recorded work a condition looks: `events`, `gap.what`, `COLLECT.events`. Pure.

A list on the way is looked through item by item: `events.evidence` is the evidence of all events. A part with `=` or `!=` keeps the
objects that are so: `events.kind=alarm.at` is when the alarms were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.engine.agent import SubmitFacts
from agents.engine.events import Json, canonical
from agents.engine.work.form import place
from agents.engine.work.substance import blank

Located = tuple[tuple[int | str, ...], Json]
"""Where something lies in a work, and what."""
_NARROWING = re.compile(r"([^=!\s]+)(!?=)([^=!]*[^=!\s])")


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A part of a path that keeps of the objects that lie there those whose field has this value, or has not."""

    field: str
    value: str
    unlike: bool

    def keeps(self, item: Json) -> bool:
        """Return whether the object is so. One without the field is unlike every value."""
        if not isinstance(item, Mapping):
            return False
        value = item.get(self.field)
        return ((value if isinstance(value, str) else canonical(value)) == self.value) is not self.unlike


def narrowing(part: str) -> Narrowing | None:
    """Return what a part of a path keeps; None if it is a field's name."""
    found = _NARROWING.fullmatch(part.strip())
    return Narrowing(found.group(1), found.group(3), found.group(2) == "!=") if found else None


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A place in the work of a phase; `phase` "" is the one that is judged."""

    phase: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.phase, *self.parts) if self.phase else self.parts)

    def work(self, facts: SubmitFacts) -> Mapping[str, Json]:
        """Return the work in which the place lies."""
        return facts.works.get(self.phase, {}) if self.phase else facts.work

    def found(self, facts: SubmitFacts) -> list[Located]:
        """Return what lies there."""
        return located(self.work(facts), self.parts)

    def items(self, facts: SubmitFacts) -> list[Located]:
        """Return what lies there, item by item where it is a list."""
        return list(spread(self.found(facts)))

    def nothing_such(self, facts: SubmitFacts) -> bool:
        """Return whether the path narrows to objects of which there are none: what is said of all of them holds."""
        last = max((number for number, part in enumerate(self.parts) if narrowing(part)), default=-1)
        return last >= 0 and not located(self.work(facts), self.parts[: last + 1])

    def place(self, facts: SubmitFacts, loc: Sequence[int | str]) -> str:
        """Return how a message names something in that work."""
        told = place(self.work(facts), loc)
        return f"{self.phase}.{told}" if self.phase else told


def field_path(text: str, phases: Sequence[str]) -> FieldPath:
    """Return the path that is written so; its first part may be one of the phases."""
    first, _, rest = text.partition(".")
    if first in phases and rest:
        return FieldPath(first, tuple(rest.split(".")))
    return FieldPath("", tuple(text.split(".")))


def located(work: Json, parts: Sequence[str]) -> list[Located]:
    """Return all that lies at the path in a work, in order."""
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
    """Yield the values, items instead of lists."""
    for loc, value in here:
        if isinstance(value, list):
            yield from (((*loc, number), item) for number, item in enumerate(value))
        else:
            yield loc, value


def says_something(value: Json) -> bool:
    """Return whether the value is more than nothing, blanks or emptiness; false and 0 say something."""
    if isinstance(value, str):
        return not blank(value)
    return value is not None and value not in ([], {})


def names_in(found: Sequence[Located]) -> list[str]:
    """Return the names that lie there: texts as they are, objects by their `id`."""
    told = []
    for _, value in spread(list(spread(found))):
        name = value.get("id") if isinstance(value, Mapping) else value
        if isinstance(name, str) and name.strip():
            told.append(name.strip())
    return list(dict.fromkeys(told))


def same(value: Json) -> str:
    """Return what two values have in common that only differ in case and white space."""
    text = value if isinstance(value, str) else canonical(value)
    return " ".join(text.split()).casefold()
