"""Contradictions with other pages: found after a write, because a person's edit is never held back for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import anyio
import anyio.to_thread

from knowledge.errors import EngineUnavailable, KnowledgeError, StorageError
from knowledge.ledger.ports import Actor, Entry, Ledger
from knowledge.merge.confidence import Rules, confidence, same_lineage
from knowledge.merge.contradiction import contradictions
from knowledge.merge.cut import cut, units
from knowledge.merge.model import Contradiction, Origin, Side, Unit, cut_short, section_name
from knowledge.merge.provenance import PageFacts, presumed, trace
from knowledge.vault import Vault
from knowledge.writing.pages import Pages, front_matter_of
from knowledge.writing.related import Related

log = logging.getLogger(__name__)

MOST_UNITS = 24
"""Units of the last writes to a page that are compared with other pages."""
MOST_PAGES = 5
MOST_WAITING = 200
QUIET_S = 1.0
LEAST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Written:
    """Units that a write brought into a page, each with its origin."""

    actor: Actor
    path: str
    revision: str
    units: Sequence[tuple[Unit, Origin]]


class Elsewhere:
    """Looks for stronger claims on other pages that say otherwise, one write after the other, while nothing waits for it.

    It only adds to what `kb_contradictions` lists: when an engine or the database is away, nothing is found.
    """

    def __init__(
        self,
        vault: Vault,
        related: Related,
        ledger: Ledger,
        pages: Pages,
        now: Callable[[], datetime],
    ) -> None:
        self._vault, self._related = vault, related
        self._ledger, self._pages, self._now = ledger, pages, now
        self._waiting: dict[str, Written] = {}
        self._last = 0.0
        self._arrived, self._idle = anyio.Event(), anyio.Event()
        self._idle.set()
        self._running = False

    def look(self, written: Written) -> None:
        """Remember to look, as soon as there is time; what was written to a page before is looked at together with it."""
        if not written.units or not self._running:
            return
        before = self._waiting.pop(written.path, None)
        units_before = before.units if before is not None and before.actor.principal == written.actor.principal else ()
        self._waiting[written.path] = replace(written, units=[*units_before, *written.units][-MOST_UNITS:])
        while len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._idle = anyio.Event() if self._idle.is_set() else self._idle
        self._last = anyio.current_time()
        self._arrived.set()

    async def settled(self) -> None:
        """Return when everything that was written so far has been looked at."""
        await self._idle.wait()

    async def run(self) -> None:
        """Look until cancelled, whenever nobody has written for a moment: writers need the processor themselves."""
        self._running = True
        try:
            while True:
                await self._arrived.wait()
                self._arrived = anyio.Event()
                while self._waiting:
                    while (rest_s := self._last + QUIET_S - anyio.current_time()) > 0:  # noqa: ASYNC110  a moving deadline
                        await anyio.sleep(rest_s)
                    await self._look_once(self._waiting.pop(next(iter(self._waiting))))
                self._idle.set()
        finally:
            self._running = False
            self._idle.set()

    async def _look_once(self, written: Written) -> None:
        try:
            found = await self._found(written)
            if found:
                entry = Entry(self._now(), written.actor, outcome="flagged", contradictions=found)
                await self._ledger.commit(entry)
        except (EngineUnavailable, StorageError):
            log.warning("cannot look for contradictions with %s on other pages", written.path, exc_info=True)

    async def _found(self, written: Written) -> list[Contradiction]:
        found: list[Contradiction] = []
        wanted = list(written.units)[:MOST_UNITS]
        texts = [unit.text for unit, _ in wanted if len(unit.text.split()) >= LEAST_WORDS]
        for path in await self._related.pages(texts, but=written.path, limit=MOST_PAGES):
            found += await self._against(path, written, wanted)
        return found

    async def _against(self, path: str, written: Written, wanted: Sequence[tuple[Unit, Origin]]) -> list[Contradiction]:
        try:
            file = await anyio.to_thread.run_sync(self._vault.read, path)
        except KnowledgeError:
            return []
        text = file.raw.decode("utf-8", "replace")
        there = units(cut(text))
        pairs = await anyio.to_thread.run_sync(contradictions, there, [unit for unit, _ in wanted])
        if not pairs:
            return []
        own = front_matter_of(text)
        rules = (await self._pages.surroundings(path)).rules
        origins = await self._origins(path, there, str(own.get("source") or "user"))
        found = []
        for pair in pairs:
            unit, origin = wanted[pair.new]
            other = origins[pair.existing]
            if same_lineage(origin.source, other.source):
                continue
            existing = _side((path, file.revision), there[pair.existing], other, rules, self._now())
            new = _side((written.path, written.revision), unit, origin, rules, self._now())
            if (existing.confidence or 0.0) > (new.confidence or 0.0):
                comparison = pair.comparison
                found.append(Contradiction(comparison.kind, comparison.subject, comparison.reason, existing, new))
        return found

    async def _origins(self, path: str, there: Sequence[Unit], source: str) -> list[Origin]:
        tracked = await self._ledger.tracked(path)
        modified = self._pages.modified(path) or self._now()
        facts = PageFacts(path, source, modified, tracked=tracked is not None)
        before = await self._ledger.content(path, tracked.revision) if tracked else None
        then = units(cut(before.decode("utf-8", "replace"))) if before is not None else None
        known = trace(there, tracked.origins if tracked else (), then)
        return [origin or presumed(unit, facts) for unit, origin in zip(there, known, strict=True)]


def _side(place: tuple[str, str], unit: Unit, origin: Origin, rules: Rules, now: datetime) -> Side:
    weight = confidence(
        origin.source,
        origin.observed_at,
        now=now,
        rules=rules,
        authority=origin.authority,
        corroborated_by=origin.corroborated_by,
    )
    return Side(
        path=place[0],
        section=section_name(unit.section),
        text=cut_short(unit.text),
        source=origin.source,
        authority=weight.authority,
        observed_at=origin.observed_at,
        confidence=weight.confidence,
        revision=place[1],
    )
