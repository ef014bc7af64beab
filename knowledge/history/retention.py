"""Drops states of pages that were only shown to somebody, after a month."""

from __future__ import annotations

from datetime import datetime, timedelta

from knowledge.history.ports import Ledger

KEPT = timedelta(days=31)
"""A base must stay usable for thirty days after it was last shown; the recorded time may be up to half a day too early."""
AT_ONCE = 500
"""States dropped in one transaction: writers have to wait for it."""


async def collect(ledger: Ledger, now: datetime) -> int:
    """Drop states that were only seen, and last seen over a month ago; return how many."""
    dropped = 0
    while count := await ledger.forget(seen_before=now - KEPT, limit=AT_ONCE):
        dropped += count
    return dropped
