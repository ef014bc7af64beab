"""`reviewers set|remove|list`: the people and groups who decide on proposals that touch a folder."""

from __future__ import annotations

import argparse

import anyio

from knowledge.access.changes import checked_folder
from knowledge.access.directory import Directory
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.people.directory import Action, changed, directory, print_rows, reviewer_rows
from mcp_server.cli.terminal.options import add_actions, nonempty


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = add_actions(parser, ACTIONS)
    for name in ("set", "remove"):
        actions[name].add_argument(
            "folder", metavar="FOLDER", type=nonempty, help="a folder or a page; / for the whole knowledge base"
        )
    actions["set"].add_argument("names", metavar="NAME", nargs="+", type=nonempty, help="a person, or @group")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action and print the reviewers of all folders; exit code 1 if it needed a passkey and nobody signed."""
    _, action = ACTIONS[args.action]
    found = anyio.run(action, settings, args)
    print_rows(settings, reviewer_rows(found), "no folder has reviewers, so everybody who can decide may decide")
    return 0


async def _set(settings: Settings, args: argparse.Namespace) -> Directory:
    return await changed(settings, "reviewers.set", {"folder": checked_folder(args.folder), "names": args.names})


async def _remove(settings: Settings, args: argparse.Namespace) -> Directory:
    return await changed(settings, "reviewers.set", {"folder": checked_folder(args.folder), "names": []})


ACTIONS: dict[str, tuple[str, Action]] = {
    "set": ("let only these people and groups decide on proposals in a folder", _set),
    "remove": ("remove the reviewers of a folder; those of the folder above then count", _remove),
    "list": ("list the folders that have reviewers", directory),
}
"""The actions with their help texts."""
