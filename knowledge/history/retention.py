"""How long states of pages are kept that were only shown to somebody."""

from __future__ import annotations

from datetime import datetime, timedelta

from knowledge.history.ports import Ledger

KEPT = timedelta(days=31)
"""A base is promised for thirty days from when it was last shown. That is noted up to half a day late."""
AT_ONCE = 500
"""States dropped in one transaction, for which writers wait."""


async def collect(ledger: Ledger, now: datetime) -> int:
    """Drop what was only seen, last more than a month ago, and return how many states that were."""
    dropped = 0
    while count := await ledger.forget(seen_before=now - KEPT, limit=AT_ONCE):
        dropped += count
    return dropped
