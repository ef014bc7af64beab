"""Contradictions with other pages: found after a write, because a person's edit is never held back for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import anyio
import anyio.to_thread

from knowledge.errors import EngineUnavailable, KnowledgeError, StorageError, TooMuchWaiting, TooMuchWork
from knowledge.history.ports import Actor, HistoryEntry, Ledger, Tracked
from knowledge.merge.claims.contradiction import contradictions
from knowledge.merge.document.unit_origins import PageFacts, presumed, trace
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import Rules, confidence, same_lineage
from knowledge.merge.model import Contradiction, Origin, Side, Unit, cut_short, section_name
from knowledge.offload import Aside, Here
from knowledge.pages.vault import Vault
from knowledge.writing.related.related_pages import Related
from knowledge.writing.related.target_page import PageLookup, front_matter_of

log = logging.getLogger(__name__)

MOST_UNITS = 24
"""Units of the last writes to a page that are compared with other pages."""
MOST_PAGES = 5
MOST_WAITING = 200
COMPARED_LIKE_ONE = 500
"""Pairs of characters of a page and what was written that cost as much as one that is only read."""
QUIET_S = 1.0
LEAST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Written:
    """Units that a write brought into a page, each with its origin."""

    actor: Actor
    path: str
    revision: str
    units: Sequence[tuple[Unit, Origin]]


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a look at one page follows from: its text and origins, and what was written elsewhere."""

    path: str
    text: str
    revision: str
    tracked: Tracked | None
    tracked_text: str | None
    modified: datetime
    rules: Rules
    written: Written
    now: datetime

    @property
    def size(self) -> int:
        """Return how many characters have to be read, where page and units are held against each other more of them."""
        new = sum(len(unit.text) for unit, _ in self.written.units)
        read = len(self.text) + len(self.tracked_text or "") + new
        return max(read, len(self.text) * new // COMPARED_LIKE_ONE)


class CrossPageClaims:
    """Looks for stronger claims on other pages that say otherwise, one write after the other, while nothing waits for it.

    It only adds to what `kb_contradictions` lists: when an engine or the database is away, nothing is found.
    """

    def __init__(
        self,
        vault: Vault,
        related: Related,
        ledger: Ledger,
        pages: PageLookup,
        now: Callable[[], datetime],
        *,
        aside: Aside | None = None,
    ) -> None:
        self._vault, self._related, self._aside = vault, related, aside or Here()
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
                entry = HistoryEntry(self._now(), written.actor, outcome="flagged", contradictions=found)
                await self._ledger.commit(entry)
        except (EngineUnavailable, StorageError):
            log.warning("cannot look for contradictions with %s on other pages", written.path, exc_info=True)

    async def _found(self, written: Written) -> list[Contradiction]:
        found: list[Contradiction] = []
        written = replace(written, units=list(written.units)[:MOST_UNITS])
        texts = [unit.text for unit, _ in written.units if len(unit.text.split()) >= LEAST_WORDS]
        for path in await self._related.pages(texts, but=written.path, limit=MOST_PAGES):
            found += await self._against(path, written)
        return found

    async def _against(self, path: str, written: Written) -> list[Contradiction]:
        try:
            ground = await self._ground(path, written)
            return await self._aside.run(_disagreeing, ground, size=ground.size, what=f"comparing with {path}")
        except (TooMuchWork, TooMuchWaiting):
            log.warning("contradictions between %s and %s are not looked for", written.path, path, exc_info=True)
            return []
        except (EngineUnavailable, StorageError):
            raise
        except KnowledgeError:
            return []

    async def _ground(self, path: str, written: Written) -> _Ground:
        file = await anyio.to_thread.run_sync(self._vault.read, path)
        tracked = await self._ledger.tracked(path)
        before = await self._ledger.content(path, tracked.revision) if tracked else None
        return _Ground(
            path=path,
            text=file.raw.decode("utf-8", "replace"),
            revision=file.revision,
            tracked=tracked,
            tracked_text=None if before is None else before.decode("utf-8", "replace"),
            modified=self._pages.modified(path) or self._now(),
            rules=(await self._pages.surroundings(path)).rules,
            written=written,
            now=self._now(),
        )


def _disagreeing(ground: _Ground) -> list[Contradiction]:
    """Return where the page contradicts what was written, and is the stronger of the two."""
    written, rules = ground.written, ground.rules
    there = units(cut(ground.text))
    pairs = contradictions(there, [unit for unit, _ in written.units])
    if not pairs:
        return []
    origins = _origins(ground, there)
    found = []
    for pair in pairs:
        unit, origin = written.units[pair.new]
        other = origins[pair.existing]
        if same_lineage(origin.source, other.source):
            continue
        existing = _side((ground.path, ground.revision), there[pair.existing], other, rules, ground.now)
        new = _side((written.path, written.revision), unit, origin, rules, ground.now)
        if (existing.confidence or 0.0) > (new.confidence or 0.0):
            comparison = pair.comparison
            found.append(Contradiction(comparison.kind, comparison.subject, comparison.reason, existing, new))
    return found


def _origins(ground: _Ground, there: Sequence[Unit]) -> list[Origin]:
    source = str(front_matter_of(ground.text).get("source") or "user")
    tracked = ground.tracked
    facts = PageFacts(ground.path, source, ground.modified, tracked=tracked is not None)
    then = None if ground.tracked_text is None else units(cut(ground.tracked_text))
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
