"""`contradictions list|show|keep|both|dismiss|edit|reopen`: list claims that cannot both be true, and settle them."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import anyio

from knowledge.contradictions.record import disagreement
from knowledge.history.ports import Flag
from knowledge.history.timestamps import utc_text
from knowledge.writing.answers import Disagreement
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.contradictions import settle
from mcp_server.cli.contradictions.view import list_lines
from mcp_server.cli.terminal.options import add_actions, integer
from mcp_server.cli.terminal.output import print_json

NOT_DONE = 1
MOST_LISTED = 500

Action = Callable[[argparse.Namespace, Settings], Awaitable[int]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = add_actions(parser, ACTIONS, default="list")
    # These are for `contradictions` alone, which lists them. An action's own options come later and override them.
    parser.set_defaults(path="", dismissed=False, settled=False, limit=20)
    listing = actions["list"]
    listing.add_argument("path", nargs="?", default="", metavar="PATH", help="only on this page or in this directory")
    ended = listing.add_mutually_exclusive_group()
    ended.add_argument("--dismissed", action="store_true", help="list dismissed ones, with the reason")
    ended.add_argument("--settled", action="store_true", help="list settled ones, with who settled them, how and when")
    listing.add_argument(
        "--limit", metavar="N", type=integer(1, MOST_LISTED), default=20, help="maximum number to list (default 20)"
    )
    settle.arguments(actions)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action; exit code 1 if nothing was changed. `list` ends with 1 if it lists nothing."""
    _, action = ACTIONS[args.action]
    return anyio.run(action, args, settings)


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    async with opened_app(settings) as app:
        contradictions = app.services.contradictions
        if args.settled:
            flags: Sequence[Flag] = await contradictions.settled(args.path, limit=args.limit)
            more = len(flags) == args.limit
        else:
            flags, cursor = await contradictions.flags(
                args.path, limit=args.limit, cursor=None, dismissed=args.dismissed
            )
            more = cursor is not None
    if settings.json:
        print_json([_settled_json(flag) if args.settled else as_json(disagreement(flag)) for flag in flags])
    elif not flags:
        print("no contradictions")
    else:
        for line in list_lines(flags):
            print(line)
        if more:
            print(f"\nthese are the first {args.limit}; --limit shows more")
        if not args.dismissed and not args.settled:
            print("\nto settle one: knowledge-forge contradictions show ID")
    return 0 if flags else NOT_DONE


def _settled_json(flag: Flag) -> dict[str, Any]:
    end = flag.settlement
    settled = None if end is None else {"how": end.how, "by": end.by, "at": utc_text(end.at), "reason": end.reason}
    return {**as_json(disagreement(flag)), "settled": settled}


ACTIONS: Mapping[str, tuple[str, Action]] = {
    "list": ("list open ones, the most certain first", _list),
    "show": ("show both sides in their pages as they are now", settle.show),
    "keep": ("keep one statement and rewrite the other one", settle.keep),
    "both": ("record that both statements hold", settle.both),
    "dismiss": ("record that both claims hold, or that the existing one stays", settle.dismiss),
    "edit": ("write the text that holds", settle.edit),
    "reopen": ("take a dismissal or a settlement back", settle.reopen),
}


def as_json(found: Disagreement) -> dict[str, Any]:
    """Return the contradiction as JSON fields, with times as text."""
    fields = asdict(found)
    for side in (fields["existing"], fields["new"]):
        side["observed_at"] = None if side["observed_at"] is None else utc_text(side["observed_at"])
    return fields
