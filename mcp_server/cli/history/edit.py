"""`edit PATH`: change a page in your editor, or from a file; what others wrote to it meanwhile is merged."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from knowledge.errors import UnknownRevision
from knowledge.merge.three_way.both_sides import as_sent, is_unsettled, with_both_sides
from knowledge.writing.related.target_page import text_of
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.history.draft import Draft
from mcp_server.cli.history.records import findable
from mcp_server.cli.history.saved import NOT_DONE, Saved, add_text_options, print_saved, save, text_given
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.commands import command
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked, nonempty
from mcp_server.cli.terminal.output import say

MARKS_LEFT = "nothing was written: the text still has the marks of a conflict (<<<<<<<); settle it and remove them"


@dataclass(frozen=True, slots=True)
class OpenedPage:
    """A page as the person sees it before they change it."""

    path: str
    text: str
    revision: str
    state_dir: Path


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("path", metavar="PATH", type=nonempty, help="the page: path, title or alias")
    add_text_options(parser)
    parser.add_argument(
        "--base",
        metavar="REVISION",
        help="with --from: the revision that the text was made from (default: the page as it is now)",
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Open the page, and write what the person made of it; exit code 1 if nothing was written, 3 if it waits for approval.

    Raises:
        WronglyAsked: there is neither a text nor a terminal; or --base is given without a text.
    """
    given = text_given(args)
    if args.base and given is None:
        raise WronglyAsked("--base belongs to --from: an editor opens the page as it is now")
    page = anyio.run(_opened, args, settings)
    if given is not None:
        if is_unsettled(given):
            say(MARKS_LEFT)
            return NOT_DONE
        draft = Draft.made(page.state_dir, page.path, given)
        return _written(args, settings, page, draft)
    draft = Draft.made(page.state_dir, page.path, page.text)
    if draft.edited() == page.text:
        draft.drop()
        say("nothing was written: the text is as it was")
        return NOT_DONE
    return _written(args, settings, page, draft)


async def _opened(args: argparse.Namespace, settings: Settings) -> OpenedPage:
    """Return the page, and keep it as the base of the merge."""
    async with opened_app(settings) as app:
        await findable(app, args.path)
        path = await app.services.tiers.locate(args.path)
        file = await anyio.to_thread.run_sync(app.base.vault.read, path)
        raw, revision = file.raw, file.revision
        if args.base:
            found = await app.services.state.ledger.content(path, args.base)
            if found is None:
                raise UnknownRevision(path, args.base, revision)
            raw, revision = found, args.base
        await app.services.writer.shown(path)
        return OpenedPage(path, text_of(path, raw), revision, app.base.state_dir)


def _written(args: argparse.Namespace, settings: Settings, page: OpenedPage, draft: Draft) -> int:
    """Write the draft to the page. As long as somebody else has changed the same text, ask the person to settle the conflict."""
    base = page
    while True:
        text = draft.read()
        if is_unsettled(text):
            say(f"{MARKS_LEFT}; the text is kept in {draft.file}")
            return NOT_DONE
        saved = anyio.run(save, args, settings, base.path, as_sent(base.text, text), base.revision)
        if not saved.in_conflict:
            return print_saved(saved, draft, settings)
        now = anyio.run(_opened, argparse.Namespace(path=base.path, base=None), settings)
        both = Draft.made(base.state_dir, base.path, with_both_sides(base.text, now.text, text))
        if not _asked(saved, draft, both, now, settings):
            return print_saved(saved, draft, settings)
        both.edited()
        draft, base = both, now


def _asked(saved: Saved, draft: Draft, both: Draft, now: OpenedPage, settings: Settings) -> bool:
    """Say what happened, and return whether the person wants to settle the conflict in their editor now."""
    count = len(saved.conflicts)
    say(visible(f"{now.path}: somebody changed the same text since you opened it ({count} place{'s'[: count != 1]})"))
    say(f"your text is kept in {draft.file}")
    asks = keyboard.is_terminal() and not settings.json
    if asks and anyio.run(keyboard.confirms, "Edit again, with both sides marked in the page?"):
        return True
    say(f"the page with both sides marked is {both.file}; settle them there, then")
    say(visible(f"  {command('edit', now.path, '--from', str(both.file), '--base', now.revision)}"))
    return False
