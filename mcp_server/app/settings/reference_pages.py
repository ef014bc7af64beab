"""The reference pages and the README's tables, made from the declarations. A test holds the files to this. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mcp_server.app.settings.settings import VARIABLES
from mcp_server.toolsets.spec import AnySpec

_FRONT = """---
title: {title}
summary: "{summary}"
tags: [reference, generated]
kind: reference
---

# {title}

> [!note] Generated
> `python -m tests.bench generated` writes this page from the program's declarations. Edit those, not this.

"""


def tool_table(specs: Sequence[AnySpec]) -> str:
    """Return the README's table of tools."""
    rows = [f"| `{spec.name}({_signature(spec)})` | {int(spec.needs)} | {spec.title} |" for spec in specs]
    return "\n".join(["| tool | level | does |", "|---|---|---|", *rows])


def tools_page(specs: Sequence[AnySpec]) -> str:
    """Return `kb/reference/tools.md`."""
    front = _FRONT.format(title="Tools", summary="Every tool: what it is for, its arguments and its result.")
    return front + tool_table(specs) + "\n\n" + "\n\n".join(_section(spec) for spec in specs) + "\n"


def schemas_file(specs: Sequence[AnySpec]) -> str:
    """Return `mcp_server/toolsets/schemas.json`, which spares the server making schemas at every start."""
    return json.dumps({spec.name: spec.made_schemas() for spec in specs}, indent=1, ensure_ascii=False) + "\n"


def settings_page() -> str:
    """Return `kb/reference/settings.md`."""
    front = _FRONT.format(
        title="Settings",
        summary="Every setting: environment variable, key in forge.toml, meaning, default.",
    )
    rows = [f"| `{v.name}` | `{v.key}` | {v.says} | {v.default} |" for v in VARIABLES]
    rows.append(
        "| `FORGE_CONFIG` | | The configuration file, by its absolute path. | `forge.toml` in the user's configuration folder |"
    )
    table = "\n".join(["| variable | in `forge.toml` | meaning | default |", "|---|---|---|---|", *rows])
    rule = (
        "\n\nFlags win over the environment, the environment over the file. The user's configuration folder is "
        "`~/.config/knowledge-forge` on Linux (or below `XDG_CONFIG_HOME`), `~/Library/Application Support/knowledge-forge` on "
        "macOS and `%LOCALAPPDATA%\\knowledge-forge` on Windows; `doctor` names the file. A `forge.toml` in the working "
        "directory is not read.\n\nA path in the environment is absolute or begins with `~/`, a path in the file is relative to "
        "the file, and a path in a flag is relative to the working directory. The configuration file, and every file of keys or "
        "certificates that a setting names, must be one [that only you or root can "
        "write](../guides/security-model.md#who-controls-which-input). A value that cannot be used stops the start and is named; a "
        "`FORGE_*` variable that is not in this table is mentioned on stderr.\n"
    )
    return front + table + rule


def _section(spec: AnySpec) -> str:
    hints = {
        "read-only": spec.read_only,
        "destructive": spec.destructive,
        "idempotent": spec.idempotent,
        "open world": spec.open_world,
    }
    annotations = ", ".join(f"{name}: {'yes' if value else 'no'}" for name, value in hints.items())
    fields = "`, `".join(spec.output_schema.get("properties", {}))
    parts = [
        f"## {spec.name}\n\n{spec.description}",
        f"Trust level {int(spec.needs)}, toolset `{spec.toolset}`. {annotations[0].upper()}{annotations[1:]}.",
        _arguments_table(spec),
        f"Result fields: `{fields}`.",
    ]
    if spec.result_notes:
        parts.append("\n".join(f"- `{name}`: {note}" for name, note in spec.result_notes.items()))
    return "\n\n".join(parts)


def _arguments_table(spec: AnySpec) -> str:
    properties, required = spec.input_schema.get("properties", {}), spec.input_schema.get("required", [])
    if not properties:
        return "It takes no arguments."
    rows = [
        _argument_row(name, node, "required" if name in required else _json(_default(spec, name)))
        for name, node in properties.items()
    ]
    return "\n".join(["| argument | type | default | meaning |", "|---|---|---|---|", *rows])


def _argument_row(name: str, node: dict[str, Any], default: str) -> str:
    kind = " or ".join(f"`{json.dumps(v)}`" for v in node["enum"]) if "enum" in node else node.get("type", "any")
    if node.get("properties"):
        kind = "object: " + ", ".join(f"`{key}`" for key in node["properties"])
    limits = [f"{word} {node[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in node]
    meaning = " ".join(
        part for part in (node.get("description", ""), f"({', '.join(limits)})" if limits else "") if part
    )
    return f"| `{name}` | {kind} | {default} | {meaning} |"


def _signature(spec: AnySpec) -> str:
    """Return the arguments as they are written in a call, required ones first."""
    required = spec.input_schema.get("required", [])
    others = [name for name in spec.input_schema.get("properties", {}) if name not in required]
    return ", ".join([*required, *(f"{name}={_python(_default(spec, name))}" for name in others)])


def _default(spec: AnySpec, name: str) -> Any:
    """Return an argument's default. A list's default comes from the model: its schema can't distinguish empty from null."""
    node = spec.input_schema["properties"][name]
    if node.get("type") != "array":
        return node.get("default")
    left_out = spec.argument_model.model_fields[name].get_default(call_default_factory=True)
    return None if left_out is None else list(left_out)


def _json(value: Any) -> str:
    return "none" if value is None else f"`{json.dumps(value)}`"


def _python(value: Any) -> str:
    return "{}" if isinstance(value, dict) else repr(value)
