"""The quotas that principals have used, in this process: the specification of the others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from knowledge.state.quota.bounds import Bound, Kind, require_room


class Used:
    """Each principal's use, by slots."""

    def __init__(self) -> None:
        self._slots: dict[tuple[str, Kind], dict[datetime, int]] = {}

    def charge(self, bound: Bound, principal: str, amount: int, at: datetime, *, refuse: bool = True) -> None:
        """Count `amount` for the principal; without `refuse`, even beyond the bound.

        Raises:
            OverQuota: there is no room.
        """
        slot, counting = bound.slot_at(at), self._counting(bound, principal, at)
        if refuse:
            require_room(bound, principal, list(counting.items()), amount, at)
        self._slots[principal, bound.kind] = {**counting, slot: counting.get(slot, 0) + amount}

    def charge_all(self, uses: Sequence[tuple[Bound, int]], principal: str, at: datetime) -> None:
        """Count several uses, or none of them.

        Raises:
            OverQuota: there is no room for one.
        """
        for bound, amount in uses:
            require_room(bound, principal, list(self._counting(bound, principal, at).items()), amount, at)
        for bound, amount in uses:
            self.charge(bound, principal, amount, at)

    def _counting(self, bound: Bound, principal: str, at: datetime) -> dict[datetime, int]:
        slot, oldest = bound.slot_at(at), bound.since(at)
        known = self._slots.get((principal, bound.kind), {})
        return {begun: used for begun, used in sorted(known.items()) if oldest <= begun <= slot}
