"""`state backup FILE` and `state restore FILE`: save the whole state in one file, and replace it by a saved one."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from knowledge.pages.vault import Vault
from knowledge.state.transfer.move import contents
from mcp_server.app.factories.whole_state import opened_backup, save, state_place
from mcp_server.app.settings.settings import DATABASE, Settings
from mcp_server.app.state_copies.restore import Restored, keep, replace
from mcp_server.app.state_copies.saved_files import add_to, files_in, left_out, saved_in
from mcp_server.cli.state.contents import contents_fields, show_contents, table_progress
from mcp_server.cli.state.move import add_consent, agreed
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.presenters.whole_state import chain_line


def backup_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `state backup`."""
    parser.add_argument("file", metavar="FILE", type=_file, help="the file to write; it must not exist yet")


def restore_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `state restore`."""
    parser.add_argument(
        "file", metavar="FILE", type=_file, help="a file that `state backup` wrote, or a copy of state.db"
    )
    add_consent(parser, "show what the file and the state have, and replace nothing")


async def backup(args: argparse.Namespace, settings: Settings) -> int:
    """Save the state as it is at this moment. Servers can keep writing meanwhile."""
    place, root = state_place(settings), Vault.open(settings.kb).root
    files = files_in(place.file.parent)
    missing = left_out(place.file.parent, has_pages=settings.pages == DATABASE)
    async with place.opened() as state:
        await state.begin(alone=False)
        with table_progress(shown=not settings.json) as on_step:
            saved = await save(state, args.file, root, on_step, partial(add_to, files))
        where = state.place
    if settings.json:
        print_json(
            {
                "from": where,
                "to": str(args.file),
                "size_bytes": args.file.stat().st_size,
                "saved": contents_fields(saved),
                "files": list(files),
                "left_out": list(missing),
            }
        )
        return 0
    print(f"Saved {sum(saved.rows.values()):,} rows of {visible(where)} to {visible(str(args.file))}")
    print(chain_line(saved))
    if files:
        print(f"With it: {visible(', '.join(files))}")
    for one in missing:
        say(f"Not in it: {one}.")
    return 0


async def restore(args: argparse.Namespace, settings: Settings) -> int:
    """Replace the state by the saved one; what was there is saved beside it first. Exit code 1 if the person says no."""
    place, root = state_place(settings), Vault.open(settings.kb).root
    kept: Path | None = None
    async with opened_backup(args.file, place.file.parent) as saved, place.opened() as state:
        await state.begin(alone=True)
        found, there, files = await contents(saved), await contents(state), saved_in(args.file)
        done: Restored | None = None
        if not args.dry_run:
            if not there.nothing:
                what = f"replace the state in {visible(state.place)}, and save what is there now in a file beside it"
                if not agreed(args, what):
                    return 1
                kept = await keep(state, place, root)
            with table_progress(shown=not settings.json) as on_step:
                done = await replace(saved, state, place, files=files, kept=kept, on_step=on_step)
        written, stayed = (done.files.written, done.files.kept) if done else ((), ())
        facts = {
            "restored": done is not None,
            "kept": kept and str(kept),
            "files": list(files),
            "files_written": list(written),
            "files_kept": list(stayed),
        }
        states = {"saved": found, "before": there, "after": done.arrived if done else None}
        show_contents(facts, states, source=str(args.file), target=state.place, as_json=settings.json)
    if not settings.json and files:
        named = ", ".join(files if args.dry_run else written) or "none"
        print(visible(f"{'Files in it' if args.dry_run else 'Files restored'}: {named}"))
    for path in stayed:
        say(visible(f"{path} stays as it is, because its text is not the saved one"))
    if done and done.problem:
        say(visible(done.problem))
    if kept:
        say(
            f"The state that was there is saved in {visible(str(kept))}; `knowledge-forge state restore` brings it back."
        )
    return 0


def _file(text: str) -> Path:
    return Path(text).expanduser().absolute()
