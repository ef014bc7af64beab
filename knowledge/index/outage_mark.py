"""A mark in the state database while indexing fails, so that every process says so in its answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from knowledge.errors import StorageError

if TYPE_CHECKING:
    from knowledge.state.ports import StateStore

SUFFIX = ":stopped"
MARK_S = 120.0
"""The mark of a process that died meanwhile ends by itself. A process that keeps trying renews it sooner."""
KNOWN_S = 2.0
NOTE = (
    "the index cannot be updated now, so pages that changed lately may be missing here or shown as they were; kb_read shows them as "
    "they are"
)

log = logging.getLogger(__name__)


class OutageMark:
    """Says that indexing has stopped, and asks whether it has. The mark is a lease, which expires by itself."""

    def __init__(
        self, state: StateStore, lease: str, now: Callable[[], datetime], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._state, self._name, self._now, self._clock = state, lease + SUFFIX, now, clock
        self._is_marked = False
        self._known, self._known_at = False, -KNOWN_S

    async def mark(self, holder: str) -> None:
        """Put the mark, or renew it. An unreachable state database has a message of its own, so it is no error here."""
        try:
            await self._state.acquire_lease(self._name, holder, now=self._now(), ttl_s=MARK_S)
            self._is_marked = True
        except StorageError:
            log.debug("cannot mark that indexing has stopped", exc_info=True)

    async def clear(self, holder: str) -> None:
        """Take away the mark that this process has put, if any."""
        if not self._is_marked:
            return
        try:
            await self._state.release_lease(self._name, holder)
            self._is_marked = False
        except StorageError:
            log.debug("cannot take away the mark that indexing has stopped", exc_info=True)

    async def note(self) -> str:
        """Return what a search says while the mark is there, "" without one. The database is asked every two seconds."""
        if self._clock() - self._known_at >= KNOWN_S:
            self._known_at = self._clock()
            try:
                found = await self._state.lease(self._name)
                self._known = found is not None and found.expires_at > self._now()
            except StorageError:
                self._known = False
        return NOTE if self._known else ""
