"""`runs`: what runs did and why; a person follows them, answers, goes on with them and ends them, whichever host they are of."""

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
from mcp_server.cli.runs.lead import NoModel, answer_line, code_of, leading, until_signalled
from mcp_server.cli.runs.run import add_provider
from mcp_server.cli.runs.view import STATES as STANDINGS
from mcp_server.cli.runs.view import (
    answer_lines,
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
    ways_on,
)
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.console import stdout_console
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.input import STANDARD, text_of
from mcp_server.cli.terminal.options import WronglyAsked, add_common, said, whole
from mcp_server.cli.terminal.output import json_text, print_ascii, say
from mcp_server.gate.host_registration import os_user
from mcp_server.gate.taint import Taints
from mcp_server.runs.interventions import cancel, leave_answer
from mcp_server.runs.locations import runs_in
from mcp_server.web.address import address

if TYPE_CHECKING:
    from agents.loop.record.run import Run
    from agents.loop.store.ports import RunStore
    from knowledge.state.ports import StateStore

STATES = ("running", "asking", "proposed", "done", "failed", "cancelled")
MOST_LISTED = 10_000
NOTHING, NOT_DONE = 1, 1
LOOK_S = 2.0
"""So often `follow` looks whether anybody leads the run, where nothing is heard of it, until it has said that nobody does."""
MOST_ADRIFT = 1_000

