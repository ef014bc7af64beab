"""An outbox that ends with the process: slow, obvious, and the specification of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from knowledge.errors import UnknownOutboxEntry
from knowledge.history.ports import HistoryEntry
from knowledge.history.timestamps import aware
from knowledge.outbox import audit_entries as entries
from knowledge.outbox.codec import (
    MENTIONS_IN_ALL,
    MENTIONS_OF_A_PAGE,
    OPEN,
    ended_entry,
    new_entry,
    newest_mentions,
    storable_marks,
)
from knowledge.outbox.ports import Fate, Mention, OutboxEntry


class MemoryOutbox:
    """Outbox entries and mentions in this process; `append` adds to the audit chain."""

    def __init__(self, append: Callable[[HistoryEntry], object]) -> None:
        self._append = append
        self._outbox_entries: dict[str, OutboxEntry] = {}
        self._mentions: dict[tuple[str, str], Mention] = {}

    async def begin(self, outbox_entry: OutboxEntry, *, within: timedelta) -> OutboxEntry:
        """Record that `outbox_entry` is about to be executed and return it, or return the equal one."""
        asked = new_entry(outbox_entry)
        known = [one for one in reversed(self._outbox_entries.values()) if one.fate != "failed"]
        own = [one for one in known if asked.proposal and one.proposal == asked.proposal]
        same = [*own, *(one for one in known if _same(one, asked, within))]
        if same:
            return same[0]
        if asked.id in self._outbox_entries:
            raise ValueError(f"outbox entry {asked.id} already exists")
        self._outbox_entries[asked.id] = asked
        return asked

    def _known(self, entry_id: str) -> OutboxEntry:
        if entry_id not in self._outbox_entries:
            raise UnknownOutboxEntry(entry_id)
        return self._outbox_entries[entry_id]

    async def mark(self, entry_id: str, marks: Mapping[str, str]) -> None:
        """Add the marks by which it can be looked up."""
        known = self._known(entry_id)
        self._outbox_entries[entry_id] = replace(known, marks={**known.marks, **storable_marks(marks)})

    async def end(self, entry_id: str, fate: Fate, *, at: datetime, result: str | None = None) -> OutboxEntry:
        """Record its outcome, also in the audit chain, and return it."""
        known = self._known(entry_id)
        after = ended_entry(known, fate, at, result)
        if after is None:
            return known
        self._append(entries.ended(after))
        self._outbox_entries[entry_id] = after
        return after

    async def outbox_entry(self, entry_id: str) -> OutboxEntry | None:
        """Return it, or None."""
        return self._outbox_entries.get(entry_id)

    async def outbox_entry_of(self, proposal: str) -> OutboxEntry | None:
        """Return the newest outbox entry that executes that proposal, or None."""
        return next(
            (one for one in reversed(self._outbox_entries.values()) if proposal and one.proposal == proposal), None
        )

    async def marked(self, name: str) -> OutboxEntry | None:
        """Return the newest outbox entry that has a mark of that name, or None."""
        return next((one for one in reversed(self._outbox_entries.values()) if name in one.marks), None)

    async def open(self, *, limit: int = 100) -> Sequence[OutboxEntry]:
        """Return those begun or unsure, newest first."""
        return [one for one in reversed(self._outbox_entries.values()) if one.fate in OPEN][:limit]

    async def forget(self, *, ended_before: datetime, limit: int = 1000) -> int:
        """Drop outbox entries that ended before then, the oldest first, and return how many."""
        aware(ended_before)
        old = [
            (one.ended_at, place, id_) for place, (id_, one) in enumerate(self._outbox_entries.items()) if one.ended_at
        ]
        dropped = sorted(one for one in old if one[0] < ended_before)[:limit]
        for _, _, id_ in dropped:
            del self._outbox_entries[id_]
        return len(dropped)

    async def mention(self, mentions: Sequence[Mention]) -> None:
        """Record which origin names which page; for the same page and origin the newest counts."""
        for told in newest_mentions(mentions):
            known = self._mentions.get((told.path, told.origin))
            if known is None or known.at <= told.at:
                self._mentions[told.path, told.origin] = told
        for path in {mention.path for mention in mentions}:
            self._cut([one for one in self._mentions.values() if one.path == path], MENTIONS_OF_A_PAGE)
        self._cut(list(self._mentions.values()), MENTIONS_IN_ALL)

    def _cut(self, mentions: list[Mention], most: int) -> None:
        for old in sorted(mentions, key=_newest_first)[most:]:
            del self._mentions[old.path, old.origin]

    async def mentions(self, path: str, *, limit: int = 20) -> Sequence[Mention]:
        """Return the origins that name the page, newest first."""
        return sorted((one for one in self._mentions.values() if one.path == path), key=_newest_first)[:limit]


def _same(known: OutboxEntry, asked: OutboxEntry, within: timedelta) -> bool:
    if (known.principal, known.tool, known.digest) != (asked.principal, asked.tool, asked.digest):
        return False
    return known.fate in OPEN or (not asked.proposal and known.begun_at >= asked.begun_at - within)


def _newest_first(mention: Mention) -> tuple[float, str, str]:
    return -mention.at.timestamp(), mention.path, mention.origin
