"""`diff PATH [A] [B]`: show what a change did to a page, or how two of its states differ, word by word."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

import anyio

from knowledge.history.acts import lines_changed, named_act
from knowledge.history.timeline.comparison import NOW, Comparison, PageState
from knowledge.history.timestamps import utc_text
from knowledge.merge.unified_diff import unified_diff
from knowledge.pages.vault import REVISION_DIGITS
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.history.records import up_to_date
from mcp_server.cli.history.view.diff_view import print_diff
from mcp_server.cli.terminal import times
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked, nonempty
from mcp_server.cli.terminal.output import print_json, say

SAME = 1
MOST_CHARACTERS = 4_000_000
"""The most characters of a diff. People read it in a pager, so there is room for all of it."""
LONGEST_LINE = 1_000_000
STATES = f"the id of a change, a revision, {NOW}, or a time ({times.FORMS})"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("path", metavar="PATH", type=nonempty, help="the page; it may be gone or moved by now")
    parser.add_argument(
        "before", metavar="A", nargs="?", default="", help=f"{STATES}. The id alone shows what that change did"
    )
    parser.add_argument("after", metavar="B", nargs="?", default="", help="the same for the other state; default: now")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--words", action="store_true", help="mark words as [-removed-] and {+added+}")
    forms.add_argument("--unified", action="store_true", help="print a unified diff")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the differences; exit code 1 if there are none."""
    found = anyio.run(_compared, args, settings)
    diff = _diff(found)
    if settings.json:
        print_json(_fields(found, diff))
        return 0 if diff else SAME
    if found.begins:
        say(visible(f"it is not known what {found.path} was before, if it was there; all of it is shown as added"))
    if not diff:
        print(visible(f"{found.path} has not changed between the two"))
        return SAME
    print_diff(diff, titles=_titles(found), form="words" if args.words else "unified" if args.unified else "")
    return 0


async def _compared(args: argparse.Namespace, settings: Settings) -> Comparison:
    async with up_to_date(settings, args.path) as app:
        states = app.services.comparisons
        if not args.after and (not args.before or named_act(args.before) is not None):
            return await states.change(args.path, args.before)
        after = _state(args.after, beginning=False) if args.after else NOW
        return await states.between(args.path, _state(args.before, beginning=True), after)


def _state(text: str, *, beginning: bool) -> str | datetime:
    """Return the id of a change, a revision or `now` unchanged, and a day or a time as a moment.

    A day counts as its beginning with `beginning`, else as its end.

    Raises:
        WronglyAsked: it is none of these.
    """
    is_revision = len(text) == REVISION_DIGITS and set(text) <= set("0123456789abcdef")
    if text == NOW or is_revision or named_act(text) is not None:
        return text
    try:
        return times.since(text) if beginning else times.until(text)
    except argparse.ArgumentTypeError:
        raise WronglyAsked(f"{text!r} is not {STATES}") from None


def _diff(found: Comparison) -> str:
    before, after = ((state.raw or b"").decode("utf-8", "replace") for state in (found.before, found.after))
    return unified_diff(before, after, found.path, most_characters=MOST_CHARACTERS, longest_line=LONGEST_LINE)


def _titles(found: Comparison) -> tuple[str, str]:
    """Return a description of each of the two states, for the head of the diff."""
    if found.change:
        return f"before change {found.change}", f"after change {found.change}"
    before, after = (_title(state) for state in (found.before, found.after))
    return before, after


def _title(state: PageState) -> str:
    if state.at is not None:
        return f"after change {state.change}, {times.shown(state.at)}"
    return "no page" if state.raw is None else f"revision {state.revision}"


def _fields(found: Comparison, diff: str) -> dict[str, Any]:
    added, removed = lines_changed(found.before.raw, found.after.raw)
    states = {
        name: {
            "revision": state.revision,
            "change": state.change or None,
            "at": None if state.at is None else utc_text(state.at),
        }
        for name, state in (("from", found.before), ("to", found.after))
    }
    told = {"path": found.path, "change": found.change or None, **states, "known_before": not found.begins}
    return {**told, "added": added, "removed": removed, "diff": diff}
