"""The form of a work that a JSON Schema describes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from agents.events import Json
from agents.team.misfitting import told
from agents.team.schema import hardened
from agents.work import DROP, cut
from knowledge.lean_schema import lean_input

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_DROP_SCHEMA: Mapping[str, Json] = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 60},
    "description": "Ids of recorded items to remove.",
}


@dataclass(frozen=True)
class SchemaForm:
    """A form by a JSON Schema, whose references are filled in. `asks` are the fields that belong to one submit only."""

    described: Mapping[str, Json]
    asks: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def schema(self) -> Mapping[str, Json]:
        """Return it lean; where lists are joined by id, with the way to remove an item."""
        whole = dict(self.described)
        if any(joins(part) for part in whole.get("properties", {}).values()):
            whole["properties"] = {**whole["properties"], DROP: _DROP_SCHEMA}
        return lean_input(whole)

    @cached_property
    def _validator(self) -> Draft202012Validator:
        from jsonschema import Draft202012Validator

        properties = {**self.described.get("properties", {}), DROP: _DROP_SCHEMA}
        return Draft202012Validator(hardened({**self.described, "properties": properties}))

    def problems(self, work: Json) -> Sequence[str]:
        """Return a short sentence for each wrong field."""
        errors = sorted(self._validator.iter_errors(work), key=lambda error: [str(p) for p in error.absolute_path])
        return cut(tuple(dict.fromkeys(text for error in errors for text in told(error, work))))


def joins(schema: Json) -> bool:
    """Return whether this is a list whose items are joined by their id."""
    items = schema.get("items") if isinstance(schema, dict) else None
    return isinstance(items, dict) and "id" in items.get("properties", {})
