"""The reading ledger: what each caller has seen, and the nudge to read a map before searching in its directory."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import anyio

from knowledge.errors import StorageError
from knowledge.state.ports import ReadingMark

if TYPE_CHECKING:
    from knowledge.search.answers import MapView, PageReading, SearchAnswer
    from knowledge.search.use.events import PageUseKind, SearchedFor
    from knowledge.search.use.recorder import UseRecorder
    from knowledge.state.ports import StateStore

log = logging.getLogger(__name__)

NUDGE_QUIET_S = 3600.0
"""Seconds before the same place is named again: callers learn to ignore repeated advice."""
GATHERED_S = 0.5
"""Seconds for which the records of searches are collected, to be written together."""
LAST_FLUSH_S = 1.0
MOST_REMEMBERED = 2_000
FRESH = timedelta(minutes=1)
"""A reading is not written again within this time: most readings of a busy caller are repetitions."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A principal, and the journey that the call belongs to.

    Outside of a journey, `journey` is `""`, or a text that tells callers with the same principal apart.
    """

    principal: str
    journey: str = ""


class ReadingLedger:
    """Records in the state database what each caller has seen, for all of the caller's processes and hosts.

    The ledger only gives advice: if the database is unavailable, nothing is recorded or advised, and the answer is given anyway.
    While `run` is running, records of searches are written shortly after the answer. Records of maps and pages, which nudges
    depend on, are written before it.

    If `load_use` is given, questions and the pages used after them are recorded too, on this machine. The first
    question calls `load_use`.
    """

    def __init__(
        self, state: StateStore, now: Callable[[], datetime], load_use: Callable[[], UseRecorder] | None = None
    ) -> None:
        self._state, self._now = state, now
        self._load_use = load_use
        self._use: UseRecorder | None = None
        self._quiet_until: OrderedDict[tuple[Reader, str], datetime] = OrderedDict()
        self._pending: dict[Reader, dict[ReadingMark, datetime]] = {}
        self._arrived = anyio.Event()
        self._running = False

    async def run(self) -> None:
        """Write the readings from searches until cancelled; pending ones are written before it ends."""
        self._running = True
        try:
            while True:
                await self._arrived.wait()
                await anyio.sleep(GATHERED_S)
                await self._flush()
        finally:
            self._running = False
            # Shielded, because this runs when a server is stopped, and the last readings are not written yet.
            with anyio.move_on_after(LAST_FLUSH_S, shield=True):
                await self._flush()
                if self._use is not None:
                    await self._use.close()

    async def saw_map(self, reader: Reader, view: MapView) -> None:
        """Record that the caller saw this map, and the maps of the directories that it opened."""
        shown = {child.path.rpartition("/")[0] for child in view.children} | {view.path}
        await self._note(reader, dict.fromkeys((ReadingMark(path, "map") for path in sorted(shown)), self._now()))

    async def saw_page(self, reader: Reader, reading: PageReading) -> None:
        """Record that the page was read."""
        await self._note(reader, {ReadingMark(reading.path, "read"): self._now()})
        await self._note_use(reader, reading.path, "read", untrusted=reading.tainted)

    async def named_by_merge(self, reader: Reader, path: str) -> None:
        """Record that a merge named the page as its target."""
        await self._note_use(reader, path, "merge")

    async def searched(
        self, reader: Reader, directory: str | None, answer: SearchAnswer, searched_for: SearchedFor | None = None
    ) -> str | None:
        """Record the search and what it showed; return the nudge that is due, or None.

        `directory` is the place that was searched, `""` for everywhere, None for a single page, which has no map.
        """
        if searched_for is not None and self._load_use is not None:
            if self._use is None:
                self._use = self._load_use()
            if self._use.asked(reader.principal, reader.journey, searched_for, answer, at=self._now()):
                await self._store_use(self._use)
        places = [] if directory is None else [directory]
        shown = dict.fromkeys([*places, *(hit.path for hit in answer.hits)])
        looks = dict.fromkeys((ReadingMark(path, "search") for path in shown), self._now())
        # Looks from searches don't decide about nudges, so the answer need not wait until they are stored.
        if self._running:
            self._pending.setdefault(reader, {}).update(looks)
            self._arrived.set()
        else:
            await self._note(reader, looks)
        return None if directory is None else await self._nudge(reader, directory)

    async def _nudge(self, reader: Reader, directory: str) -> str | None:
        now, key = self._now(), (reader, directory)
        if now < self._quiet_until.get(key, now):
            return None  # asking the database again would be a write
        try:
            seen = await self._state.looks(reader.principal, reader.journey, [directory])
            if ReadingMark(directory, "map") in seen:
                return None
            # The database decides, so that of several processes only one gives the nudge.
            given = await self._state.give_nudge(
                reader.principal, reader.journey, directory, now=now, quiet_s=NUDGE_QUIET_S
            )
        except StorageError:
            log.warning("no nudge: the reading ledger is unavailable", exc_info=True)
            return None
        # If another process gave it, only the database knows when: it is asked again in a minute.
        self._quiet_until[key] = now + (timedelta(seconds=NUDGE_QUIET_S) if given else FRESH)
        if len(self._quiet_until) > MOST_REMEMBERED:
            self._quiet_until.popitem(last=False)
        if not given:
            return None
        where = "this directory" if directory else "this knowledge base"
        return f"you have not seen the map of {where} yet: kb_map({directory!r}) lists its pages, one line each"

    async def _note_use(self, reader: Reader, path: str, how: PageUseKind, *, untrusted: bool = False) -> None:
        use = self._use  # None before the first question, when no page can be used after one
        if use is not None and use.used(
            reader.principal, reader.journey, path, how=how, untrusted=untrusted, at=self._now()
        ):
            await self._store_use(use)

    async def _store_use(self, use: UseRecorder) -> None:
        """Store what was noted: a moment later, while `run` is running."""
        if self._running:
            self._arrived.set()
        else:
            await use.flush()

    async def _flush(self) -> None:
        self._arrived = anyio.Event()
        if self._use is not None:
            await self._use.flush()
        pending, self._pending = self._pending, {}
        for reader, looks in pending.items():
            await self._note(reader, looks)

    async def _note(self, reader: Reader, looks: Mapping[ReadingMark, datetime]) -> None:
        try:
            seen = await self._state.looks(reader.principal, reader.journey, [look.path for look in looks])
            new = [look for look, at in looks.items() if look not in seen or at - seen[look] >= FRESH]
            if new:
                at = max(looks[look] for look in new)
                await self._state.note_looks(reader.principal, reader.journey, new, at=at)
        except StorageError:
            log.warning("a look was not recorded: the reading ledger is unavailable", exc_info=True)
