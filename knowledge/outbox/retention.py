"""How long acts in other services are kept that are over; the audit chain keeps what was done for ever."""

from __future__ import annotations

from datetime import datetime

from knowledge.outbox.forms import KEPT
from knowledge.outbox.ports import Outbox

AT_ONCE = 500
"""Outbox entries dropped in one transaction, for which others wait."""


async def put_away(outbox: Outbox, now: datetime) -> int:
    """Drop outbox entries that ended more than ninety days ago, and return how many that were."""
    dropped = 0
    while count := await outbox.forget(ended_before=now - KEPT, limit=AT_ONCE):
        dropped += count
    return dropped
