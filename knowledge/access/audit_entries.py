"""The audit records of changes of the directory. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from knowledge.access.directory import Directory
from knowledge.history.audit.chain import canonical
from knowledge.history.ports import Actor, HistoryEntry
from knowledge.history.timestamps import aware
from knowledge.trust.ports import Note

LONGEST_REASON = 500
"""The most characters of an entry's names that its audit record holds."""


def assignment_digest(label: str, names: Sequence[str] | None) -> str:
    """Return a hash of what the entry with this label assigns; None if the entry was removed."""
    about = {"entry": label, "names": None if names is None else list(names)}
    return hashlib.sha256(canonical(about).encode("ascii")).hexdigest()


def entries_noted(before: Directory, after: Directory, note: Note) -> Iterator[HistoryEntry]:
    """Yield an audit record for each entry that differs between `before` and `after`, in the order of their keys."""
    known, new = ({one.key: one for one in each.entries} for each in (before, after))
    for key in sorted(known.keys() | new.keys()):
        if known.get(key) == new.get(key):
            continue
        entry, removed = new.get(key) or known[key], key not in new
        says = "removed" if removed else ", ".join(entry.names) or "nobody"
        yield HistoryEntry(
            at=aware(note.at),
            actor=Actor(note.by, note.act, assignment_digest(entry.label, None if removed else entry.names)),
            decision=entry.label,
            intent=says if len(says) <= LONGEST_REASON else f"{says[:LONGEST_REASON]}...",
            outcome="trust",
        )
