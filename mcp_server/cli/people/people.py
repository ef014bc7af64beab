"""`people add|remove|list`: the people who use the knowledge base, and their principals."""

from __future__ import annotations

import argparse

import anyio

from knowledge.access.directory import Directory
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.people.directory import Action, changed, directory, people_rows, print_rows
from mcp_server.cli.terminal.options import add_actions, nonempty
from mcp_server.gate.trust.people import token_holder


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = add_actions(parser, ACTIONS)
    for name, without in (("add", "default: NAME@token:http"), ("remove", "default: the whole person")):
        actions[name].add_argument("name", metavar="NAME", type=nonempty, help="the person, such as ann")
        actions[name].add_argument(
            "principals",
            metavar="PRINCIPAL",
            nargs="*",
            type=nonempty,
            help=f"as trust list shows it, or 'USER@*' for an account of this machine; {without}",
        )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action and print all people; exit code 1 if it needed a passkey and nobody signed."""
    _, action = ACTIONS[args.action]
    print_rows(
        settings, people_rows(anyio.run(action, settings, args)), "there are no people; knowledge-forge people add NAME"
    )
    return 0


async def _add(settings: Settings, args: argparse.Namespace) -> Directory:
    principals = args.principals or [token_holder(args.name)]
    return await changed(settings, "person.add", {"name": args.name, "principals": principals})


async def _remove(settings: Settings, args: argparse.Namespace) -> Directory:
    return await changed(settings, "person.remove", {"name": args.name, "principals": args.principals})


ACTIONS: dict[str, tuple[str, Action]] = {
    "add": ("add a person, or further principals of one", _add),
    "remove": ("take principals from a person; without any, remove the person, with their rules and tokens", _remove),
    "list": ("list all people with their principals and groups", directory),
}
"""The actions with their help texts."""
