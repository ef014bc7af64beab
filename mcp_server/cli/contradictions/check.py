"""`check [PATH]`: find contradictions between existing pages, and list the open ones."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import anyio

from agents.engine.work.markdown import counted
from knowledge.contradictions.record import disagreement
from knowledge.contradictions.sweep import SweepReport
from knowledge.history.ports import Flag
from knowledge.pages.paths import clean_path
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.contradictions.contradictions import MOST_LISTED, as_json
from mcp_server.cli.contradictions.view import list_lines
from mcp_server.cli.search.index_update import bring_up_to_date, held_lease
from mcp_server.cli.terminal.console import progress_bars
from mcp_server.cli.terminal.options import integer
from mcp_server.cli.terminal.output import print_json, say

OPEN = 1


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("path", nargs="?", default="", metavar="PATH", help="a page or directory (default: all pages)")
    parser.add_argument(
        "--limit", metavar="N", type=integer(1, MOST_LISTED), default=20, help="maximum number to list (default 20)"
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Check, and list the open contradictions there, the most certain first; exit code 1 if there are any."""
    report, found, more_found = anyio.run(_check, args, settings)
    if settings.json:
        listed = [as_json(disagreement(flag)) for flag in found]
        print_json(
            {"pages": report.pages, "skipped": report.skipped, "new": len(report.found), "contradictions": listed}
        )
        return OPEN if found else 0
    for line in list_lines(found):
        print(line)
    for path in report.skipped:
        say(f"{path} could not be checked")
    print(f"checked {counted(report.pages, 'page')}, found {counted(len(report.found), 'new contradiction')}")
    if found:
        more = f"these are the first {args.limit}, --limit shows more; " if more_found else ""
        print(f"{more}to settle one: knowledge-forge contradictions show ID")
    return OPEN if found else 0


async def _check(args: argparse.Namespace, settings: Settings) -> tuple[SweepReport, Sequence[Flag], bool]:
    place = clean_path(args.path) if args.path else ""
    async with opened_app(settings) as app:
        async with held_lease(app.base) as lease:
            if lease is None:
                say("another process is indexing; contradictions of pages that are not indexed yet may be missed")
            else:
                await bring_up_to_date(app.base, lease)
        with progress_bars("comparing pages", shown=not settings.json) as (on_page,):
            report = await app.services.load_writing().sweep.check(place, on_page=on_page)
        found, cursor = await app.services.contradictions.flags(place, limit=args.limit, cursor=None)
    return report, found, cursor is not None
