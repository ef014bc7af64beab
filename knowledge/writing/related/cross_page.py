"""Finds contradictions with other pages: after a write, because a person's edit is never delayed by them."""

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
from knowledge.merge.document.unit_origins import PageFacts, presumed_origin, trace_origins
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import USER, Rules, confidence_in, same_lineage
from knowledge.merge.model import Contradiction, Origin, Side, Unit, cut_short, section_name
from knowledge.offload import InlineRunner, StepRunner, comparison_size
from knowledge.pages.vault import Vault
from knowledge.writing.related.related_pages import RelatedPages
from knowledge.writing.related.target_page import PageLookup, front_matter_of

MOST_UNITS = 24
"""Units of the last writes to a page that are compared with other pages."""
MOST_PAGES = 5
MOST_WAITING = 200
QUIET_S = 1.0
LEAST_WORDS = 3

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """Units that a write brought into a page, each with its origin."""

    actor: Actor
    path: str
    revision: str
    units: Sequence[tuple[Unit, Origin]]


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Everything that comparing one page with what was written on another depends on."""

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
        """Return the size of the step that compares them."""
        new = sum(len(unit.text) for unit, _ in self.written.units)
        return comparison_size(len(self.text), new, read=len(self.text) + len(self.tracked_text or "") + new)


class CrossPageClaims:
    """Looks for stronger claims on other pages that contradict a write, one write after the other, in the background.

    It only adds to the list of `kb_contradictions`: while an engine or the database is away, nothing is found.
    """

    def __init__(
        self,
        vault: Vault,
        related: RelatedPages,
        ledger: Ledger,
        pages: PageLookup,
        now: Callable[[], datetime],
        *,
        runner: StepRunner | None = None,
    ) -> None:
        self._vault, self._related, self._runner = vault, related, runner or InlineRunner()
        self._ledger, self._pages, self._now = ledger, pages, now
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
                    except (EngineUnavailable, StorageError):
                        log.warning(
                            "cannot look for contradictions with %s on other pages", written.path, exc_info=True
                        )
                self._idle.set()
        finally:
            self._running = False
            self._idle.set()

    async def _found(self, written: Written) -> list[Contradiction]:
        found: list[Contradiction] = []
        written = replace(written, units=list(written.units)[:MOST_UNITS])
        texts = [unit.text for unit, _ in written.units if len(unit.text.split()) >= LEAST_WORDS]
        for path in await self._related.pages(texts, but=written.path, limit=MOST_PAGES):
            try:
                pair = await self._comparison(path, written)
                found += await self._runner.run(_stronger_claims, pair, size=pair.size, what=f"comparing with {path}")
            except (TooMuchWork, TooMuchWaiting):
                log.warning("contradictions between %s and %s are not looked for", written.path, path, exc_info=True)
            except (EngineUnavailable, StorageError):
                raise
            except KnowledgeError:  # the page was removed, or cannot be read
                continue
        return found

    async def _comparison(self, path: str, written: Written) -> _Comparison:
        file = await anyio.to_thread.run_sync(self._vault.read, path)
        tracked = await self._ledger.tracked(path)
        before = await self._ledger.content(path, tracked.revision) if tracked else None
        return _Comparison(
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


def _stronger_claims(pair: _Comparison) -> list[Contradiction]:
    """Return the places where the page contradicts the written text with a stronger claim."""
    written, tracked = pair.written, pair.tracked
    here = units(cut(pair.text))
    contradicting = contradictions(here, [unit for unit, _ in written.units])
    if not contradicting:
        return []
    source = str(front_matter_of(pair.text).get("source") or USER)
    facts = PageFacts(pair.path, source, pair.modified, tracked=tracked is not None)
    then = None if pair.tracked_text is None else units(cut(pair.tracked_text))
    origins = trace_origins(here, tracked.origins if tracked else (), then)
    found = []
    for one in contradicting:
        unit, origin = written.units[one.new]
        other = origins[one.existing] or presumed_origin(here[one.existing], facts)
        if same_lineage(origin.source, other.source):
            continue  # a contradiction is between different sources
        existing = _side((pair.path, pair.revision), here[one.existing], other, pair)
        new = _side((written.path, written.revision), unit, origin, pair)
        if (existing.confidence or 0.0) > (new.confidence or 0.0):
            comparison = one.comparison
            found.append(Contradiction(comparison.kind, comparison.subject, comparison.reason, existing, new))
    return found


def _side(place: tuple[str, str], unit: Unit, origin: Origin, pair: _Comparison) -> Side:
    weight = confidence_in(origin, now=pair.now, rules=pair.rules)
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
