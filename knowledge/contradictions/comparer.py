"""Finds contradictions between pages that are not on record yet.

The recorded origins of the pages' units are taken into account.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import anyio.to_thread

from knowledge.contradictions.page_pair import (
    LEAST_SURE,
    PagePair,
    RecordedPage,
    decidable_texts,
    pair_contradictions,
)
from knowledge.errors import EngineUnavailable, KnowledgeError, StorageError
from knowledge.history.ports import Ledger
from knowledge.merge.model import Contradiction
from knowledge.offload import InlineRunner, StepRunner
from knowledge.pages.own_pages import OwnPages, indexes_above
from knowledge.pages.vault import Vault
from knowledge.writing.related.moved_dismissals import moved_dismissals
from knowledge.writing.related.target_page import PageLookup

MOST_FLAGS = 10_000
"""The most recorded contradictions that new ones are checked against."""

log = logging.getLogger(__name__)


class PageComparer:
    """Reads pages from their files and the ledger; compares them by `runner`.

    Some pages are not the person's own: templates, and pages that an `_index.md` or `excluded` (patterns from the
    settings) excludes. They are compared with no other page, because placeholders and old states always contradict
    something.
    """

    def __init__(
        self,
        vault: Vault,
        ledger: Ledger,
        pages: PageLookup,
        now: Callable[[], datetime],
        runner: StepRunner | None = None,
        *,
        excluded: Sequence[str] = (),
    ) -> None:
        self._vault, self._ledger, self._pages, self._now = vault, ledger, pages, now
        self._runner, self._excluded = runner or InlineRunner(), excluded

    async def own(self, paths: Sequence[str]) -> Sequence[str]:
        """Return those of the pages that are the person's own."""
        above = {index for path in paths for index in indexes_above(path)}
        own = await anyio.to_thread.run_sync(OwnPages.of, self._vault, sorted(above), self._excluded)
        return [path for path in paths if path in own]

    async def page(self, path: str) -> RecordedPage:
        """Return the page.

        Raises: KnowledgeError: the page is gone or cannot be read.
        """
        file = await anyio.to_thread.run_sync(self._vault.read, path)
        tracked = await self._ledger.tracked(path)
        before = await self._ledger.content(path, tracked.revision) if tracked else None
        return RecordedPage(
            path=path,
            text=file.raw.decode("utf-8", "replace"),
            revision=file.revision,
            tracked=tracked,
            tracked_text=None if before is None else before.decode("utf-8", "replace"),
            modified=self._pages.modified(path) or self._now(),
            around=await self._pages.surroundings(path),
        )

    async def decidable_texts(self, page: RecordedPage) -> Sequence[str]:
        """Return the texts of the page that could contradict another page."""
        return await self._runner.run(decidable_texts, page.text, size=len(page.text), what=f"reading {page.path}")

    async def contradictions(
        self, page: RecordedPage, others: Iterable[str], *, only: frozenset[bytes] | None = None
    ) -> Sequence[Contradiction]:
        """Return the contradictions between the page and the others that are neither open nor dismissed, each once.

        With `only`, restricted to the page's units with these digests. Other pages that are gone or take too long are skipped.

        Raises:
            EngineUnavailable, StorageError: the index or the database can't be asked now.
        """
        found: dict[tuple[frozenset[str], bytes], Contradiction] = {}
        own = await self.own([page.path, *others])
        for path in own[1:] if page.path in own[:1] else ():
            try:
                pair = PagePair(await self.page(path), page, self._now(), only)
                what = f"comparing {page.path} with {path}"
                for one in await self._runner.run(pair_contradictions, pair, size=pair.size, what=what):
                    if one.sure >= LEAST_SURE:
                        found.setdefault(_name(one), one)
            except (EngineUnavailable, StorageError):
                # These would meet every page. Skipping them all would look as if nothing contradicted the page.
                raise
            except KnowledgeError as error:
                log.info("%s and %s are not compared for contradictions: %s", page.path, path, error)
        known = await self._on_record(page.path) if found else frozenset()
        new = [one for name, one in found.items() if name not in known]
        moved = await moved_dismissals(self._ledger, self._is_gone, new)
        return [one for one in new if one.pair not in moved]

    def _is_gone(self, path: str) -> bool:
        return self._vault.find(path) is None

    async def _on_record(self, path: str) -> frozenset[tuple[frozenset[str], bytes]]:
        lists = [await self._ledger.flags(path, limit=MOST_FLAGS, dismissed=dismissed) for dismissed in (False, True)]
        return frozenset(_name(flag.contradiction) for flags in lists for flag in flags)


def _name(found: Contradiction) -> tuple[frozenset[str], bytes]:
    return frozenset((found.existing.path, found.new.path)), found.pair
