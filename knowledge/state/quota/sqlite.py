"""What principals used of their quotas, in SQLite: counted in the transaction that stores what is counted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import apsw

from knowledge.history.timestamps import micros, moment
from knowledge.state.quota.bounds import Bound, require_room

_FORGET = "DELETE FROM quota WHERE principal = ? AND kind = ? AND (slot_us < ? OR slot_us > ?)"
_SLOTS = "SELECT slot_us, amount FROM quota WHERE principal = ? AND kind = ? ORDER BY slot_us"
_COUNT = """
INSERT INTO quota VALUES (?, ?, ?, ?)
ON CONFLICT (principal, kind, slot_us) DO UPDATE SET amount = amount + excluded.amount
"""


def charge(c: apsw.Connection, bound: Bound, principal: str, amount: int, at: datetime, *, refuse: bool = True) -> None:
    """Count `amount` for the principal; without `refuse` also what goes beyond the bound.

    Raises:
        OverQuota: there is no room.
    """
    slot_us = micros(bound.slot_at(at))
    # Slots of the future are those of a clock that was set back: they must not count for ever.
    c.execute(_FORGET, (principal, bound.kind, micros(bound.since(at)), slot_us))
    if refuse:
        rows: Any = c.execute(_SLOTS, (principal, bound.kind)).fetchall()
        require_room(bound, principal, [(moment(us), used) for us, used in rows], amount, at)
    c.execute(_COUNT, (principal, bound.kind, slot_us, amount))
