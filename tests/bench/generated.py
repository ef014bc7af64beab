"""`generated`: writes the files that are made from the declarations of tools and settings."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mcp_server.app.settings.reference_pages import schemas_file, settings_page, tool_table, tools_page
from mcp_server.late_module import LateName
from mcp_server.toolsets.registry import declared
from mcp_server.toolsets.spec import SCHEMAS_FILE, AnySpec

ROOT = Path(__file__).parents[2]
COMMAND = "python -m tests.bench generated"
TOOL_TABLE = re.compile(r"(<!-- tools:.*?-->\n\n?)(.*?)(\n?\n<!-- /tools -->)", re.DOTALL)


def add(programs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the program."""
    parser = programs.add_parser("generated", help="write the files that are made from the tools and settings")
    parser.set_defaults(run=run)


def run(_given: argparse.Namespace) -> int:
    """Write the files that are out of date, and print their names."""
    for name, text in contents().items():
        path = ROOT / name
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"wrote {name}")
    return 0


def contents() -> Mapping[str, str]:
    """Return what each generated file should hold, by its path below the project's root."""
    specs = [_from_classes(spec) for spec in declared()]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return {
        SCHEMAS_FILE.relative_to(ROOT).as_posix(): schemas_file(specs),
        "kb/reference/tools.md": tools_page(specs),
        "kb/reference/settings.md": settings_page(),
        "README.md": TOOL_TABLE.sub(lambda found: found[1] + tool_table(specs) + found[3], readme),
    }


def _from_classes(spec: AnySpec) -> AnySpec:
    """Return the tool with its classes loaded.

    Otherwise its schemas are those of `schemas.json`, and the pages would show the arguments from before an edit.
    """
    result = spec.result
    return replace(
        spec, arguments=spec.argument_model, result=result.load() if isinstance(result, LateName) else result
    )
