"""JSON Schemas of a team's agents: draft 2020-12, without keywords that fetch or can hang, and with typos reported. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from agents.engine.events import Json, canonical
from agents.engine.graph import reachable
from agents.spec.problems import Problems, meant, short
from agents.spec.schema.schema_errors import JUST_NULL, LOCATOR, NULL, OWN_WORDS, TEXT, VISIBLE, schema_problems
from agents.spec.yaml.field_path import narrowing
from agents.spec.yaml.values import Marked

DRAFT = "https://json-schema.org/draft/2020-12/schema"
# The keywords by what they hold: one schema, schemas by name, a list of schemas, or no schema at all.
ONE = (
    "items",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "additionalProperties",
    "unevaluatedProperties",
)
NAMED = ("properties", "$defs", "dependentSchemas")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
PLAIN = (
    *("$schema", "$ref", "$comment", "title", "description", "default", "examples", "type", "enum", "const", "format"),
    *("required", "dependentRequired", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
    *("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minProperties", "maxProperties"),
)
KEYWORDS = (*PLAIN, *ONE, *NAMED, *LISTED)
REFUSED = {
    "pattern": "a pattern can take forever on some texts; use enum, minLength, maxLength or a description",
    "patternProperties": "a pattern can take forever on some texts; name the properties",
}
SAYING_ONLY = frozenset({"$comment", "title", "description", "default", "examples", NULL})
"""Keywords that demand nothing of a value."""
HERE = "#/$defs/"
MOST_NODES = 3_000
"""The most parts of a schema after its references are filled in."""
MOST_LEVELS = 60
"""The deepest nesting of a schema after its references are filled in: as deep as work may be, and well below Python's
recursion limit."""
ASKS = "x-asks"
USUAL_TEXT_CHARS = 8_000
USUAL_ITEMS = 500
QUOTED: Mapping[str, Json] = {
    "type": "object",
    "description": "Words copied exactly from the knowledge base.",
    "properties": {
        "path": {"type": "string", "minLength": 1, "maxLength": 1_000},
        "section": {
            "type": "string",
            "maxLength": 1_000,
            "description": "Heading, or 'A > B'; '' before the first.",
        },
        "quote": {"type": "string", "minLength": 1, "maxLength": 2_000, "description": "Copied, not reworded."},
    },
    "required": ["path", "section", "quote"],
}
ID: Mapping[str, Json] = {"type": "string", "minLength": 1, "maxLength": 60}
LINE: Mapping[str, Json] = {"type": "string", "minLength": 1, "maxLength": 600, TEXT: VISIBLE}
STANDARD: Mapping[str, Json] = {"quoted": QUOTED, "id": ID, "line": LINE}
"""The definitions that every schema can refer to by `$ref: "#/$defs/NAME"`, unless it has its own of that name."""


class _TooLarge(Exception):
    """References multiply each other, or form too long a chain."""


def read_schema(marked: Marked, what: str, problems: Problems, *, file: str = "") -> dict[str, Json] | None:
    """Return the schema of an object with its references filled in; None if it cannot be used, with the reasons noted."""
    before = len(problems)
    if not isinstance(marked.value, dict):
        problems.add(marked.line, f"{what} must be a JSON Schema, not {marked.kind}", file)
        return None
    _keywords(marked, what, problems, file)
    if len(problems) > before:
        return None
    _against_draft(marked, what, problems, file)
    _references(marked, what, problems, file)
    if len(problems) > before:
        return None
    plain = marked.plain()
    if plain.setdefault("type", "object") != "object":
        problems.add(marked.line_at(["type"]), f"{what} must be of the type object", file)
        return None
    try:
        inlined = _Inlining({**STANDARD, **plain.get("$defs", {})}).inlined(plain)
    except _TooLarge:
        bounds = f"more than {MOST_NODES} parts, or more than {MOST_LEVELS} levels"
        problems.add(marked.line, f"{what} is too large: its references expand to {bounds}", file)
        return None
    return {key: value for key, value in inlined.items() if key not in ("$defs", "$schema")}


def _keywords(marked: Marked, what: str, problems: Problems, file: str) -> None:
    """Report every keyword that JSON Schema does not have: a validator would silently ignore it."""
    for key, inside in marked.entries.items():
        line = marked.key_lines[key]
        if key in REFUSED:
            problems.add(line, f"{what} uses {key!r}, which is not supported: {REFUSED[key]}", file)
        # JSON Schema leaves names with x- to extensions, ours among them.
        elif key not in KEYWORDS and not key.startswith("x-"):
            problems.add(line, f"{what} has the unknown keyword {short(key)}{meant(key, KEYWORDS, otherwise='')}", file)
        elif key in OWN_WORDS and not _fits_own(key, inside.value):
            problems.add(line, f"{what}: {key!r} must be {OWN_WORDS[key]}", file)
        elif key in NAMED:
            for name in inside.entries:
                if name.startswith("$"):
                    problems.add(
                        inside.key_lines[name],
                        f"{what} has the name {short(name)} in {key!r}: names can't begin with $",
                        file,
                    )
    for part in _parts(marked):
        _keywords(part, what, problems, file)


def _fits_own(key: str, value: object) -> bool:
    """Return whether a keyword of our own has a value that it can take."""
    if key == TEXT:
        return value in (VISIBLE, LOCATOR)
    return isinstance(value, bool if key == NULL else str)


def _parts(marked: Marked, *, without: str = "") -> Iterator[Marked]:
    """Yield the schemas directly inside a schema. A property named like a keyword is not taken for one."""
    for key, inside in marked.entries.items():
        if key == without:
            continue
        if key in NAMED:
            yield from inside.entries.values()
        elif key in LISTED:
            yield from inside.items
        elif key in ONE:
            yield inside


def _against_draft(marked: Marked, what: str, problems: Problems, file: str) -> None:
    """Report every violation of the draft's own schema."""
    from jsonschema import Draft202012Validator

    plain = marked.plain()
    if plain.get("$schema", DRAFT) != DRAFT:
        problems.add(marked.line_at(["$schema"]), f"{what} uses another draft than {DRAFT}", file)
    rules = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    for error in sorted(rules.iter_errors(plain), key=lambda e: [str(part) for part in e.absolute_path]):
        line = marked.line_at(list(error.absolute_path))
        for text in schema_problems(error, plain):
            problems.add(line, f"{what} is not a valid JSON Schema: {text}", file)


