"""Finds contradictions with other pages: after a write, because a person's edit is never delayed by them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import anyio

from knowledge.contradictions.page_pair import PagePair, PageUnits, is_dated_page, pair_contradictions
from knowledge.contradictions.page_records import PageRecords
from knowledge.errors import EngineUnavailable, KnowledgeError, StorageError, TooMuchWaiting, TooMuchWork
from knowledge.history.ports import Actor, HistoryEntry, Ledger
from knowledge.merge.model import Contradiction, Origin, Unit
from knowledge.offload import InlineRunner, StepRunner
from knowledge.writing.related.related_pages import RelatedPages

MOST_UNITS = 24
"""Units of the last writes to a page that are compared with other pages."""
MOST_PAGES = 5
MOST_WAITING = 200
QUIET_S = 1.0
LEAST_WORDS = 3
MOST_FLAGS = 10_000
"""Contradictions on record that new ones are compared with."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """Units that a write brought into a page, each with its origin."""

    actor: Actor
    path: str
    revision: str
    units: Sequence[tuple[Unit, Origin]]


class CrossPageClaims:
    """Looks for claims on other pages that contradict a write, one write after the other, in the background.

    It only adds to the list of `kb_contradictions`: while an engine or the database is away, nothing is found.
    """

    def __init__(
        self,
        records: PageRecords,
        related: RelatedPages,
        ledger: Ledger,
        now: Callable[[], datetime],
        *,
        runner: StepRunner | None = None,
    ) -> None:
        self._records, self._related, self._runner = records, related, runner or InlineRunner()
        self._ledger, self._now = ledger, now
        self._waiting: dict[str, Written] = {}
        self._last_write = 0.0
        self._arrived, self._idle = anyio.Event(), anyio.Event()
        self._idle.set()
        self._running = False

    def enqueue(self, written: Written) -> None:
        """Queue the write; several writes to one page by one principal are checked together."""
        if not written.units or not self._running:
            return
        before = self._waiting.pop(written.path, None)
        units_before = before.units if before is not None and before.actor.principal == written.actor.principal else ()
        self._waiting[written.path] = replace(written, units=[*units_before, *written.units][-MOST_UNITS:])
        # The oldest write is given up: a finding less does no harm, a queue without a bound would.
        while len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._idle = anyio.Event() if self._idle.is_set() else self._idle
        self._last_write = anyio.current_time()
        self._arrived.set()

    async def settled(self) -> None:
        """Return once every write so far has been checked."""
        await self._idle.wait()

    async def run(self) -> None:
        """Look until cancelled, whenever nobody has written for a moment: writers need the processor themselves."""
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

    async def _found(self, written: Written) -> list[Contradiction]:
        """Return contradictions that are not on record yet."""
        page = await self._records.page(written.path)
        new = list(written.units)[:MOST_UNITS]
        dated = await self._runner.run(is_dated_page, page, size=len(page.text), what=f"reading {page.path}")
        other = PageUnits(written.path, written.revision, new, dated)
        texts = [unit.text for unit, _ in new if len(unit.text.split()) >= LEAST_WORDS]
        found: list[Contradiction] = []
        for path in await self._related.pages(texts, but=written.path, limit=MOST_PAGES):
            try:
                pair = PagePair(await self._records.page(path), other, self._now())
                found += await self._runner.run(
                    pair_contradictions, pair, size=pair.size, what=f"comparing with {path}"
                )
            except (TooMuchWork, TooMuchWaiting):
                log.warning("contradictions between %s and %s are not looked for", written.path, path, exc_info=True)
            except (EngineUnavailable, StorageError):
                raise
            except KnowledgeError:  # the page was removed, or cannot be read
                continue
        return await not_on_record(self._ledger, found)


async def not_on_record(ledger: Ledger, found: Sequence[Contradiction]) -> list[Contradiction]:
    """Return those of the contradictions that are neither open nor dismissed, each once."""
    known: set[tuple[frozenset[str], bytes]] = set()
    for path in {one.existing.path for one in found}:
        for dismissed in (False, True):
            flags = await ledger.flags(path, limit=MOST_FLAGS, dismissed=dismissed)
            known.update(_name(flag.contradiction) for flag in flags)
    return list({_name(one): one for one in found if _name(one) not in known}.values())


def _name(found: Contradiction) -> tuple[frozenset[str], bytes]:
    return frozenset((found.existing.path, found.new.path)), found.pair
