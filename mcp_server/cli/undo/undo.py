"""`undo` takes back a change of a page, all that a host did since a time, or an import; later changes stay."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import anyio

from knowledge.history.acts import IMPORT
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver, CannotDecide
from mcp_server.cli.app import opened_app
from mcp_server.cli.terminal import keyboard, times
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked, nonempty
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.cli.undo.view import (
    answer_fields,
    change_lines,
    changed_pages,
    outcome_line,
    plan_fields,
    plan_lines,
)
from mcp_server.gate.host_registration import os_user

if TYPE_CHECKING:
    from knowledge.writing.undo.past_act import PastAct, Take
    from knowledge.writing.undo.undo import UndoPlan
    from mcp_server.app.composition import App

NOT_DONE = 1
ONLY_AT_A_TERMINAL = (
    "nothing was undone: only a person at a terminal can decide; run this in one, or use the page "
    "(`knowledge-forge review --web`). --dry-run shows what would happen"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "path", metavar="PATH", nargs="?", type=nonempty, help="the page; it may be gone or moved by now"
    )
    parser.add_argument(
        "--change", metavar="ID", type=nonempty, help="the change, as `history` names it (default: the newest one)"
    )
    parser.add_argument(
        "--host", metavar="NAME", type=nonempty, help="undo what this host did, on all pages; with --since"
    )
    parser.add_argument("--since", metavar="TIME", type=times.since, help=times.FORMS)
    parser.add_argument("--import", metavar="ID", dest="imported", type=nonempty, help="undo an import, on all pages")
    parser.add_argument(
        "--take",
        metavar="SIDE",
        type=_side,
        action="append",
        default=[],
        help="in each conflict: `before` writes the text from before, `now` leaves the current one; ID=before or ID=now: in one",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Show what would change, ask, and undo; exit code 1 if nothing was undone.

    Raises:
        WronglyAsked: not exactly one of a page, a host with a time, and an import is named.
    """
    if [args.path, args.host, args.imported].count(None) != 2:
        raise WronglyAsked(
            "name a page (undo PATH), a host and a time (undo --host NAME --since TIME), or an import (undo --import ID)"
        )
    if (args.host is None) != (args.since is None):
        raise WronglyAsked("--host and --since belong together")
    if args.path is None and args.change is not None:
        raise WronglyAsked("--change belongs to a page: undo PATH --change ID")
    return anyio.run(_undo, args, settings)


async def _undo(args: argparse.Namespace, settings: Settings) -> int:
    async with opened_app(settings) as app:
        acts = await _acts(app, args)
        if not acts:
            by = args.host or f"the import {args.imported}"
            say(visible(f"no change of {by}{' since then' if args.host else ''} is left to undo"))
            return NOT_DONE
        person = Approver(os_user(), "terminal")
        take, take_at = _taken(args.take)
        plan = await app.approvals.plan_undo(acts, person, take=take, take_at=take_at)
        known = {one.id for one in (*plan.answer.conflicts, *plan.answer.decided)}
        if unknown := sorted(set(take_at) - known):
            raise WronglyAsked(
                f"there is no conflict {', '.join(unknown)}; --dry-run shows the conflicts with their ids"
            )
        if settings.json and (args.dry_run or plan.changes_nothing):
            print_json({**plan_fields(plan), "change": None, "dry_run": args.dry_run})
        if not settings.json:
            for line in plan_lines(plan):
                print(line)
            if plan.answer.conflicts and keyboard.is_terminal() and not (args.dry_run or args.yes):
                plan = await _decided(app, plan, person, take, take_at)
        if plan.changes_nothing:
            say(_why_nothing(plan))
            return NOT_DONE
        if args.dry_run:
            return 0
        return await _confirmed(app, plan, person, args, settings)


