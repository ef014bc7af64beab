"""Draw the progress of an index update, and update before a measurement, for `index`, `search` and `eval`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp_server.app.freshness.index_update import OnProgress, bring_up_to_date, held_lease, other_process, up_to_date
from mcp_server.app.knowledge_base import KnowledgeBase
from mcp_server.cli.terminal.console import progress_bars
from mcp_server.cli.terminal.output import say


async def update_to_measure(base: KnowledgeBase, on_progress: OnProgress) -> None:
    """Index changed pages first: a person who tunes pages wants to measure their current state."""
    async with held_lease(base, wait_s=30.0, or_once=up_to_date(base), on_progress=on_progress) as lease:
        if lease is not None:
            await bring_up_to_date(base, lease)
            return
    who = await other_process(base)
    if who:
        say(f"{who} keeps the index, so it is measured as it is")


@contextmanager
def indexing_bars(*, shown: bool) -> Iterator[tuple[OnProgress, OnProgress]]:
    """Yield functions that draw the progress of indexing and of embedding on stderr, or draw nothing."""
    with progress_bars("indexing", "embedding", shown=shown) as (indexing, embedding):
        yield lambda p: indexing(p.done, p.total), lambda p: embedding(p.done, p.total)
