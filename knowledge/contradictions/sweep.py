"""Finds contradictions between pages that exist already, page by page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import anyio.to_thread

from knowledge.contradictions.cross_page import not_on_record
from knowledge.contradictions.page_pair import PagePair, RecordedPage, decidable_texts, pair_contradictions
from knowledge.contradictions.page_records import PageRecords
from knowledge.errors import EngineUnavailable, KnowledgeError, StorageError, TooMuchWaiting, TooMuchWork
from knowledge.history.ports import Actor, HistoryEntry, Ledger
from knowledge.merge.model import Contradiction
from knowledge.offload import StepRunner
from knowledge.pages.paths import is_markdown, within
from knowledge.pages.vault import Vault
from knowledge.writing.acts.audit_entries import SERVER
from knowledge.writing.related.related_pages import RelatedPages

CHECK = "check"
"""The act, as the audit log names it."""
NEAR = 3
"""Pages that are looked at for each statement: those that share most terms with it."""
LEAST_SURE = 0.5
"""How sure a contradiction must be to be reported. A list that is mostly wrong is not read."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The pages that were checked, those that could not be, and the contradictions that were not on record before."""

    pages: int
    skipped: Sequence[str]
    found: Sequence[Contradiction]


class ContradictionSweep:
    """Compares each page with the pages that say something about the same things, as the keyword index finds them."""

    def __init__(
        self,
        vault: Vault,
        ledger: Ledger,
        *,
        records: PageRecords,
        related: RelatedPages,
        now: Callable[[], datetime],
        runner: StepRunner,
    ) -> None:
        self._vault, self._records, self._related = vault, records, related
        self._ledger, self._now, self._runner = ledger, now, runner

    async def check(self, place: str, *, on_page: Callable[[int, int], object]) -> SweepReport:
        """Check every page at or below `place` against all others, and record what is found.

        `on_page` gets how many pages are done, and how many there are.

        Raises:
            EngineUnavailable: the index can't be asked now. What was found so far is recorded.
        """
        scanned = await anyio.to_thread.run_sync(lambda: sorted(found.path for found in self._vault.scan()))
        paths = [path for path in scanned if is_markdown(path) and within(path, place)]
        compared: set[frozenset[str]] = set()
        skipped: list[str] = []
        found: list[Contradiction] = []
        for done, path in enumerate(paths):
            on_page(done, len(paths))
            try:
                new = await self._on_page(path, compared)
            except (EngineUnavailable, StorageError):
                raise
            except KnowledgeError as error:  # the page was removed, cannot be read, or takes too long
                log.info("%s is not checked: %s", path, error)
                skipped.append(path)
                continue
            if new := await not_on_record(self._ledger, new):
                actor = Actor(SERVER, CHECK, "")
                await self._ledger.commit(HistoryEntry(self._now(), actor, outcome="flagged", contradictions=new))
                found += new
        on_page(len(paths), len(paths))
        return SweepReport(len(paths) - len(skipped), skipped, sorted(found, key=lambda one: -one.confidence))

    async def _on_page(self, path: str, compared: set[frozenset[str]]) -> list[Contradiction]:
        page = await self._records.page(path)
        texts = await self._runner.run(decidable_texts, page.text, size=len(page.text), what=f"reading {path}")
        found: list[Contradiction] = []
        others = dict.fromkeys(
            [other for text in texts for other in await self._related.pages([text], but=path, limit=NEAR)]
        )
        for other in others:
            pages = frozenset((path, other))
            if pages in compared:
                continue
            compared.add(pages)
            found += await self._compared(page, other)
        return [one for one in found if one.sure >= LEAST_SURE]

    async def _compared(self, page: RecordedPage, other: str) -> list[Contradiction]:
        try:
            pair = PagePair(page, await self._records.page(other), self._now())
            what = f"comparing {page.path} with {other}"
            return await self._runner.run(pair_contradictions, pair, size=pair.size, what=what)
        except (TooMuchWork, TooMuchWaiting):
            log.warning("contradictions between %s and %s are not looked for", page.path, other, exc_info=True)
        except (EngineUnavailable, StorageError):
            raise
        except KnowledgeError:
            log.info("%s cannot be compared with %s", page.path, other, exc_info=True)
        return []
