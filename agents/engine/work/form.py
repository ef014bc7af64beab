"""The work of a phase: what it must look like, and how a submit joins what is recorded already. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeGuard, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from agents.engine.agent import Citation
from agents.engine.events import Json
from agents.engine.work import answers as asking
from knowledge.wire.lean_schema import lean_input
from knowledge.wire.validation_errors import misfit

DROP = "drop"
MOST_PROBLEMS = 12
listed, unanswered = asking.listed, asking.unanswered
"""Defined where graphs can use them, too."""

Id = Annotated[str, Field(min_length=1, max_length=60)]
Said = Annotated[str, Field(min_length=1, max_length=8_000)]
"""Text that says something."""
LOCATOR_FORM = re.compile(r"[a-z][a-z0-9+.-]*:\S")
LOCATED = "kind:place, for example code:src/hive.py or kb:guides/hive.md"


def _is_locator(text: str) -> str:
    if not LOCATOR_FORM.match(text):
        raise ValueError(f"must be {LOCATED}")
    return text


Locator = Annotated[str, Field(max_length=1_000), AfterValidator(_is_locator)]
"""Where something that was made lies."""


class Part(BaseModel):
    """A part of a work: unknown fields are refused, and `"5"` is not 5."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Quoted(Part):
    """Words that stand in the knowledge base, exactly."""

    path: Annotated[str, Field(min_length=1, max_length=1_000)]
    section: Annotated[str, Field(max_length=1_000, description="Heading, or 'A > B'; '' before the first.")]
    quote: Annotated[str, Field(min_length=1, max_length=2_000, description="Copied, not reworded.")]


class PhaseWork(Part):
    """Base of every work. `ASKS` names the fields that belong to one submit only."""

    ASKS: ClassVar[frozenset[str]] = frozenset()

    drop: Annotated[list[Id], Field(description="Ids of recorded items to remove.")] = Field(default_factory=list)


class ModelForm:
    """The form of a work that is a pydantic model."""

    def __init__(self, model: type[PhaseWork]) -> None:
        self.model = model

    @property
    def asks(self) -> frozenset[str]:
        """Return the fields that the next submit does not inherit."""
        return self.model.ASKS

    @cached_property
    def schema(self) -> Mapping[str, Json]:
        """Return the JSON Schema, lean."""
        return lean_input(self.model.model_json_schema())

    def problems(self, work: Json) -> Sequence[str]:
        """Return a short sentence for each wrong field."""
        try:
            self.model.model_validate(work)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=True, include_context=True)
            # Only what is told is put into words: a work may be wrong in a hundred thousand places.
            told = [_misfit(cast("Mapping[str, Any]", one), self.schema, work) for one in found[:MOST_PROBLEMS]]
            return _with_rest(told, len(found))
        return ()


def _misfit(problem: Mapping[str, Any], schema: Mapping[str, Json], work: Json) -> str:
    return misfit(problem, schema, place(work, problem["loc"]), of="field")


def cut(problems: Sequence[str]) -> Sequence[str]:
    """Return the problems, the last one saying how many more there are, if there are many."""
    return _with_rest(problems[:MOST_PROBLEMS], len(problems))


def _with_rest(told: Sequence[str], count: int) -> Sequence[str]:
    return [*told, f"and {count - len(told)} more"] if count > len(told) else told


def place(work: Json, loc: Sequence[int | str]) -> str:
    """Return where something lies in a work, as `answers[q4].citations[0].quote`: items by their id, where they have one."""
    told, inside = "", work
    for part in loc:
        inside = _inside(inside, part)
        if isinstance(part, int):
            id_ = inside.get("id") if isinstance(inside, dict) else None
            told += f"[{id_[:60] if isinstance(id_, str) and id_ else part}]"
        else:
            told += f".{part}" if told else part
    return told or "work"


def _inside(value: Json, part: int | str) -> Json:
    try:
        return value[part]
    except (KeyError, IndexError, TypeError):
        return None


def joined(before: Json, given: Mapping[str, Json], asks: frozenset[str]) -> dict[str, Json]:
    """Return the recorded work with what was given.

    Fields that are given replace those recorded, except that lists of objects with an `id` are joined by it: the same id
    replaces the whole object where it stands, a new id is added at the end. `drop` removes objects by id, from every list. Fields
    of `asks` are not inherited.
    """
    old = before if isinstance(before, dict) else {}
    whole = {name: value for name, value in old.items() if name not in asks and name != DROP}
    dropped = given.get(DROP)
    gone = {id_ for id_ in dropped if isinstance(id_, str)} if isinstance(dropped, list) else set()
    for name, value in whole.items():
        if gone and by_id(value):
            whole[name] = [item for item in value if item["id"] not in gone]
    for name, value in given.items():
        if name == DROP:
            if not isinstance(dropped, list):
                whole[name] = value  # wrong, and to be found so
            continue
        there = whole.get(name)
        whole[name] = _joined(there, value) if there and by_id(there) and by_id(value) else value
    return whole


def doubled(given: Mapping[str, Json]) -> list[str]:
    """Return a sentence for each list of what was given in which two items have one id: which of them counts?"""
    told = []
    for name, value in given.items():
        items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        again = twice([str(item["id"])[:60] for item in items if isinstance(item.get("id"), str)])
        told += [f"two items of {name[:60]!r} have the id {id_}; each needs one of its own" for id_ in again]
    return told


def by_id(value: Json) -> TypeGuard[list[dict[str, Json]]]:
    """Return whether this is a list of objects, each with an id of its own."""
    if not isinstance(value, list) or not all(isinstance(v, dict) and isinstance(v.get("id"), str) for v in value):
        return False
    return len({item["id"] for item in value}) == len(value)


def _joined(old: list[dict[str, Json]], new: list[dict[str, Json]]) -> list[dict[str, Json]]:
    by_id = {item["id"]: item for item in [*old, *new]}
    return list(by_id.values())


def citations_in(value: Json, loc: tuple[int | str, ...] = ()) -> Iterator[tuple[tuple[int | str, ...], Citation]]:
    """Yield everything in a work that is a citation (an object with `path` and `quote`), with where it lies, in order."""
    if isinstance(value, Mapping):
        path, quote, section = value.get("path"), value.get("quote"), value.get("section", "")
        if isinstance(path, str) and isinstance(quote, str) and isinstance(section, str):
            yield loc, Citation(path, section, quote)
            return
        for name, inside in value.items():
            yield from citations_in(inside, (*loc, name))
    elif isinstance(value, list | tuple):
        for number, inside in enumerate(value):
            yield from citations_in(inside, (*loc, number))


def ids(items: Sequence[Mapping[str, Json]]) -> list[str]:
    """Return the ids of the items, in order."""
    return [str(item.get("id", "")) for item in items]


def twice(names: Sequence[str]) -> list[str]:
    """Return the names that are there more than once, each once."""
    return [name for name, times in Counter(names).items() if times > 1]
