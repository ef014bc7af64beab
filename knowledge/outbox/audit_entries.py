"""The audit record of an act in another service. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from knowledge.history.ports import Actor, Delivery, HistoryEntry
from knowledge.outbox.ports import CALL, Fate, OutboxEntry

OUTCOMES: Final[Mapping[Fate, str]] = {"done": "sent", "unsure": "unsure", "failed": "failed"}


def ended(outbox_entry: OutboxEntry) -> HistoryEntry:
    """Return the record of how an outbox entry ended: principal, tool, place and outcome, and nothing of its text.

    Raises:
        ValueError: it has not ended: a bug in the caller.
    """
    e = outbox_entry
    if e.ended_at is None:
        raise ValueError(f"the outbox entry {e.id} has not ended")
    return HistoryEntry(
        at=e.ended_at,
        actor=Actor(e.principal, e.tool, e.arguments_hash, e.marks.get(CALL, "")),
        proposal=e.proposal or None,
        outcome=OUTCOMES[e.fate],
        delivery=Delivery(e.target, e.id),
    )
