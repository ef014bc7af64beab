"""`index`: brings the index up to date now, with progress, and says what it cost."""

from __future__ import annotations

import argparse
import sys
import time

import anyio

from mcp_server.cli.terminal import print_json
from mcp_server.settings import Settings


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this verb takes."""
    parser.add_argument("--rebuild", action="store_true", help="forget the index and build it anew")
    parser.add_argument("--wait", type=float, default=30.0, metavar="SECONDS", help="how long to wait for another process that is indexing")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Index; exit code 1 when another process kept the lease all the time."""
    outcome = anyio.run(_index, args, settings)
    if settings.json:
        print_json(outcome)
    elif outcome["indexed_by"] == "another process":
        print(f"another process keeps this index up to date: {outcome['documents']} of {outcome['total']} pages are in it")
    else:
        print(
            f"{outcome['documents']} pages, {outcome['changed']} changed, in {outcome['seconds']:.2f} s"
            + (f"; {len(outcome['problems'])} with problems (knowledge-forge doctor)" if outcome["problems"] else "")
        )
    return 0 if outcome["complete"] else 1


async def _index(args: argparse.Namespace, settings: Settings) -> dict[str, object]:
    from mcp_server.app import indexing_service, open_base

    async with open_base(settings) as base:
        if args.rebuild:
            await base.forget_index()
        started = time.perf_counter()
        report = await indexing_service(base).once(wait_s=args.wait, on_progress=_show_progress if sys.stderr.isatty() else None)
        return await _outcome(base, report, time.perf_counter() - started)
