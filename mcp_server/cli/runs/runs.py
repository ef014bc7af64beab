"""`runs`: a person lists, reads and follows runs, answers, resumes and cancels them, whichever host started them."""

from __future__ import annotations

import argparse
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from agents.loop.errors import RunNotThere
from agents.loop.explanation import STATE_PHRASES
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.runs.lead import NoModel, add_provider, answer_line, code_of, leading, print_end, until_signalled
from mcp_server.cli.runs.view import (
    end_line,
    frame_line,
    head_line,
    header_line,
    line_fields,
    listed,
    question_lines,
    run_fields,
    shown,
    step_lines,
)
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.console import print_list
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.input import STANDARD, text_of
from mcp_server.cli.terminal.options import WronglyAsked, add_actions, integer, nonempty
from mcp_server.cli.terminal.output import json_text, print_ascii, say
from mcp_server.gate.host_registration import os_user
from mcp_server.gate.taint import Taints
from mcp_server.presenters.run import STATES
from mcp_server.runs.interventions import cancel, leave_answer
from mcp_server.runs.locations import runs_in
from mcp_server.web.address import address

if TYPE_CHECKING:
    from agents.loop.record.run import Run
    from agents.loop.store.ports import RunStore
    from knowledge.state.ports import StateStore

MOST_LISTED = 10_000
NOT_DONE = 1
LOOK_S = 2.0
"""How often `follow` checks whether any process leads a silent run, until it has warned that none does."""
MOST_ADRIFT = 1_000

