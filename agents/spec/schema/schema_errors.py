"""Errors of a JSON Schema validator, in the same words as those of every other form. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.engine.events import Json, canonical
from agents.engine.work.form import duplicates, field_path
from knowledge.wire.validation_errors import misfit

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

NULLABLE, JUST_NULL = 2, {"type": "null"}
"""A value that may be null has two alternatives; this is the second."""
TEXT, VISIBLE, LOCATOR = "x-text", "visible", "locator"
"""Values of `x-text`: a text has more than white space; a text is a kind and a place, such as code:src/hive.py."""
DISTINCT = "x-distinct"
"""The field whose value no two items of a list may share."""
NULL = "x-null"
"""Whether null counts as leaving the value out."""
OWN_WORDS = {TEXT: f"{VISIBLE} or {LOCATOR}", DISTINCT: "the name of a field", NULL: "true or false"}
"""Our own keywords, each with the values it takes. The schema shown to a model leaves them out."""
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


def schema_problems(error: ValidationError, work: Json) -> Iterator[str]:
    """Yield a sentence for each problem that the error is about."""
    depth = len(error.absolute_path)
    # If null is the only alternative, every problem with the value itself is reported.
    alternatives: Any = error.validator_value
    if error.validator == "anyOf" and len(alternatives) == NULLABLE and alternatives[1] == JUST_NULL:
        for one in error.context or ():
            if next(iter(one.schema_path)) == 0:
                yield from schema_problems(one, work)
        return
    # Of several alternatives, report the one that the value comes nearest to: the wrong type for one may be the right type
    # for another.
    nearer = [e for e in error.context or () if len(e.absolute_path) > depth or e.validator != "type"]
    if nearer:
        yield from schema_problems(max(nearer, key=lambda e: len(e.absolute_path)), work)
        return
    loc = list(error.absolute_path)
    inside: Mapping[str, Any] = error.schema if isinstance(error.schema, dict) else {}
    for kind, part, context in _kinds(error):
        where = [*loc, part] if part else loc
        problem = {"type": kind, "loc": [part or "work"], "input": error.instance, "ctx": context, "msg": ""}
        yield misfit(problem, inside, field_path(work, where), of="field")


def _kinds(error: ValidationError) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield pydantic's type for the error, the field inside that it is about, and pydantic's context."""
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
    if word == "type":
        kinds = value if isinstance(value, list) else [value]
        return f"it must be {' or '.join(str(kind) for kind in kinds)}"
    if word == DISTINCT:
        again = duplicates([str(item[value]) for item in instance if isinstance(item, Mapping) and value in item])
        return f"two items have the {value} {again[0][:60]}; each needs its own"
    sentences = {
        "minLength": f"it must have at least {value} characters, and has {size}",
        "minItems": f"it must have at least {value} items, and has {size}",
        "maxItems": f"it must have at most {value} items, and has {size}",
        "minProperties": f"it must have at least {value} fields, and has {size}",
        "maxProperties": f"it must have at most {value} fields, and has {size}",
        "uniqueItems": "no item may occur twice",
        TEXT: "must be kind:place, for example code:src/hive.py or kb:guides/hive.md"
        if value == LOCATOR
        else "must say something",
        "multipleOf": f"it must be a multiple of {value}",
        "anyOf": "it matches none of the allowed forms",
        "oneOf": "it must match exactly one of the allowed forms",
    }
    return sentences.get(word) or f"it does not satisfy {word!r} of its schema"


def _alternatives(values: Sequence[Json]) -> str:
    *others, last = [repr(value) if isinstance(value, str) else canonical(value) for value in values]
    return f"{', '.join(others)} or {last}" if others else last
