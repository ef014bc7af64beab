"""`import KIND SOURCE`: bring in pages from elsewhere. It first shows what would be written, and then asks."""

from __future__ import annotations

import argparse
import os
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from knowledge.errors import InvalidPath, KnowledgeError
from knowledge.pages.paths import clean_path, is_markdown
from knowledge.pages.vault import Vault
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import must_sign, requirement_at
from mcp_server.cli.app import acting, opened_app
from mcp_server.cli.inout.view import imported_fields, imported_lines, plan_fields, plan_lines
from mcp_server.cli.local_host import LocalHost
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.commands import command
from mcp_server.cli.terminal.console import progress_bars
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked, nonempty
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.gate.host_registration import Principal
from mcp_server.gate.policy import Allow, Trust
from mcp_server.imports.earlier import EarlierImports, earlier_imports, key_of
from mcp_server.imports.kinds import KINDS, incoming
from mcp_server.imports.model import Incoming
from mcp_server.imports.names.placement import marked_untrusted, placed
from mcp_server.imports.plan import Importing, ImportPlan
from mcp_server.imports.run import carry_out

if TYPE_CHECKING:
    from mcp_server.app.composition import App

NOT_DONE = 1
TOOL = "kb_merge"
"""The tool whose level an import needs, because both write pages."""
ASKS = "nothing was imported: add --yes, or run this at a terminal to be asked"


class ImportRefused(KnowledgeError):
    """The caller may not import anything, or may not import these pages. Nothing was written."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"nothing was imported: {reason}")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    kinds = "; ".join(f"{kind}: {known.help}" for kind, known in KINDS.items())
    parser.add_argument("kind", metavar="KIND", choices=tuple(KINDS), help=kinds)
    parser.add_argument("source", metavar="SOURCE", type=nonempty, help="the folder or file to import")
    parser.add_argument(
        "--into", metavar="FOLDER", default="", help="the folder that takes the pages (default: the root)"
    )
    parser.add_argument(
        "--name",
        metavar="NAME",
        default="",
        help="tells sources of a kind apart when they are imported again (default: the name of the folder or file)",
    )
    parser.add_argument(
        "--configuration", action="store_true", help="also import pages that configure the server, such as agents"
    )
    parser.add_argument(
        "--untrusted", action="store_true", help="mark every page: hosts treat its text as data, never as instructions"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be written")
    parser.add_argument("--yes", action="store_true", help="write without asking")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Show what would be written, ask, and write it; exit code 1 if something that should have been written was not.

    Raises:
        WronglyAsked: --into can't be a folder.
    """
    try:
        args.into = clean_path(args.into)
    except InvalidPath as error:
        raise WronglyAsked(f"--into: {error}") from error
    if is_markdown(args.into):
        raise WronglyAsked("--into names a page; it takes a folder")
    return anyio.run(_import, args, settings)


async def _import(args: argparse.Namespace, settings: Settings) -> int:
    place = await anyio.to_thread.run_sync(_place, args.source)
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(opened_app(settings))
        await anyio.to_thread.run_sync(_require_outside, place, app.base.vault.root)
        who = await acting(app.base.state, settings)
        await _require_level(app, who, args)
        held = stack.enter_context(ExitStack())
        found = await anyio.to_thread.run_sync(held.enter_context, incoming(args.kind, place, args.name))
        ledger, now = app.services.state.ledger, app.services.now
        earlier = await earlier_imports(ledger, key_of(found.kind, found.name, args.into))
        if args.untrusted:
            found = await anyio.to_thread.run_sync(marked_untrusted, found)
        found = await anyio.to_thread.run_sync(_placed, found, args.into, app.base.vault, earlier)
        importing = Importing(
            *(app.base.vault, ledger, app.services.writer, who.id, now()),
            configuration=args.configuration,
            copy=app.base.copy,
        )
        with progress_bars("files compared", shown=not settings.json) as (draw,):
            plan = await importing.plan(found, earlier, draw)
        if not settings.json:
            for line in plan_lines(plan, continues=earlier.continues):
                print(line)
        if not await _confirmed(args, plan, settings):
            return 0 if args.dry_run or not plan.writes else NOT_DONE
        with progress_bars("files imported", shown=not settings.json) as (draw,):
            done = await carry_out(importing, plan, now, draw)
        if settings.json:
            print_json({**plan_fields(plan), **imported_fields(done), "dry_run": False})
        else:
            for line in imported_lines(done):
                print(line)
            say(f"to undo it: {command('undo', '--import', done.id)}")
        return NOT_DONE if done.failed else 0


async def _confirmed(args: argparse.Namespace, plan: ImportPlan, settings: Settings) -> bool:
    """Return whether to write the plan; if not, the reason has been printed."""
    asks = keyboard.is_terminal() and not settings.json
    goes_ahead = plan.writes and not args.dry_run
    if goes_ahead and args.yes:
        return True
    if settings.json:
        print_json({**plan_fields(plan), "dry_run": True})
    if goes_ahead and asks:
        if await keyboard.confirms(f"Write {plan.writes} files?"):
            return True
        say("nothing was imported: not confirmed")
    elif goes_ahead:
        say(ASKS)
    elif not plan.writes:
        say("nothing was imported: there is nothing new")
    return False


async def _require_level(app: App, who: Principal, args: argparse.Namespace) -> None:
    """Check that the caller may write pages, and with --configuration, that they may configure the server.

    Raises:
        NotDone: tools that write are not available here.
        ImportRefused: the caller's level is too low.
    """
    if args.dry_run:
        return
    await LocalHost(app, who).require(TOOL)
    if args.configuration and who.is_person:
        passkeys = await must_sign(app.services.state.trust, who.user)
        if requirement_at(Trust.HIGH_STAKES, "terminal", passkeys=passkeys) != "advisory":
            raise ImportRefused("pages that configure the server need a passkey; leave out --configuration")
    needed = Trust.HIGH_STAKES if args.configuration and not who.is_person else Trust.EDIT
    decision = await app.gate.decide("import", needed, who)
    if not isinstance(decision, Allow):
        raise ImportRefused(f"{decision.why}. A person can run it at a terminal")


def _placed(found: Incoming, into: str, vault: Vault, earlier: EarlierImports) -> Incoming:
    return placed(found, into, (page.path for page in vault.scan()), earlier, by_name=vault.is_obsidian())


def _place(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _require_outside(place: Path, kb: Path) -> None:
    real, root = Path(os.path.realpath(place)), Path(os.path.realpath(kb))
    if real == root or root in real.parents or real in root.parents:
        raise ImportRefused(visible(f"{place} is in the knowledge base or holds it; copy it elsewhere first"))
