"""The directory of people as plain Python: the specification."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from knowledge.access.audit_entries import entries_noted
from knowledge.access.changes import DirectoryChange
from knowledge.access.directory import Directory
from knowledge.access.ports import TOPIC
from knowledge.history.ports import HistoryEntry
from knowledge.history.timestamps import aware
from knowledge.trust.ports import Note


class MemoryPeople:
    """A directory that ends with the process."""

    def __init__(self, tell: Callable[[str, Sequence[str]], object], append: Callable[[HistoryEntry], object]) -> None:
        self._tell, self._append, self._directory = tell, append, Directory()

    async def directory(self) -> Directory:
        """Return the directory."""
        return self._directory

    async def change(self, change: DirectoryChange, *, note: Note) -> Directory:
        """Replace the directory."""
        aware(note.at)
        before, after = self._directory, change(self._directory)
        for record in entries_noted(before, after, note):
            self._append(record)
        gone = [one for one in before.entries if one.key not in {each.key for each in after.entries}]
        new = [one for one in after.entries if one not in before.entries]
        if changed := [one.label for one in (*gone, *new)]:
            self._tell(TOPIC, changed)
        self._directory = after
        return after
