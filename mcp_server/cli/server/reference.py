"""`reference tools|settings|table|schemas`: print the reference pages and the schemas that are made from the declarations."""

from __future__ import annotations

import argparse

from mcp_server.app.settings import reference_pages as reference
from mcp_server.app.settings.settings import Settings
from mcp_server.toolsets.registry import declared


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "page",
        metavar="PAGE",
        choices=("tools", "settings", "table", "schemas"),
        help="tools, settings, table (the README's), or schemas (the tools' JSON schemas, which ship with the program)",
    )


def run(args: argparse.Namespace, _settings: Settings) -> int:
    """Print the page."""
    match args.page:
        case "tools":
            text = reference.tools_page(declared())
        case "settings":
            text = reference.settings_page()
        case "schemas":
            text = reference.schemas_file(declared())
        case _:
            text = reference.tool_table(declared()) + "\n"
    print(text, end="")
    return 0
