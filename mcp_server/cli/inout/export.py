"""`export folder|jsonl|site DEST`: a copy of the knowledge base to keep, to publish or to take elsewhere."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

import anyio
import anyio.to_thread

from knowledge.history.timestamps import utc_text
from knowledge.pages.map_view import readable
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.terminal.console import progress_bars
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.input import STANDARD
from mcp_server.cli.terminal.options import WronglyAsked, add_actions, nonempty
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.exports.copies import Exported, ExportSource, export_folder, export_pages
from mcp_server.exports.selection import select

MOST_LEFT_OUT = 20
ACTIONS = {
    "folder": ("pages and attachments as they are, byte for byte, with a manifest", None),
    "site": ("a static site that works from the file system: pages, folders, tags, backlinks, search", None),
    "jsonl": ("one line of JSON for each page: text, names, links, origins of claims", None),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = add_actions(parser, ACTIONS)
    for name, action in actions.items():
        if name == "jsonl":
            action.add_argument(
                "destination", metavar="FILE", type=nonempty, help="the file to write; - for standard output"
            )
            action.add_argument("--history", action="store_true", help="add what happened to each page")
        else:
            action.add_argument(
                "destination", metavar="FOLDER", type=nonempty, help="a new folder, an empty one, or an earlier export"
            )

    actions["site"].add_argument("--title", metavar="TEXT", default="", help="its name (default: that of the folder)")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Write the export, whole or not at all.

    Raises:
        WronglyAsked: --json is asked for together with an export on standard output.
    """
    if args.destination == STANDARD and settings.json:
        raise WronglyAsked("the export itself goes to standard output, so there is no place for --json")
    exported = anyio.run(_exported, args, settings)
    _show(args, exported, settings)
    return 0


async def _exported(args: argparse.Namespace, settings: Settings) -> Exported:
    async with opened_app(settings) as app:
        vault = app.base.vault
        selection = await anyio.to_thread.run_sync(select, vault, settings.exclude)
        source = ExportSource(vault, app.services.state.ledger, selection, utc_text(app.services.now()))
        if args.action == "jsonl" and args.destination == STANDARD:
            return await export_pages(source, sys.stdout.buffer, lambda _done, _all: None, history=args.history)
        place = await anyio.to_thread.run_sync(_place, args.destination)
        with progress_bars("files exported", shown=not settings.json) as (draw,):
            if args.action == "jsonl":
                return await export_pages(source, place, draw, history=args.history)
            if args.action == "site":
                from mcp_server.exports.site.site import export_site  # loads templates and the renderer

                return await export_site(source, place, draw, name=args.title or readable(vault.root.name))
            return await export_folder(source, place, draw)


def _show(args: argparse.Namespace, exported: Exported, settings: Settings) -> None:
    if settings.json:
        print_json({"kind": args.action, "to": args.destination, **asdict(exported)})
        return
    counts = f"{exported.pages:,} page{'s' * (exported.pages != 1)}"
    if args.action != "jsonl":
        counts += f" and {exported.attachments:,} attachment{'s' * (exported.attachments != 1)}"
    if args.destination != STANDARD:
        print(visible(f"Exported {counts} ({exported.size_bytes:,} bytes) to {args.destination}"))
    if exported.excluded:
        say(f"{exported.excluded:,} files are left out because `exclude` names them")
    for one in exported.left_out[:MOST_LEFT_OUT]:
        say(visible(f"left out: {one.path}: {one.reason}"))
    if len(exported.left_out) > MOST_LEFT_OUT:
        say(f"and {len(exported.left_out) - MOST_LEFT_OUT:,} more left out; --json names all")


def _place(text: str) -> Path:
    return Path(text).expanduser().absolute()
