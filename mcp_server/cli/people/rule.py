"""`rule set|remove|list`: what people and groups may read, propose and write in a folder."""

from __future__ import annotations

import argparse

import anyio

from knowledge.access.changes import RIGHTS, checked_folder
from knowledge.access.directory import Directory
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.people.directory import Action, changed, directory, print_rows, rule_rows
from mcp_server.cli.terminal.options import add_actions, nonempty


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = add_actions(parser, ACTIONS)
    for name in ("set", "remove"):
        actions[name].add_argument(
            "folder", metavar="FOLDER", type=nonempty, help="a folder or a page; / for the whole knowledge base"
        )
        actions[name].add_argument("who", metavar="WHO", type=nonempty, help="a person, @group, or '*' for everybody")
    actions["set"].add_argument("right", metavar="RIGHT", choices=RIGHTS, help=", ".join(RIGHTS))


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action and print all rules; exit code 1 if it needed a passkey and nobody signed."""
    _, action = ACTIONS[args.action]
    found = anyio.run(action, settings, args)
    print_rows(settings, rule_rows(found), "no folder has rules, so everybody may read and write everywhere")
    return 0


async def _set(settings: Settings, args: argparse.Namespace) -> Directory:
    about = {"who": args.who, "folder": checked_folder(args.folder), "right": args.right}
    return await changed(settings, "rule.set", about)


async def _remove(settings: Settings, args: argparse.Namespace) -> Directory:
    return await changed(settings, "rule.remove", {"who": args.who, "folder": checked_folder(args.folder)})


ACTIONS: dict[str, tuple[str, Action]] = {
    "set": ("say what a person or group may do in a folder; all others then need a rule there, too", _set),
    "remove": ("remove the rule for a person or group in a folder; without any, the folder above decides", _remove),
    "list": ("list all rules by folder", directory),
}
"""The actions with their help texts."""
