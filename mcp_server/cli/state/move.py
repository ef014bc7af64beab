"""`state move TO`: move the whole state to PostgreSQL, to another schema, or back to the file."""

from __future__ import annotations

import argparse
import sys

from knowledge.state.transfer.move import Contents, MovePlan, contents, move, plan
from knowledge.state.transfer.ports import WholeState
from mcp_server.app.factories.whole_state import StatePlace, state_place
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import database_url, schema
from mcp_server.cli.state.contents import show_contents, table_progress
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.input import STANDARD, text_of
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import ask_yes_no, say
from mcp_server.presenters.whole_state import next_after_move

FILE = "sqlite"
STEPS = {
    "copy": "copy everything to {target}, compare it, and stop using {source}",
    "leave": "{target} has the same state already; stop using {source}",
    "finish": "an earlier move copied everything to {target}, which is not in use yet; start using it",
}


def on_step(name: str) -> None:
    """Do nothing; tests of killed moves replace this."""
    del name


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `state move`."""
    parser.add_argument(
        "to",
        metavar="TO",
        help="postgresql://USER@HOST/DATABASE, - to read that URL from standard input, or sqlite for the file in the state folder",
    )
    parser.add_argument(
        "--schema",
        metavar="NAME",
        help="the schema in that database (default: FORGE_DATABASE_SCHEMA, or from the folder's path)",
    )
    add_consent(parser, "show what would be moved, and move nothing")


def add_consent(parser: argparse.ArgumentParser, rehearsal: str) -> None:
    """Add `--dry-run` and `--yes`."""
    parser.add_argument("--dry-run", action="store_true", help=rehearsal)
    parser.add_argument("--yes", action="store_true", help="don't ask")


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Move the state; exit code 1 if the person says no."""
    source = state_place(settings)
    target = await _target(args, source)
    # Opening a database creates it, and a dry run creates nothing.
    if args.dry_run and not await target.exists():
        async with source.opened(marked=True) as old:
            await old.begin(alone=True)
            ours = await contents(old)
            facts = {"step": "copy", "moved": False}
            show_contents(facts, {"source": ours}, source=old.place, target="a new database", as_json=settings.json)
        return 0
    async with source.opened(marked=True) as old, target.opened(marked=True) as new:
        if old.place == new.place:
            raise WronglyAsked(
                "the settings name that database, so the state is there already; TO is where it should be next"
            )
        await old.begin(alone=True)
        await new.begin(alone=True)
        planned, arrived = await plan(old, new), None
        if planned.interrupted:
            which = new.place if planned.step == "finish" else old.place
            say(f"An earlier move was interrupted; {visible(which)} has the whole state, and is the one to use.")
        if planned.step != "done" and not args.dry_run:
            if not agreed(args, STEPS[planned.step].format(source=visible(old.place), target=visible(new.place))):
                return 1
            arrived = await _carried_out(old, new, planned, shown=not settings.json)
        facts = {"step": planned.step, "moved": arrived is not None}
        states = {"source": planned.source, "target_before": planned.target, "target_after": arrived}
        show_contents(facts, states, source=old.place, target=new.place, as_json=settings.json)
    if planned.step == "done":
        say(f"The state was moved to {visible(new.place)} before; nothing to do.")
    if not args.dry_run:
        say(f"Next: {next_after_move(target.schema if target.url else None)}")
    return 0


async def _carried_out(old: WholeState, new: WholeState, planned: MovePlan, *, shown: bool) -> Contents:
    with table_progress(shown=shown) as drawn:

        def at_step(name: str) -> None:
            drawn(name)
            on_step(name)

        return await move(old, new, planned, at_step)


def agreed(args: argparse.Namespace, what: str) -> bool:
    """Return whether the person agrees to that.

    Raises:
        WronglyAsked: there is nobody to ask.
    """
    if args.yes:
        return True
    say(f"This will {what}.")
    answer = ask_yes_no("Go ahead?", stdin_is_tty=sys.stdin is not None and sys.stdin.isatty())
    if answer is None:
        raise WronglyAsked("there is no terminal to ask at; nothing was changed; use --yes, or --dry-run to look first")
    if not answer:
        say("Nothing was changed.")
    return answer


async def _target(args: argparse.Namespace, source: StatePlace) -> StatePlace:
    if args.to == FILE:
        return StatePlace(source.file, None, source.schema)
    text = (await text_of(STANDARD)).strip() if args.to == STANDARD else args.to
    try:
        url = database_url(text)
        name = schema(args.schema) if args.schema else source.schema
    except ValueError as error:
        raise WronglyAsked(f"TO is `sqlite` or the URL of a PostgreSQL database: {error}") from None
    return StatePlace(source.file, url, name)
