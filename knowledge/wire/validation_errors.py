"""What pydantic found wrong, in plain words: no innards of Python or pydantic, no URLs. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_MEANT = 100

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


def misfit(problem: Mapping[str, Any], schema: Mapping[str, Any], name: str = "", *, of: str = "argument") -> str:
    """Return one of a validation error's problems in a few words.

    `name` is how the field is called, by default its path; `of` is what such a field is called where it stands.
    """
    where = [str(part) for part in problem["loc"]]
    name = name or ".".join(where)
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "missing":
        return f"{name!r} is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"there is no {of} {_short(name)}{_meant(where, schema)}"
    if kind in _WRONG_TYPE:
        return f"{name!r} {_WRONG_TYPE[kind]}, not {_kind_of(problem['input'])}"
    if kind in ("literal_error", "enum"):
        return f"{name!r} must be {context['expected']}"
    if kind == "string_too_long":
        return f"{name!r} must be at most {context['max_length']} characters, and has {len(problem['input'])}"
    if kind == "string_too_short":
        return f"{name!r} must not be empty"
    limits = {
        "greater_than_equal": ("ge", "at least"),
        "less_than_equal": ("le", "at most"),
        "greater_than": ("gt", "above"),
        "less_than": ("lt", "below"),
    }
    if kind in limits:
        key, words = limits[kind]
        return f"{name!r} must be {words} {context[key]}, not {problem['input']}"
    if kind in ("value_error", "assertion_error"):
        return f"{name!r}: {context.get('error', problem['msg'])}"
    return f"{name!r} does not fit: {problem['msg'].lower()}"


def _meant(where: Sequence[str], schema: Mapping[str, Any]) -> str:
    inside: Mapping[str, Any] = schema
    for part in where[:-1]:
        inside = inside.get("properties", {}).get(part, {})
    known = list(inside.get("properties", {}))
    # A longer name is no slip of the pen, and comparing two of them takes as long as both lengths multiplied.
    near = difflib.get_close_matches(where[-1], known, n=1) if len(where[-1]) <= LONGEST_MEANT else ()
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; it takes {', '.join(known)}" if known else "; it takes none"


def _kind_of(value: Any) -> str:
    names = {
        str: "text",
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return names.get(type(value), "something else")


def _short(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:57] + "...")
