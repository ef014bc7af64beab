"""`group add|remove|list`: groups of people."""

from __future__ import annotations

import argparse

import anyio

from knowledge.access.directory import Directory
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.people.directory import Action, changed, directory, group_rows, print_rows
from mcp_server.cli.terminal.options import add_actions, nonempty


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = add_actions(parser, ACTIONS)
    for name, without in (("add", "none is needed to make the group"), ("remove", "default: the whole group")):
        actions[name].add_argument("name", metavar="GROUP", type=nonempty, help="the group, such as editors")
        actions[name].add_argument("people", metavar="PERSON", nargs="*", type=nonempty, help=without)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action and print all groups; exit code 1 if it needed a passkey and nobody signed."""
    _, action = ACTIONS[args.action]
    print_rows(
        settings,
        group_rows(anyio.run(action, settings, args)),
        "there are no groups; knowledge-forge group add NAME PERSON",
    )
    return 0


async def _add(settings: Settings, args: argparse.Namespace) -> Directory:
    return await changed(settings, "group.add", {"name": args.name, "people": args.people})


async def _remove(settings: Settings, args: argparse.Namespace) -> Directory:
    return await changed(settings, "group.remove", {"name": args.name, "people": args.people})


ACTIONS: dict[str, tuple[str, Action]] = {
    "add": ("make a group, or add people to it", _add),
    "remove": ("take people out of a group; without any, remove the group with its rules", _remove),
    "list": ("list all groups with their people", directory),
}
"""The actions with their help texts."""
