"""`history [PATH]`: list the changes of a page, a folder or everything; `--lines` shows who wrote each line of a page, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

import anyio

from knowledge.git.change_commits import CommitOfChange
from knowledge.history.timeline.line_authors import AuthoredPage
from knowledge.history.timeline.timeline import Change, Changes
from knowledge.history.timestamps import utc_text
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.history.records import up_to_date
from mcp_server.cli.history.view.lines_view import page_fields, page_lines
from mcp_server.cli.terminal import times
from mcp_server.cli.terminal.commands import command
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked, integer, nonempty
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.presenters.change import OUTSIDE, author, change_fields, committed, effect, notes

NOTHING = 1
MOST_LISTED = 1_000
PAGES_SHOWN = 5
LONGEST_NOTE = 160
Commits = Mapping[str, CommitOfChange]
"""Git commits by the ids of changes."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        default="",
        help="a page (path, title or alias) or a folder; default: everything",
    )
    parser.add_argument(
        "--host",
        metavar="NAME",
        type=nonempty,
        help=f"only changes by this host, or made or approved by this person; {OUTSIDE}: those made outside the server",
    )
    parser.add_argument("--since", metavar="TIME", type=times.since, help=f"only changes since then: {times.FORMS}")
    parser.add_argument(
        "--until", metavar="TIME", type=times.until, help="only changes before then; a day counts whole"
    )
    parser.add_argument("--lines", action="store_true", help="show who wrote each line of the page, when and why")
    parser.add_argument(
        "--limit", metavar="N", type=integer(1, MOST_LISTED), default=20, help="maximum number to list (default 20)"
    )
    parser.add_argument(
        "--cursor",
        metavar="CURSOR",
        type=nonempty,
        help="continue an earlier list with the value that it printed at its end",
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """List the changes, newest first; exit code 1 if there are none."""
    if args.lines:
        return _lines(args, settings)
    found, commits = anyio.run(_changes, args, settings)
    if settings.json:
        print_json([change_fields(change, commits.get(change.id)) for change in found.changes])
    elif not found.changes:
        print("no changes on record")
    else:
        for line in _listing(found, commits):
            print(line)
    if found.next_cursor:
        which = "the next" if args.cursor else "the newest"
        say(f"these are {which} {len(found.changes)}; {_next_command(args, found.next_cursor)} lists older ones")
    return 0 if found.changes else NOTHING


async def _changes(args: argparse.Namespace, settings: Settings) -> tuple[Changes, Commits]:
    async with up_to_date(settings, args.path) as app:
        found = await app.services.timeline.changes(
            args.path,
            who="" if args.host == OUTSIDE else args.host,
            since=args.since,
            until=args.until,
            limit=args.limit,
            cursor=args.cursor,
        )
        return found, await app.services.change_commits.of(found.changes)


def _next_command(args: argparse.Namespace, cursor: str) -> str:
    """Return the command that continues the list. Its times are absolute, because `2h` means a different time a minute later."""
    words = [args.path] if args.path else []
    chosen = {
        "--host": args.host,
        "--since": utc_text(args.since) if args.since else None,
        "--until": utc_text(args.until) if args.until else None,
        "--limit": str(args.limit),
        "--cursor": cursor,
    }
    words += [word for option, value in chosen.items() if value for word in (option, value)]
    return visible(command("history", *words))


def _lines(args: argparse.Namespace, settings: Settings) -> int:
    if not args.path or args.host or args.since or args.until or args.cursor:
        raise WronglyAsked("--lines shows one page as it is now: history PATH --lines")
    page = anyio.run(_authors, args, settings)
    if settings.json:
        print_json(page_fields(page))
    elif page.revision is None:
        say(visible(f"{page.path} was removed; {command('history', page.path)} says who removed it"))
    else:
        for line in page_lines(page):
            print(line)
    return 0 if page.runs else NOTHING


async def _authors(args: argparse.Namespace, settings: Settings) -> AuthoredPage:
    async with up_to_date(settings, args.path) as app:
        return await app.services.line_authors.of(args.path)


def _listing(found: Changes, commits: Commits) -> Iterator[str]:
    width = max(len(change.id) for change in found.changes)
    for change in found.changes:
        yield f"{change.id:>{width}}  {times.shown(change.at)}  {visible(author(change))}"
        for line in _about(change, found.path if found.is_page else None):
            yield f"{'':{width}}  {line}"
        if commit := commits.get(change.id):
            yield f"{'':{width}}  {visible(committed(commit))}"


def _about(change: Change, path: str | None) -> Iterator[str]:
    """Yield the lines about a change; in the history of one page, that page comes first."""
    pages = sorted(change.pages, key=lambda page: path not in (page.path, page.moved_from))
    for page in pages[:PAGES_SHOWN]:
        yield visible(f"{page.path}  {effect(page)}")
    if (more := len(pages) - PAGES_SHOWN) > 0:
        yield f"and {more} more pages"
    if told := notes(change):
        yield visible(_short(told))


def _short(told: Sequence[str]) -> str:
    return "; ".join(
        " ".join(one.split()) if len(one) <= LONGEST_NOTE else f"{one[: LONGEST_NOTE - 3]}..." for one in told
    )
