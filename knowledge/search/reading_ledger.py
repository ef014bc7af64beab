"""The reading ledger: what each caller has seen, and the nudge for who searches a place without having seen its map."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import anyio

from knowledge.errors import StorageError
from knowledge.search.answers import MapView, PageReading, SearchAnswer
from knowledge.state.ports import ReadingMark, StateStore

log = logging.getLogger(__name__)

NUDGE_QUIET_S = 3600.0
"""The same place is named once an hour: said more often it would only be skipped."""
GATHERED_S = 0.05
"""What searches show is written together with what the next ones show in this time."""
LAST_WORDS_S = 1.0
MOST_SETTLED = 2_000
FRESH = timedelta(minutes=1)
"""What was noted so recently is not written again: most looks of a busy caller are of this kind."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who looks: a principal, and the journey the look belongs to (`""` outside of one)."""

    principal: str
    journey: str = ""


class ReadingLedger:
    """Notes looks in the state database, so that every process and host of the same caller knows of them.

    It only steers: when the database cannot be asked, nothing is noted, nobody is nudged, and the answer is given. While
    `run` runs, what searches showed is written a moment after the answer; maps and pages, which nudges rest on, before it.
    """

    def __init__(self, state: StateStore, now: Callable[[], datetime]) -> None:
        self._state, self._now = state, now
        self._not_before: OrderedDict[tuple[Reader, str], datetime] = OrderedDict()
        self._pending: dict[Reader, dict[ReadingMark, datetime]] = {}
        self._arrived = anyio.Event()
        self._running = False

    async def run(self) -> None:
        """Write what searches showed, until cancelled; what is left then is written first."""
        self._running = True
        try:
            while True:
                await self._arrived.wait()
                await anyio.sleep(GATHERED_S)
                await self._flush()
        finally:
            self._running = False
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                await self._flush()

    async def saw_map(self, reader: Reader, view: MapView) -> None:
        """Note the map, and those of the directories whose children it showed as well."""
        shown = {child.path.rpartition("/")[0] for child in view.children} | {view.path}
        await self._note(reader, dict.fromkeys((ReadingMark(path, "map") for path in sorted(shown)), self._now()))

    async def saw_page(self, reader: Reader, reading: PageReading) -> None:
        """Note that the page was opened."""
        await self._note(reader, {ReadingMark(reading.path, "read"): self._now()})

    async def searched(self, reader: Reader, directory: str | None, answer: SearchAnswer) -> str | None:
        """Note the search and what it showed; return the nudge that is due, None if there is none.

        `directory` is where was searched, `""` for everywhere, None when it was one page: there no map is missing.
        """
        places = [] if directory is None else [directory]
        shown = dict.fromkeys([*places, *(hit.path for hit in answer.hits)])
        looks = dict.fromkeys((ReadingMark(path, "search") for path in shown), self._now())
        if self._running:
            self._pending.setdefault(reader, {}).update(looks)
            self._arrived.set()
        else:
            await self._note(reader, looks)
        return None if directory is None else await self._nudge(reader, directory)

    async def _nudge(self, reader: Reader, directory: str) -> str | None:
        now, key = self._now(), (reader, directory)
        if now < self._not_before.get(key, now):
            return None  # it was settled a moment ago; asking the database again would be a write
        try:
            seen = await self._state.looks(reader.principal, reader.journey, [directory])
            if ReadingMark(directory, "map") in seen:
                return None
            given = await self._state.give_nudge(
                reader.principal, reader.journey, directory, now=now, quiet_s=NUDGE_QUIET_S
            )
        except StorageError:
            log.warning("no nudge: the reading ledger cannot be asked", exc_info=True)
            return None
        self._not_before[key] = now + (timedelta(seconds=NUDGE_QUIET_S) if given else FRESH)
        if len(self._not_before) > MOST_SETTLED:
            self._not_before.popitem(last=False)
        where = "there" if directory else "in this knowledge base"
        nudge = f"you have not looked at the map {where}: kb_map({directory!r}) lists each page in one line"
        return nudge if given else None

    async def _flush(self) -> None:
        self._arrived = anyio.Event()
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
            log.warning("a look was not noted: the reading ledger cannot be written", exc_info=True)
