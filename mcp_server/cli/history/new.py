"""`new PATH`: write a new page in your editor, or from a file."""

from __future__ import annotations

import argparse
from pathlib import Path

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.pages.paths import without_suffix
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.history.draft import Draft
from mcp_server.cli.history.saved import NOT_DONE, add_text_options, print_saved, save, text_given
from mcp_server.cli.terminal.commands import command
from mcp_server.cli.terminal.options import nonempty
from mcp_server.cli.terminal.output import say


class AlreadyThere(KnowledgeError):
    """There is already a page at the path of the new one. Nothing was written."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} exists already; change it with: {command('edit', path)}")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("path", metavar="PATH", type=nonempty, help="the path of the new page; .md may be left out")
    add_text_options(parser)
    parser.add_argument("--title", metavar="TEXT", type=nonempty, help="the heading (default: from the file's name)")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Write the page; exit code 1 if nothing was written, 3 if it waits for approval."""
    given = text_given(args)
    path, state_dir = anyio.run(_place, args.path, settings)
    heading = f"# {args.title or _title(path)}\n"
    if given is not None:
        # A text with front matter or a heading brings its own title, unless one is given.
        text = f"{heading}\n{given}" if args.title or not given.lstrip().startswith(("#", "---")) else given
        draft = Draft.made(state_dir, path, text)
    else:
        draft = Draft.made(state_dir, path, f"{heading}\n")
        if draft.edited().strip() in ("", heading.strip()):
            draft.drop()
            say("nothing was written: there is no text besides the heading")
            return NOT_DONE
    return print_saved(anyio.run(save, args, settings, path, draft.read(), None), draft, settings)


async def _place(asked: str, settings: Settings) -> tuple[str, Path]:
    """Return the path of the new page, and the folder for drafts.

    Raises:
        InvalidPath: it is a folder, or can't be a page.
        AlreadyThere: a page is there.
    """
    async with opened_app(settings) as app:
        path, exists = await app.services.tiers.new_page(asked)
        if exists:
            raise AlreadyThere(path)
        return path, app.base.state_dir


def _title(path: str) -> str:
    words = " ".join(without_suffix(path.rpartition("/")[2]).replace("-", " ").replace("_", " ").split())
    return words[:1].upper() + words[1:]
