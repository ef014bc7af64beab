"""`index`: bring the index up to date now, with a progress bar, and report the time and work."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass

import anyio

from agents.engine.work.markdown import counted
from knowledge.cycles import look_for_cycles_rarely
from knowledge.wire.addresses import shown_address
from mcp_server.app.allocator import return_freed_memory
from mcp_server.app.freshness.index_update import (
    IndexUpdate,
    OnProgress,
    bring_up_to_date,
    held_lease,
    other_process,
    stale,
    up_to_date,
)
from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.index_coverage import coverage
from mcp_server.cli.search.index_update import indexing_bars
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.options import WronglyAsked, seconds
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.models.locations import summaries_in

STATIC = "static"
"""The setting of the embedder that costs nothing."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of a run. If it is not `ours`, another process, named `kept_by`, keeps this index, and this one changed nothing."""

    ours: bool
    documents: int
    total: int
    stale: int
    changed: int
    embedded_chunks: int
    seconds: float
    problems: tuple[str, ...]
    kept_by: str = ""
    waiting: str = ""
    """Why passages have no vectors of the configured embedder, and what to do about it."""
    map_lines: int = 0
    """The number of map lines that a language model wrote."""
    kept_vectors: int = 0
    """If passages lacked a vector of the configured embedder: those that had one. `new_vectors` are those that got one."""
    new_vectors: int = 0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "--rebuild", action="store_true", help="rebuild the index; only passages whose text changed need a new vector"
    )
    parser.add_argument(
        "--new-vectors",
        action="store_true",
        help="with --rebuild: make the vectors of all passages again, with an endpoint or a transformer after you agree",
    )
    parser.add_argument("--yes", action="store_true", help="don't ask")
    parser.add_argument(
        "--wait", type=seconds, default=30.0, metavar="SECONDS", help="how long to wait for a process that is indexing"
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Update the index.

    The exit code is 1 if the person did not agree to make all vectors again, or if another process held the lease all the time and
    the index is not in the requested state.
    """
    if args.new_vectors and not args.rebuild:
        raise WronglyAsked("--new-vectors needs --rebuild")
    look_for_cycles_rarely()
    return_freed_memory()
    if args.rebuild and not anyio.run(_agreed, args, settings):
        return 1
    with indexing_bars(shown=not settings.json) as (on_progress, on_renewal):
        report = anyio.run(_index, args, settings, on_progress, on_renewal)
    if settings.json:
        print_json(asdict(report))
    elif report.ours:
        odd = f"; {len(report.problems)} with problems (knowledge-forge doctor)" if report.problems else ""
        print(f"{counted(report.documents, 'page')}, {report.changed} changed, in {report.seconds:.2f} s{odd}")
        if args.rebuild and settings.embedder != STATIC:
            print(
                f"passages that kept their vector: {report.kept_vectors}; {_embedded(settings)}: {report.new_vectors}"
            )
        if report.waiting:
            print(report.waiting)
        if report.map_lines:
            print(f"the language model wrote {counted(report.map_lines, 'line')} of maps while a server ran")
    else:
        print(_not_ours(report, rebuild=args.rebuild))
    return 0 if report.ours or (not args.rebuild and not report.stale) else 1


async def _agreed(args: argparse.Namespace, settings: Settings) -> bool:
    """Ask before the vectors of all passages are made again, which costs money at an endpoint, and hours with a transformer."""
    if settings.embedder == STATIC:
        return True
    async with open_base(settings) as base:
        is_damaged = bool(base.index.rebuilt or await base.index.check())
        count = 0 if is_damaged else (await coverage(base.index)).chunks
    if not is_damaged and not (args.new_vectors and count):
        return True
    passages = (
        "the index is damaged and cannot keep vectors, so all passages" if is_damaged else f"all {count} passages"
    )
    say(f"{passages} will be {_embedded(settings)}")
    return await keyboard.agrees("Rebuild the index?", yes=args.yes)


def _embedded(settings: Settings) -> str:
    if settings.embedder.startswith("endpoint:"):
        return f"sent to {shown_address(settings.embedder_url or '')}"
    return f"embedded by {settings.embedder}"


def _not_ours(report: IndexReport, *, rebuild: bool) -> str:
    keeps = f"another process keeps this index ({report.kept_by or 'it has just ended'})"
    if rebuild:
        return f"{keeps}, so it was not rebuilt: stop that server, or wait with --wait SECONDS"
    if report.stale:
        return f"{keeps}: {report.documents} pages are in it, {report.stale} are stale or missing"
    return f"{keeps}: all {report.documents} pages in it are up to date"


async def _index(
    args: argparse.Namespace, settings: Settings, on_progress: OnProgress, on_renewal: OnProgress
) -> IndexReport:
    async with (
        open_base(settings, on_progress=on_progress, on_renewal=on_renewal) as base,
        held_lease(
            base, wait_s=args.wait, or_once=None if args.rebuild else up_to_date(base), on_progress=on_progress
        ) as lease,
    ):
        started = time.perf_counter()
        done = IndexUpdate()
        if lease is not None:
            done = await bring_up_to_date(base, lease, rebuild=args.rebuild, new_vectors=args.new_vectors, vectors=True)
        spent = time.perf_counter() - started
        progress = await base.index.progress()
        return IndexReport(
            ours=lease is not None,
            documents=progress.done,
            total=progress.total,
            stale=0 if lease else await stale(base),
            changed=done.changed,
            embedded_chunks=done.embedded,
            seconds=round(spent, 3),
            problems=tuple(f"{p.path}: {p.reason}" for p in base.indexer.problems),
            kept_by="" if lease else await other_process(base),
            waiting=done.waiting,
            map_lines=await summaries_in(base.state).count(),
            kept_vectors=done.kept,
            new_vectors=done.made,
        )
