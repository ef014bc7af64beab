"""What a JSON Schema finds wrong, in the words of every other form. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.engine.events import Json, canonical
from agents.engine.work.form import duplicates, field_path
from knowledge.wire.validation_errors import misfit

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

NULLABLE, JUST_NULL = 2, {"type": "null"}
"""How many ways there are to give a value that may be null, and the second of them."""
TEXT, VISIBLE, LOCATOR = "x-text", "visible", "locator"
"""What `x-text` may demand of a text: more than white space; a kind and a place, such as code:src/hive.py."""
DISTINCT = "x-distinct"
"""The field whose value no two items of a list may share."""
NULL = "x-null"
"""Whether null may stand where the value is left out."""
OWN_WORDS = {TEXT: f"{VISIBLE} or {LOCATOR}", DISTINCT: "the name of a field", NULL: "true or false"}
"""What a schema may say beside JSON Schema, each with the values it takes. The schema shown to a model leaves these out."""
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


def told(error: ValidationError, work: Json) -> Iterator[str]:
    """Yield what is wrong in the words of every other form."""
    # Of several ways in which a value may be given, the one that it comes nearest to. That it is of the wrong kind for one of
    # them does not say that it is for all.
    depth = len(error.absolute_path)
    # Where null is the only other way, what is wrong with the value itself is told, all of it.
    ways: Any = error.validator_value
    if error.validator == "anyOf" and len(ways) == NULLABLE and ways[1] == JUST_NULL:
        for one in error.context or ():
            if next(iter(one.schema_path)) == 0:
                yield from told(one, work)
        return
    nearer = [e for e in error.context or () if len(e.absolute_path) > depth or e.validator != "type"]
    if nearer:
        yield from told(max(nearer, key=lambda e: len(e.absolute_path)), work)
        return
    loc = list(error.absolute_path)
    inside: Mapping[str, Any] = error.schema if isinstance(error.schema, dict) else {}
    for kind, part, context in _kinds(error):
        where = [*loc, part] if part else loc
        problem = {"type": kind, "loc": [part or "work"], "input": error.instance, "ctx": context, "msg": ""}
        yield misfit(problem, inside, field_path(work, where), of="field")


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
    if word == "type":
        kinds = value if isinstance(value, list) else [value]
        return f"it must be {' or '.join(str(kind) for kind in kinds)}"
    if word == DISTINCT:
        again = duplicates([str(item[value]) for item in instance if isinstance(item, Mapping) and value in item])
        return f"two items have the {value} {again[0][:60]}; each needs its own"
    told = {
        "minLength": f"it must have at least {value} characters, and has {size}",
        "minItems": f"it must have at least {value} items, and has {size}",
        "maxItems": f"it must have at most {value} items, and has {size}",
        "minProperties": f"it must have at least {value} fields, and has {size}",
        "maxProperties": f"it must have at most {value} fields, and has {size}",
        "uniqueItems": "no item may stand in it twice",
        TEXT: "must be kind:place, for example code:src/hive.py or kb:guides/hive.md"
        if value == LOCATOR
        else "must say something",
        "multipleOf": f"it must be a multiple of {value}",
        "anyOf": "it fits none of the ways in which it may be given",
        "oneOf": "it must fit exactly one of the ways in which it may be given",
    }
    return told.get(word) or f"it does not keep to {word!r} of its schema"


def _alternatives(values: Sequence[Json]) -> str:
    told = [repr(value) if isinstance(value, str) else canonical(value) for value in values]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} or {told[-1]}"
