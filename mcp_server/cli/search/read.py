"""`read PAGE`: print a page, or one of its sections."""

from __future__ import annotations

import argparse
from dataclasses import asdict

import anyio

from knowledge.pages.vault import Vault
from knowledge.search.answers import PageReading
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.search.freshness import add_freshness, fresh_base, index_fields, patience
from mcp_server.cli.terminal.options import nonempty
from mcp_server.cli.terminal.output import print_json
from mcp_server.presenters.index_state import IndexState


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("path", type=nonempty, metavar="PAGE", help="the page: path, title or alias")
    parser.add_argument("--section", type=nonempty, metavar="HEADING", help="a heading, or 'A > B'")
    parser.add_argument(
        "--outline",
        action="store_true",
        help="first the outline, then the beginning of a long page",
    )
    add_freshness(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the text as it is in the file."""
    reading, state = anyio.run(_read, args, settings)
    if settings.json:
        print_json(asdict(reading) | index_fields(state))
    else:
        if args.outline:
            for line in reading.outline:
                print(
                    f"{'  ' * (line.level - 1)}{line.section.rpartition(' > ')[2]}  ({line.tokens} tokens, line {line.line})"
                )
        print(reading.text)
        continues = "the page continues; use --section to read more" if reading.next_offset is not None else None
        if notes := [note for note in (reading.note, continues) if note]:
            print(f"[{'; '.join(notes)}]")
    return 0


async def _read(args: argparse.Namespace, settings: Settings) -> tuple[PageReading, IndexState]:
    # A page that is named by its path is read from its file. The index only knows titles, aliases and links.
    by_path = Vault.open(settings.kb).find(args.path) is not None
    async with fresh_base(settings, wait_s=0.0 if by_path else patience(args), told=not by_path) as (base, state):
        reading = await base.tiers.read(args.path, section=args.section, view="outline" if args.outline else "full")
        return reading, state
