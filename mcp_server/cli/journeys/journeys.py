"""`journeys`: list, lead, show, decide, fork and move work that goes through phases."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping

import anyio

from agents.engine.graph import mermaid
from agents.report.journey_report import full_report
from mcp_server.app.factories.journey_store import journeys_in
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.journeys import answer, decision, export, lead, rerun, stats
from mcp_server.cli.journeys.records import MOST_LISTED, head, led, stored
from mcp_server.cli.journeys.view import event_text, line_fields, listed, shown, state_fields
from mcp_server.cli.terminal.console import print_list
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import add_actions, integer, nonempty
from mcp_server.cli.terminal.output import json_text, print_answer
from mcp_server.toolsets.journeys.answers import event_fields

STATES = ("active", "waiting", "complete", "cancelled")
HIGHEST = 10**9  # fits every database's integer

Action = Callable[[argparse.Namespace, Settings], Awaitable[int]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = add_actions(parser, ACTIONS, default="list")
    # These are for `journeys` alone, which lists them. An action's own options come later and override them.
    parser.set_defaults(state=None, agent=None, limit=20)
    # The id comes first in every usage line, so it is added before an action's other arguments.
    for name, action in actions.items():
        if name not in ("list", "start", "import", "stats"):
            action.add_argument("id", metavar="ID", type=nonempty, help="a journey's id, from `journeys list`")
    listing, events, forking = actions["list"], actions["events"], actions["fork"]
    listing.add_argument("--state", choices=STATES, default=None, help="only journeys in this state")
    listing.add_argument("--agent", metavar="NAME", type=nonempty, default=None, help="only journeys of this agent")
    listing.add_argument(
        "--limit", metavar="N", type=integer(1, MOST_LISTED), default=20, help="maximum number to list (default 20)"
    )
    events.add_argument("--follow", action="store_true", help="keep printing new events until the journey ends")
    events.add_argument("--after", metavar="N", type=integer(0, HIGHEST), default=0, help="only events after number N")
    forking.add_argument("--at", metavar="N", type=integer(1, HIGHEST), help="the version (default: the current one)")
    forking.add_argument("--note", metavar="TEXT", default="", help="what should be different this time")
    actions["export"].add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="the file to write (default: standard output)"
    )
    actions["import"].add_argument("file", metavar="FILE", help="the file; - for standard input")
    actions["import"].add_argument(
        "--as", dest="as_id", metavar="ID", type=nonempty, help="use this id instead of the exported one"
    )
    actions["stats"].add_argument("--agent", metavar="NAME", type=nonempty, default=None, help="only for this agent")
    lead.arguments(actions)
    decision.arguments(actions["decide"])
    answer.arguments(actions["answer"])
    rerun.arguments(actions["rerun"])


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action; exit code 1 if there is nothing to show, or it was not done."""
    _, action = ACTIONS[args.action]
    return anyio.run(action, args, settings)


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    async with stored(settings) as store:
        found = await store.journeys(status=args.state, agent=args.agent, limit=args.limit)
    waits = [one.status == "waiting" for one in found]
    return print_list("journeys", list(map(line_fields, found)), listed(found), waits, as_json=settings.json)


async def _show(args: argparse.Namespace, settings: Settings) -> int:
    async with led(settings) as runner:
        agent, state = await head(runner, args.id)
    print_answer(state_fields(args.id, agent, state), shown(args.id, agent, state), as_json=settings.json)
    return 0


async def _events(args: argparse.Namespace, settings: Settings) -> int:
    async with open_state(settings) as state:
        store, after = journeys_in(state), args.after
        while True:
            # Taken before the events are read, so an event recorded in between ends the wait below at once.
            seen = await state.last_event()
            for logged in await store.events(args.id, after=after):
                after = logged.seq
                print(json_text(event_fields(logged)) if settings.json else event_text(logged), flush=True)
            if not args.follow or (await store.journey(args.id)).over:
                return 0
            await state.changed(seen)


async def _graph(args: argparse.Namespace, settings: Settings) -> int:
    async with led(settings) as runner:
        here = await runner.position(args.id)
    drawn = mermaid(here.agent.graph, here.state.phase, here.state.phase_visits)
    print_answer({"journey_id": args.id, "mermaid": drawn}, [drawn.removesuffix("\n")], as_json=settings.json)
    return 0


async def _report(args: argparse.Namespace, settings: Settings) -> int:
    async with led(settings) as runner:
        agent, state = await head(runner, args.id)
        text = full_report(args.id, agent, state, await runner.store.events(args.id), utc_now())
    lines = map(visible, text.removesuffix("\n").split("\n"))
    print_answer({"journey_id": args.id, "report": text}, lines, as_json=settings.json)
    return 0


ACTIONS: Mapping[str, tuple[str, Action]] = {
    "list": ("list journeys, newest first, and what is waiting for you (the default)", _list),
    "show": ("show a journey: its phase, recorded work and open questions", _show),
    "start": ("start a journey and print the first prompt", lead.start),
    "submit": ("submit work for the current phase and print what comes next", lead.submit),
    "status": ("show its status in a few lines; exit code 3: a person is asked", lead.status),
    "resume": ("print everything needed to continue it", lead.resume),
    "answer": ("answer its questions one by one", answer.answer),
    "decide": ("approve, modify, reject, revisit, answer or cancel", decision.decide),
    "keep": ("write its result to a page, with its sources", lead.keep),
    "memory": ("print an agent's memory document, or merge it into a page", lead.memory),
    "events": ("show its events, oldest first", _events),
    "graph": ("print its phases and position as a Mermaid diagram", _graph),
    "report": ("print a report with everything needed to continue", _report),
    "fork": ("fork a journey at an earlier version, under a new id", decision.fork),
    "rerun": ("repeat the steps after a version in a fork", rerun.rerun),
    "export": ("export a journey to a file", export.export),
    "import": ("import an exported journey", export.take_over),
    "stats": ("average time and tokens of each phase", stats.stats),
}
"""The actions with their help texts."""
