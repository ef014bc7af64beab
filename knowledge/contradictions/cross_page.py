"""Finds contradictions with other pages after a write, in the background, so that no write waits for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import anyio

from knowledge.contradictions.comparer import PageComparer
from knowledge.errors import KnowledgeError
from knowledge.history.ports import Actor, HistoryEntry, Ledger
from knowledge.merge.model import Contradiction, unit_digest
from knowledge.writing.related.related_pages import RelatedPages

MOST_UNITS = 24
"""The most units of recent writes to one page that are compared with other pages."""
MOST_PAGES = 5
MOST_WAITING = 200
QUIET_S = 1.0
LEAST_WORDS = 3

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """The texts of the units that a write added to a page."""

    actor: Actor
    path: str
    texts: Sequence[str]


class CrossPageClaims:
    """Looks for claims on other pages that contradict a write, one write after the other, in the background.

    It only adds to the list of `kb_contradictions`: while an engine or the database is away, nothing is found.
    """

    def __init__(
        self,
        comparer: PageComparer,
        related: RelatedPages,
        ledger: Ledger,
        now: Callable[[], datetime],
    ) -> None:
        self._comparer, self._related, self._ledger, self._now = comparer, related, ledger, now
        self._waiting: dict[str, Written] = {}
        self._last_write = 0.0
        self._arrived, self._idle = anyio.Event(), anyio.Event()
        self._idle.set()
        self._running = False

    def enqueue(self, written: Written) -> None:
        """Queue the write; several writes to one page by one principal are checked together."""
        if not written.texts or not self._running:
            return
        before = self._waiting.pop(written.path, None)
        earlier = before.texts if before is not None and before.actor.principal == written.actor.principal else ()
        self._waiting[written.path] = replace(written, texts=[*earlier, *written.texts][-MOST_UNITS:])
        # The oldest write is dropped: a missed contradiction does little harm, an unbounded queue would.
        while len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        # An event of anyio can't be cleared, so a new one takes its place.
        self._idle = anyio.Event() if self._idle.is_set() else self._idle
        self._last_write = anyio.current_time()
        self._arrived.set()

    async def settled(self) -> None:
        """Return once every write so far has been checked."""
        await self._idle.wait()

    async def run(self) -> None:
        """Process the queue until cancelled, whenever nobody has written for a moment: writers need the processor."""
        self._running = True
        try:
            while True:
                await self._arrived.wait()
                self._arrived = anyio.Event()
                while self._waiting:
                    while (rest_s := self._last_write + QUIET_S - anyio.current_time()) > 0:  # noqa: ASYNC110  a moving deadline
                        await anyio.sleep(rest_s)
                    written = self._waiting.pop(next(iter(self._waiting)))
                    try:
                        if found := await self._found(written):
                            entry = HistoryEntry(self._now(), written.actor, outcome="flagged", contradictions=found)
                            await self._ledger.commit(entry)
                    except KnowledgeError:
                        log.warning(
                            "cannot look for contradictions with %s on other pages", written.path, exc_info=True
                        )
                self._idle.set()
        finally:
            self._running = False
            self._idle.set()

    async def _found(self, written: Written) -> Sequence[Contradiction]:
        """Return contradictions that are not on record yet."""
        page = await self._comparer.page(written.path)
        texts = [text for text in written.texts if len(text.split()) >= LEAST_WORDS]
        others = await self._related.pages(texts, but=written.path, limit=MOST_PAGES)
        return await self._comparer.contradictions(page, others, only=frozenset(map(unit_digest, texts)))
