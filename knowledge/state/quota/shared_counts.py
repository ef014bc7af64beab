"""Counts by principal and time that several processes add to. Nobody waits for a lock: their limits need to hold only roughly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from knowledge.history.timestamps import moment
from knowledge.state.quota.bounds import Kind
from knowledge.state.tables import ManyRows, SqlPair, StateTables

_ADD = SqlPair(
    "INSERT INTO quota VALUES (?, ?, ?, ?) "
    "ON CONFLICT (principal, kind, slot_us) DO UPDATE SET amount = amount + excluded.amount",
    "INSERT INTO forge.quota AS known (principal, kind, slot_at, amount) "
    "SELECT * FROM unnest(%s::text[], %s::text[], %s::timestamptz[], %s::bigint[]) "
    "ON CONFLICT (principal, kind, slot_at) DO UPDATE SET amount = known.amount + excluded.amount",
)
_COUNTS = "SELECT principal, slot_at, amount FROM forge.quota WHERE kind = %s AND slot_at BETWEEN %s AND %s"
_FORGET = "DELETE FROM forge.quota WHERE kind = %s AND (slot_at < %s OR slot_at > %s)"
_AHEAD = timedelta(minutes=1)
"""How far ahead the clock of another machine may be. Later slots are from a clock that was set back since, and don't count."""


@dataclass(frozen=True, slots=True)
class CountedSlot:
    """An amount of one kind that a principal used in a slot of time."""

    principal: str
    kind: Kind
    slot_at: datetime
    amount: int


async def add_counts(tables: StateTables, counted: Sequence[CountedSlot]) -> None:
    """Add these amounts.

    Raises:
        StorageError: the database is unreachable, so nothing was added, or it is unknown whether it was.
    """
    # In one order everywhere, so that two processes that add at once never wait for each other in a circle.
    rows = sorted((one.principal, one.kind, one.slot_at, one.amount) for one in counted)
    if rows:
        await tables.write((_ADD, ManyRows(rows)), durable=False)


async def shared_counts(
    tables: StateTables, kinds: Sequence[Kind], oldest: datetime, now: datetime
) -> Sequence[CountedSlot]:
    """Return what all principals used of these kinds since `oldest`."""
    found: list[CountedSlot] = []
    for kind in kinds:
        rows = await tables.read(_COUNTS, (kind, oldest, now + _AHEAD))
        found += [CountedSlot(principal, kind, moment(slot), amount) for principal, slot, amount in rows]
    return found


async def forget_counts(tables: StateTables, kinds: Sequence[Kind], oldest: datetime, now: datetime) -> None:
    """Delete the counts of these kinds that no longer matter."""
    for kind in kinds:
        await tables.write((_FORGET, (kind, oldest, now + _AHEAD)), durable=False)