Action = Callable[[argparse.Namespace, Settings], Awaitable[int]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this verb has."""
    actions = add_actions(parser, ACTIONS, default="list")
    # These are for `runs` alone, which lists them. An action's own options come later and override them.
    parser.set_defaults(state=None, limit=20)
    for name, action in actions.items():
        if name != "list":
            action.add_argument("id", metavar="ID", type=nonempty, help="a run's id, from `runs list`")
    listing, answering = actions["list"], actions["answer"]
    listing.add_argument("--state", choices=list(STATES), default=None, help="only runs in this state")
    listing.add_argument(
        "--limit", metavar="N", type=integer(1, MOST_LISTED), default=20, help="maximum number to list (default 20)"
    )
    actions["show"].add_argument("--frames", action="store_true", help="print its raw record, one JSON object per line")
    answering.add_argument(
        "text", metavar="TEXT", nargs="?", type=nonempty, help="the answer; - reads it from standard input"
    )
    answering.add_argument(
        "--leave", action="store_true", help="only record the answer; a server with its model continues the run"
    )
    actions["cancel"].add_argument("--why", metavar="TEXT", type=nonempty, help="the reason, for the audit log")
    for name in ("answer", "resume"):
        add_provider(actions[name])


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action; return 1 if nothing was found or done, 3 if the run waits for a person."""
    _, action = ACTIONS[args.action]
    return until_signalled(lambda: anyio.run(action, args, settings))


@dataclass(frozen=True, slots=True)
class RunRecords:
    """The recorded runs. They need no model, tool or page to be opened."""

    state: StateStore
    store: RunStore


@asynccontextmanager
async def stored(settings: Settings) -> AsyncIterator[RunRecords]:
    """Yield the recorded runs."""
    async with open_state(settings) as state:
        yield RunRecords(state, runs_in(state))


# --- reading ----------------------------------------------------------------------------------------------------------


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    async with stored(settings) as record:
        found = await record.store.runs(state=STATES[args.state] if args.state else None, limit=args.limit)
    waits = [one.state in ("asking", "suspended") for one in found]
    return print_list("runs", list(map(line_fields, found)), listed(found), waits, as_json=settings.json)


async def _show(args: argparse.Namespace, settings: Settings) -> int:
    async with stored(settings) as record:
        current = await record.store.run(args.id)
    if args.frames:
        print(header_line(current))
        for frame in current.frames:
            print(frame_line(frame))
    elif settings.json:
        print_ascii(run_fields(current))
    else:
        for line in shown(current):
            print(line)
    return 0


async def _follow(args: argparse.Namespace, settings: Settings) -> int:
    """Print each step once it is recorded, and return the exit code for the run's final state."""
    start, warned = 0, False
    async with stored(settings) as record:
        if not settings.json:
            say(head_line(await record.store.run(args.id)))
        while True:
            # Taken before the run is read, so a step recorded in between ends the wait below at once.
            seen = await record.state.last_event()
            current = await record.store.run(args.id)
            for frame in current.frames[start:]:
                for line in [frame_line(frame)] if settings.json else step_lines(frame):
                    print(line, flush=True)
            start = current.count
            if current.state != "running":
                break
            with anyio.move_on_after(math.inf if warned else LOOK_S) as quiet:
                await record.state.changed(seen)
            if quiet.cancelled_caught and await _adrift(record, current.id):
                warned = True
                say(f"no process is running it; a server with {visible(current.header.model)} will resume it,")
                say(f"or resume it here: knowledge-forge runs resume {current.id}")
        return await _print_end(record, current, settings)


async def _print_end(record: RunRecords, current: Run, settings: Settings) -> int:
    """Print how the run ended or what it waits for, its answer on standard output, and return the exit code for that."""
    if settings.json:
        taints = Taints(record.state, utc_now, settings.trusted_places)
        print(await answer_line(current, record.state, taints, partial(address, record.state)))
        return code_of(current)
    print_end(current)
    return code_of(current)


async def _adrift(record: RunRecords, run_id: str) -> bool:
    return any(one.id == run_id for one in await record.store.runs(adrift_at=utc_now(), limit=MOST_ADRIFT))


# --- answering, resuming and cancelling -------------------------------------------------------------------------------


async def _answer(args: argparse.Namespace, settings: Settings) -> int:
    """Record the person's answer, and lead the run here, or leave it to a server."""
    # Handlers need the gate and everything behind it, which only this verb uses.
    from mcp_server.toolsets.runs.handlers import WrongRun, require_short

    async with stored(settings) as record:
        current = await record.store.run(args.id)
    if current.ask is None:
        raise RunNotThere(current.id, STATE_PHRASES[current.state], "answered")
    if not args.leave:
        _require_its_model(current, settings)
    text = await _text(args, current)
    if not text:
        say("nothing was answered")
        return NOT_DONE
    try:
        require_short("answer", text)  # an answer has the same limit as a host's
    except WrongRun as error:
        raise WronglyAsked(str(error)) from error
    if not args.leave:
        async with leading(settings, start=current.count) as lead:
            return await lead.through(current, answer=text)
    async with stored(settings) as record:
        run = await leave_answer(record.store, current.id, text, os_user(), ask=current.ask.id, now=utc_now)
    _print_run(run, settings, f"your answer was recorded; a server with {run.header.model} continues the run")
    return 0


async def _text(args: argparse.Namespace, current: Run) -> str:
    """Return the answer: from the command line, standard input or the terminal."""
    if args.text == STANDARD:
        return (await text_of(STANDARD)).strip()
    if args.text:
        return str(args.text)
    if not keyboard.is_terminal():
        raise WronglyAsked(f"give the answer: knowledge-forge runs answer {current.id} TEXT, or - to read it")
    for line in question_lines(current):
        say(line)
    return await keyboard.line("your answer: ")


async def _resume(args: argparse.Namespace, settings: Settings) -> int:
    """Lead the run in this process as far as possible."""
    async with stored(settings) as record:
        current = await record.store.run(args.id)
        if current.over:
            return await _print_end(record, current, settings)
        led = current.state == "running" and not await _adrift(record, current.id)
    _require_its_model(current, settings)
    if led:
        say("another process is running it, or died less than 30 seconds ago; if it died, the run resumes here.")
        say(f"Interrupting this command ends the run; knowledge-forge runs follow {current.id} only watches it")
    async with leading(settings, start=current.count) as lead:
        return await lead.through(current)


def _require_its_model(current: Run, settings: Settings) -> None:
    """Check that the settings name the run's model: another model could not read its encrypted reasoning.

    Raises:
        NoModel: they name none. WronglyAsked: they name another.
    """
    if settings.provider is None:
        raise NoModel(settings)
    if current.header.model != str(settings.provider.name):
        its = visible(current.header.model)
        raise WronglyAsked(
            f"{current.id} was started with {its}, but {settings.provider.name} is set; pass --provider {its}"
        )


async def _cancel(args: argparse.Namespace, settings: Settings) -> int:
    """Cancel the run and withdraw its open proposals. The result of a call under way is still recorded."""
    place = "in a terminal" if keyboard.is_terminal() else "on the command line"
    why = f"by {os_user()} {place}{f': {args.why}' if args.why else ''}"
    async with stored(settings) as record:
        current, cancelled = await cancel(record.state, record.store, args.id, why, now=utc_now)
    if not cancelled:
        say(f"nothing was cancelled: {end_line(current)}")
        return NOT_DONE
    _print_run(current, settings, end_line(current))
    return 0


def _print_run(run: Run, settings: Settings, sentence: str) -> None:
    print(json_text(run_fields(run), indent=2) if settings.json else visible(sentence))


ACTIONS: Mapping[str, tuple[str, Action]] = {
    "list": ("list runs, newest first, and what is waiting for you (the default)", _list),
    "show": ("show a run step by step, with its reasons and open questions", _show),
    "follow": ("print its steps as they happen, until it ends or waits for a person", _follow),
    "answer": ("answer its question and continue the run", _answer),
    "resume": ("resume a run after a decision, or after its process died", _resume),
    "cancel": ("cancel a run, whichever process runs it", _cancel),
}
"""The actions with their help texts."""
