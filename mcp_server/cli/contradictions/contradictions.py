"""`contradictions list|dismiss|reopen`: list claims that cannot both be true, and dismiss those that are not contradictions."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import anyio

from knowledge.contradictions.record import disagreement
from knowledge.history.timestamps import utc_text
from knowledge.merge.model import Ruling
from knowledge.writing.answers import Disagreement
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import add_actions, integer, nonempty
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.gate.host_registration import os_user

NOT_DONE = 1
MOST_LISTED = 500
LARGEST_ID = 2**62
SHOWN = 300
"""Characters of each side."""
ONLY_AT_A_TERMINAL = (
    "nothing was changed: only a person at a terminal can decide; run this in one, or use the page "
    "(`knowledge-forge review --web`)"
)

Action = Callable[[argparse.Namespace, Settings], Awaitable[int]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = add_actions(parser, ACTIONS, default="list")
    # These are for `contradictions` alone, which lists them. An action's own options come later and override them.
    parser.set_defaults(path="", dismissed=False, limit=20)
    listing = actions["list"]
    listing.add_argument("path", nargs="?", default="", metavar="PATH", help="only on this page or in this directory")
    listing.add_argument("--dismissed", action="store_true", help="list dismissed ones, with the reason")
    listing.add_argument(
        "--limit", metavar="N", type=integer(1, MOST_LISTED), default=20, help="maximum number to list (default 20)"
    )
    for name in ("dismiss", "reopen"):
        actions[name].add_argument("id", metavar="ID", type=integer(1, LARGEST_ID), help="its number in the list")
    dismissing = actions["dismiss"]
    dismissing.add_argument(
        "--reason", metavar="TEXT", type=nonempty, required=True, help="the reason, which is kept and shown"
    )
    dismissing.add_argument(
        "--keep-existing",
        action="store_true",
        help="the existing claim is right, so the new one must not be written (default: both hold)",
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action; exit code 1 if nothing was changed. `list` ends with 1 if it lists nothing."""
    _, action = ACTIONS[args.action]
    return anyio.run(action, args, settings)


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    async with opened_app(settings) as app:
        found = await app.services.contradictions.listed(
            args.path, limit=args.limit, cursor=None, dismissed=args.dismissed
        )
    if settings.json:
        print_json([as_json(one) for one in found.contradictions])
    elif not found.contradictions:
        print("no contradictions")
    else:
        print_disagreements(found.contradictions)
        if found.next_cursor:
            print(f"\nthese are the first {args.limit}; --limit shows more")
    return 0 if found.contradictions else NOT_DONE


async def _dismiss(args: argparse.Namespace, settings: Settings) -> int:
    async with opened_app(settings) as app:
        contradictions = app.services.contradictions
        flag = await contradictions.one(args.id)
        if not keyboard.is_terminal():
            say(ONLY_AT_A_TERMINAL)
            return NOT_DONE
        print_disagreements([disagreement(flag)])
        what = "keep the existing claim" if args.keep_existing else "say that both hold"
        if await keyboard.line(f"to {what}, type the number of the contradiction: ") != str(flag.id):
            say("nothing was changed: that is not the number of this contradiction")
            return NOT_DONE
        ruling: Ruling = "existing" if args.keep_existing else "both"
        done = await contradictions.dismiss(args.id, ruling, by=f"{os_user()} (terminal)", reason=args.reason)
    if settings.json:
        print_json(as_json(disagreement(done)))
    else:
        print(f"{args.id} is dismissed; to undo this: knowledge-forge contradictions reopen {args.id}")
    return 0


async def _reopen(args: argparse.Namespace, settings: Settings) -> int:
    async with opened_app(settings) as app:
        await app.services.contradictions.reopen(args.id, by=f"{os_user()} (terminal)")
    if settings.json:
        print_json({"id": args.id, "dismissed": None})
    else:
        print(f"{args.id} is open again")
    return 0


ACTIONS: Mapping[str, tuple[str, Action]] = {
    "list": ("list open ones, the most certain first", _list),
    "dismiss": ("record that both claims hold, or that the existing one stays", _dismiss),
    "reopen": ("take a dismissal back", _reopen),
}


def as_json(found: Disagreement) -> dict[str, Any]:
    """Return the contradiction as JSON fields, with times as text."""
    fields = asdict(found)
    for side in (fields["existing"], fields["new"]):
        side["observed_at"] = None if side["observed_at"] is None else utc_text(side["observed_at"])
    return fields


def print_disagreements(found: Iterable[Disagreement]) -> None:
    """Print each contradiction with both sides."""
    for one in found:
        print(f"{one.id}  {one.confidence:.2f}  {visible(one.reason)}")
        for name, side in (("existing", one.existing), ("new", one.new)):
            where = visible(side.path) + (f" > {visible(side.section)}" if side.section else "")
            written = "" if side.revision is not None else ", not written"
            believed = "?" if side.confidence is None else f"{side.confidence:.2f}"
            print(f"    {name}: {where} ({visible(side.source)}, {believed}{written})")
            text = " ".join(side.text.split())
            print(f"      {visible(text if len(text) <= SHOWN else text[: SHOWN - 3] + '...')}")
        if one.dismissed is not None:
            word = "both hold" if one.dismissed.ruling == "both" else "the existing claim stays"
            print(f"    {visible(one.dismissed.by)}, {one.dismissed.at}: {word}: {visible(one.dismissed.reason)}")
