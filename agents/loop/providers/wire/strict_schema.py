"""A JSON Schema reduced to what vendors enforce while a model writes. Pure.

Rules that are left out here still count: every answer is checked against the whole schema afterwards.
Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs, on the supported part of JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NESTED = ("properties", "$defs", "definitions")
LISTS = ("anyOf", "allOf", "oneOf")
KEPT = frozenset({"type", "enum", "const", "required", "description", "title", "$ref", "format", "default"})


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without bounds on numbers, lengths and counts, and with objects that allow no further fields."""
    kept = {name: value for name, value in schema.items() if name in KEPT}
    for name in NESTED:
        if isinstance(schema.get(name), Mapping):
            kept[name] = {key: _inner(value) for key, value in schema[name].items()}
    for name in LISTS:
        if isinstance(schema.get(name), list):
            # `oneOf` is not supported; `anyOf` comes nearest.
            kept["anyOf" if name == "oneOf" else name] = [_inner(value) for value in schema[name]]
    if isinstance(schema.get("items"), Mapping):
        kept["items"] = closed(schema["items"])
    if schema.get("type") == "object" or "properties" in schema:
        kept["additionalProperties"] = False
    return kept


def _inner(schema: object) -> object:
    return closed(schema) if isinstance(schema, Mapping) else schema
