"""Deletes old outbox entries. The audit chain keeps the record of each act for good."""

from __future__ import annotations

from datetime import datetime

from knowledge.outbox.codec import KEPT
from knowledge.outbox.ports import Outbox

BATCH = 500
"""Outbox entries deleted in one transaction, for which others wait."""


async def put_away(outbox: Outbox, now: datetime) -> int:
    """Delete outbox entries that ended more than ninety days ago; return how many."""
    dropped = 0
    while count := await outbox.forget(ended_before=now - KEPT, limit=BATCH):
        dropped += count
    return dropped
