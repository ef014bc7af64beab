"""Finds contradictions between existing pages, page by page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import anyio.to_thread

from knowledge.contradictions.comparer import PageComparer
from knowledge.errors import EngineUnavailable, KnowledgeError, StorageError
from knowledge.history.ports import Actor, HistoryEntry, Ledger
from knowledge.merge.model import Contradiction
from knowledge.pages.paths import is_markdown, within
from knowledge.pages.vault import Vault
from knowledge.writing.acts.audit_entries import SERVER
from knowledge.writing.related.related_pages import RelatedPages

CHECK = "check"
"""The name of the act in the audit log."""
NEAR = 3
"""Pages compared for each statement: those that share the most terms with it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The pages that were checked, the pages that could not be checked, and the contradictions that were not on record before.

    `excluded` pages are templates, or excluded by an `_index.md` or the settings.
    """

    pages: int
    skipped: Sequence[str]
    found: Sequence[Contradiction]
    excluded: int = 0


class ContradictionSweep:
    """Compares each page with the pages about the same things that the keyword index finds."""

    def __init__(
        self, vault: Vault, comparer: PageComparer, related: RelatedPages, ledger: Ledger, now: Callable[[], datetime]
    ) -> None:
        self._vault, self._comparer, self._related = vault, comparer, related
        self._ledger, self._now = ledger, now

    async def check(self, place: str, *, on_page: Callable[[int, int], object]) -> SweepReport:
        """Check every page at or below `place` against all others, and record what is found.

        `on_page` gets the number of checked pages, and the total.

        Raises:
            EngineUnavailable: the index can't be asked now. The contradictions found so far are recorded.
        """
        scanned = await anyio.to_thread.run_sync(lambda: sorted(found.path for found in self._vault.scan()))
        there = [path for path in scanned if is_markdown(path) and within(path, place)]
        paths = await self._comparer.own(there)
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
            if new:
                actor = Actor(SERVER, CHECK, "")
                await self._ledger.commit(HistoryEntry(self._now(), actor, outcome="flagged", contradictions=new))
                found += new
        on_page(len(paths), len(paths))
        found.sort(key=lambda one: -one.confidence)
        return SweepReport(len(paths) - len(skipped), skipped, found, len(there) - len(paths))

    async def _on_page(self, path: str, compared: set[frozenset[str]]) -> Sequence[Contradiction]:
        """Compare a page with those that share terms with one of its statements, unless the two were `compared` before."""
        page = await self._comparer.page(path)
        others: dict[str, None] = {}
        for text in await self._comparer.decidable_texts(page):
            others |= dict.fromkeys(await self._related.pages([text], but=path, limit=NEAR))
        fresh = [other for other in others if frozenset((path, other)) not in compared]
        compared.update(frozenset((path, other)) for other in fresh)
        return await self._comparer.contradictions(page, fresh)
