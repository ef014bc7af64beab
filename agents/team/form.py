"""The form of a work that a JSON Schema describes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agents.events import Json, canonical
from agents.team.schema import hardened
from agents.work import DROP, cut, place
from knowledge.lean_schema import lean_input
from knowledge.misfits import misfit

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

_DROP_SCHEMA: Mapping[str, Json] = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 60},
    "description": "Ids of recorded items to remove.",
}
_TYPES = {
    "string": "string_type",
    "integer": "int_type",
    "number": "float_type",
    "boolean": "bool_type",
    "array": "list_type",
    "object": "dict_type",
}
_LIMITS = {
    "minimum": ("greater_than_equal", "ge"),
    "maximum": ("less_than_equal", "le"),
    "exclusiveMinimum": ("greater_than", "gt"),
    "exclusiveMaximum": ("less_than", "lt"),
    "maxLength": ("string_too_long", "max_length"),
}


@dataclass(frozen=True)
class SchemaForm:
    """A form by a JSON Schema, whose references are filled in. `asks` are the fields that belong to one submit only."""

    described: Mapping[str, Json]
    asks: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def schema(self) -> Mapping[str, Json]:
        """Return it lean; where lists are joined by id, with the way to remove an item."""
        whole = dict(self.described)
        if any(joins(part) for part in whole.get("properties", {}).values()):
            whole["properties"] = {**whole["properties"], DROP: _DROP_SCHEMA}
        return lean_input(whole)

    @cached_property
    def _validator(self) -> Draft202012Validator:
        from jsonschema import Draft202012Validator

        properties = {**self.described.get("properties", {}), DROP: _DROP_SCHEMA}
        return Draft202012Validator(hardened({**self.described, "properties": properties}))

    def problems(self, work: Json) -> Sequence[str]:
        """Return a short sentence for each wrong field."""
        from jsonschema.exceptions import relevance

        errors = sorted(
            self._validator.iter_errors(work), key=lambda e: ([str(p) for p in e.absolute_path], relevance(e))
        )
        told = [text for error in errors for text in _told(error, work)]
        return cut(list(dict.fromkeys(told)))


def joins(schema: Json) -> bool:
    """Return whether this is a list whose items are joined by their id."""
    items = schema.get("items") if isinstance(schema, dict) else None
    return isinstance(items, dict) and "id" in items.get("properties", {})


def _told(error: ValidationError, work: Json) -> Iterator[str]:
    """Yield what is wrong in the words of every other form."""
    from jsonschema.exceptions import best_match

    if error.context:
        # Of several ways in which a value may be given, the one that it is nearest to.
        nearest = best_match(error.context)
        if nearest is not None and len(nearest.absolute_path) > len(error.absolute_path):
            yield from _told(nearest, work)
            return
    loc = list(error.absolute_path)
    inside: Mapping[str, Any] = error.schema if isinstance(error.schema, dict) else {}
    for kind, part, context in _kinds(error):
        where = [*loc, part] if part else loc
        problem = {"type": kind, "loc": [part or "work"], "input": error.instance, "ctx": context}
        yield misfit(problem, inside, place(work, where), of="field")


def _kinds(error: ValidationError) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield what pydantic would call the error, the field inside that it is about, and its particulars."""
    word = str(error.validator)
    instance: Any = error.instance
    value: Any = error.validator_value
    if word == "required":
        yield from (("missing", name, {}) for name in value if name not in instance)
    elif word in ("additionalProperties", "unevaluatedProperties") and value is False:
        known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        yield from (("extra_forbidden", name, {}) for name in instance if name not in known)
    elif word == "type" and isinstance(value, str) and value in _TYPES:
        yield _TYPES[value], "", {}
    elif word in ("enum", "const"):
        yield "enum", "", {"expected": _alternatives(value if word == "enum" else [value])}
    elif word == "minLength" and not instance:
        yield "string_too_short", "", {}
    elif word in _LIMITS:
        kind, name = _LIMITS[word]
        yield kind, "", {name: value}
    else:
        yield "value_error", "", {"error": _in_words(word, value, instance)}


def _in_words(word: str, value: Json, instance: Json) -> str:
    size = len(instance) if isinstance(instance, str | list | dict) else 0
    told = {
        "minLength": f"it must have at least {value} characters, and has {size}",
        "minItems": f"it must have at least {value} items, and has {size}",
        "maxItems": f"it must have at most {value} items, and has {size}",
        "minProperties": f"it must have at least {value} fields, and has {size}",
        "maxProperties": f"it must have at most {value} fields, and has {size}",
        "uniqueItems": "no item may stand in it twice",
        "multipleOf": f"it must be a multiple of {value}",
        "type": f"it must be {' or '.join(value) if isinstance(value, list) else value}",
        "anyOf": "it fits none of the ways in which it may be given",
        "oneOf": "it must fit exactly one of the ways in which it may be given",
    }
    return told.get(word, f"it does not keep to {word!r} of its schema")


def _alternatives(values: Sequence[Json]) -> str:
    told = [repr(value) if isinstance(value, str) else canonical(value) for value in values]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} or {told[-1]}"
