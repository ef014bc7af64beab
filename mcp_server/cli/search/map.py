"""`map [DIRECTORY]`: show the map in a terminal."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

import anyio
from rich.markup import escape
from rich.table import Table

from agents.engine.work.markdown import counted
from knowledge.pages.map_view import MapEntry
from knowledge.pages.paths import is_markdown, parent
from knowledge.search.answers import MapView
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.search.freshness import add_freshness, fresh_base, index_fields, patience
from mcp_server.cli.terminal.commands import as_commands
from mcp_server.cli.terminal.console import stdout_console
from mcp_server.cli.terminal.options import integer
from mcp_server.cli.terminal.output import print_json
from mcp_server.presenters.index_state import IndexState


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("path", nargs="?", default="", help="a directory (default: the root), a page, or '#tag'")
    parser.add_argument(
        "--depth", type=integer(1, 4), default=1, metavar="N", help="levels to show, 1 to 4 (default: 1)"
    )
    add_freshness(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the directory's title, summary and children."""
    view, state = anyio.run(_map, args, settings)
    if settings.json:
        print_json(asdict(view) | index_fields(state))
    else:
        _show(view)
    return 0


async def _map(args: argparse.Namespace, settings: Settings) -> tuple[MapView, IndexState]:
    """Return the map with all its parts: a person can scroll and does not pay for tokens."""
    async with fresh_base(settings, wait_s=patience(args)) as (base, state):
        is_tag = args.path.startswith("#")
        path = args.path if is_tag else await base.tiers.path_of_map(args.path)
        if is_tag or is_markdown(path):
            view = await base.tiers.overview(path, args.depth)
        else:
            view = await base.tiers.map(path, args.depth, indexed=state.complete)
        children = list(view.children)
        while view.next_cursor:
            view = await base.tiers.map(path, args.depth, cursor=view.next_cursor, indexed=state.complete)
            children += view.children
        is_deep = args.depth > 1 and not is_tag
        return replace(view, children=[*_as_tree(view.path, children)] if is_deep else children), state


def _as_tree(directory: str, entries: Iterable[MapEntry]) -> Iterator[MapEntry]:
    """Yield the entries below a directory, each followed by those below it. A map lists them level by level."""
    below: defaultdict[str, list[MapEntry]] = defaultdict(list)
    for entry in entries:
        below[parent(entry.path)].append(entry)
    waiting = below.pop(directory, [])[::-1]
    while waiting:
        yield (entry := waiting.pop())
        waiting += below.pop(entry.path, [])[::-1]


def _show(view: MapView) -> None:
    console = stdout_console()
    # A directory that is not indexed yet has no count.
    console.print(f"[bold]{escape(view.title)}[/]  [dim]{counted(view.count, 'page') if view.count else ''}[/]")
    console.print(escape(view.summary) + "\n")
    table = Table(box=None, show_header=False, pad_edge=False)
    for entry in view.children:
        folder = entry.kind == "directory"
        name = f"[bold blue]{escape(entry.path)}/[/]" if folder else escape(entry.path)
        pages = f"[dim]{counted(entry.count, 'page')}[/]" if folder and entry.count else ""
        table.add_row(name, pages, escape(entry.summary or entry.title))
    console.print(table)
    if view.note:
        # The terminal wraps the line itself, so that the command can be copied.
        console.print(f"[yellow]{escape(as_commands(view.note))}[/]", soft_wrap=True)
