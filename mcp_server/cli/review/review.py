"""`review`: list what waits for a person, and decide: with the keyboard, by single commands, or on the page in a browser."""

from __future__ import annotations

import argparse
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from knowledge.trust.ports import Proposal
from mcp_server.app.factories.journey_store import journeys_in
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.views.present import PATIENCE_S
from mcp_server.cli.app import opened_app
from mcp_server.cli.journeys.view import line_fields, waiting_line
from mcp_server.cli.review.card import fields, listed
from mcp_server.cli.review.screen import Screen, print_card
from mcp_server.cli.review.session import NOT_CONFIRMED, ReviewSession, confirms, who_asks
from mcp_server.cli.review.view import Word
from mcp_server.cli.runs import view as run_view
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.console import EscapedConsole, stdout_console
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked, nonempty
from mcp_server.cli.terminal.output import print_answer, print_ascii, say
from mcp_server.presenters.proposal import ending
from mcp_server.runs.locations import runs_in

NOT_DONE = 1
LISTED_S = 30.0
"""How long a list may take to plan the proposals whose page has changed."""
MOST_JOURNEYS, MOST_RUNS = 500, 500


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="list what needs approval")
    action.add_argument("--show", metavar="ID", type=nonempty, help="show one proposal in full")
    action.add_argument(
        "--approve",
        metavar="ID",
        type=nonempty,
        help="approve the proposal whose hash you give with --hash; only from a terminal",
    )
    action.add_argument("--reject", metavar="ID", type=nonempty, help="reject it; only from a terminal")
    action.add_argument(
        "--changes",
        metavar="ID",
        type=nonempty,
        help="request changes: close it with the comment of --reason for the host; only from a terminal",
    )
    action.add_argument("--harmful", metavar="ID", type=nonempty, help="reject it and freeze the host")
    action.add_argument(
        "--renew",
        metavar="ID",
        type=nonempty,
        help="if the page has changed: propose it with the page as it is now; needs --hash; only from a terminal",
    )
    action.add_argument("--web", action="store_true", help="review in a browser")
    parser.add_argument("--hash", metavar="HASH", default="", help="the hash that --show printed")
    parser.add_argument("--reason", metavar="TEXT", default="", help="the reason, for the audit log and the host")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action; exit code 0 if done, 1 if nothing waits or the decision was not carried out."""
    if args.web:
        from mcp_server.cli.review.web import serve_page  # templates and a web server, which nothing else here uses

        return serve_page(settings)
    if not args.hash and (decided := "--approve" if args.approve else "--renew" if args.renew else ""):
        raise WronglyAsked(f"{decided} needs --hash HASH; review --show ID prints it")
    return anyio.run(_review, args, settings)


@asynccontextmanager
async def open_review(settings: Settings) -> AsyncIterator[ReviewSession]:
    """Yield a review session of the account that runs this process."""
    async with opened_app(settings) as app:
        yield ReviewSession.of(app)


async def _review(args: argparse.Namespace, settings: Settings) -> int:
    words: tuple[Word, ...] = ("approve", "reject", "harmful", "changes")
    async with open_review(settings) as review:
        if args.show:
            return await _show(review, args.show, settings)
        if args.renew:
            return await _renew(review, args, settings)
        for word in words:
            if proposal_id := getattr(args, word):
                return await _decide(review, proposal_id, word, args, settings)
        if args.list or settings.json or not keyboard.is_terminal():
            return await _list(review, settings)
        await Screen(review, EscapedConsole(highlight=False, markup=False, emoji=False)).run()
        return 0


async def _list(review: ReviewSession, settings: Settings) -> int:
    """Print the proposals, journeys and runs that wait. In JSON the `kind` of the last two is `journey` and `run`."""
    waiting = await review.waiting()
    journeys = await journeys_in(review.state).journeys(status="waiting", limit=MOST_JOURNEYS)
    # A run that waits for a proposal is not listed again: the proposal is.
    runs = await runs_in(review.state).runs(state="asking", limit=MOST_RUNS)
    if settings.json:
        of_journeys = [{"id": one.id, "kind": "journey", **line_fields(one)} for one in journeys]
        of_runs = [{"id": one.id, "kind": "run", **run_view.line_fields(one)} for one in runs]
        until = anyio.current_time() + LISTED_S
        proposals = [await _fields(review, await review.one(one.id), until=until) for one in waiting]
        print_ascii([*proposals, *of_journeys, *of_runs])
    elif not (waiting or journeys or runs):
        print("nothing is waiting for you")
    else:
        joined = await review.asking(waiting)
        for p in waiting:
            who = visible(who_asks(p, joined.get(p.id, ())))
            print(f"{p.id}  level {p.level_needed}  {who}  {listed(p)}")
        for one in journeys:
            print(waiting_line(one))
        for run in runs:
            print(run_view.waiting_line(run))
    return 0 if waiting or journeys or runs else NOT_DONE


async def _fields(review: ReviewSession, proposal: Proposal, *, until: float = math.inf) -> dict[str, object]:
    """Return the proposal for a program; after the time `until` it is not planned again, even if its page has changed."""
    patience_s = min(PATIENCE_S, max(0.0, until - anyio.current_time()))
    present = await review.approvals.present(proposal, patience_s=patience_s)
    return fields(proposal, await review.askers(proposal), present)


async def _renew(review: ReviewSession, args: argparse.Namespace, settings: Settings) -> int:
    """Propose the change again for the page as it is now, once the person at the terminal has typed the beginning of its hash."""
    proposal = await review.one(args.renew)
    if refused := await _refused(review, proposal, None, args):
        say(refused)
        return NOT_DONE
    if not await confirms(proposal, "renew"):
        say(NOT_CONFIRMED)
        return NOT_DONE
    made = await review.renew(proposal)
    told = f"{made.id} takes its place, and waits for your decision: knowledge-forge review --show {made.id}"
    print_answer(await _fields(review, made), [visible(told)], as_json=settings.json)
    return 0


async def _show(review: ReviewSession, proposal_id: str, settings: Settings) -> int:
    proposal = await review.one(proposal_id)
    if settings.json:
        print_ascii(await _fields(review, proposal))
        return 0
    print_card(stdout_console(), await review.about(proposal))
    return 0


async def _decide(
    review: ReviewSession, proposal_id: str, word: Word, args: argparse.Namespace, settings: Settings
) -> int:
    """Decide on the proposal with this hash, once the person at the terminal has typed the beginning of the hash."""
    proposal = await review.one(proposal_id)
    if refused := await _refused(review, proposal, word, args):
        say(refused)
        return NOT_DONE
    if not await confirms(proposal, word, hosts=len(await review.askers(proposal))):
        say(NOT_CONFIRMED)
        return NOT_DONE
    done = await review.decide(proposal, word, args.reason)
    print_answer(await _fields(review, done), [visible(ending(done))], as_json=settings.json)
    return 0 if done.state == ("executed" if word == "approve" else "rejected") else NOT_DONE


async def _refused(review: ReviewSession, proposal: Proposal, word: Word | None, args: argparse.Namespace) -> str:
    """Return why nothing can be decided here; "" if a decision is possible, or if there is nothing to decide.

    This is known before the person is asked.
    """
    if proposal.state != "pending":
        return f"nothing was decided: {visible(ending(proposal))}"
    if args.hash and args.hash != proposal.hash:
        return f"nothing was decided: the proposal's hash is {proposal.hash}, not the one you gave; look at it again (--show)"
    if word is not None and (refused := await review.refusal(proposal, word)):
        return refused
    if not keyboard.is_terminal():
        return "nothing was decided: only a person at a terminal can decide; run this in one, or use `knowledge-forge review --web`"
    return ""
