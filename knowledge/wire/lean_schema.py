"""Shortens JSON Schemas for models by leaving out parts that cost tokens but carry no information. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]


def lean_input(schema: Schema) -> Schema:
    """Return `schema` without pydantic's titles, with references inlined, `X | None` as X, and without `default: null`.

    A field that is *named* title stays. Descriptions of whole objects are dropped: they are our own docstrings.
    """

    def shorten(node: Schema) -> Schema:
        described = {key: value for key, value in node.items() if key != "description" or "properties" not in node}
        return _without_null(described)

    return _shortened(schema, shorten)


def lean_output(schema: Schema) -> Schema:
    """Return `schema` as `lean_input`, but `X | None` stays nullable, because these fields do hold nulls.

    Descriptions are dropped: they are our own docstrings. Lists of required fields and defaults are dropped too: every
    field is always there, and these would be a fifth of the whole. An object inside an item of a list is only named as
    an object: its fields would be repeated in every place where it is used, and the reference page has them.
    """

    def shorten(node: Schema) -> Schema:
        kept = {key: value for key, value in node.items() if key not in ("description", "required", "default")}
        item = kept.get("items")
        if isinstance(item, dict) and isinstance(item.get("properties"), dict):
            fields = {name: _kinds_only(value) for name, value in item["properties"].items()}
            kept["items"] = {**item, "properties": fields}
        return kept

    return _shortened(schema, shorten)


def _shortened(schema: Schema, shorten: Callable[[Schema], Schema]) -> Schema:
    """Return the schema with references inlined and `shorten` applied to every part of it, inner parts first."""
    lean: Schema = _each(_inlined(schema, schema.get("$defs", {})), shorten)
    return lean


def _each(node: Any, shorten: Callable[[Schema], Schema], *, is_map: bool = False) -> Any:
    if isinstance(node, list):
        return [_each(item, shorten) for item in node]
    if not isinstance(node, dict):
        return node
    if is_map:  # the keys are field names, not words of JSON Schema
        return {key: _each(value, shorten) for key, value in node.items()}
    kept = {key: value for key, value in node.items() if not _says_nothing(key, value)}
    return shorten({key: _each(value, shorten, is_map=key == "properties") for key, value in kept.items()})


def _says_nothing(key: str, value: Any) -> bool:
    if key == "additionalProperties":
        return value is True
    return (key == "title" and isinstance(value, str)) or (key == "default" and value is None)


def _without_null(node: Schema) -> Schema:
    """Return `X | None` as X."""
    options = [option for option in node.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == len(node.get("anyOf", ())) or len(options) != 1:
        return node
    return {**options[0], **{key: value for key, value in node.items() if key != "anyOf"}}


def _kinds_only(node: Schema) -> Schema:
    """Return the types of a field's values, without the fields of an object."""
    options = node.get("anyOf", [node])
    if not any(option.get("properties") for option in options):
        return node
    kinds = [{"type": option["type"]} for option in options]
    return {"anyOf": kinds} if len(kinds) > 1 else kinds[0]


def _inlined(node: Any, definitions: Schema) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].removeprefix("#/$defs/")]
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _inlined({**target, **beside}, definitions)
    return {key: _inlined(value, definitions) for key, value in node.items() if key != "$defs"}