def _references(marked: Marked, what: str, problems: Problems, file: str) -> None:
    known = {*STANDARD, *marked.entries.get("$defs", Marked({}, 0)).entries}
    leads: dict[str, set[str]] = {name: set() for name in known}
    definitions = marked.entries.get("$defs", Marked({}, 0)).entries
    for name, part in [("", marked), *definitions.items()]:
        for target, line in _refs(part):
            bare = target.removeprefix(HERE)
            if not target.startswith(HERE) or bare not in known:
                hint = f"; there are {', '.join(HERE + other for other in sorted(known))}"
                problems.add(line, f"{what} refers to {short(target)}, which it does not define{hint}", file)
            elif name:
                leads[name].add(bare)
    for name in definitions:
        if name in reachable(leads[name], leads):
            problems.add(definitions[name].line, f"{what} defines {short(name)} in terms of itself", file)


def _refs(marked: Marked) -> Iterator[tuple[str, int]]:
    """Yield the references in a schema, without those in its definitions."""
    own = marked.entries.get("$ref")
    if own is not None and isinstance(own.value, str):
        yield own.value, own.line
    for part in _parts(marked, without="$defs"):
        yield from _refs(part)


class _Inlining:
    """Replaces references by the schemas that they lead to, and counts the parts of the result."""

    def __init__(self, definitions: Mapping[str, Json]) -> None:
        self._definitions, self._parts, self._level = definitions, 0, 0

    def inlined(self, node: Json) -> Any:
        """Return the schema without references."""
        self._parts += 1
        if self._parts > MOST_NODES or self._level > MOST_LEVELS:
            raise _TooLarge
        if not isinstance(node, dict):
            return node
        self._level += 1
        found = {key: self._at(key, value) for key, value in node.items() if key not in ("$defs", "$ref")}
        target = self.inlined(self._definitions[node["$ref"].removeprefix(HERE)]) if "$ref" in node else None
        self._level -= 1
        if "$ref" not in node:
            return found
        # Beside a reference, demands of both schemas hold. Only if one of them demands nothing can they be merged by key.
        if isinstance(target, dict) and set(found) <= SAYING_ONLY:
            return {**target, **found}
        return {**found, "allOf": [*found.get("allOf", []), target]}

    def _at(self, key: str, value: Json) -> Json:
        if key in ONE:
            return self.inlined(value)
        if key in NAMED:
            return {name: self.inlined(part) for name, part in value.items()}
        return [self.inlined(part) for part in value] if key in LISTED else value


