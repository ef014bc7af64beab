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
from mcp_server.cli.search.freshness import add_freshness, freshened, index_fields, patience, remarks
from mcp_server.cli.terminal.console import progress_bars
from mcp_server.cli.terminal.options import integer
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.presenters.index_state import IndexState

OPEN = INCOMPLETE = 1
WAIT_S = 600.0
"""The longest time for bringing the index up to date first. It is long, because comparing all pages takes minutes as well."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("path", nargs="?", default="", metavar="PATH", help="a page or directory (default: all pages)")
    parser.add_argument(
        "--limit", metavar="N", type=integer(1, MOST_LISTED), default=20, help="maximum number to list (default 20)"
    )
    add_freshness(parser, wait_s=WAIT_S)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Check pages, and list their open contradictions, the most certain first; exit code 1 if any is open or pages are missing."""
    report, found, more_found, state = anyio.run(_check, args, settings)
    if settings.json:
        listed = [as_json(disagreement(flag)) for flag in found]
        counts = {
            "pages": report.pages,
            "skipped": report.skipped,
            "excluded": report.excluded,
            "new": len(report.found),
        }
        print_json({**counts, "contradictions": listed, **index_fields(state)})
        return _code(found, state)
    for line in list_lines(found):
        print(line)
    for path in report.skipped:
        say(f"{path} could not be checked")
    if report.excluded:
        say(
            f"{counted(report.excluded, 'page')} left out: templates, or named by exclude in an _index.md or FORGE_EXCLUDE"
        )
    print(f"checked {counted(report.pages, 'page')}, found {counted(len(report.found), 'new contradiction')}")
    if found:
        more = f"these are the first {args.limit}, --limit shows more; " if more_found else ""
        print(f"{more}to settle one: knowledge-forge contradictions show ID")
    for remark in remarks(state):
        say(f"knowledge-forge: {remark}")
    if not state.complete:
        print("contradictions with the missing pages may exist: this is no verdict on all pages")
    return _code(found, state)


def _code(found: Sequence[Flag], state: IndexState) -> int:
    return OPEN if found else 0 if state.complete else INCOMPLETE


async def _check(args: argparse.Namespace, settings: Settings) -> tuple[SweepReport, Sequence[Flag], bool, IndexState]:
    place = clean_path(args.path) if args.path else ""
    async with opened_app(settings) as app:
        state = await freshened(app.base, patience(args), by_words=True)
        with progress_bars("comparing pages", shown=not settings.json) as (on_page,):
            report = await app.services.load_writing().sweep.check(place, on_page=on_page)
        found, cursor = await app.services.contradictions.flags(place, limit=args.limit, cursor=None)
    return report, found, cursor is not None, state
