"""Trust records for a state store."""

from __future__ import annotations

from knowledge.state.ports import StateStore
from knowledge.trust.ports import Note, TrustRecord


async def stand(store: StateStore, trust_record: TrustRecord, *, reason: str, by: str, unseen: float = 0.0) -> None:
    """Set the principal's trust record, replacing any other."""
    note = Note(by, "trust.grant", trust_record.principal, trust_record.updated_at, reason)
    await store.trust.update_trust_record(
        trust_record.principal, lambda _before, _recent: trust_record, note=note, unseen=unseen
    )
