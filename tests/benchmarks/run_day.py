"""The cost of summing all runs of the last 24 hours: `python -m tests.benchmarks.run_day [postgresql://...]`.

Ten thousand runs are recorded, begun evenly over a hundred days, each with some thousand characters of messages and
tool results. Of the hundred begun the day before, every fifth waited for a person and continues now.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any

import anyio

from agents.loop.record.run import begun
from agents.loop.store.ports import RunStore
from mcp_server.app.knowledge_base import utc_now
from mcp_server.runs.locations import runs_in
from tests.support.runs.records import SECOND, Walk, header, hold
from tests.support.state.ledgers import DAY, NOW, open_shared

RUNS, DAYS, TIMES, WAITED = 10_000, 100, 100, 5
CHARACTERS = "what is known already, " * 200


@dataclass
class At(Walk):
    """A run whose frames are made from that time on."""

    since: datetime = NOW

    def place(self, iteration: int | None = None) -> dict[str, Any]:
        return {**super().place(iteration), "at": self.since + self.run.count * SECOND}


async def fill(runs: RunStore, now: datetime) -> None:
    """Record the runs, oldest first."""
    for number in range(RUNS):
        at = now - (RUNS - number) * DAYS * DAY / RUNS
        walk = At(begun(header(f"r-{number}", begun_at=at, context=CHARACTERS)), since=at)
        walk.call("kb_read", said="There it is.", path="guides/deploy.md")
        walk.result(CHARACTERS)
        walk.ask()
        if at > now - DAY or at < now - 2 * DAY or number % WAITED:
            walk.answer()
        else:
            walk.since = now - timedelta(minutes=1)
            walk.answer()
        walk.respond()
        there = await runs.begin(walk.run.header, hold(at=at))
        await runs.append(there, walk.run.frames, hold(at=at))


async def milliseconds(runs: RunStore, since: datetime) -> tuple[float, int]:
    """Return the median of this many queries, and how many runs were summed."""
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        found = await runs.total(since=since)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took), found.runs


async def measure(where: str) -> None:
    """Print it."""
    state = await open_shared(where, f"day_{token_hex(4)}")
    try:
        runs, now = runs_in(state), utc_now()
        await fill(runs, now)
        for days in (1, DAYS + 1):
            told, summed = await milliseconds(runs, now - days * DAY)
            print(f"{where.partition(':')[0]}: {told:.2f} ms for {summed:,} of {RUNS:,} runs")
    finally:
        await state.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, sys.argv[1] if sys.argv[1:] else folder)
