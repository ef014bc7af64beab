"""`journeys rerun`: repeat in a fork, step by step, what was recorded after a version, and say where the outcome differs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from agents.engine.progress.rerun import RepeatedStep, RerunOutcome, RerunStep, check_fork, repeat, steps_after
from agents.engine.runner import AT_VERSION, FORK_OF
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.journeys.view import at_version
from mcp_server.cli.local_host import LocalHost, local_host
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import integer, nonempty
from mcp_server.cli.terminal.output import print_ascii, say
from mcp_server.gate.host_registration import os_user

DONE, NOT_DONE, ANOTHER_WAY = 0, 1, 5
"""Exit codes: every step had the same outcome as before; nothing was done; a step's outcome differed, or it was refused."""
HIGHEST = 10**9  # fits every database's integer
MOST_NAMED = 6


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this action's arguments."""
    parser.add_argument(
        "--from", dest="version", metavar="N", type=integer(1, HIGHEST), required=True, help="the version to start from"
    )
    parser.add_argument("--steps", metavar="N", type=integer(1, HIGHEST), help="number of steps (default: all)")
    parser.add_argument("--into", metavar="ID", type=nonempty, help="continue in this fork instead of a new one")
    parser.add_argument(
        "--yes", action="store_true", help="don't ask for confirmation; without a terminal decisions count as relayed"
    )


async def rerun(args: argparse.Namespace, settings: Settings) -> int:
    """Fork the journey, repeat the steps after the version, and print the outcome of each."""
    async with local_host(settings) as at:
        # Repeating reads the journey and writes to the fork, so the caller needs the right to do both by tools.
        await at.call("journey_status", journey_id=args.id)
        await at.require("journey_submit")
        runner = at.app.services.journeys
        here = await runner.position(args.id)
        await runner.store.journey(args.id, version=args.version)
        steps = steps_after(await runner.store.events(args.id), args.version, here.agent)[: args.steps]
        if not steps:
            say(f"nothing was submitted or decided after version {args.version} of {args.id}")
            return NOT_DONE
        if refused := await _refused(args, steps):
            say(f"nothing was done: {refused}")
            return NOT_DONE
        fork = await _fork(at, args)
        taints = at.app.services.taints
        # The fork repeats works that may quote untrusted text, so it has read what the original has read.
        await taints.note(at.who.id, fork, tuple(await taints.of_journey(args.id)))
        done: list[RepeatedStep] = []
        channel = keyboard.decision_channel()
        async for one in repeat(runner, fork, steps, by=at.who.id, person=os_user(), channel=channel):
            done.append(one)
            if not settings.json:
                for line in _lines(one):
                    print(visible(line))
        state = await runner.store.journey(fork)
    same = len(done) == len(steps) and all(one.same for one in done)
    if settings.json:
        repeated = [_fields(one) for one in done]
        print_ascii({"journey_id": fork, "of": args.id, "from": args.version, "same": same, "steps": repeated})
    else:
        way = "went as before" if same else "went as before, then differently"
        count = sum(one.same for one in done)
        print(visible(f"{count} of {len(steps)} steps {way}; {at_version(fork, state)}"))
    return DONE if same else ANOTHER_WAY


async def _fork(at: LocalHost, args: argparse.Namespace) -> str:
    """Return the journey in which the steps are repeated: the fork that was named, or a new one."""
    if args.into is None:
        inputs = {FORK_OF: args.id, AT_VERSION: args.version}
        return str((await at.call("journey_start", agent="", brief="", inputs=inputs))["journey_id"])
    check_fork(args.id, args.version, await at.app.services.journeys.store.journey(args.into), args.into)
    return str(args.into)


async def _refused(args: argparse.Namespace, steps: Sequence[RerunStep]) -> str:
    """Return why nothing is done, "" if it is confirmed."""
    words = [step for step in steps if step.name != "submit"]
    if args.yes or not words:
        return ""
    # People's decisions are repeated in the name of the person who runs this, so that person has to see which they are.
    named = ", ".join(f"{step.name} at {step.phase}" for step in words[:MOST_NAMED])
    if not keyboard.is_terminal():
        return f"it repeats people's decisions in your name ({visible(named)}); run it in a terminal, or add --yes"
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    confirmed = await keyboard.confirms(visible(f"Repeat in your name: {named}{more}?"))
    return "" if confirmed else "not confirmed"


def _lines(one: RepeatedStep) -> list[str]:
    step = one.step
    head = f"version {step.version}, {step.name} in {step.phase}"
    if one.now is None:
        return [f"{head}: was {step.outcome}; refused now: {one.refused}"]
    outcome = f"{head}: {one.now}, as before" if one.same else f"{head}: was {step.outcome}; now {one.now}"
    return [outcome, *(f"  {remark}" for remark in one.remarks)]


def _fields(one: RepeatedStep) -> dict[str, Any]:
    return {
        "version": one.step.version,
        "act": one.step.name,
        "phase": one.step.phase,
        "before": _outcome(one.step.outcome),
        "now": _outcome(one.now) if one.now else None,
        "same": one.same,
        "refused": one.refused,
        "remarks": list(one.remarks),
    }


def _outcome(outcome: RerunOutcome) -> dict[str, Any]:
    moves = [{"from": source, "to": target, "reason": reason} for source, target, reason in outcome.moves]
    return {"state": outcome.status, "phase": outcome.phase, "moves": moves}
