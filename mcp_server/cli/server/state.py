"""`state`: show what uses space in the state database, make it smaller, move it, save and restore it."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass

import anyio

from knowledge.errors import size_in_words
from knowledge.state.ports import Held, StateSize, StateStore
from mcp_server.app.factories.journey_store import journeys_in
from mcp_server.app.knowledge_base import holder_name, open_state
from mcp_server.app.retention import Passed, Retention
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.state import adopt, backup, move
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import add_actions
from mcp_server.cli.terminal.output import print_answer
from mcp_server.runs.locations import runs_in

LARGE = 200_000_000
"""A file with more bytes takes longer than a second or two to rewrite, and other processes can't write meanwhile."""
MOST_ROWS = 25
NOT_DONE = 1


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of `state compact`. `left` says what it did not do, and how to do it."""

    before: StateSize
    after: StateSize
    shortened: Passed
    rewritten: bool
    left: str = ""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = add_actions(parser, ACTIONS, default="show")
    move.arguments(actions["move"])
    backup.backup_arguments(actions["backup"])
    backup.restore_arguments(actions["restore"])
    adopt.adopt_arguments(actions["adopt"])
    actions["compact"].add_argument(
        "--rewrite",
        action="store_true",
        help="rewrite the whole file, which can take long; stop the servers first, because they can't write meanwhile",
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Show or compact; exit code 1 if something was left undone."""
    _, action = ACTIONS[args.action]
    return anyio.run(action, args, settings)


async def _show(_args: argparse.Namespace, settings: Settings) -> int:
    async with open_state(settings) as state:
        place, size, found = state.place, await state.size(), list(await state.held())
    fields = {"place": place, **asdict(size), "held": [asdict(one) for one in found]}
    print_answer(fields, _size_lines(place, size, found, settings), as_json=settings.json, ascii_only=False)
    return 0


async def _compact(args: argparse.Namespace, settings: Settings) -> int:
    done = await _compacted(settings, args.rewrite)
    print_answer(asdict(done), _compacted_lines(done), as_json=settings.json, ascii_only=False)
    return NOT_DONE if done.left else 0


def _size_lines(place: str, size: StateSize, found: list[Held], settings: Settings) -> list[str]:
    lines = [f"{visible(place)}: {size_text(size)}"]
    if not found:
        return [*lines, "Nothing recorded yet."]
    kept = "forever" if settings.retention is None else f"{settings.retention.days} days after they end"
    lines += [f"Full texts are kept for {kept} (FORGE_RETENTION).", ""]
    for one in found[:MOST_ROWS]:
        whose = f"  {visible(one.principal)}" if one.principal else ""
        lines.append(f"{size_in_words(one.size_bytes):>10}  {one.records:>8,}  {one.kind}{whose}")
    if len(found) > MOST_ROWS:
        rest = size_in_words(sum(one.size_bytes for one in found[MOST_ROWS:]))
        lines.append(f"{rest:>10}            {len(found) - MOST_ROWS} more rows; --json lists all of them")
    return lines


def size_text(size: StateSize) -> str:
    """Return the size of the state as text for people."""
    parts = [size_in_words(size.size_bytes)]
    if size.log_bytes:
        parts.append(f"a log of {size_in_words(size.log_bytes)}")
    if size.free_bytes:
        parts.append(f"{size_in_words(size.free_bytes)} of it free")
    return ", ".join(parts)


async def _compacted(settings: Settings, rewrite: bool) -> Compacted:  # noqa: FBT001 - a flag of the command line, handed on
    async with open_state(settings) as state:
        before = await state.size()
        retention = Retention(state, journeys_in(state), runs_in(state), settings.retention, holder_name(), pause_s=0.0)
        passed = await retention.once()
        left = "" if passed.ours else "another process is shortening texts; try again in a minute. "
        rewritten, why_not = await _rewritten(state, rewrite)
        while await state.give_back(spare=False):
            pass
        return Compacted(before, await state.size(), passed, rewritten, f"{left}{why_not}".strip())


async def _rewritten(state: StateStore, wanted: bool) -> tuple[bool, str]:  # noqa: FBT001 - as above
    """Rewrite the file if `wanted`, or if that takes only a moment and nothing else frees its pages.

    Return whether it was rewritten, and the reason if something was left undone.
    """
    size = await state.size()
    if not wanted and (state.gives_back or not size.free_bytes):
        return False, ""
    if not wanted and size.size_bytes > LARGE:
        return False, (
            f"{size_in_words(size.free_bytes)} stay in the file and are used again. To return them to the disk, the file must be "
            "rewritten once: stop the servers and use --rewrite"
        )
    done = await state.rewrite()
    return done, "" if done else "this database is rewritten by its own server (PostgreSQL: VACUUM FULL)"


def _compacted_lines(done: Compacted) -> list[str]:
    p = done.shortened
    lines = [
        f"Shortened {p.proposals:,} proposals, {p.journeys:,} journeys and {p.runs:,} runs: {size_in_words(p.freed_bytes)} of text.",
        f"Before: {size_text(done.before)}",
        f"After:  {size_text(done.after)}{' (rewritten)' if done.rewritten else ''}",
    ]
    return [*lines, f"Not done: {done.left}"] if done.left else lines


ACTIONS: Mapping[str, tuple[str, Callable[[argparse.Namespace, Settings], Awaitable[int]]]] = {
    "show": ("show what uses space, by kind and by who stored it (the default)", _show),
    "compact": ("shorten texts past their retention, and free space", _compact),
    "move": ("move the whole state to PostgreSQL, or back to the file", move.run),
    "backup": ("save the whole state in one file, also while servers run", backup.backup),
    "restore": ("replace the state by a saved one", backup.restore),
    "adopt": ("keep the state of a knowledge base whose folder was moved or renamed", adopt.run_adopt),
    "new": ("begin with an empty state, although the folder looks like a moved one", adopt.run_new),
}
"""The actions with their help texts."""