def shown(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return the schema as a model gets it, without our own keywords, which no model knows."""
    return cast("dict[str, Json]", _without_own(schema))


def _without_own(node: Json, *, named: bool = False) -> Json:
    """`named`: the keys of the node are names of fields, which may look like our keywords."""
    if isinstance(node, list):
        return [_without_own(part) for part in node]
    if not isinstance(node, Mapping):
        return node
    kept = {key: part for key, part in node.items() if named or key not in OWN_WORDS}
    return {key: _without_own(part, named=key in NAMED and not named) for key, part in kept.items()}


def hardened(schema: Mapping[str, Json], most_items: int = USUAL_ITEMS) -> dict[str, Json]:
    """Return the schema that work is checked against: unknown fields are refused, and texts and lists have a limit.

    An author's own rule about either wins.
    """
    return cast("dict[str, Json]", _hard(dict(schema), most_items, closed=True))


def _hard(node: Json, most: int, *, closed: bool) -> Json:
    """`closed`: no other schema describes the same object, so a field that this one does not name is unknown."""
    if not isinstance(node, dict):
        return node
    found = dict(node)
    # `not`, `if` and `contains` stay as they are: a limit inside them would change which works they select.
    for key in ("properties", "dependentSchemas"):
        if isinstance(found.get(key), dict):
            found[key] = {name: _hard(part, most, closed=key == "properties") for name, part in found[key].items()}
    for key in LISTED:
        if isinstance(found.get(key), list):
            found[key] = [_hard(part, most, closed=key == "prefixItems") for part in found[key]]
    if "items" in found:
        found["items"] = _hard(found["items"], most, closed=True)
    kinds = found.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "string" in kinds and not {"enum", "const"} & set(found):
        found.setdefault("maxLength", USUAL_TEXT_CHARS)
    if "array" in kinds:
        found.setdefault("maxItems", most)
    # With one of these, other fields than those in `properties` may be described as well.
    says = {"additionalProperties", "unevaluatedProperties", "anyOf", "oneOf", "allOf", "if", "dependentSchemas"}
    if closed and "properties" in found and not says & set(found):
        found["additionalProperties"] = False
    return {"anyOf": [found, JUST_NULL]} if found.pop(NULL, False) else found


def described(schema: Mapping[str, Json], parts: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """Return the first part of a path that the schema lacks, and the names it has there; None if the path may exist.

    Where a schema allows unknown fields, any path may exist.
    """
    here: Json = schema
    for part in parts:
        while isinstance(here, dict) and "items" in here and "properties" not in here:
            here = here["items"]
        known = here.get("properties") if isinstance(here, dict) else None
        if not isinstance(known, dict) or set(here) & {"anyOf", "oneOf", "allOf", "if", "dependentSchemas"}:
            return (part, ()) if _closed_scalar(here) else None
        kept = narrowing(part)
        name = kept.field if kept else part
        if name not in known:
            return None if here.get("additionalProperties") not in (None, False) else (name, list(known))
        if kept is None:
            here = known[name]
        elif (values := _values(known[name])) and kept.value not in values:
            return kept.value, values
    return None


def _values(node: Json) -> list[str]:
    """Return the values that the field may have, as a path writes them; none if they are not listed."""
    if not isinstance(node, dict) or not isinstance(node.get("enum"), list):
        return []
    return [value if isinstance(value, str) else canonical(value) for value in node["enum"]]


def _closed_scalar(node: Json) -> bool:
    """Return whether the value can't have parts."""
    return isinstance(node, dict) and node.get("type") in ("string", "number", "integer", "boolean", "null")
