"""What the audit chain says of acts in other services. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from knowledge.history.ports import Actor, Delivery, HistoryEntry
from knowledge.outbox.ports import CALL, Fate, OutboxEntry

OUTCOMES: Final[Mapping[Fate, str]] = {"done": "sent", "unsure": "unsure", "failed": "failed"}


def ended(outbox_entry: OutboxEntry) -> HistoryEntry:
    """Return the record of how an outbox entry ended: who, with what tool, where, and whether it happened; nothing of its text.

    Raises:
        ValueError: it has not ended: a mistake of the caller.
    """
    if outbox_entry.ended_at is None:
        raise ValueError(f"the outbox entry {outbox_entry.id} has not ended")
    return HistoryEntry(
        at=outbox_entry.ended_at,
        actor=Actor(
            outbox_entry.principal, outbox_entry.tool, outbox_entry.arguments_hash, outbox_entry.marks.get(CALL, "")
        ),
        proposal=outbox_entry.proposal or None,
        outcome=OUTCOMES[outbox_entry.fate],
        delivery=Delivery(outbox_entry.target, outbox_entry.id),
    )