async def _acts(app: App, args: argparse.Namespace) -> Sequence[PastAct]:
    if args.host is not None:
        return await app.services.undo.of_host(args.host, args.since)
    if args.imported is not None:
        return await app.services.undo.of_call(f"{IMPORT}{args.imported}")
    return await app.services.undo.of_page(args.path, args.change or "")


def _side(typed: str) -> tuple[str, Take]:
    """Return the id of a conflict, or "" for all of them, and the side to take."""
    identity, _, side = typed.rpartition("=")
    if side not in ("before", "now") or (not identity and "=" in typed):
        raise argparse.ArgumentTypeError(f"{typed!r} is no side: write before, now, ID=before or ID=now")
    return identity, "before" if side == "before" else "now"


def _taken(sides: Sequence[tuple[str, Take]]) -> tuple[Take, dict[str, Take]]:
    """Return the side for all conflicts, "" if there is none, and the sides for single conflicts by their ids."""
    chosen = dict(sides)
    return chosen.pop("", ""), chosen


async def _decided(app: App, plan: UndoPlan, person: Approver, take: Take, take_at: Mapping[str, Take]) -> UndoPlan:
    """Ask for a side in each conflict, and return the undo with the chosen sides. It is shown if any side was chosen."""
    chosen = dict(take_at)
    count = len(plan.answer.conflicts)
    for number, conflict in enumerate(plan.answer.conflicts, 1):
        answers: dict[str, Take] = {side[0]: side for side in conflict.choices}
        offers = {"b": "[b] takes the text from before", "n": "[n] keeps it as it is now and counts as undone"}
        rest = ", [q] leaves this and the following open" if number < count else ""
        question = f"Conflict {number}: {', '.join(offers[key] for key in answers)}, [Enter] leaves it open{rest}: "
        while (typed := (await keyboard.line(question)).lower()) and typed[:1] not in (*answers, "q"):
            continue
        if typed[:1] == "q":
            break
        if typed:
            chosen[conflict.id] = answers[typed[:1]]
    if chosen == take_at:
        return plan
    plan = await app.approvals.plan_undo(plan.acts, person, take=take, take_at=chosen)
    print("\nWith your choices:")
    for line in change_lines(plan):
        print(line)
    return plan


def _why_nothing(plan: UndoPlan) -> str:
    if plan.answer.conflicts:
        return (
            "nothing was undone: all of it was changed again since. --take before writes the text from before all the same, "
            "--take ID=before in one conflict"
        )
    return "nothing was undone: nothing is left to undo"


async def _confirmed(app: App, plan: UndoPlan, person: Approver, args: argparse.Namespace, settings: Settings) -> int:
    if not keyboard.is_terminal():
        say(ONLY_AT_A_TERMINAL)
        return NOT_DONE
    if plan.answer.conflicts:
        say(
            "the open conflicts stay as they are now; --take before, or --take ID=before for one, writes the text from before"
        )
    count = len(plan.answer.undone) or len(plan.acts)
    pages = len(changed_pages(plan))
    question = f"Undo {count:,} change{'s' if count > 1 else ''} on {pages:,} page{'s' if pages > 1 else ''}?"
    if not args.yes and not await keyboard.confirms(question):
        say("nothing was undone: not confirmed")
        return NOT_DONE
    try:
        done = await app.approvals.undo(plan, person)
    except CannotDecide as error:
        proposal = await app.approvals.ask_undo(plan, person)
        await app.review.wanted(proposal)
        page = await app.review.address()
        at = f"at {page}/proposals/{proposal.id}" if page else "on the page (knowledge-forge review --web)"
        say(f"nothing was undone: {error}, {at}")
        return NOT_DONE
    if settings.json:
        print_json({**plan_fields(plan), **answer_fields(done.answer), "change": done.change, "dry_run": False})
        return 0
    page = (*done.answer.pages, *done.answer.gone)[0]
    print(
        f"{outcome_line(done.answer, count)}; to take that back: knowledge-forge undo {visible(page)} --change {done.change}"
    )
    return 0
