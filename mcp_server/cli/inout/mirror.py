"""`mirror`: keep a folder of pages that are in the database, and write edits in it back to the database, for people with editors."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import anyio

from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.settings import DATABASE, Settings
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import print_json, say

NOT_ALL = 1


@dataclass(frozen=True, slots=True)
class Mirrored:
    """One round: the edits taken, those that could not be taken and why, and the files that the folder lacks and why."""

    taken: Sequence[str]
    failed: Mapping[str, str]
    lacking: Mapping[str, str]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("--once", action="store_true", help="exchange changes once, and end")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Mirror until interrupted, or once; with `--once`, exit code 1 if something could not be exchanged.

    Raises:
        WronglyAsked: pages are in a folder, or --json without --once.
    """
    if settings.pages != DATABASE:
        raise WronglyAsked(
            f"the pages are in the folder {settings.kb} already; mirror keeps a folder of pages that are in a database (FORGE_PAGES)"
        )
    if not args.once:
        if settings.json:
            raise WronglyAsked("--json belongs to --once")
        with suppress(KeyboardInterrupt):
            anyio.run(_mirror, settings)
        return 0
    done = anyio.run(_once, settings)
    if settings.json:
        print_json({"taken": list(done.taken), "failed": dict(done.failed), "lacking": dict(done.lacking)})
    else:
        for path in done.taken:
            print(f"taken: {visible(path)}")
        for path, why in {**done.failed, **done.lacking}.items():
            print(f"not exchanged: {visible(path)}: {visible(why)}")
        say(
            "some files could not be exchanged"
            if done.failed or done.lacking
            else f"{settings.kb} and the database have the same files"
        )
    return NOT_ALL if done.failed or done.lacking else 0


async def _once(settings: Settings) -> Mirrored:
    # Loaded only for this verb.
    from mcp_server.app.freshness.copy_update import edits_in

    async with open_base(settings, mirror=True) as base:
        if base.copy is None:
            raise TypeError("pages in the database always have a copy")
        edits = edits_in(base, base.copy)
        taken = await edits.take()
        return Mirrored(taken, edits.failed, base.copy.troubles)


async def _mirror(settings: Settings) -> None:
    from mcp_server.app.freshness.copy_update import keep_copy

    async with open_base(settings, mirror=True) as base, anyio.create_task_group() as tasks:
        say(f"mirroring the database in {settings.kb}; edit there with any program; Ctrl-C ends the mirror")
        tasks.start_soon(keep_copy, base, _tell)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                tasks.cancel_scope.cancel()
                return


def _tell(path: str) -> None:
    print(f"taken: {visible(path)}", flush=True)
