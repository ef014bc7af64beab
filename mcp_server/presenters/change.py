"""A change of pages as the terminal and the page show it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from knowledge.git.change_commits import CommitOfChange, short
from knowledge.history.timeline.timeline import Change, ChangedPage
from knowledge.history.timestamps import utc_text

OUTSIDE = "outside"
"""The name under which changes made outside the server are selected."""
_OUTCOMES = {
    "partial": "only part of it was written",
    "undone": "taken back at once, because the check found a fault",
    "restored": "text that a save had removed unknowingly was put back",
}


def change_fields(change: Change, commit: CommitOfChange | None = None) -> Mapping[str, Any]:
    """Return the change as JSON fields; `commit` is its Git commit, if it is known."""
    commit = commit or CommitOfChange("")
    committed = {"commit": commit.id, "commit_author": commit.author, "commit_former": commit.former}
    return {**asdict(change), "at": utc_text(change.at), "outside": change.outside, **committed}


def committed(commit: CommitOfChange) -> str:
    """Return the commit of a change in a few words: `commit 1a2b3c4d5`, `commit 1a2b3c4d5 by Bob`."""
    if commit.former and not commit.id:
        return f"commit {short(commit.former)}, no longer on any branch"
    if commit.former:
        return f"commit {commit.short}, rewritten from {short(commit.former)}"
    return f"commit {commit.short}" + (f" by {commit.author}" if commit.author else "")


def author(change: Change) -> str:
    """Return who made the change: the host, the person, or an editor outside the server."""
    return "outside the server" if change.outside else change.by


def notes(change: Change) -> list[str]:
    """Return what else people should know: the reason, the source, who approved it, and its outcome if it was unusual."""
    found = [change.intent] if change.intent and not change.outside else []
    if change.source not in ("user", "unknown"):
        found.append(f"source {change.source}")
    if change.approved_by:
        found.append(f"approved by {change.approved_by}")
    if change.undoes:
        found.append(f"took back {', '.join(change.undoes)}")
    if change.outcome in _OUTCOMES:
        found.append(_OUTCOMES[change.outcome])
    return found


def effect(page: ChangedPage) -> str:
    """Return what happened to the page in a few words: `+3 -1`, `created +12`, `moved from a.md`, `removed`."""
    counts = "" if page.added is None else f"+{page.added} -{page.removed}"
    if page.kind == "created":
        return f"created +{page.added}"
    if page.kind == "removed":
        return "removed"
    if page.kind == "found":
        return "first seen"
    if page.kind == "moved":
        moved = f"moved from {page.moved_from}"
        return moved if page.before == page.after else f"{moved} {counts}".rstrip()
    return counts or "changed"
