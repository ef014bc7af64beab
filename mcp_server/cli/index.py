"""`index`: brings the index up to date now, with progress, and says what it cost."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import anyio

from mcp_server.cli.terminal import print_json
from mcp_server.settings import Settings

if TYPE_CHECKING:
    from knowledge.storage.ports import Lease, Progress
    from mcp_server.app import KnowledgeBase

RENEW_S = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did. Not `ours`: another process keeps this index, and we only looked."""

    ours: bool
    documents: int
    total: int
    changed: int
    embedded_chunks: int
    seconds: float
    problems: tuple[str, ...]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this verb takes."""
    parser.add_argument("--rebuild", action="store_true", help="forget the index and build it anew")
    parser.add_argument(
        "--wait", type=float, default=30.0, metavar="SECONDS", help="how long to wait for a process that is indexing"
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Index; exit code 1 when another process has the lease all the time and is not done."""
    with _bar(shown=sys.stderr.isatty() and not settings.json) as on_progress:
        report = anyio.run(_index, args, settings, on_progress)
    if settings.json:
        print_json(asdict(report))
    elif report.ours:
        odd = f"; {len(report.problems)} with problems (knowledge-forge doctor)" if report.problems else ""
        print(f"{report.documents} pages, {report.changed} changed, in {report.seconds:.2f} s{odd}")
    else:
        print(f"another process keeps this index: {report.documents} of {report.total} pages are in it")
    return 0 if report.ours or report.documents >= report.total > 0 else 1


async def _index(args: argparse.Namespace, settings: Settings, on_progress: Callable[[Progress], None]) -> Report:
    from mcp_server.app import open_base

    async with open_base(settings, on_progress=on_progress) as base, _lease(base, args.wait) as lease:
        started = time.perf_counter()
        changed, embedded = 0, 0
        if lease is not None:
            if args.rebuild:
                await base.index.rebuild("asked for")
            await base.index.begin(base.identity)
            outcomes = await base.indexer.reconcile(lease.fence)
            await base.indexer.catch_up()
            changed, embedded = len(outcomes.changed), outcomes.embedded
        progress = await base.index.progress()
        problems = tuple(f"{p.path}: {p.reason}" for p in base.indexer.problems)
        spent = time.perf_counter() - started
        return Report(lease is not None, progress.done, progress.total, changed, embedded, spent, problems)


@asynccontextmanager
async def _lease(base: KnowledgeBase, wait_s: float) -> AsyncIterator[Lease | None]:
    """Hold the indexing lease; None if another process held it for `wait_s`."""
    from knowledge.index.watch import LEASE, TTL_S
    from mcp_server.app import holder_name, utc_now

    holder = holder_name()

    async def ask() -> Lease | None:
        return await base.state.acquire_lease(LEASE, holder, now=utc_now(), ttl_s=TTL_S)

    async def renew() -> None:
        while True:
            await anyio.sleep(RENEW_S)
            await ask()

    lease = await ask()
    with anyio.move_on_after(wait_s):
        while lease is None:
            await anyio.sleep(0.2)
            lease = await ask()
    if lease is None:
        yield None
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(renew)
        try:
            yield lease
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await base.state.release_lease(LEASE, holder)


@contextmanager
def _bar(*, shown: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield what draws a progress bar on stderr, or nothing where nobody looks."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("indexing", total=None)
        yield lambda progress: bar.update(task, completed=progress.done, total=progress.total)
