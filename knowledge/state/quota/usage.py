"""Counts how much of its quotas each principal has used, in the transaction that stores the records."""

from __future__ import annotations

from datetime import datetime

import apsw

from knowledge.history.timestamps import micros, moment
from knowledge.state.quota.bounds import Bound, require_room
from knowledge.state.tables import LOCK, Row, SqlPair, StateTransaction

SLOTS = """
SELECT slot_at, amount FROM forge.quota
WHERE principal = %s AND kind = %s AND slot_at BETWEEN %s AND %s ORDER BY slot_at
"""


def _count_in_sqlite(  # noqa: PLR0917 - the arguments of `forge.charge`
    c: apsw.Connection, principal: str, kind: str, amount: int, slot: datetime, oldest: datetime
) -> list[Row]:
    # Slots of the future are from a clock that was set back since: they must not count forever.
    forget = "DELETE FROM quota WHERE principal = ? AND kind = ? AND (slot_us < ? OR slot_us > ?)"
    c.execute(forget, (principal, kind, micros(oldest), micros(slot)))
    count = (
        "INSERT INTO quota VALUES (?, ?, ?, ?) "
        "ON CONFLICT (principal, kind, slot_us) DO UPDATE SET amount = amount + excluded.amount"
    )
    c.execute(count, (principal, kind, micros(slot), amount))
    return []


_COUNT = SqlPair(_count_in_sqlite, "SELECT forge.charge(%s, %s, %s, NULL, %s, %s)")


async def hold_quotas(t: StateTransaction, principal: str) -> None:
    """Make other transactions that use the principal's quotas wait. Call it first in a transaction, before taking other locks."""
    await t.execute(LOCK, (f"quota {principal}",))


async def charge(
    t: StateTransaction, bound: Bound, principal: str, amount: int, at: datetime, *, refuse: bool = True
) -> None:
    """Count `amount` for the principal, whose quotas the transaction holds; with `refuse=False` even beyond the bound.

    Raises:
        OverQuota: there is no room.
    """
    slot, oldest = bound.slot_at(at), bound.since(at)
    if refuse:
        rows = await t.execute(SLOTS, (principal, bound.kind, oldest, slot))
        require_room(bound, principal, [(moment(begun), used) for begun, used in rows], amount, at)
    await t.execute(_COUNT, (principal, bound.kind, amount, slot, oldest))
