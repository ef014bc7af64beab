"""The directory of people in the state database, and the copy of it that this process keeps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from knowledge.access.audit_entries import entries_noted
from knowledge.access.changes import DirectoryChange
from knowledge.access.directory import Directory, DirectoryEntry
from knowledge.access.ports import TOPIC
from knowledge.errors import StorageError
from knowledge.history.audit.chain_end import HOLD_THE_END, appending
from knowledge.history.timestamps import aware, moment
from knowledge.state.change_events import PUBLISH
from knowledge.state.tables import Row, StateTables, StateTransaction
from knowledge.trust.ports import Note

REMEMBERED_S: Final = 60.0
"""How long the last known directory is used while the database is unreachable; a caller's identity is not used longer than that
either.
"""
MOST_EVENTS = 1_000
"""The most events that are searched for a change of the directory. If there are more, the directory is read again."""

_ALL = "SELECT kind, who, folder, names, changed_by, changed_at FROM forge.directory ORDER BY kind, who, folder"
_SET = """
INSERT INTO forge.directory (kind, who, folder, names, changed_by, changed_at) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (kind, who, folder) DO UPDATE SET names = excluded.names, changed_by = excluded.changed_by,
    changed_at = excluded.changed_at
"""
_REMOVE = "DELETE FROM forge.directory WHERE kind = %s AND who = %s AND folder = %s"


class ChangedEvent(Protocol):
    """A change event: the part of `knowledge.state.ports.Event` that is needed here."""

    @property
    def seq(self) -> int:
        """Its number."""

    @property
    def topic(self) -> str:
        """Its kind."""


class ChangeEvents(Protocol):
    """The change events of the same database."""

    async def last_event(self) -> int:
        """Return the number of the newest event."""

    async def events_after(self, seq: int, *, limit: int = 1000) -> Sequence[ChangedEvent]:
        """Return the events after that one, oldest first."""


class SqlPeople:
    """The directory of one knowledge base, shared by all processes that use the state database."""

    def __init__(self, tables: StateTables, events: ChangeEvents, clock: Callable[[], float] = time.monotonic) -> None:
        self._tables, self._events, self._clock = tables, events, clock
        self._known: Directory | None = None
        self._seq, self._checked_at = 0, 0.0

    async def directory(self) -> Directory:
        """Return the directory as it is now; it is read again only if an event says that it changed."""
        try:
            # First, so that a change between the two reads is seen the next time.
            newest = await self._events.last_event()
            known = self._known
            if known is None or not await self._is_unchanged(newest):
                known = _directory(await self._tables.read(_ALL))
        except StorageError:
            if self._known is None or self._clock() - self._checked_at > REMEMBERED_S:
                raise
            return self._known
        self._known, self._seq, self._checked_at = known, newest, self._clock()
        return known

    async def _is_unchanged(self, newest: int) -> bool:
        """Return whether the events since the last look say that the directory is the same."""
        if newest <= self._seq:
            return newest == self._seq  # a lower number: the database was restored from a backup
        passed = [one for one in await self._events.events_after(self._seq, limit=MOST_EVENTS) if one.seq <= newest]
        # Events are deleted after a day, so some may be missing.
        return len(passed) == newest - self._seq and all(one.topic != TOPIC for one in passed)

    async def change(self, change: DirectoryChange, *, note: Note) -> Directory:
        """Replace the directory by the result of `change`, with an audit record and an event for each entry that changed."""
        aware(note.at)

        async def work(t: StateTransaction) -> Directory:
            # Every change holds the end of the chain, so none runs at the same time.
            await t.execute(HOLD_THE_END)
            before = _directory(await t.execute(_ALL))
            after = change(before)
            kept, known = {one.key for one in after.entries}, set(before.entries)
            gone = [one for one in before.entries if one.key not in kept]
            new = [one for one in after.entries if one not in known]
            for one in gone:
                await t.execute(_REMOVE, one.key)
            for one in new:
                await t.execute(_SET, (*one.key, json.dumps(one.names), one.by, aware(one.at)))
            for record in entries_noted(before, after, note):
                await t.execute(*appending(record))
            if changed := [one.label for one in (*gone, *new)]:
                await t.execute(PUBLISH, (TOPIC, changed))
            return after

        return await self._tables.transact(work)


def _directory(rows: Sequence[Row]) -> Directory:
    return Directory(
        tuple(
            DirectoryEntry(kind, who, folder, tuple(json.loads(names)), by, moment(at))
            for kind, who, folder, names, by, at in rows
        )
    )
