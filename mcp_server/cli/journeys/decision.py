"""`journeys decide` and `journeys fork`: a person's word about a journey, said in a terminal."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from agents.bounds import BACK_TO
from agents.engine.decide import decided
from agents.engine.events import Decided, canonical
from agents.engine.runner import AT_VERSION, FORK_OF, JourneyDecision
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.journeys.records import led
from mcp_server.cli.journeys.view import STATES, coming, shown, state_fields
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import print_ascii, say
from mcp_server.gate.host_registration import os_user

if TYPE_CHECKING:
    from agents.engine.progress.position import JourneyPosition

NOT_DONE = 1


async def decide(args: argparse.Namespace, settings: Settings) -> int:
    """Show what it is about, ask whether it is meant, and record the word at the version that was shown."""
    opinion = _opinion(args)
    async with led(settings) as runner:
        # To end a journey nobody has to know its agent.
        here = await runner.position(args.id, unled=args.decision == "cancel")
        for line in _about(here, opinion):
            say(line)
        if refused := await _refused(args):
            say(f"nothing was decided: {refused}")
            return NOT_DONE
        now = await runner.decide(args.id, here.state.version, opinion, by=os_user())
    if settings.json:
        print_ascii(state_fields(args.id, now.agent, now.state))
    else:
        print(_outcome(args.decision, now))
    return 0


def _opinion(args: argparse.Namespace) -> JourneyDecision:
    """Return what the person says.

    A word that nobody typed into a terminal counts as passed on by somebody: where the person's own hand is asked for, it is
    refused.

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
    return JourneyDecision(args.decision, "terminal" if keyboard.is_terminal() else "relayed", args.note, changes)


def _patch(text: str) -> dict[str, Any]:
    try:
        changes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WronglyAsked(f"--changes is not valid JSON: {error}") from error
    if not isinstance(changes, dict) or not changes:
        raise WronglyAsked('--changes must be a JSON object such as {"title": "A better one"}')
    return changes


def _about(here: JourneyPosition, opinion: JourneyDecision) -> list[str]:
    """Return what is decided about, what the person says, and what follows from it.

    Raises:
        JourneyOver, NotToDecide, NeedsOwnHand: the word would not count.
    """
    state = here.state
    phase = state.checkpoint.phase if state.checkpoint else state.phase
    word = Decided(opinion.decision, opinion.channel, phase, opinion.note, dict(opinion.changes) or None)
    target = str(opinion.changes.get(BACK_TO, "")) if opinion.decision == "revisit" else ""
    steps = decided(here.agent.graph, here.journey, state, word, target=target)
    told = ["", f"{opinion.decision}: {coming(state, word, steps)}"]
    if opinion.note:
        told.append(f"your note: {opinion.note}")
    if opinion.decision == "modify" and opinion.changes:
        told.append(f"your changes: {canonical(word.changes)}")
    return [*shown(here.journey, here.agent, state), *map(visible, told)]


async def _refused(args: argparse.Namespace) -> str:
    """Return why the word is not recorded; "" if it is meant."""
    if args.yes:
        return ""
    if not keyboard.is_terminal():
        return "can't ask for confirmation here; run this in a terminal, or add --yes"
    typed = await keyboard.line(f"Record {args.decision} as shown? [y/N] ")
    return "" if typed.lower() in ("y", "yes") else "not confirmed"


def _outcome(decision: str, now: JourneyPosition) -> str:
    state = now.state
    lacks = [f.text for f in state.feedback if f.version == state.version]
    missing = f"; still missing: {'; '.join(lacks)}" if lacks else ""
    at = f"version {state.version}, {STATES[state.status]} in {state.phase}"
    return visible(f"{decision} was recorded; {now.journey} is at {at}{missing}")


async def fork(args: argparse.Namespace, settings: Settings) -> int:
    """Begin a journey of its own where the other one stood; what was read in that one counts as read in this one, too."""
    from mcp_server.app.composition import open_app

    inputs = {FORK_OF: args.id} | ({AT_VERSION: args.at} if args.at is not None else {})
    async with open_app(settings, indexing=False, announcing=False) as app:
        taints = app.services.taints
        new = await app.services.journeys.start("", args.note, inputs, by=os_user())
        await taints.note(os_user(), new.journey, tuple(await taints.of_journey(args.id)))
    state = new.state
    if settings.json:
        print_ascii(state_fields(new.journey, new.agent, state))
    else:
        origin = f"{state.forked_from} at version {state.forked_at}"
        print(visible(f"{new.journey} was forked from {origin}, in {state.phase}"))
    return 0
