"""What the audit chain says of acts in other services. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from knowledge.history.ports import Actor, Delivery, HistoryEntry
from knowledge.outbox.ports import CALL, Errand, Fate

OUTCOMES: Final[Mapping[Fate, str]] = {"done": "sent", "unsure": "unsure", "failed": "failed"}


def ended(errand: Errand) -> HistoryEntry:
    """Return the record of how an errand ended: who, with what tool, where, and whether it happened; nothing of its text.

    Raises:
        ValueError: it has not ended: a mistake of the caller.
    """
    if errand.ended_at is None:
        raise ValueError(f"the errand {errand.id} has not ended")
    return HistoryEntry(
        at=errand.ended_at,
        actor=Actor(errand.principal, errand.tool, errand.arguments_hash, errand.marks.get(CALL, "")),
        proposal=errand.proposal or None,
        outcome=OUTCOMES[errand.fate],
        delivery=Delivery(errand.target, errand.id),
    )
