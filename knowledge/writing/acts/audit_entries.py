"""The ledger entries of acts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from knowledge.history.acts import FOLLOW, lines_changed
from knowledge.history.ports import Actor, FileChange, HistoryEntry
from knowledge.pages.vault import revision_of
from knowledge.writing.files.file_set import FoundPage
from knowledge.writing.files.swap import StagedChange
from knowledge.writing.model import ActWork, Contents, PageAct

T = TypeVar("T")

SERVER = "knowledge-forge"
RESTORING = "restore"


def written(act: PageAct[T], work: ActWork[T], changes: Sequence[StagedChange], at: datetime) -> HistoryEntry:
    """Return the entry of an act that changes these files."""
    left = {change.path for change in changes if change.raw is not None}
    return HistoryEntry(
        at=at,
        actor=act.actor,
        changes=tuple(_file_change(change, work.moved.get(change.path)) for change in changes),
        source=work.source,
        confidence=work.confidence,
        proposal=act.proposal,
        decision=act.decision,
        intent=act.intent,
        outcome=work.outcome,
        origins={path: origins for path, origins in work.origins.items() if path in left},
        contradictions=work.contradictions,
        judgements=work.judgements,
        undoes=work.undoes,
    )


def noted(act: PageAct[T], work: ActWork[T], seen: Mapping[str, FoundPage], at: datetime) -> HistoryEntry:
    """Return the entry of an act that changes no file; its origins are those of the pages as `seen`."""
    same = [(path, seen[path].revision) for path in work.origins if work.record and seen[path].revision]
    changes = tuple(FileChange(path, revision, revision) for path, revision in same)
    origins = {path: work.origins[path] for path, _ in same}
    return replace(written(act, work, (), at), changes=changes, origins=origins)


def undone(entry: HistoryEntry) -> HistoryEntry:
    """Return the entry of the same act after all of it was undone."""
    changes = tuple(replace(change, after=change.before, moved_from=None) for change in entry.changes)
    return replace(entry, changes=changes, outcome="undone", origins={}, contradictions=(), undoes=())


def followed(old: str, new: str, revision: str, at: datetime) -> HistoryEntry:
    """Return the entry of the server's own act of following a page that somebody moved outside the server."""
    changes = (FileChange(old, revision, None), FileChange(new, None, revision, moved_from=old))
    intent = f"follow a move made outside the server: {old} to {new}"
    return HistoryEntry(at, Actor(SERVER, FOLLOW, revision), changes, source="unknown", intent=intent)


def restoring(path: str, joined: bytes) -> PageAct[None]:
    """Return the server's own act that restores text that an editor overwrote unknowingly.

    `joined` is that text merged with what the editor saved.
    """

    async def work(_: Contents) -> ActWork[None]:
        return ActWork({path: joined}, None, source="unknown", outcome="restored")

    actor = Actor(SERVER, RESTORING, revision_of(joined))
    return PageAct(actor, (path,), work, intent="restore text that a stale save removed")


def _file_change(change: StagedChange, moved_from: str | None) -> FileChange:
    added, removed = lines_changed(change.seen.raw, change.raw)
    return FileChange(
        path=change.path,
        before=change.seen.revision,
        after=None if change.raw is None else revision_of(change.raw),
        staged=change.staged,
        moved_from=moved_from,
        lines_added=added,
        lines_removed=removed,
    )
