"""Reads pages with what is recorded about them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import anyio.to_thread

from knowledge.contradictions.page_pair import RecordedPage
from knowledge.history.ports import Ledger
from knowledge.pages.vault import Vault
from knowledge.writing.related.target_page import PageLookup


class PageRecords:
    """Reads a page from its file and the ledger."""

    def __init__(self, vault: Vault, ledger: Ledger, pages: PageLookup, now: Callable[[], datetime]) -> None:
        self._vault, self._ledger, self._pages, self._now = vault, ledger, pages, now

    async def page(self, path: str) -> RecordedPage:
        """Return the page.

        Raises:
            KnowledgeError: it is gone or cannot be read.
        """
        file = await anyio.to_thread.run_sync(self._vault.read, path)
        text = file.raw.decode("utf-8", "replace")
        tracked = await self._ledger.tracked(path)
        before = await self._ledger.content(path, tracked.revision) if tracked else None
        return RecordedPage(
            path=path,
            text=text,
            revision=file.revision,
            tracked=tracked,
            tracked_text=None if before is None else before.decode("utf-8", "replace"),
            modified=self._pages.modified(path) or self._now(),
            around=await self._pages.surroundings(path),
        )
