"""The reference pages and the README's tables, made from the declarations. A test holds the files to this. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mcp_server.setting_variables import VARIABLES
from mcp_server.tools.registry import AnySpec

_FRONT = """---
title: {title}
summary: "{summary}"
tags: [reference, generated]
kind: reference
---

# {title}

> [!note] Generated
> This page is made from the program's declarations by `knowledge-forge reference {verb}`; edit those, not this.

"""


def tool_table(specs: Sequence[AnySpec]) -> str:
    """Return the README's table: tool, level, what it does."""
    rows = [f"| `{spec.name}({_signature(spec)})` | {int(spec.needs)} | {spec.title} |" for spec in specs]
    return "\n".join(["| tool | level | does |", "|---|---|---|", *rows])


def tools_page(specs: Sequence[AnySpec]) -> str:
    """Return `kb/reference/tools.md`."""
    front = _FRONT.format(
        title="Tools", summary="Every tool: what it is for, its arguments and its result.", verb="tools"
    )
    return front + tool_table(specs) + "\n\n" + "\n\n".join(_section(spec) for spec in specs) + "\n"


def settings_page() -> str:
    """Return `kb/reference/settings.md`."""
    front = _FRONT.format(
        title="Settings",
        summary="Every setting: environment variable, key in forge.toml, meaning, default.",
        verb="settings",
    )
    rows = [f"| `{v.name}` | `{v.key}` | {v.says} | {v.default} |" for v in VARIABLES]
    rows.append("| `FORGE_CONFIG` | | Another place for `forge.toml`. | `forge.toml` in the working directory |")
    table = "\n".join(["| variable | in `forge.toml` | meaning | default |", "|---|---|---|---|", *rows])
    rule = (
        "\n\nFlags win over the environment, the environment over the file. A path in the file is relative to the file. A value "
        "that cannot be used stops the start and is named; a `FORGE_*` variable that is not in this table is mentioned on stderr.\n"
    )
    return front + table + rule


def _section(spec: AnySpec) -> str:
    hints = {
        "read-only": spec.read_only,
        "destructive": spec.destructive,
        "idempotent": spec.idempotent,
        "open world": spec.open_world,
    }
    said = ", ".join(f"{name}: {'yes' if value else 'no'}" for name, value in hints.items())
    fields = "`, `".join(spec.output_schema.get("properties", {}))
    parts = [
        f"## {spec.name}\n\n{spec.description}",
        f"Trust level {int(spec.needs)}, toolset `{spec.toolset}`. {said[0].upper()}{said[1:]}.",
        _arguments_table(spec.input_schema),
        f"Result fields: `{fields}`.",
    ]
    return "\n\n".join(parts)


def _arguments_table(schema: dict[str, Any]) -> str:
    properties = schema.get("properties", {})
    if not properties:
        return "It takes no arguments."
    rows = [_argument_row(name, node, name in schema.get("required", [])) for name, node in properties.items()]
    return "\n".join(["| argument | type | default | meaning |", "|---|---|---|---|", *rows])


def _argument_row(name: str, node: dict[str, Any], required: bool) -> str:  # noqa: FBT001 - a row of a table
    kind = " or ".join(f"`{json.dumps(v)}`" for v in node["enum"]) if "enum" in node else node.get("type", "any")
    if node.get("properties"):
        kind = "object: " + ", ".join(f"`{key}`" for key in node["properties"])
    default = "required" if required else f"`{json.dumps(_default(node))}`" if _default(node) is not None else "none"
    limits = [f"{word} {node[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in node]
    meaning = " ".join(
        part for part in (node.get("description", ""), f"({', '.join(limits)})" if limits else "") if part
    )
    return f"| `{name}` | {kind} | {default} | {meaning} |"


def _signature(spec: AnySpec) -> str:
    schema = spec.input_schema
    required = set(schema.get("required", []))
    return ", ".join(
        name if name in required else f"{name}={_python(_default(node))}"
        for name, node in schema.get("properties", {}).items()
    )


def _default(node: dict[str, Any]) -> Any:
    """Return what an argument is when it is left out; a list is empty, which its schema does not say."""
    return node.get("default", [] if node.get("type") == "array" else None)


def _python(value: Any) -> str:
    return "{}" if isinstance(value, dict) else repr(value)
