"""Shared by the engines on search servers: requests with retries and a pause after failures, and filling an index."""

from __future__ import annotations

import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import urlsplit

import anyio

from knowledge.errors import EngineUnavailable
from knowledge.index.engines.catch_up import try_lock
from knowledge.state.ports import IndexStore

log = logging.getLogger(__name__)

T = TypeVar("T")
M = TypeVar("M")

READ_S = 5.0
WRITE_S = 60.0
TRIES = 4
FIRST_PAUSE_S = 0.25
READ_PAUSE_S = 0.02
LONGEST_PAUSE_S = 10.0
REST_S = 5.0
"""After a failure searches fail at once for this long, instead of each waiting for a server that is down."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
FRESH_S = 1.0
"""How long a change that another process made on the server may go unnoticed."""
STARTS_OVER = 3
WIDER = 8
"""How many times more hits are fetched if a filter admits too many documents."""


class MissingIndex(Exception):
    """The server has no such index, collection or document. Raised inside the adapters only."""


@dataclass(frozen=True, slots=True)
class ServerFailure:
    """A failed request, described without quoting what was sent; `again` if repeating it may help.

    `pause_s` is the pause that the server asked for.
    """

    problem: str
    again: bool
    pause_s: float = 0.0


class ServerLine(ABC):
    """Requests to one server. A subclass sends them with `_within_read` or `_within_write` and explains failures."""

    def __init__(self, engine: str, shown: str) -> None:
        self._engine, self.shown = engine, shown
        self._down_until, self._problem = float("-inf"), ""

    @abstractmethod
    def _failure(self, error: Exception, limit_s: float) -> ServerFailure:
        """Return what went wrong.

        Raises:
            MissingIndex: there is no such index, collection or document.
            Exception: `error` itself, if neither server nor network caused it.
        """

    async def _within_read(self, send: Callable[[float], Awaitable[T]]) -> T:
        """Return the answer to a request that a search waits for; fail at once while the server is known to be down.

        `send` gets its time limit in seconds.
        """
        if time.monotonic() < self._down_until:
            raise EngineUnavailable(self._engine, self._problem)
        # Two tries, because the server may just have closed the kept-alive connection.
        return await self._tried(send, READ_S, tries=2)

    async def _within_write(self, send: Callable[[float], Awaitable[T]]) -> T:
        """Return the answer to a request that may take its time, tried again with growing pauses."""
        return await self._tried(send, WRITE_S, tries=TRIES)

    async def _tried(self, send: Callable[[float], Awaitable[T]], limit_s: float, *, tries: int) -> T:
        for attempt in range(tries):
            try:
                answer = await send(limit_s)
            except (EngineUnavailable, MissingIndex):
                raise
            except Exception as error:
                failure = self._failure(error, limit_s)
                if not failure.again or attempt == tries - 1:
                    self._problem, self._down_until = failure.problem, time.monotonic() + REST_S
                    raise EngineUnavailable(self._engine, failure.problem) from error
                pause_s = FIRST_PAUSE_S * 4**attempt if limit_s == WRITE_S else READ_PAUSE_S
                # Spread out, so that callers that failed together don't return together.
                pause_s *= 0.5 + random.random() / 2  # noqa: S311 - not a secret
                await anyio.sleep(min(max(failure.pause_s, pause_s), LONGEST_PAUSE_S))
            else:
                self._down_until = float("-inf")
                return answer
        raise AssertionError  # the last attempt returned or raised


def warn_of_plain_key(key: str | None, url: str, shown: str) -> None:
    """Log a warning if `key` would be sent unencrypted over a network."""
    parts = urlsplit(url)
    if key and parts.scheme == "http" and parts.hostname not in LOOPBACK:
        log.warning("the key for %s is sent unencrypted: its address begins with http:", shown)


class ServerIndex(ABC, Generic[M]):
    """One store's index on a server. `M` is its mark, which records the store's position that it has caught up to.

    `name` is the name that searches use, and the prefix of those that are being filled; no two stores may share
    it. `lock` is a file beside the store: one process fills at a time.
    """

    def __init__(self, engine: str, name: str, lock: Path, store: IndexStore | None = None) -> None:
        self._engine, self._name, self._lock, self._store = engine, name, lock, store
        self._looking = anyio.Lock()
        self._mark: M | None = None
        self._looked_at = float("-inf")
        self._swept = False
        """Whether the leftovers of crashed processes on the server were deleted."""

    async def catch_up(self, store: IndexStore) -> int:
        """Add the store's rows that the server lacks, and return their number.

        Returns 0 at once while another process is doing it.
        """
        self._store = store
        taken = 0
        with try_lock(self._lock) as mine:
            for attempt in range(STARTS_OVER if mine else 0):
                try:
                    rows, complete = await self._fill(store, restart=attempt > 0)
                except MissingIndex as error:
                    # Another process or person deleted the index while it was being filled; the first time, start over.
                    if attempt == STARTS_OVER - 1:
                        raise EngineUnavailable(
                            self._engine, f"{self._name} was deleted while it was being filled"
                        ) from error
                    rows, complete = 0, False
                taken += rows
                if complete:
                    break
        return taken

    @abstractmethod
    async def _fill(self, store: IndexStore, *, restart: bool) -> tuple[int, bool]:
        """Bring the server up to date with the store; return the number of rows, and whether the server is complete.

        It is not if the store started over in the meantime. With `restart` the index in use is not extended.
        """

    @abstractmethod
    async def _read_mark(self, *, wait: bool) -> M | None:
        """Return the mark of the index in use; None if there is none. With `wait` the request may take long."""

    async def mark(self, *, fresh: bool = False) -> M | None:
        """Return the mark of the index in use, at most `FRESH_S` old, or with `fresh` just read; None if there is none."""
        if fresh:
            # Outside the lock: this may take a minute, and searches wait for the lock.
            self._serves(await self._read_mark(wait=True))
            return self._mark
        if time.monotonic() - self._looked_at < FRESH_S:
            return self._mark  # without the lock, which lets other tasks run first
        async with self._looking:
            if time.monotonic() - self._looked_at >= FRESH_S:
                self._serves(await self._read_mark(wait=False))
            return self._mark

    def _serves(self, mark: M | None) -> None:
        self._mark, self._looked_at = mark, time.monotonic()
