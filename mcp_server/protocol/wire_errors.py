"""Errors as clients get them: short, and without details of Python or pydantic, such as the URLs in pydantic's own texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from knowledge.wire.validation_errors import misfit

MOST_SHOWN = 4
LONGEST_MESSAGE = 280

_SURROGATES = re.compile("[\ud800-\udfff]")


def without_surrogates(value: Any) -> Any:
    """Return JSON `value` with every lone surrogate replaced by U+FFFD. JSON can escape one, but UTF-8 can't encode it."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    return value


def short(message: str, longest: int = LONGEST_MESSAGE) -> str:
    """Return `message`, cut to `longest` characters. Messages quote the caller's words, which may be long."""
    return message if len(message) <= longest else message[: longest - 3] + "..."


def loosen(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return `arguments` with harmless habits of hosts undone.

    These are `2.0` for 2, an object or list sent as its JSON text, and lone surrogates. Any other misfit is left unchanged and
    refused; decision 10 has the reasons.
    """
    properties = schema.get("properties", {})
    readable: dict[str, Any] = without_surrogates(dict(arguments))
    return {name: _loosened(value, properties.get(name, {})) for name, value in readable.items()}


def _loosened(value: Any, wanted: Mapping[str, Any]) -> Any:
    kind = wanted.get("type")
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind in ("object", "array") and isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):  # a few kilobytes of `[` exceed the parser's recursion limit
            return value
        if isinstance(parsed, dict if kind == "object" else list):
            return parsed
    return value


def explain(what: str, error: ValidationError, schema: Mapping[str, Any]) -> str:
    """Return one sentence that names each wrong argument of `what`, with its allowed values."""
    problems = error.errors(include_url=False, include_input=True, include_context=True)
    shown = [misfit(problem, schema) for problem in problems[:MOST_SHOWN]]
    if len(problems) > MOST_SHOWN:
        shown.append(f"and {len(problems) - MOST_SHOWN} more")
    return f"{what}: {'; '.join(shown)}"
