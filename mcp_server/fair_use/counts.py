"""Counts of calls by caller and minute, which the processes of a service share through the state database."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime

import anyio

from knowledge.errors import StorageError
from knowledge.state.quota.bounds import Bound, Kind, Slot, require_room
from knowledge.state.quota.shared_counts import CountedSlot, add_counts, forget_counts, shared_counts
from knowledge.state.tables import StateTables

logger = logging.getLogger("knowledge_forge")

SHARED_EVERY_S = 1.0
"""How often a process shares its counts with the other processes, as long as calls come."""
CLEANED_EVERY_S = 300.0

_Key = tuple[str, Kind]


class CallCounts:
    """Counts calls here at once, and those of the other processes as of the last exchange, at most about a second ago.

    While the state database is away, only the calls of this process count.
    """

    def __init__(
        self,
        bounds: Sequence[Bound],
        tables: StateTables,
        now: Callable[[], datetime],
        *,
        every_s: float = SHARED_EVERY_S,
    ) -> None:
        self._bounds, self._tables, self._now, self._every_s = {one.kind: one for one in bounds}, tables, now, every_s
        self._known: dict[_Key, dict[datetime, int]] = {}
        self._own: dict[_Key, dict[datetime, int]] = defaultdict(lambda: defaultdict(int))
        self._sent: dict[_Key, dict[datetime, int]] = {}
        self._counted = anyio.Event()
        self._cleaned_at = -CLEANED_EVERY_S

    def count(self, principal: str, kinds: Sequence[Kind]) -> None:
        """Count one call of these kinds. A call that is refused is not counted, so the limit is on calls that are answered.

        Raises:
            OverQuota: there is no room for it; the error says when there is.
        """
        at = self._now()
        limited = [bound for kind in kinds if (bound := self._bounds.get(kind)) is not None]
        for bound in limited:
            require_room(bound, principal, self._slots(principal, bound, at), 1, at)
        for bound in limited:
            self._own[principal, bound.kind][bound.slot_at(at)] += 1
        if limited:
            self._counted.set()

    def _slots(self, principal: str, bound: Bound, at: datetime) -> Sequence[Slot]:
        key, oldest = (principal, bound.kind), bound.since(at)
        found: dict[datetime, int] = dict(self._known.get(key, {}))
        for counted in (self._sent, self._own):
            for slot, amount in counted.get(key, {}).items():
                found[slot] = found.get(slot, 0) + amount
        return sorted((slot, amount) for slot, amount in found.items() if slot >= oldest)

    async def run(self) -> None:
        """Exchange counts with the other processes, forever; nothing is written while no calls come."""
        while True:
            await self._counted.wait()
            await anyio.sleep(self._every_s)
            self._counted = anyio.Event()
            try:
                await self.share()
            except StorageError:
                logger.warning("cannot share the counts of calls now; each process counts its own", exc_info=True)
                self._counted.set()

    async def share(self) -> None:
        """Store what was counted here, and learn what the others counted.

        Raises:
            StorageError: the state database is away. What was counted here still counts here.
        """
        # Until the sum of all processes is known, these count here.
        self._sent, self._own = self._own, defaultdict(lambda: defaultdict(int))
        at = self._now()
        oldest = min(bound.since(at) for bound in self._bounds.values())
        sent = [
            CountedSlot(principal, kind, slot, amount)
            for (principal, kind), slots in self._sent.items()
            for slot, amount in slots.items()
            if slot >= oldest
        ]
        try:
            await add_counts(self._tables, sent)
        except StorageError:
            for one in sent:
                self._own[one.principal, one.kind][one.slot_at] += one.amount
            self._sent = {}
            raise
        found: dict[_Key, dict[datetime, int]] = defaultdict(dict)
        for one in await shared_counts(self._tables, list(self._bounds), oldest, at):
            found[one.principal, one.kind][one.slot_at] = one.amount
        self._known, self._sent = dict(found), {}
        if time.monotonic() - self._cleaned_at > CLEANED_EVERY_S:
            self._cleaned_at = time.monotonic()
            await forget_counts(self._tables, list(self._bounds), oldest, at)
