"""The contract of the directory of people. Every engine passes the same contract suite."""

from __future__ import annotations

from typing import Protocol

from knowledge.access.changes import DirectoryChange
from knowledge.access.directory import Directory
from knowledge.trust.ports import Note

TOPIC = "people"
"""The topic of the change event that each change publishes, with the labels of the changed entries as keys."""


class PeopleRecords(Protocol):
    """The people, groups, rules and reviewers of one knowledge base."""

    async def directory(self) -> Directory:
        """Return the directory as it is now, whichever process changed it. Cheap: the same object until something changes.

        While the database is unreachable, the last known one is returned for at most a minute.
        """
        ...

    async def change(self, change: DirectoryChange, *, note: Note) -> Directory:
        """Replace the directory by the result of `change`, all or nothing, and return it.

        The audit chain gets one record for each entry that changed, and a change event with its label is published. Concurrent
        changes run one after the other, each on the result of the previous one. An error in `change` is raised, and nothing is
        recorded.
        """
        ...