Action = Callable[[argparse.Namespace, Settings], Awaitable[int]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this verb takes."""
    actions = parser.add_subparsers(dest="action", metavar="list|show|follow|answer|resume|cancel")
    parser.set_defaults(state=None, limit=20)
    listing = actions.add_parser("list", help="list runs, newest first, and what is waiting for you (the default)")
    listing.add_argument("--state", choices=STATES, default=None, help="only runs in this state")
    listing.add_argument(
        "--limit", metavar="N", type=whole(1, MOST_LISTED), default=20, help="maximum number to list (default 20)"
    )
    showing = actions.add_parser("show", help="show a run step by step, with its reasons and open questions")
    showing.add_argument("--frames", action="store_true", help="print its raw record, one JSON object per line")
    following = actions.add_parser("follow", help="print its steps as they happen, until it ends or waits for a person")
    answering = actions.add_parser("answer", help="answer its question and continue the run")
    answering.add_argument(
        "--leave", action="store_true", help="only record the answer; a server with its model continues the run"
    )
    resuming = actions.add_parser("resume", help="resume a run after a decision, or after its process died")
    cancelling = actions.add_parser("cancel", help="cancel a run, whichever process runs it")
    cancelling.add_argument("--why", metavar="TEXT", type=said, help="the reason, for the audit log")
    for action in (showing, following, answering, resuming, cancelling):
        action.add_argument("id", metavar="ID", type=said, help="a run's id, from `runs list`")
    answering.add_argument(
        "text", metavar="TEXT", nargs="?", type=said, help="the answer; - reads it from standard input"
    )
    for action in (answering, resuming):
        add_provider(action)
    for action in actions.choices.values():
        add_common(action)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Do what is asked; 1 if there is nothing, or it was not done, 3 if a person is to say something first."""
    actions: Mapping[str, Action] = {
        "list": _list,
        "show": _show,
        "follow": _follow,
        "answer": _answer,
        "resume": _resume,
        "cancel": _cancel,
    }
    return until_signalled(lambda: anyio.run(actions[args.action or "list"], args, settings))


@dataclass(frozen=True, slots=True)
class RunRecords:
    """The runs on record, for which no model, tool or page needs to be opened."""

    state: StateStore
    store: RunStore


@asynccontextmanager
async def stored(settings: Settings) -> AsyncIterator[RunRecords]:
    """Yield the runs on record."""
    async with open_state(settings) as state:
        yield RunRecords(state, runs_in(state))


# --- looking ----------------------------------------------------------------------------------------------------------


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    async with stored(settings) as record:
        found = await record.store.runs(state=STANDINGS[args.state] if args.state else None, limit=args.limit)
    if settings.json:
        print_ascii([line_fields(one) for one in found])
    elif not found:
        print("no runs")
    else:
        console = stdout_console()
        for one, line in zip(found, listed(found), strict=True):
            style = "bold" if one.state in ("asking", "suspended") else None
            console.print(line, style=style, markup=False, emoji=False, soft_wrap=True)
        if any(one.state in ("asking", "suspended") for one in found):
            say("to see an open question and how to answer: knowledge-forge runs show ID")
    return 0 if found else NOTHING


async def _show(args: argparse.Namespace, settings: Settings) -> int:
    async with stored(settings) as record:
        there = await record.store.run(args.id)
    if args.frames:
        print(header_line(there))
        for frame in there.frames:
            print(frame_line(frame))
    elif settings.json:
        print_ascii(run_fields(there))
    else:
        for line in shown(there):
            print(line)
    return 0


async def _follow(args: argparse.Namespace, settings: Settings) -> int:
    """Print each step once it is on record; the exit code says how the run stands then."""
    start, warned = 0, False
    async with stored(settings) as record:
        if not settings.json:
            say(head_line(await record.store.run(args.id)))
        while True:
            seen = await record.state.last_event()
            there = await record.store.run(args.id)
            for frame in there.frames[start:]:
                for line in [frame_line(frame)] if settings.json else step_lines(frame):
                    print(line, flush=True)
            start = there.count
            if there.state != "running":
                break
            with anyio.move_on_after(math.inf if warned else LOOK_S) as quiet:
                await record.state.changed(seen)
            if quiet.cancelled_caught and await _adrift(record, there.id):
                warned = True
                say(f"no process is running it; a server with {visible(there.header.model)} will resume it,")
                say(f"or resume it here: knowledge-forge runs resume {there.id}")
        return await _ended(record, there, settings)


async def _ended(record: RunRecords, there: Run, settings: Settings) -> int:
    """Tell how the run stands, its answer on standard output, and return the exit code that says the same."""
    if settings.json:
        taints = Taints(record.state, utc_now, settings.trusted_places)
        print(await answer_line(there, record.state, taints, partial(address, record.state)))
        return code_of(there)
    for line in answer_lines(there):
        print(line)
    for line in (end_line(there), *ways_on(there)):
        say(line)
    return code_of(there)


async def _adrift(record: RunRecords, run_id: str) -> bool:
    return any(one.id == run_id for one in await record.store.runs(adrift_at=utc_now(), limit=MOST_ADRIFT))


# --- going on ---------------------------------------------------------------------------------------------------------


async def _answer(args: argparse.Namespace, settings: Settings) -> int:
    """Record the person's answer, and go on with the run here, or leave that to a server."""
    there = await _asking(args, settings)
    if not args.leave:
        _require_its_model(there, settings)
    text = await _text(args, there)
    if not text:
        say("nothing was answered")
        return NOT_DONE
    _require_short(text)
    if args.leave:
        return await _left(there, text, settings)
    async with leading(settings, start=there.count) as lead:
        return await lead.through(there, answer=text)


def _require_short(answer: str) -> None:
    """Return if a host could give that answer, too.

    Raises:
        WronglyAsked: it is longer.
    """
    from mcp_server.toolsets.runs.handlers import WrongRun, require_short

    try:
        require_short("answer", answer)
    except WrongRun as error:
        raise WronglyAsked(str(error)) from error


async def _asking(args: argparse.Namespace, settings: Settings) -> Run:
    """Return the run.

    Raises:
        RunNotThere: it asks nothing.
    """
    async with stored(settings) as record:
        there = await record.store.run(args.id)
    if there.ask is None:
        raise RunNotThere(there.id, STATE_PHRASES[there.state], "answered")
    return there


async def _text(args: argparse.Namespace, there: Run) -> str:
    """Return the answer: what was typed behind the id, or is read, or is asked for at the terminal."""
    if args.text == STANDARD:
        return (await text_of(STANDARD)).strip()
    if args.text:
        return str(args.text)
    if not keyboard.is_terminal():
        raise WronglyAsked(f"give the answer: knowledge-forge runs answer {there.id} TEXT, or - to read it")
    for line in question_lines(there):
        say(line)
    return await keyboard.line("your answer: ")


async def _left(there: Run, text: str, settings: Settings) -> int:
    """Put the answer on record. The run is led on by whichever server has its model."""
    ask = there.ask.id if there.ask else ""
    async with stored(settings) as record:
        answered = await leave_answer(record.store, there.id, text, os_user(), ask=ask, now=utc_now)
    _tell(answered, settings, f"your answer was recorded; a server with {answered.header.model} continues the run")
    return 0


async def _resume(args: argparse.Namespace, settings: Settings) -> int:
    """Go on with the run as far as that goes here."""
    async with stored(settings) as record:
        there = await record.store.run(args.id)
        if there.over:
            return await _ended(record, there, settings)
        held = there.state == "running" and not await _adrift(record, there.id)
    _require_its_model(there, settings)
    if held:
        say("another process is running it, or died less than 30 seconds ago; if it died, the run resumes here.")
        say(f"Interrupting this command ends the run; knowledge-forge runs follow {there.id} only watches it")
    async with leading(settings, start=there.count) as lead:
        return await lead.through(there)


def _require_its_model(there: Run, settings: Settings) -> None:
    """Return if the settings name the model that the run began with: another one could not read its sealed thoughts.

    Raises:
        NoModel: they name none. WronglyAsked: they name another.
    """
    if settings.provider is None:
        raise NoModel(settings)
    if there.header.model != str(settings.provider.name):
        its = visible(there.header.model)
        raise WronglyAsked(
            f"{there.id} was started with {its}, but {settings.provider.name} is set; pass --provider {its}"
        )


async def _cancel(args: argparse.Namespace, settings: Settings) -> int:
    """End the run, and take back what it waits for. A call that is under way is still recorded when it comes back."""
    why = f"by {os_user()} in a terminal{f': {args.why}' if args.why else ''}"
    async with stored(settings) as record:
        now, ended = await cancel(record.state, record.store, args.id, why, now=utc_now)
    if not ended:
        say(f"nothing was cancelled: {end_line(now)}")
        return NOT_DONE
    _tell(now, settings, end_line(now))
    return 0


def _tell(run: Run, settings: Settings, sentence: str) -> None:
    print(json_text(run_fields(run), indent=2) if settings.json else visible(sentence))
