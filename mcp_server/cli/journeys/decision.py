"""`journeys decide` and `journeys fork`: a person decides on a journey in a terminal, or forks one."""

from __future__ import annotations

import argparse
import json
from typing import Any

from agents.bounds import BACK_TO
from agents.engine.decide import decision_steps
from agents.engine.events import Decided, canonical
from agents.engine.progress.position import JourneyPosition
from agents.engine.runner import AT_VERSION, FORK_OF, JourneyDecision
from agents.report.overview import newest_feedback
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.journeys.records import led
from mcp_server.cli.journeys.view import at_version, consequence, shown, state_fields
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked, nonempty
from mcp_server.cli.terminal.output import print_answer, say
from mcp_server.gate.host_registration import os_user

DECISIONS = ("approve", "modify", "reject", "revisit", "answer", "cancel")
NOT_DONE = 1


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `decide` after the id."""
    parser.add_argument("decision", metavar="DECISION", choices=DECISIONS, help=", ".join(DECISIONS))
    parser.add_argument("--note", metavar="TEXT", default="", help="the reason, or what should be different")
    parser.add_argument(
        "--changes",
        metavar="JSON",
        help="modify: the changed fields of the recorded work; list items by their id, removed with drop: [ids]",
    )
    parser.add_argument("--phase", metavar="PHASE", type=nonempty, help="revisit: the phase to go back to")
    parser.add_argument(
        "--yes",
        action="store_true",
        help="don't ask for confirmation; without a terminal the decision counts as relayed",
    )


async def decide(args: argparse.Namespace, settings: Settings) -> int:
    """Show the decision's subject and effect, ask for confirmation, and record it at the version that was shown."""
    decision = _decision(args)
    async with led(settings) as runner:
        # A journey can be cancelled even if its agent is gone.
        here = await runner.position(args.id, agent_gone_ok=args.decision == "cancel")
        for line in _preview(here, decision):
            say(line)
        if refused := await _refused(args):
            say(f"nothing was decided: {refused}")
            return NOT_DONE
        now = await runner.decide(args.id, here.state.version, decision, by=os_user())
    lacks = [one.text for one in newest_feedback(now.state)]
    missing = f"; still missing: {'; '.join(lacks)}" if lacks else ""
    line = visible(f"{args.decision} was recorded; {at_version(now.journey, now.state)}{missing}")
    print_answer(state_fields(args.id, now.agent, now.state), [line], as_json=settings.json)
    return 0


def _decision(args: argparse.Namespace) -> JourneyDecision:
    """Return the person's decision.

    Raises:
        WronglyAsked: the options do not fit the decision.
    """
    changes: dict[str, Any] = {}
    if args.changes is not None:
        if args.decision != "modify":
            raise WronglyAsked("--changes works only with modify")
        changes = _patch(args.changes)
    if args.phase is not None:
        if args.decision != "revisit":
            raise WronglyAsked("--phase works only with revisit")
        changes = {BACK_TO: args.phase}
    elif args.decision == "revisit":
        raise WronglyAsked("revisit needs --phase PHASE, an earlier phase of this journey")
    if args.decision == "answer" and not args.note.strip():
        raise WronglyAsked("answer needs --note TEXT")
    return JourneyDecision(args.decision, keyboard.decision_channel(), args.note, changes)


def _patch(text: str) -> dict[str, Any]:
    try:
        changes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WronglyAsked(f"--changes is not valid JSON: {error}") from error
    if not isinstance(changes, dict) or not changes:
        raise WronglyAsked('--changes must be a JSON object such as {"title": "A better one"}')
    return changes


def _preview(here: JourneyPosition, decision: JourneyDecision) -> list[str]:
    """Return the subject of the decision, the decision itself, and its effect.

    Raises:
        JourneyOver, NotToDecide, NeedsOwnHand: the decision would not count.
    """
    state = here.state
    phase = state.checkpoint.phase if state.checkpoint else state.phase
    word = Decided(decision.decision, decision.channel, phase, decision.note, dict(decision.changes) or None)
    target = str(decision.changes.get(BACK_TO, "")) if decision.decision == "revisit" else ""
    steps = decision_steps(here.agent.graph, here.journey, state, word, target=target)
    lines = ["", f"{decision.decision}: {consequence(state, word, steps)}"]
    if decision.note:
        lines.append(f"your note: {decision.note}")
    if decision.decision == "modify" and decision.changes:
        lines.append(f"your changes: {canonical(word.changes)}")
    return [*shown(here.journey, here.agent, state), *map(visible, lines)]


async def _refused(args: argparse.Namespace) -> str:
    """Return why the decision is not recorded, "" if it is confirmed."""
    if args.yes:
        return ""
    if not keyboard.is_terminal():
        return "can't ask for confirmation here; run this in a terminal, or add --yes"
    return "" if await keyboard.confirms(f"Record {args.decision} as shown?") else "not confirmed"


async def fork(args: argparse.Namespace, settings: Settings) -> int:
    """Start a new journey from a version of an earlier one."""
    inputs = {FORK_OF: args.id} | ({AT_VERSION: args.at} if args.at is not None else {})
    async with opened_app(settings) as app:
        taints = app.services.taints
        new = await app.services.journeys.start("", args.note, inputs, by=os_user())
        # The new journey works with everything that was read in the other one, so it is tainted by the same places.
        await taints.note(os_user(), new.journey, tuple(await taints.of_journey(args.id)))
    state = new.state
    line = visible(f"{new.journey} was forked from {state.forked_from} at version {state.forked_at}, in {state.phase}")
    print_answer(state_fields(new.journey, new.agent, state), [line], as_json=settings.json)
    return 0
