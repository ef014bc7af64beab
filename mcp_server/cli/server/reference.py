"""`reference tools|settings|table|schemas`: prints what is made from the declarations."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from mcp_server.app.settings.settings import Settings


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this verb takes."""
    parser.add_argument(
        "page",
        metavar="PAGE",
        choices=("tools", "settings", "table", "schemas"),
        help="tools, settings, table (the README's) or schemas (the file of JSON Schemas that ships with the program)",
    )


def run(args: argparse.Namespace, _settings: Settings) -> int:
    """Print the page."""
    from mcp_server.app.settings import reference_pages as reference
    from mcp_server.toolsets.registry import declared

    pages: dict[str, Callable[[], str]] = {
        "tools": lambda: reference.tools_page(declared()),
        "settings": reference.settings_page,
        "schemas": lambda: reference.schemas_file(declared()),
        "table": lambda: reference.tool_table(declared()) + "\n",
    }
    print(pages[args.page](), end="")
    return 0
