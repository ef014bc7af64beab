"""`sync`: merge what a Git remote has, and send it what it lacks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from agents.engine.work.markdown import counted
from knowledge.git.change_commits import short
from knowledge.merge.three_way.both_sides import OTHER_MARK, with_both_sides
from knowledge.pages.vault import revision_of
from knowledge.sync.arriving_files import ArrivedFile
from knowledge.sync.changed_files import CommitAuthor
from knowledge.sync.page_arrival import ArrivalKind, PageArrival
from knowledge.sync.sync import SyncOutcome
from mcp_server.app.factories.sync import sync_of
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import opened_app
from mcp_server.cli.history.draft import Draft
from mcp_server.cli.terminal.commands import command
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.output import print_json, say

NOT_DONE, TO_SETTLE = 1, 3
MOST_LISTED = 40
COMMITS_OFF = (
    "nothing was synchronised: only commits can be sent, and the server makes none. Set FORGE_GIT=commit, or"
    ' git = "commit" in forge.toml'
)
WORDS: dict[ArrivalKind, str] = {
    "taken": "taken from the other side",
    "merged": "merged",
    "removed": "removed",
    "kept": "kept: removed on the other side, but changed here",
    "returned": "restored: removed here, but changed on the other side",
    "beside": "changed on both sides and not mergeable; this side's stays",
}


@dataclass(frozen=True, slots=True)
class SyncConflict:
    """A page in which both sides changed the same text. `draft` has the page with both sides marked."""

    page: str
    places: int
    commit: str
    author: str
    draft: str
    settle: str
    """The command that writes the page once the marks are settled."""


def arguments(_parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments: it has none."""


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Synchronise; exit code 1 if it was not done, 3 if a person has to settle text that both sides changed."""
    if settings.git != "commit":
        say(COMMITS_OFF)
        return NOT_DONE
    conflicts: list[SyncConflict] = []
    outcome = None
    try:
        outcome = anyio.run(_synchronised, settings, conflicts)
    finally:
        # If the remote can no longer be reached, the pages are merged all the same.
        if outcome is None or not settings.json:
            _print_conflicts(conflicts)
    if settings.json:
        print_json(_fields(outcome, conflicts))
    else:
        _print_outcome(outcome)
    return TO_SETTLE if conflicts else 0


async def _synchronised(settings: Settings, conflicts: list[SyncConflict]) -> SyncOutcome:
    async with opened_app(settings) as app:

        async def on_conflict(arrival: PageArrival, author: CommitAuthor) -> None:
            await app.services.writer.shown(arrival.path)
            conflicts.append(_drafted(arrival, author, app.base.state_dir))

        return await sync_of(app.base, app.services.load_writing()).run(on_conflict)


def _drafted(arrival: PageArrival, author: CommitAuthor, state_dir: Path) -> SyncConflict:
    now = arrival.raw or b""
    texts = [raw.decode("utf-8", "replace") for raw in (arrival.base, now, arrival.theirs)]
    draft = Draft.made(state_dir, arrival.path, with_both_sides(*texts, mark=OTHER_MARK))
    settle = command("edit", arrival.path, "--from", str(draft.file), "--base", revision_of(now))
    return SyncConflict(arrival.path, arrival.conflicts, author.commit, author.name, str(draft.file), settle)


def _print_conflicts(conflicts: Sequence[SyncConflict]) -> None:
    for one in conflicts:
        places = counted(one.places, "place")
        say(visible(f"{one.page}: {one.author} changed the same text in commit {short(one.commit)} ({places})"))
        say(f"the page has this side's text; both sides, marked, are in {one.draft}: settle them there, then")
        say(visible(f"  {one.settle}"))


def _print_outcome(outcome: SyncOutcome) -> None:
    for one in outcome.arrived[:MOST_LISTED]:
        print(visible(f"{one.page or one.path}: {_told(one)} ({one.author.name}, {short(one.author.commit)})"))
    if len(outcome.arrived) > MOST_LISTED:
        print(f"and {counted(len(outcome.arrived) - MOST_LISTED, 'more file')}")
    came = counted(len({one.path for one in outcome.arrived}), "file")
    print(visible(f"{outcome.remote}: {came} came in, {counted(outcome.sent, 'commit')} sent"))


def _told(one: ArrivedFile) -> str:
    return WORDS.get(one.kind, one.kind) + (f"; the other one is {one.aside}" if one.aside else "")


def _fields(outcome: SyncOutcome, conflicts: Sequence[SyncConflict]) -> dict[str, object]:
    arrived = [
        {
            "path": one.path,
            "page": one.page or None,
            "what": one.kind,
            "commit": one.author.commit,
            "author": one.author.name,
            "aside": one.aside or None,
        }
        for one in outcome.arrived
    ]
    return {
        "remote": outcome.remote,
        "arrived": arrived,
        "sent": outcome.sent,
        "edits": list(outcome.edits),
        "conflicts": [asdict(one) for one in conflicts],
    }
