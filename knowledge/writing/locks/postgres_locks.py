"""Locks of pages for machines that share a knowledge base's files and keep its state in one PostgreSQL database.

The processes of one machine compete for file locks first, and only the winner asks the database.
A lock is a transaction-level advisory lock of PostgreSQL, so it ends with its holder's connection, even behind a pooler.

Source: PostgreSQL documentation, 13.3.5 Advisory Locks.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio
from psycopg import Error

from knowledge.errors import DocumentBusy
from knowledge.state.postgres.database import Connection, Pool, PostgresAddress
from knowledge.writing.locks.page_locks import LONGEST_WAIT_S, Locks

ASKED_EVERY_S = 0.005
MOST_ACTS = 8
"""How many acts of one process hold locks at a time; the others wait for a connection."""

log = logging.getLogger(__name__)


class PostgresLocks:
    """The locks of one knowledge base for all machines; `name` distinguishes it from others in the same database."""

    def __init__(
        self, here: Locks, server: PostgresAddress, name: str, *, longest_wait_s: float = LONGEST_WAIT_S
    ) -> None:
        self._here, self._name, self._longest_wait_s = here, name, longest_wait_s
        self._pool, self._server = Pool(server, most=MOST_ACTS), server

    @asynccontextmanager
    async def held(self, paths: Iterable[str]) -> AsyncIterator[None]:
        """Hold the locks of these pages, taken in one order everywhere, so that no two holders wait for each other.

        Raises:
            DocumentBusy: others kept one for too long; then none is held.
            StorageError: the database can't be asked; then none is held.
        """
        wanted = sorted(set(paths))
        async with self._here.held(wanted), self._everywhere(wanted, self._longest_wait_s) as path:
            if path is not None:
                raise DocumentBusy(path, self._longest_wait_s)
            yield

    @asynccontextmanager
    async def held_if_free(self, paths: Iterable[str]) -> AsyncIterator[bool]:
        """Hold all of these locks if all are free, else none; yields whether they are held."""
        wanted = sorted(set(paths))
        async with self._here.held_if_free(wanted) as free:
            if not free:
                yield False
                return
            async with self._everywhere(wanted, 0.0) as path:
                yield path is None

    @asynccontextmanager
    async def _everywhere(self, paths: Iterable[str], longest_wait_s: float) -> AsyncIterator[str | None]:
        """Hold the locks in the database; yields the first page whose lock was not free in time, None if all are held."""
        digests = {
            p: hashlib.blake2b(f"{self._name}\0{p}".encode("utf-8", "surrogatepass"), digest_size=8) for p in paths
        }
        keys = sorted((int.from_bytes(digest.digest(), "big", signed=True), path) for path, digest in digests.items())
        async with self._pool.connection() as connection:
            with self._server.translating():
                await connection.execute("BEGIN")
                # The transaction is idle while the act is carried out, longer than a server may allow by default.
                await connection.execute("SET LOCAL idle_in_transaction_session_timeout = '120s'")
                missed = await self._take(connection, keys, time.monotonic() + longest_wait_s)
            try:
                yield missed
            finally:
                # The end of the transaction frees its locks. Shielded, so that a cancelled act frees them too.
                with anyio.CancelScope(shield=True):
                    try:
                        await connection.execute("COMMIT")
                    except Error:  # the locks went with the connection, and what was done is done
                        log.warning("lost the connection that held a lock")
                        await connection.close()

    async def _take(self, connection: Connection, keys: Iterable[tuple[int, str]], until: float) -> str | None:
        for key, path in keys:
            while True:
                cursor = await connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,))
                row = await cursor.fetchone()
                if row is not None and row[0]:
                    break
                if time.monotonic() >= until:
                    return path
                await anyio.sleep(ASKED_EVERY_S)
        return None

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()
