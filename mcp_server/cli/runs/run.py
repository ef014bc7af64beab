"""`run GOAL`: the server's own model carries a goal through over the tools, each call through the gate, and every step is shown."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import anyio

from agents.loop.errors import DaySpent
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import LanguageModelName, model_name
from mcp_server.cli.journeys.lead import NotDone
from mcp_server.cli.runs.lead import leading, until_signalled
from mcp_server.cli.terminal.input import text_of
from mcp_server.cli.terminal.options import WronglyAsked, said, whole
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import identify, os_user
from mcp_server.gate.policy import Refuse, Trust

if TYPE_CHECKING:
    from mcp_server.cli.runs.lead import Lead

MOST_ITERATIONS, MOST_SECONDS = 50, 3_600


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this verb takes."""
    parser.add_argument("goal", metavar="GOAL", type=said, help="the goal")
    parser.add_argument("--context", metavar="FILE", type=said, help="context for the goal; - for standard input")
    parser.add_argument(
        "--toolset",
        dest="only",
        metavar="NAME",
        type=said,
        action="append",
        default=[],
        help="only tools of this toolset; repeat for more (default: all)",
    )
    parser.add_argument(
        "--iterations",
        metavar="N",
        type=whole(1, MOST_ITERATIONS),
        help="maximum number of model answers (default 5)",
    )
    parser.add_argument(
        "--seconds", metavar="N", type=whole(1, MOST_SECONDS), help="maximum time without waiting (default 60)"
    )
    add_provider(parser)


def add_provider(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a model; settings read it as they read FORGE_MODEL."""
    # What is not given leaves no trace, and FORGE_MODEL counts.
    parser.add_argument(
        "--provider",
        dest="model",
        metavar="VENDOR:MODEL",
        type=provider,
        default=argparse.SUPPRESS,
        help="the model to use (default: FORGE_MODEL)",
    )


def provider(text: str) -> LanguageModelName:
    """Return the model that was typed."""
    try:
        return model_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Carry the goal through; 0 it is achieved, 1 it is not, 3 a person is to say something first."""
    return until_signalled(lambda: anyio.run(_run, args, settings))


async def _run(args: argparse.Namespace, settings: Settings) -> int:
    context = await text_of(args.context) if args.context else ""
    async with leading(settings) as lead:
        return await _begun(lead, args, settings, context)


async def _begun(lead: Lead, args: argparse.Namespace, settings: Settings, context: str) -> int:
    """Begin the run as this process's host, which needs no level for that: what it does in it passes the gate."""
    from mcp_server.toolsets.runs.handlers import WrongRun, pinned, plan_run
    from mcp_server.toolsets.runs.tools import AGENT_RUN
    from mcp_server.toolsets.spec import BadArguments

    services = lead.app.services
    who = await identify(services.state, os_user(), settings.enrolment)
    may_read = await lead.app.gate.decide(AGENT_RUN.name, Trust.READ, who)
    if isinstance(may_read, Refuse):
        raise NotDone(may_read.why)
    bounds = {"max_iterations": args.iterations, "timeout_seconds": args.seconds}
    given = {name: value for name, value in bounds.items() if value is not None}
    try:
        asked = AGENT_RUN.parse({"goal": args.goal, "context": context, "toolsets": args.only, **given})
        plan = await plan_run(services, Call(who), asked)
    except (BadArguments, WrongRun) as error:
        raise WronglyAsked(str(error)) from error
    await services.taints.carry(who.id, plan.header.id)
    try:
        begun = await services.runs.begin(pinned(services, plan.header))
    except DaySpent as error:
        raise WronglyAsked(str(error)) from error
    return await lead.through(begun)
