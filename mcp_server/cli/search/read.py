"""`read PAGE`: a page, or a section of it, in a terminal."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

import anyio

from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.terminal.options import said
from mcp_server.cli.terminal.output import print_json

if TYPE_CHECKING:
    from knowledge.search.answers import PageReading


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this verb takes."""
    parser.add_argument("path", type=said, metavar="PAGE", help="the page: path, title or alias")
    parser.add_argument("--section", type=said, metavar="HEADING", help="a heading, or 'A > B'")
    parser.add_argument("--outline", action="store_true", help="only the outline of a long page")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the text as it stands in the file."""
    reading = anyio.run(_read, args, settings)
    if settings.json:
        print_json(asdict(reading))
    else:
        if args.outline:
            for line in reading.outline:
                print(
                    f"{'  ' * (line.level - 1)}{line.section.rpartition(' > ')[2]}  ({line.tokens} tokens, line {line.line})"
                )
        print(reading.text)
        if reading.next_offset is not None or reading.note:
            print(f"[{reading.note or 'the page continues; use --section to read more'}]")
    return 0


async def _read(args: argparse.Namespace, settings: Settings) -> PageReading:
    async with open_base(settings) as base:
        return await base.tiers.read(args.path, section=args.section, view="outline" if args.outline else "full")
