"""Words pydantic's validation errors for people and models, without URLs and names of Python or pydantic. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_GUESSED = 100

_WRONG_TYPE = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "dataclass_type": "must be an object",
}
_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "above"),
    "less_than": ("lt", "below"),
}
_KINDS = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def misfit(problem: Mapping[str, Any], schema: Mapping[str, Any], name: str = "", *, of: str = "argument") -> str:
    """Describe one problem of a validation error in a few words.

    `name` is what the field is called, by default its path; `of` is what such fields are called ("argument").
    """
    where = [str(part) for part in problem["loc"]]
    name = name or ".".join(where)
    kind, context, value = problem["type"], problem.get("ctx", {}), problem.get("input")
    if kind == "missing":
        return f"{name!r} is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        shown = repr(name if len(name) <= 60 else name[:57] + "...")
        return f"there is no {of} {shown}{_guess(where, schema)}"
    if kind in _WRONG_TYPE:
        return f"{name!r} {_WRONG_TYPE[kind]}, not {_KINDS.get(type(value), 'something else')}"
    if kind in ("literal_error", "enum"):
        return f"{name!r} must be {context['expected']}"
    if kind == "string_too_long":
        return f"{name!r} must be at most {context['max_length']} characters, and has {len(problem['input'])}"
    if kind == "string_too_short":
        return f"{name!r} must not be empty"
    if kind in _LIMITS:
        key, words = _LIMITS[kind]
        return f"{name!r} must be {words} {context[key]}, not {value}"
    if kind in ("value_error", "assertion_error"):
        return f"{name!r}: {context.get('error', problem['msg'])}"
    return f"{name!r} does not fit: {problem['msg'].lower()}"


def _guess(where: Sequence[str], schema: Mapping[str, Any]) -> str:
    """Return the known name that is closest to an unknown one, or all known names."""
    inside: Mapping[str, Any] = schema
    for part in where[:-1]:
        inside = inside.get("properties", {}).get(part) or inside.get("items", {})
        inside = inside.get("anyOf", [inside])[0]
        if "$ref" in inside:
            inside = schema["$defs"][inside["$ref"].removeprefix("#/$defs/")]
    known = list(inside.get("properties", {}))
    # A longer name is not a typing error, and comparing two long names takes time in proportion to the product of their lengths.
    near = difflib.get_close_matches(where[-1], known, n=1) if len(where[-1]) <= LONGEST_GUESSED else ()
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; it takes {', '.join(known)}" if known else "; it takes none"
