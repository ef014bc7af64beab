"""`contradictions show|keep|both|edit`: look at a contradiction, and settle it as the person at this terminal."""

from __future__ import annotations

import argparse
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge.contradictions.settlement import CHOICES, CannotSettle, Choice, ContradictionNow, edited_pages
from knowledge.merge.model import Ruling
from knowledge.merge.unified_diff import unified_diff
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from mcp_server.approvals.contradictions.settle import ContradictionDecisions, SettledContradiction
from mcp_server.cli.app import opened_app
from mcp_server.cli.contradictions.view import choices_lines, diff_lines, effect_lines, side_lines
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.editor import edited
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import integer, nonempty
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.gate.host_registration import os_user
from mcp_server.presenters.contradiction import ContradictionSummary, contradiction_fields, contradiction_summary

if TYPE_CHECKING:
    from mcp_server.app.composition import App

DONE, NOT_DONE = 0, 1
LARGEST_ID = 2**62
ONLY_AT_A_TERMINAL = (
    "nothing was changed: only a person at a terminal can decide; run this in one, or use the page "
    "(`knowledge-forge review --web`)"
)
_MARK = re.compile(r"^%% knowledge-forge: text (\d+) of \d+\b.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PlannedDecision:
    """A decision on a contradiction that a person is about to make.

    `effect` completes "to ...", `diff` shows what would be written. `ended` says how the contradiction ended, if its
    state does not say so.
    """

    summary: ContradictionSummary
    effect: str
    diff: str
    act: Callable[[ContradictionDecisions], Awaitable[SettledContradiction]]
    ended: str = ""


def arguments(actions: Mapping[str, argparse.ArgumentParser]) -> None:
    """Add the options of these actions."""
    for name in ("show", "keep", "both", "dismiss", "edit", "reopen"):
        actions[name].add_argument("id", metavar="ID", type=integer(1, LARGEST_ID), help="its number in the list")
    actions["keep"].add_argument("side", choices=CHOICES, help="the statement that stays, as `show` numbers them")
    for name in ("both", "dismiss"):
        actions[name].add_argument(
            "--reason", metavar="TEXT", type=nonempty, required=True, help="the reason, which is kept and shown"
        )
    actions["dismiss"].add_argument(
        "--keep-existing",
        action="store_true",
        help="the existing claim is right, so the new one must not be written (default: both hold)",
    )
    for choice in CHOICES:
        actions["edit"].add_argument(
            f"--{choice}",
            metavar="TEXT",
            help=f"the new text of the paragraph, item or row with the {choice} statement (default: opens your editor)",
        )
    for name in ("keep", "both", "dismiss", "edit", "reopen"):
        actions[name].add_argument("--dry-run", action="store_true", help="show what would be done, and change nothing")


async def show(args: argparse.Namespace, settings: Settings) -> int:
    """Print a contradiction with both sides as they are now."""
    async with opened_app(settings) as app:
        summary = await _summary(app, args.id)
    if settings.json:
        print_json(contradiction_fields(summary))
        return DONE
    _lines(side_lines(summary))
    if summary.status == "open":
        _lines([*effect_lines(summary), "", "to settle it:", *(f"  {line}" for line in choices_lines(summary))])
    return DONE


async def keep(args: argparse.Namespace, settings: Settings) -> int:
    """Keep one side and rewrite the other one."""
    choice: Choice = args.side
    async with opened_app(settings) as app:
        summary = await _summary(app, args.id, must_be_open=True)
        why_not = summary.now.keeps[choice].why_not
        if why_not:
            raise CannotSettle(
                f"contradiction {args.id} can't be settled like that: {why_not}. Write the text that holds: "
                f"knowledge-forge contradictions edit {args.id}"
            )
        diff = summary.now.keeps[choice].diff
        effect = f"keep the {choice} statement ({summary.effect_of(choice)})"

        async def act(decisions: ContradictionDecisions) -> SettledContradiction:
            return await decisions.keep(args.id, choice, shown=summary.now.shown)

        ended = (
            "" if summary.now.keeps[choice].pages else "decided: the existing text stays, the new text is not written"
        )
        return await _decide(app, args, settings, PlannedDecision(summary, effect, diff, act, ended))


async def both(args: argparse.Namespace, settings: Settings) -> int:
    """Dismiss it, because both statements hold."""
    return await _dismissed(args, settings, "both")


async def dismiss(args: argparse.Namespace, settings: Settings) -> int:
    """Dismiss it: both statements hold, or the existing one stays."""
    return await _dismissed(args, settings, "existing" if args.keep_existing else "both")


async def _dismissed(args: argparse.Namespace, settings: Settings, ruling: Ruling) -> int:
    async with opened_app(settings) as app:
        summary = await _summary(app, args.id, must_be_open=True)
        effect = "keep the existing claim" if ruling == "existing" else "say that both hold"

        async def act(decisions: ContradictionDecisions) -> SettledContradiction:
            return await decisions.dismiss(args.id, ruling, args.reason)

        return await _decide(app, args, settings, PlannedDecision(summary, effect, "", act))


async def edit(args: argparse.Namespace, settings: Settings) -> int:
    """Write the texts that hold."""
    async with opened_app(settings) as app:
        summary = await _summary(app, args.id, must_be_open=True)
        now = summary.now
        texts = _given(now, {choice: getattr(args, choice) for choice in CHOICES})
        if not texts and not keyboard.is_terminal():
            say(f"{ONLY_AT_A_TERMINAL}; or name the text with --first or --second")
            return NOT_DONE
        texts = texts or _parsed(now, await edited(_editable(now)))
        pages = edited_pages(now, texts)
        before = {side.side.path: side.text for side in now.sides}
        diff = "\n".join(unified_diff(before[path], text, path) for path, text in pages.items())

        async def act(decisions: ContradictionDecisions) -> SettledContradiction:
            return await decisions.edit(args.id, texts, shown=now.shown)

        return await _decide(app, args, settings, PlannedDecision(summary, f"edit {' and '.join(pages)}", diff, act))


async def reopen(args: argparse.Namespace, settings: Settings) -> int:
    """Take a decision back: reopen a dismissal, or revert what a settlement wrote."""
    async with opened_app(settings) as app:
        summary = await _summary(app, args.id)
        if summary.status != "settled":
            if args.dry_run:
                print(f"{args.id} would be open again")
                return DONE
            done = await _decisions(app).reopen(args.id)
            if settings.json:
                print_json({"id": args.id, "dismissed": None, **_renewed_fields(done)})
                return DONE
            print(f"{args.id} is open again")
            _lines(_renewed_lines(done))
            return DONE
        diff = await app.services.settlements.undo_diff(args.id, by=f"{os_user()} (terminal)")

        async def act(decisions: ContradictionDecisions) -> SettledContradiction:
            return await decisions.reopen(args.id)

        return await _decide(app, args, settings, PlannedDecision(summary, "take this settlement back", diff, act))


def _renewed_fields(done: SettledContradiction) -> dict[str, object]:
    return {"renewed": list(done.renewed), "not_renewed": dict(done.not_renewed)}


def _renewed_lines(done: SettledContradiction) -> Sequence[str]:
    """Return lines with the proposals that wait again, and with those that can't, each with the reason."""
    lines = [f"{one} waits for approval again" for one in done.renewed]
    for one, why in done.not_renewed.items():
        lines.append(visible(f"{one} stays closed: {why}"))
        lines.append(
            f"to propose it again: the page of contradiction {done.settled.flag.id} (knowledge-forge review --web)"
        )
    return lines


async def _summary(app: App, flag_id: int, *, must_be_open: bool = False) -> ContradictionSummary:
    contradictions = app.services.contradictions
    flag = await (contradictions.one(flag_id) if must_be_open else contradictions.found(flag_id))
    return await contradiction_summary(app.services, flag)


def _decisions(app: App) -> ContradictionDecisions:
    return ContradictionDecisions(app.services, app.approvals, Approver(os_user(), "terminal"))


async def _decide(app: App, args: argparse.Namespace, settings: Settings, planned: PlannedDecision) -> int:
    """Show the contradiction and the effect, have the person confirm it by its number, and do it."""
    if args.dry_run:
        if settings.json:
            print_json({"id": args.id, "status": "analysis", "effect": planned.effect, "diff": planned.diff})
        else:
            _lines([f"this would {visible(planned.effect)}", *diff_lines(planned.diff)])
        return DONE
    if not keyboard.is_terminal():
        say(ONLY_AT_A_TERMINAL)
        return NOT_DONE
    # On stderr if stdout is for a program.
    show_line = say if settings.json else print
    for line in (*side_lines(planned.summary), *([""] if planned.diff else []), *diff_lines(planned.diff)):
        show_line(line)
    if await keyboard.line(f"to {visible(planned.effect)}, type the number of the contradiction: ") != str(args.id):
        say("nothing was changed: that is not the number of this contradiction")
        return NOT_DONE
    done = await planned.act(_decisions(app))
    after = await contradiction_summary(app.services, done.settled.flag)
    if settings.json:
        fields = {"diff": done.settled.diff, "pages": list(done.settled.pages), "change": done.settled.record}
        print_json({**contradiction_fields(after), **fields, **_renewed_fields(done)})
        return DONE
    print(visible(outcome(done, planned.ended or after.status)))
    for proposal in done.closed:
        print(f"{proposal} asked for the same and is closed")
    _lines(_renewed_lines(done))
    if after.status != "open":
        print(f"to undo this: knowledge-forge contradictions reopen {args.id}")
    return DONE


def outcome(done: SettledContradiction, status: str) -> str:
    """Return what was done in one sentence; `status` is the state of the contradiction, or how it ended."""
    settled, number = done.settled, done.settled.flag.id
    wrote = f"; wrote {' and '.join(settled.pages)} (change {settled.record})" if settled.pages else ""
    return f"{number} is {'open again' if status == 'open' else status}{wrote}"


def _lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(line)


def _given(now: ContradictionNow, texts: Mapping[Choice, str | None]) -> dict[int, str]:
    """Return the texts that were given on the command line, by the number of their block.

    Raises:
        CannotSettle: a statement has no block, or several.
    """
    found: dict[int, str] = {}
    for side, choice in enumerate(CHOICES):
        text = texts[choice]
        if text is None:
            continue
        blocks = [number for number, block in enumerate(now.blocks) if side in block.sides]
        if len(blocks) != 1:
            where = f"is in {len(blocks)} places" if blocks else "is not on a page"
            raise CannotSettle(
                f"the {choice} statement {where}, so it is not certain what --{choice} means; leave it out to edit in your editor"
            )
        # An item of a list stays one, whether or not the text begins with its mark.
        marker = now.blocks[blocks[0]].place.marker
        text = text if text.startswith(marker.strip() or text) or not text.strip() else marker + text
        if found.get(blocks[0], text) != text:
            raise CannotSettle("both statements are in one paragraph, so --first and --second must be the same text")
        found[blocks[0]] = text
    return found


def _editable(now: ContradictionNow) -> str:
    """Return the blocks as one text for an editor, each below a line that names its place."""
    count = len(now.blocks)
    parts = []
    for number, block in enumerate(now.blocks, 1):
        which = " and ".join(CHOICES[side] for side in block.sides)
        parts.append(
            f"%% knowledge-forge: text {number} of {count}, {block.path} line {block.place.line} ({which} statement); "
            "write the text that holds below this line; without any text, it is removed\n"
            + block.place.block.replace("\r\n", "\n").rstrip("\n")
            + "\n"
        )
    return "\n".join(parts)


def _parsed(now: ContradictionNow, text: str) -> dict[int, str]:
    """Return the texts of an edited file by the number of their block.

    Raises:
        CannotSettle: a line that names a place is missing.
    """
    found = list(_MARK.finditer(text))
    if [int(mark[1]) for mark in found] != list(range(1, len(now.blocks) + 1)):
        raise CannotSettle("nothing was changed: keep the lines that begin with %% knowledge-forge, each once")
    ends = [*(mark.start() for mark in found[1:]), len(text)]
    return {at: text[mark.end() : end].strip("\n") for at, (mark, end) in enumerate(zip(found, ends, strict=True))}
