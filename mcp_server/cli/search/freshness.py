"""Bring the index up to date before an answer from it, within a limit, or say how much it lacks. For `search`, `read` and `map`."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict

from agents.engine.work.markdown import counted
from mcp_server.app.freshness.fresh_index import freshened as brought_up_to_date
from mcp_server.app.freshness.index_update import OnProgress
from mcp_server.app.knowledge_base import KnowledgeBase, open_base
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.search.index_update import indexing_bars
from mcp_server.cli.terminal.commands import command
from mcp_server.cli.terminal.options import seconds
from mcp_server.cli.terminal.output import say
from mcp_server.presenters.index_state import IndexState

WAIT_S = 10.0
"""The longest that a question waits for the index, by default: 5,000 new pages are indexed in this time."""


def remarks(state: IndexState) -> Sequence[str]:
    """Return what a person should know about the index, in sentences; none if it has everything."""
    lacks = [] if state.complete else [f"{state.lacks} ({state.why}); `{state.finish}` completes it"]
    left_out = f"{counted(state.left_out, 'page')} can't be indexed; `{command('doctor')}` says why"
    return [*lacks, left_out] if state.left_out else lacks


def add_freshness(parser: argparse.ArgumentParser, *, wait_s: float = WAIT_S) -> None:
    """Add the options that limit how long a verb waits for the index."""
    parser.add_argument(
        "--wait",
        type=seconds,
        default=wait_s,
        metavar="SECONDS",
        help=f"how long to wait while changed pages are indexed (default: {wait_s:g})",
    )
    parser.add_argument("--no-index", action="store_true", help="don't index and don't wait, only say what is missing")


def patience(args: argparse.Namespace) -> float:
    """Return the number of seconds that these options allow for waiting."""
    return 0.0 if args.no_index else float(args.wait)


@asynccontextmanager
async def fresh_base(
    settings: Settings, *, wait_s: float, by_words: bool = False, told: bool = True
) -> AsyncIterator[tuple[KnowledgeBase, IndexState]]:
    """Yield the knowledge base, its index brought up to date as far as `wait_s` allows, and what the index still lacks.

    `by_words`: the index of words is needed, too. At a terminal a bar on stderr shows the progress. With `told`,
    missing pages are reported on stderr at once, because they may be the cause of an error that follows.
    """
    with indexing_bars(shown=not settings.json) as (on_progress, _):
        async with open_base(settings, on_progress=on_progress) as base:
            state = await freshened(base, wait_s, by_words=by_words, on_progress=on_progress)
            if told and not settings.json:
                for sentence in remarks(state):
                    say(f"knowledge-forge: {sentence}")
            yield base, state


def index_fields(state: IndexState) -> dict[str, object]:
    """Return the state as a field of a JSON answer."""
    return {"index": asdict(state)}


async def freshened(
    base: KnowledgeBase, wait_s: float, *, by_words: bool, on_progress: OnProgress = lambda _: None
) -> IndexState:
    """Bring the index up to date as far as `wait_s` allows, and return what it still lacks and how to complete it."""
    return await brought_up_to_date(base, wait_s, by_words=by_words, finish=command("index"), on_progress=on_progress)
