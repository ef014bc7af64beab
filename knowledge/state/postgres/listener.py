"""Notices events of other processes: one connection that listens, and slow polling where that does not work."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import anyio
from psycopg import Error

from knowledge.errors import StorageError

if TYPE_CHECKING:
    from knowledge.state.postgres.database import Connection, PostgresAddress

log = logging.getLogger(__name__)

LOOK_S = 2.0
"""Seconds between checks although nothing was heard, because a pooler may swallow notifications."""
POLL_S = 0.5
"""Seconds between checks while there is no connection to listen on."""
LONGEST_PAUSE_S = 10.0
UNASKED_S = 0.05
"""Seconds to pause after a check that found nothing new, because any role of the database may notify as often as it likes."""


class Listener:
    """Listens on one channel. It connects when first used, and reconnects, with growing pauses, when the connection is lost."""

    def __init__(self, server: PostgresAddress, channel: str) -> None:
        self._server, self._channel = server, channel
        self._connection: Connection | None = None
        self._pause_s, self._retry_at = 0.0, 0.0

    async def open(self) -> None:
        """Listen, if a connection can be made: `wait` then hears every event that is published from now on."""
        if self._connection is not None and self._connection.closed:
            await self.close()
        if self._connection is not None or time.monotonic() < self._retry_at:
            return
        try:
            connection = await self._server.connect()
            try:
                await connection.execute(f'LISTEN "{self._channel}"'.encode())
            # Also on cancellation, since nobody else would close the connection.
            except BaseException:
                await connection.close()
                raise
        except (StorageError, Error) as error:
            # Only at the first of several failures in a row.
            if not self._pause_s:
                log.warning("cannot listen for changes (%s); looking for them every %.1f s instead", error, POLL_S)
            self._pause_s = min(max(POLL_S, 2 * self._pause_s), LONGEST_PAUSE_S)
            self._retry_at = time.monotonic() + self._pause_s
        else:
            self._connection, self._pause_s = connection, 0.0

    async def wait(self) -> None:
        """Return after an event, after the connection is lost, or after `LOOK_S`; without a connection, after `POLL_S`."""
        if self._connection is None:
            await anyio.sleep(POLL_S)
            return
        try:
            async for _ in self._connection.notifies(timeout=LOOK_S, stop_after=1):
                pass
        except Error:
            await self.close()

    async def close(self) -> None:
        """Stop listening."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
