"""The part of the ledger that readers use: it stores the texts they saw as bases of later writes, and returns earlier states."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from knowledge.errors import StorageError

if TYPE_CHECKING:
    from knowledge.history.ports import Ledger

log = logging.getLogger(__name__)

MOST_REMEMBERED = 2_000
KEPT_FRESH = timedelta(hours=12)
"""A state that was recorded as shown this recently is not recorded again: its thirty days may begin this much early."""


class PastStates:
    """Stores states of pages as bases. Reading works without the database, but a later write then gets only an analysis."""

    def __init__(self, load_ledger: Callable[[], Ledger], now: Callable[[], datetime]) -> None:
        self._load_ledger, self._now = load_ledger, now
        self._noted: OrderedDict[tuple[str, str], datetime] = OrderedDict()

    async def shown(self, path: str, raw: bytes, revision: str) -> None:
        """Store these bytes of the page, which a caller sees now, so that a write can be based on them."""
        key, at = (path, revision), self._now()
        last = self._noted.get(key)
        if last is not None and at - last < KEPT_FRESH:
            return
        try:
            await self._load_ledger().keep(path, raw, how="seen", at=at)
        except StorageError:  # reading must work without the database
            log.warning("cannot keep %s as the base of a later write", path, exc_info=True)
            return
        self._noted[key] = at
        self._noted.move_to_end(key)
        if len(self._noted) > MOST_REMEMBERED:
            self._noted.popitem(last=False)

    async def content(self, path: str, revision: str) -> bytes | None:
        """Return the bytes of the page at that revision; None if they are not known."""
        return await self._load_ledger().content(path, revision)
