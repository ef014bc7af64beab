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
from mcp_server.cli.terminal.console import stdout_console
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import add_common, integer, nonempty
from mcp_server.cli.terminal.output import json_text, print_answer, print_ascii, say
from mcp_server.toolsets.journeys.answers import event_line

DECISIONS = ("approve", "modify", "reject", "revisit", "answer", "cancel")
STATES = ("active", "waiting", "complete", "cancelled")
NOTHING = 1
HIGHEST = 10**9

Action = Callable[[argparse.Namespace, Settings], Awaitable[int]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    actions = parser.add_subparsers(
        dest="action",
        metavar="list|show|start|submit|status|resume|answer|decide|memory|events|graph|report|fork|rerun|export|import|stats",
    )
    parser.set_defaults(state=None, agent=None, limit=20)
    listing = actions.add_parser("list", help="list journeys, newest first, and what is waiting for you (the default)")
    listing.add_argument("--state", choices=STATES, default=None, help="only journeys in this state")
    listing.add_argument("--agent", metavar="NAME", type=nonempty, default=None, help="only journeys of this agent")
    listing.add_argument(
        "--limit", metavar="N", type=integer(1, MOST_LISTED), default=20, help="maximum number to list (default 20)"
    )
    showing = actions.add_parser("show", help="show a journey: its phase, recorded work and open questions")
    happening = actions.add_parser("events", help="show its events, oldest first")
    happening.add_argument("--follow", action="store_true", help="keep printing new events until the journey ends")
    happening.add_argument(
        "--after", metavar="N", type=integer(0, HIGHEST), default=0, help="only events after number N"
    )
    drawing = actions.add_parser("graph", help="print its phases and position as a Mermaid diagram")
    reporting = actions.add_parser("report", help="print a report with everything needed to continue")
    deciding = actions.add_parser("decide", help="approve, modify, reject, revisit, answer or cancel")
    forking = actions.add_parser("fork", help="fork a journey at an earlier version, under a new id")
    exporting = actions.add_parser("export", help="export a journey to a file")
    answering = actions.add_parser("answer", help="answer its questions one by one")
    repeating = actions.add_parser("rerun", help="repeat the steps after a version in a fork")
    leading = lead.arguments(actions)
    # The id comes first in every usage line, so it is added before what else an action takes.
    others = (showing, happening, drawing, reporting, deciding, answering, forking, repeating, exporting)
    for action in (*others, *leading):
        action.add_argument("id", metavar="ID", type=nonempty, help="a journey's id, from `journeys list`")
    _decide_arguments(deciding)
    answer.arguments(answering)
    rerun.arguments(repeating)
    lead.more_arguments(actions.choices["memory"])
    forking.add_argument("--at", metavar="N", type=integer(1, HIGHEST), help="the version (default: the current one)")
    forking.add_argument("--note", metavar="TEXT", default="", help="what should be different this time")
    exporting.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="the file to write (default: standard output)"
    )
    importing = actions.add_parser("import", help="import an exported journey")
    importing.add_argument("file", metavar="FILE", help="the file; - for standard input")
    importing.add_argument(
        "--as", dest="as_id", metavar="ID", type=nonempty, help="use this id instead of the exported one"
    )
    counting = actions.add_parser("stats", help="average time and tokens of each phase")
    counting.add_argument("--agent", metavar="NAME", type=nonempty, default=None, help="only for this agent")
    for action in actions.choices.values():
        add_common(action)


def _decide_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("decision", metavar="DECISION", choices=DECISIONS, help=", ".join(DECISIONS))
    parser.add_argument("--note", metavar="TEXT", default="", help="the reason, or what should be different")
    parser.add_argument("--changes", metavar="JSON", help="modify: a JSON merge patch of the recorded work")
    parser.add_argument("--phase", metavar="PHASE", type=nonempty, help="revisit: the phase to go back to")
    parser.add_argument(
        "--yes",
        action="store_true",
        help="don't ask for confirmation; without a terminal the decision counts as relayed",
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action; exit code 1 if there is nothing to show, or it was not done."""
    actions: Mapping[str, Action] = {
        "list": _list,
        "show": _show,
        "events": _events,
        "start": lead.start,
        "submit": lead.submit,
        "status": lead.status,
        "resume": lead.resume,
        "memory": lead.memory,
        "answer": answer.answer,
        "graph": _graph,
        "report": _report,
        "decide": decision.decide,
        "fork": decision.fork,
        "rerun": rerun.rerun,
        "export": export.export,
        "import": export.take_over,
        "stats": stats.stats,
    }
    return anyio.run(actions[args.action or "list"], args, settings)


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    async with stored(settings) as store:
        found = await store.journeys(status=args.state, agent=args.agent, limit=args.limit)
    if settings.json:
        print_ascii([line_fields(one) for one in found])
    elif not found:
        print("no journeys")
    else:
        console = stdout_console()
        for one, line in zip(found, listed(found), strict=True):
            style = "bold" if one.status == "waiting" else None
            console.print(line, style=style, markup=False, emoji=False, soft_wrap=True)
        if any(one.status == "waiting" for one in found):
            say("to see an open question and how to answer: knowledge-forge journeys show ID")
    return 0 if found else NOTHING


async def _show(args: argparse.Namespace, settings: Settings) -> int:
    async with led(settings) as runner:
        agent, state = await head(runner, args.id)
    print_answer(state_fields(args.id, agent, state), shown(args.id, agent, state), as_json=settings.json)
    return 0


async def _events(args: argparse.Namespace, settings: Settings) -> int:
    async with open_state(settings) as state:
        store, after = journeys_in(state), args.after
        while True:
            # Taken before the events are read: what is recorded in between ends the wait below at once.
            seen = await state.last_event()
            for logged in await store.events(args.id, after=after):
                after = logged.seq
                print(json_text(event_line(logged)) if settings.json else event_text(logged), flush=True)
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
