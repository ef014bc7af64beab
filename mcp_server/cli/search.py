"""`search QUESTION`: the same search as the tool's, in a terminal."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

import anyio

from mcp_server.cli.terminal import print_json
from mcp_server.settings import Settings

if TYPE_CHECKING:
    from knowledge.find.search import SearchAnswer


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this verb takes."""
    parser.add_argument("query", nargs="+", help="the question or key words")
    parser.add_argument("--path", default="", help="only in this directory or page")
    parser.add_argument("--limit", type=int, default=8)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the hits, best first; exit code 1 when there are none."""
    answer = anyio.run(_search, args, settings)
    if settings.json:
        print_json(asdict(answer))
    else:
        _show(answer)
    return 0 if answer.hits else 1


async def _search(args: argparse.Namespace, settings: Settings) -> SearchAnswer:
    from mcp_server.app import open_base

    async with open_base(settings) as base:
        return await base.finder.search(" ".join(args.query), path=args.path, limit=args.limit)


def _show(answer: SearchAnswer) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding

    console = Console()
    for hit in answer.hits:
        where = escape(hit.path) + (f" [dim]>[/] {escape(hit.section)}" if hit.section else "")
        console.print(f"[bold]{where}[/] [dim]:{hit.line_start}  {hit.score:.2f}[/]")
        console.print(Padding(escape(hit.snippet), (0, 0, 1, 2)))
    console.print(f"[dim]{answer.scent.level}: {escape(answer.scent.reason)}. Next: {escape(answer.scent.next)}[/]")
    if answer.indexed.done < answer.indexed.total or not answer.indexed.total:
        console.print(
            f"[yellow]indexed {answer.indexed.done} of {answer.indexed.total or '?'} pages; `knowledge-forge index` completes it[/]"
        )
