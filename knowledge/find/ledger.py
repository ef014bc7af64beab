"""The reading ledger: what each caller has seen, and the nudge for who searches a place without having seen its map."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from knowledge.errors import StorageError
from knowledge.find.answers import MapView, Reading, SearchAnswer
from knowledge.storage.ports import Looked, StateStore

log = logging.getLogger(__name__)

NUDGE_QUIET_S = 3600.0
"""The same place is named once an hour: said more often it would only be skipped."""
FRESH = timedelta(minutes=1)
"""What was noted so recently is not written again: most looks of a busy caller are of this kind."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who looks: a principal, and the journey the look belongs to (`""` outside of one)."""

    principal: str
    journey: str = ""


class ReadingLedger:
    """Notes looks in the state database, so that every process and host of the same caller knows of them.

    It only steers: when the database cannot be asked, nothing is noted, nobody is nudged, and the answer is given.
    """

    def __init__(self, state: StateStore, now: Callable[[], datetime]) -> None:
        self._state, self._now = state, now

    async def saw_map(self, reader: Reader, view: MapView) -> None:
        """Note the map, and those of the directories whose children it showed as well."""
        shown = {child.path.rpartition("/")[0] for child in view.children} | {view.path}
        await self._note(reader, [Looked(path, "map") for path in sorted(shown)])

    async def saw_page(self, reader: Reader, reading: Reading) -> None:
        """Note that the page was opened."""
        await self._note(reader, [Looked(reading.path, "read")])

    async def searched(self, reader: Reader, directory: str | None, answer: SearchAnswer) -> str | None:
        """Note the search and what it showed; return the nudge that is due, None if there is none.

        `directory` is where was searched, `""` for everywhere, None when it was one page: there no map is missing.
        """
        places = [] if directory is None else [directory]
        shown = dict.fromkeys([*places, *(hit.path for hit in answer.hits)])
        await self._note(reader, [Looked(path, "search") for path in shown])
        return None if directory is None else await self._nudge(reader, directory)

    async def _nudge(self, reader: Reader, directory: str) -> str | None:
        try:
            seen = await self._state.looks(reader.principal, reader.journey, [directory])
            if Looked(directory, "map") in seen or not await self._state.give_nudge(
                reader.principal, reader.journey, directory, now=self._now(), quiet_s=NUDGE_QUIET_S
            ):
                return None
        except StorageError:
            log.warning("no nudge: the reading ledger cannot be asked", exc_info=True)
            return None
        where = "there" if directory else "in this knowledge base"
        return f"you have not seen what is {where}: kb_map({directory!r}) shows each page in one line"

    async def _note(self, reader: Reader, looks: Collection[Looked]) -> None:
        now = self._now()
        try:
            seen = await self._state.looks(reader.principal, reader.journey, [look.path for look in looks])
            new = [look for look in looks if look not in seen or now - seen[look] >= FRESH]
            if new:
                await self._state.note_looks(reader.principal, reader.journey, new, at=now)
        except StorageError:
            log.warning("a look was not noted: the reading ledger cannot be written", exc_info=True)
