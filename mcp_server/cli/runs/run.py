"""`run GOAL`: the server's own model works on a goal with the tools. Each call passes the gate, and every step is shown."""

from __future__ import annotations

import argparse

import anyio

from agents.loop.errors import DaySpent
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import acting
from mcp_server.cli.local_host import NotDone
from mcp_server.cli.runs.lead import add_provider, leading, until_signalled
from mcp_server.cli.terminal.input import text_of
from mcp_server.cli.terminal.options import WronglyAsked, integer, nonempty
from mcp_server.cli.terminal.output import say
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Refuse, Trust
from mcp_server.toolsets.runs.handlers import WrongRun, pinned, plan_run
from mcp_server.toolsets.runs.tools import AGENT_RUN
from mcp_server.toolsets.spec import BadArguments

MOST_ITERATIONS, MOST_SECONDS = 50, 3_600
AS_PERSON = "it acts as you ({}), at level 3: pages are edited at once, and each act above that level asks you first"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this verb has."""
    parser.add_argument("goal", metavar="GOAL", type=nonempty, help="the goal")
    parser.add_argument("--context", metavar="FILE", type=nonempty, help="context for the goal; - for standard input")
    parser.add_argument(
        "--toolset",
        dest="only",
        metavar="NAME",
        type=nonempty,
        action="append",
        default=[],
        help="only tools of this toolset; repeat for more (default: all)",
    )
    parser.add_argument(
        "--iterations",
        metavar="N",
        type=integer(1, MOST_ITERATIONS),
        help="maximum number of model answers (default 5)",
    )
    parser.add_argument(
        "--seconds", metavar="N", type=integer(1, MOST_SECONDS), help="maximum time without waiting (default 60)"
    )
    add_provider(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Work on the goal; return 0 if it was achieved, 1 if not, 3 if the run waits for a person."""
    return until_signalled(lambda: anyio.run(_run, args, settings))


async def _run(args: argparse.Namespace, settings: Settings) -> int:
    """Begin the run as the person at the terminal, or as this process's host. Each call of the run passes the gate."""
    context = await text_of(args.context) if args.context else ""
    async with leading(settings) as lead:
        services = lead.app.services
        who = await acting(services.state, settings)
        may_read = await lead.app.gate.decide(AGENT_RUN.name, Trust.READ, who)
        if isinstance(may_read, Refuse):
            raise NotDone(may_read.why)
        bounds = {"max_iterations": args.iterations, "timeout_seconds": args.seconds}
        given = {name: value for name, value in bounds.items() if value is not None}
        try:
            asked = AGENT_RUN.parse({"goal": args.goal, "context": context, "toolsets": args.only, **given})
            header = (await plan_run(services, Call(who), asked)).header
            # The goal may repeat untrusted text that this host has read within the last hour.
            await services.taints.carry(who.id, header.id)
            begun = await services.runs.begin(pinned(services, header))
        except (BadArguments, WrongRun, DaySpent) as error:
            raise WronglyAsked(str(error)) from error
        if who.is_person:
            say(AS_PERSON.format(who.id))
        return await lead.through(begun)
