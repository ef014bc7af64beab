"""Errors as they leave the server: short, typed, without the innards of Python or pydantic and without URLs."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

MOST_SHOWN = 4
LONGEST_MESSAGE = 280

_SURROGATES = re.compile("[\ud800-\udfff]")

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


def without_surrogates(value: Any) -> Any:
    """Return JSON `value` with every lone half of a character replaced by the sign for what cannot be read."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    return value


def short(message: str) -> str:
    """Return `message`, cut where it would be longer than an error may be: a caller's own words can make it so."""
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 3] + "..."


def loosen(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return `arguments` with harmless habits of hosts undone.

    These are `2.0` for 2, an object or list sent as its JSON text, and a character of which only one half was sent.
    Everything else that does not fit stays as it is and is refused.
    """
    properties = schema.get("properties", {})
    whole: dict[str, Any] = without_surrogates(dict(arguments))
    return {name: _loosened(value, properties.get(name, {})) for name, value in whole.items()}


def _loosened(value: Any, wanted: Mapping[str, Any]) -> Any:
    kind = wanted.get("type")
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind in ("object", "array") and isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return value
        if isinstance(parsed, dict if kind == "object" else list):
            return parsed
    return value


def explain(what: str, error: ValidationError, schema: Mapping[str, Any]) -> str:
    """Return one sentence that names each wrong argument of `what`, and what it takes instead."""
    problems = error.errors(include_url=False, include_input=True, include_context=True)
    told = [_problem(problem, schema) for problem in problems[:MOST_SHOWN]]
    if len(problems) > MOST_SHOWN:
        told.append(f"and {len(problems) - MOST_SHOWN} more")
    return f"{what}: {'; '.join(told)}"


def _problem(problem: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    where = [str(part) for part in problem["loc"]]
    name = ".".join(where)
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "missing":
        return f"{name!r} is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"there is no argument {_short(name)}{_meant(where, schema)}"
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
    near = difflib.get_close_matches(where[-1], known, n=1)
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
