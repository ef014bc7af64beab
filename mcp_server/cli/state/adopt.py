"""`state adopt` and `state new`: decide which state belongs to a knowledge base whose folder was moved or renamed."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import anyio.to_thread

from knowledge.errors import MoveRefused
from knowledge.pages.vault import Vault
from knowledge.state.locations import default_state_dir, is_default
from knowledge.state.moved_folder.adoption import adopt, begin_new, former_state_in
from knowledge.state.moved_folder.former_states import former_states
from knowledge.state.moved_folder.record import is_decided
from knowledge.state.transfer.sqlite_state import SqliteWholeState
from mcp_server.app.knowledge_base import STATE_FILE, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.state.move import agreed
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.output import print_json, say


def adopt_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `state adopt`."""
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        help="the state folder to keep, if several may be meant (default: the only one)",
    )
    parser.add_argument("--yes", action="store_true", help="don't ask")


async def run_adopt(args: argparse.Namespace, settings: Settings) -> int:
    """Give the knowledge base the state of its old path; exit code 1 if the person says no."""
    root = _root(settings)
    folder = await anyio.to_thread.run_sync(_chosen, args.folder, root)
    record = await anyio.to_thread.run_sync(former_state_in, folder, root)
    target = default_state_dir(root)
    replaced = await anyio.to_thread.run_sync(is_decided, target)
    what = f"give {visible(str(root))} the state that it had at {visible(record.root)}"
    if replaced:
        what += ", and set the state aside that it has now"
    if not agreed(args, what):
        return 1
    for used in (folder, target):
        await _require_unused(used / STATE_FILE)
    kept, aside = await anyio.to_thread.run_sync(lambda: adopt(folder, record, root, at=utc_now()))
    if settings.json:
        print_json({"kb": str(root), "was": record.root, "state_dir": str(kept), "set_aside": aside and str(aside)})
        return 0
    print(f"{visible(str(root))} has its state of {visible(record.root)} again; it is now in {visible(str(kept))}")
    if aside:
        say(f"The state that it had until now is in {visible(str(aside))}; delete that folder if you don't need it.")
    say(
        "Next: each host's entry names the old folder. Run `knowledge-forge install HOST --kb "
        f"{visible(shlex.quote(str(root)))}` again for each host."
    )
    return 0


async def run_new(args: argparse.Namespace, settings: Settings) -> int:
    """Let the knowledge base begin with an empty state."""
    del args
    root = _root(settings)
    folder = await anyio.to_thread.run_sync(begin_new, root)
    if settings.json:
        print_json({"kb": str(root), "state_dir": str(folder)})
        return 0
    print(f"{visible(str(root))} begins with an empty state, in {visible(str(folder))}")
    return 0


def _root(settings: Settings) -> Path:
    root = Vault.open(settings.kb).root
    if settings.state_dir and not is_default(settings.state_dir.expanduser().resolve(), root):
        raise MoveRefused(
            "--state-dir or FORGE_STATE_DIR names the state folder, so there is nothing to decide; unset it first"
        )
    return root


def _chosen(named: str | None, root: Path) -> Path:
    """Return the state folder that the person named, or the only one that may be meant."""
    if named is not None:
        return Path(named).expanduser().resolve()
    found = former_states(root, default_state_dir(root))
    if not found:
        raise MoveRefused(
            f"no state of a folder that is gone looks like that of {root}; name its state folder to adopt it"
        )
    if len(found) > 1:
        raise MoveRefused(f"several states may be meant; name one of these folders: {'; or '.join(map(str, found))}")
    return found[0].folder


async def _require_unused(file: Path) -> None:
    if await anyio.to_thread.run_sync(file.exists):
        state = SqliteWholeState(file)
        try:
            await state.begin(alone=True)
        finally:
            await state.close()
