"""JSON Schemas as a model should get them: without what costs tokens and tells nothing. Pure."""

from __future__ import annotations

from typing import Any, cast


def lean_input(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` without pydantic's titles, with references inlined, `X | None` as X, and no `default: null`.

    A field that is *named* title stays. Descriptions of whole objects go: they are docstrings of ours.
    """
    lean = _lean(_inlined(schema, schema.get("$defs", {})), nulls=False)
    return cast("dict[str, Any]", _undescribed(lean))


def _undescribed(node: Any, *, is_map: bool = False) -> Any:
    """Return the schema without the descriptions of objects that say what they consist of."""
    if isinstance(node, list):
        return [_undescribed(item) for item in node]
    if not isinstance(node, dict):
        return node
    drop = not is_map and "properties" in node
    kept = {key: value for key, value in node.items() if not (drop and key == "description")}
    return {key: _undescribed(value, is_map=key == "properties" and not is_map) for key, value in kept.items()}


def lean_output(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` likewise, but `X | None` stays nullable, for nulls are what such fields hold.

    Descriptions go: they are docstrings of ours. So do lists of required fields: every field is always there, and saying so
    would be a fifth of the whole. Of an object that belongs to an item of a list only that it is one is said: its fields
    would be told again for each place it stands in, and the reference page has them.
    """
    lean = _lean(_inlined(schema, schema.get("$defs", {})), nulls=True)
    return cast("dict[str, Any]", _without_required(_shallow(lean)))


def _shallow(node: Any) -> Any:
    """Return the schema with the fields of objects left out that belong to items of lists."""
    if isinstance(node, list):
        return [_shallow(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: _shallow(value) for key, value in node.items()}
    item = found.get("items")
    if isinstance(item, dict) and isinstance(item.get("properties"), dict):
        fields = {name: _named_only(value) for name, value in item["properties"].items()}
        found["items"] = {**item, "properties": fields}
    return found


def _named_only(node: Any) -> Any:
    """Return what kind of value a field holds, without the fields of an object."""
    options = node.get("anyOf", [node])
    if not any(option.get("properties") for option in options):
        return node
    kinds = [{"type": option["type"]} for option in options]
    return {"anyOf": kinds} if len(kinds) > 1 else kinds[0]


def _without_required(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_required(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_required(value) for key, value in node.items() if key != "required" or isinstance(value, dict)
    }


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].removeprefix("#/$defs/")]
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _inlined({**target, **beside}, definitions)
    return {key: _inlined(value, definitions) for key, value in node.items() if key != "$defs"}


def _lean(node: Any, *, nulls: bool, is_map: bool = False) -> Any:
    if isinstance(node, list):
        return [_lean(item, nulls=nulls) for item in node]
    if not isinstance(node, dict):
        return node
    if is_map:  # the keys are field names, not schema words
        return {key: _lean(value, nulls=nulls) for key, value in node.items()}
    kept = {key: value for key, value in node.items() if not _says_nothing(key, value)}
    if nulls:
        kept.pop("description", None)
    flat = _without_null(kept, nulls=nulls) if "anyOf" in kept else kept
    return {key: _lean(value, nulls=nulls, is_map=key == "properties") for key, value in flat.items()}


def _says_nothing(key: str, value: Any) -> bool:
    if key == "additionalProperties":
        return value is True
    return (key == "title" and isinstance(value, str)) or (key == "default" and value is None)


def _without_null(node: dict[str, Any], *, nulls: bool) -> dict[str, Any]:
    options = [option for option in node["anyOf"] if option != {"type": "null"}]
    if len(options) == len(node["anyOf"]) or len(options) != 1:
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    only = {key: value for key, value in options[0].items() if not _says_nothing(key, value)}
    return node if nulls else {**only, **rest}
