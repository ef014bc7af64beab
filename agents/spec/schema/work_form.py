"""The form of work that a JSON Schema describes. Pure.

A host may submit 400,000 characters, and a schema may have a thousand rules for each part. So a check counts its steps, and stops
with a sentence when there are too many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from agents.engine.events import Json
from agents.engine.work.form import DROP, blank, duplicates, first_problems
from agents.spec.schema.json_schema import USUAL_ITEMS, hardened, shown
from agents.spec.schema.schema_errors import DISTINCT, LOCATOR, TEXT, schema_problems
from knowledge.wire.lean_schema import lean_input

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

LOCATOR_FORM = re.compile(r"[a-z][a-z0-9+.-]*:\S")
MOST_ERRORS = 100
MOST_STEPS = 200_000
"""This many steps take about a second. Five hundred items of ten fields need a tenth."""
TOO_MUCH = "it has too many parts to be checked against its schema: submit fewer items"
_Keyword = Callable[..., Iterator[Any]]

_DROP_SCHEMA: Mapping[str, Json] = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 60},
    "description": "Ids of recorded items to remove.",
}


@dataclass(frozen=True)
class SchemaForm:
    """A form described by a JSON Schema without references. `asks` are the fields that belong to one submit only.

    `most_items` is how many items a list may have if the schema doesn't say. Fields that are `unshown` are accepted, but models don't
    see them.
    """

    described: Mapping[str, Json]
    asks: frozenset[str] = field(default_factory=frozenset)
    most_items: int = USUAL_ITEMS
    unshown: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def schema(self) -> Mapping[str, Json]:
        """The schema as a model gets it. If lists are joined by id, it includes the field that removes items."""
        properties = {
            name: part for name, part in self.described.get("properties", {}).items() if name not in self.unshown
        }
        if any(joins(part) for part in properties.values()):
            properties[DROP] = _DROP_SCHEMA
        schema = {**self.described, **({"properties": properties} if properties else {})}
        return lean_input(shown(schema))

    @cached_property
    def _checked(self) -> _CountingValidator:
        properties = {**self.described.get("properties", {}), DROP: _DROP_SCHEMA}
        return _CountingValidator(hardened({**self.described, "properties": properties}, self.most_items))

    def problems(self, work: Json) -> Sequence[str]:
        """Return a short sentence for each wrong field."""
        return self._checked.problems(work)


class _TooMuch(Exception):
    """The check has taken all the steps that it may."""


class _CountingValidator:
    """A validator that counts its steps."""

    def __init__(self, schema: Mapping[str, Json]) -> None:
        from jsonschema import Draft202012Validator, validators

        own = {**Draft202012Validator.VALIDATORS, "uniqueItems": _unique, TEXT: _text, DISTINCT: _distinct}
        counted = {name: self._counted(keyword) for name, keyword in own.items()}
        extended: Any = validators.extend  # untyped, as the library has it
        self._validator: Draft202012Validator = extended(Draft202012Validator, counted)(schema)
        self._steps = 0

    def problems(self, work: Json) -> Sequence[str]:
        """Return a short sentence for each wrong field, in the order of the fields."""
        self._steps, errors = 0, list[Any]()
        rest: tuple[str, ...] = ()
        try:
            errors.extend(self._validator.iter_errors(work))  # keeps the errors found before the steps ran out
        except _TooMuch:
            rest = (TOO_MUCH,)
        errors.sort(key=lambda error: [str(part) for part in error.absolute_path])
        texts = dict.fromkeys(
            text for error in errors[:MOST_ERRORS] for text in islice(schema_problems(error, work), MOST_ERRORS)
        )
        return first_problems((*rest, *texts))

    def _counted(self, keyword: _Keyword) -> _Keyword:
        from jsonschema import ValidationError

        def ask(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            size = len(instance) if isinstance(instance, str | list | dict) else 0
            # Weighted by work: long values are walked, and lists of names or alternatives are tried one by one.
            self._steps += 1 + size // 100 + (len(value) // 2 if isinstance(value, list) else 0)
            if self._steps > MOST_STEPS:
                raise _TooMuch
            try:
                for error in keyword(validator, value, instance, schema) or ():
                    self._steps += 10  # the library formats the entire value
                    yield error
            except OverflowError:  # the library divides integers of any length as floats
                yield ValidationError("is a number too large to be checked")

        return ask


def _unique(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ARG001 - as it is called
    """Refuse equal items in linear time: the library compares each item with every other one."""
    from jsonschema import ValidationError

    items = instance if value and isinstance(instance, list) else []
    if len({json.dumps(_levelled(item), sort_keys=True) for item in items}) < len(items):
        yield ValidationError("has non-unique elements")


def _text(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ARG001 - as it is called
    """Refuse blank text, or text that is not a locator. Empty text is left to `minLength`."""
    from jsonschema import ValidationError

    if isinstance(instance, str):
        wrong = not LOCATOR_FORM.match(instance) if value == LOCATOR else bool(instance) and blank(instance)
        if wrong:
            yield ValidationError(f"is not {value}")


def _distinct(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ARG001 - as it is called
    """Refuse two items with the same value in that field."""
    from jsonschema import ValidationError

    items = instance if isinstance(instance, list) else []
    if duplicates([str(item[value]) for item in items if isinstance(item, dict) and value in item]):
        yield ValidationError(f"two items have the same {value}")


def _levelled(item: Json) -> Json:
    """Return the item with 1.0 as 1: JSON Schema calls them equal."""
    if isinstance(item, dict):
        return {name: _levelled(inside) for name, inside in item.items()}
    if isinstance(item, list):
        return [_levelled(inside) for inside in item]
    return int(item) if isinstance(item, float) and item.is_integer() else item


def joins(schema: Json) -> bool:
    """Return whether this is a list whose items have ids, so that new ones are joined with recorded ones."""
    items = schema.get("items") if isinstance(schema, dict) else None
    return isinstance(items, dict) and "id" in items.get("properties", {})
