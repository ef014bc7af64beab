"""Write a person's text to a page through the gate, and say what became of it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from knowledge.history.acts import act_name
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.history.draft import Draft
from mcp_server.cli.local_host import LocalHost, NotDone, local_host
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.commands import command
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.input import STANDARD, text_of
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import print_json, say

NOT_DONE, WAITS = 1, 3
MERGE = "kb_merge"


@dataclass(frozen=True, slots=True)
class Saved:
    """The outcome of saving a text: the answer of kb_merge, and the id of the change, "" if nothing was written."""

    answer: Mapping[str, Any]
    change: str = ""

    @property
    def conflicts(self) -> Sequence[Mapping[str, Any]]:
        """The places that somebody else changed too."""
        return self.answer.get("conflicts") or ()

    @property
    def in_conflict(self) -> bool:
        """Whether text of the person is left out because somebody else changed the same place."""
        return bool(self.conflicts) and self.answer["status"] in ("conflict", "partial")


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the text comes from, and why it is written."""
    parser.add_argument(
        "standard", metavar="-", nargs="?", choices=(STANDARD,), help="read the text from standard input"
    )
    parser.add_argument("--from", metavar="FILE", dest="file", help="read the text from this file instead of an editor")
    parser.add_argument("--reason", metavar="TEXT", default="", help="the reason, for the history")


def text_given(args: argparse.Namespace) -> str | None:
    """Return the text of the file or of standard input; None if the person is to write it in an editor.

    Raises:
        WronglyAsked: it can't be read, or is empty; or there is no terminal for an editor.
    """
    if args.standard and args.file:
        raise WronglyAsked("the text comes from - or from --from FILE, not from both")
    name = args.standard or args.file
    if name is None:
        if not keyboard.is_terminal():
            raise WronglyAsked("an editor needs a terminal; pass the text with --from FILE, or - for standard input")
        return None
    text: str = anyio.run(text_of, name)
    if not text.strip():
        raise WronglyAsked("the text is empty, so nothing was written")
    return text


async def save(args: argparse.Namespace, settings: Settings, path: str, text: str, base: str | None) -> Saved:
    """Merge the text into the page; `base` is the revision that it was made from, None for a new page."""
    more: dict[str, Any] = {} if base is None else {"base_revision": base, "section": "*"}
    async with local_host(settings) as at:
        try:
            answer = await at.call(MERGE, path=path, content=text, source="user", intent=args.reason, **more)
        except NotDone as error:
            return Saved({"status": "refused", "path": path, "note": str(error), "proposal": None})
        if answer["status"] == "proposed":
            return await _decided(at, answer, settings)
        return Saved(answer, await _change(at, answer) if answer["status"] in ("done", "partial") else "")


async def _decided(at: LocalHost, answer: Mapping[str, Any], settings: Settings) -> Saved:
    """Show the proposal to the person, if they are there, and return its outcome once it is decided."""
    from mcp_server.cli.runs.decision import decided  # loads the review, which most edits do not need

    if settings.json or not keyboard.is_terminal() or not await decided(at.app, answer["proposal"]["id"]):
        return Saved(answer)
    proposal = await at.app.services.state.trust.proposal(answer["proposal"]["id"])
    if proposal is None or proposal.state != "executed":
        return Saved({**answer, "status": "rejected"})
    done = {**answer, "status": "done"}
    return Saved(done, await _change(at, done))


async def _change(at: LocalHost, answer: Mapping[str, Any]) -> str:
    lines = await at.app.services.state.ledger.history(str(answer["path"]), limit=1)
    return act_name(lines[0]) if lines else ""


def print_saved(saved: Saved, draft: Draft, settings: Settings) -> int:
    """Say what became of the text, and return the exit code. The draft is removed if the page has all of it."""
    answer, status = saved.answer, saved.answer["status"]
    kept = status not in ("done", "unchanged")
    if not kept:
        draft.drop()
    if settings.json:
        print_json({**answer, "change": saved.change or None, "draft": str(draft.file) if kept else None})
    elif status == "done":
        print(visible(f"{answer['path']} was written (change {saved.change})"))
        say(visible(f"to undo it: {command('undo', str(answer['path']), '--change', saved.change)}"))
    else:
        say(visible(_sentence(saved)))
    if answer.get("note") and not settings.json:
        say(visible(str(answer["note"])))
    if kept and not settings.json and not saved.in_conflict:
        say(f"your text is kept in {draft.file}")
    return 0 if status == "done" else WAITS if status == "proposed" else NOT_DONE


def _sentence(saved: Saved) -> str:
    answer = saved.answer
    if answer["status"] == "proposed":
        return f"it waits for approval: {command('review', '--show', str(answer['proposal']['id']))}"
    if answer["status"] == "unchanged":
        return "nothing was written: the page says this already"
    if answer["status"] == "partial":
        return f"only part of it was written to {answer['path']} (change {saved.change})"
    return f"nothing was written to {answer['path']}"
