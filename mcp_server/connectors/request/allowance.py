"""The requests that a key may send in a minute, shared by all processes that use it.

A service that limits a key says with each reply how many requests are left, no matter which process sent the others. That is
enough for a process that sends a few requests. A process that reads much at once also takes blocks of ten requests from a record
that the processes share. So two processes that start together do not count on the same requests. A block is a lease in the state
database: it ends by itself, even after a crash.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import uuid4

import anyio

from knowledge.errors import StorageError
from mcp_server.connectors.errors import ServiceLimited

logger = logging.getLogger("knowledge_forge.connectors")

WINDOW_S = 60.0
A_MINUTE = 60
"""The limit of a key until replies show a higher one."""
BLOCK = 10
SPARE = 10
"""Requests of each minute that a large reading leaves for single tasks and for acts."""
LONGEST_SHARE_S = 120.0
"""How long a process may use a block. If it dies, the block counts as spent for this long and a minute more."""


class BlockLease(Protocol):
    """A lease on a block."""

    @property
    def expires_at(self) -> datetime:
        """Its end."""
        ...


class LeaseRecord(Protocol):
    """Leases with names; the state store has them."""

    async def acquire_lease(self, name: str, holder: str, *, now: datetime, ttl_s: float) -> BlockLease | None:
        """Take the lease if it is free or this holder's; None if another holder has it."""
        ...

    async def lease(self, name: str) -> BlockLease | None:
        """Return the lease as last taken; None if it was never taken, or released."""
        ...


@dataclass(slots=True)
class _Share:
    """The blocks that one reading has taken, each with the time of its last request, and the requests left in the last of them.

    `tried` counts the blocks that it has asked for.
    """

    holder: str
    blocks: dict[str, float] = field(default_factory=dict)
    left: int = 0
    tried: int = 0
    refused: ServiceLimited | None = None
    taking: anyio.Lock = field(default_factory=anyio.Lock)


class Allowance:
    """The requests left to the key of one service, for `Sender`, which reports every try and every reply.

    `name` identifies the key among the leases. `now` and `monotonic` are the clocks of the leases and of the minute.
    """

    def __init__(
        self,
        service: str,
        name: str,
        leases: LeaseRecord,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._service, self._name, self._leases = service, name, leases
        self._now, self._monotonic = now, monotonic
        self._limit = A_MINUTE
        self._sent: deque[float] = deque(maxlen=1_000)
        self._said_left: tuple[int, float] | None = None
        self._closed_until = -math.inf
        self._share: ContextVar[_Share | None] = ContextVar("share", default=None)

    @asynccontextmanager
    async def reading_much(self) -> AsyncIterator[None]:
        """Count the requests of this block of code as one large reading, which leaves `SPARE` requests and shares with others.

        A request that the minute has no room for raises ServiceLimited without being sent.
        """
        share = _Share(uuid4().hex)
        token = self._share.set(share)
        try:
            yield
        finally:
            self._share.reset(token)
            # Shielded: the blocks of a cancelled reading would stay taken for their full time.
            with anyio.CancelScope(shield=True):
                for block, last in share.blocks.items():
                    # It is free as soon as the last of its requests has left the service's minute.
                    await self._take(block, share.holder, max(0.0, last + WINDOW_S - self._monotonic()))

    async def spend(self) -> None:
        """Record that a request is about to be sent.

        Raises:
            ServiceLimited: it belongs to a large reading, and the minute has no room for more of that.
        """
        share = self._share.get()
        if share is not None:
            await self._spend_of(share)
        self._sent.append(self._monotonic())

    def heard(self, headers: Mapping[str, str], wait_s: float | None) -> None:
        """Learn from the headers of a reply, by lower-case name; `wait_s` is set if it was a refusal.

        Source: apps/api/plane/api/rate_limit.py of github.com/makeplane/plane, a sliding window of a minute.
        """
        now = self._monotonic()
        if wait_s is not None:
            # `Retry-After` says when one request is free, and a large reading needs many.
            self._closed_until = now + max(wait_s, WINDOW_S)
            return
        said = headers.get("x-ratelimit-remaining", "")
        if said.isdecimal():
            left = int(said[:9])
            self._said_left = left, now
            # If the service's limit is higher than ours, a reply shows more left than we thought there were in all.
            self._limit = max(self._limit, left + 1)

    async def _spend_of(self, share: _Share) -> None:
        self._require_room()
        async with share.taking:  # one task of the reading takes a block for all
            while share.left == 0:
                if share.tried >= self._blocks:
                    raise await self._no_block(share)
                block = self._block(share.tried)
                share.tried += 1
                if await self._take(block, share.holder, LONGEST_SHARE_S + WINDOW_S):
                    share.blocks[block] = self._monotonic()
                    share.left = BLOCK
            share.left -= 1
            share.blocks[next(reversed(share.blocks))] = self._monotonic()

    @property
    def _blocks(self) -> int:
        return max(1, (self._limit - SPARE) // BLOCK)

    def _block(self, number: int) -> str:
        return f"allowance:{self._name}:{number}"

    async def _no_block(self, share: _Share) -> ServiceLimited:
        """Return the error that says when all blocks are free."""
        if share.refused is None:
            now = self._monotonic()
            until = [last + WINDOW_S - now for last in share.blocks.values()]
            try:
                others = [self._block(number) for number in range(self._blocks)]
                leases = [await self._leases.lease(block) for block in others if block not in share.blocks]
                until += [(lease.expires_at - self._now()).total_seconds() for lease in leases if lease is not None]
            except StorageError:
                until.append(WINDOW_S)
            # A block that another process has taken and not yet used up ends later, and is given back before.
            share.refused = ServiceLimited(self._service, min(WINDOW_S, max(until)))
        return share.refused

    def _require_room(self) -> None:
        """Check that the service allows a large reading, as far as its replies say.

        The error asks to wait until a whole minute has passed, so that the next try has all its requests.
        """
        now = self._monotonic()
        if now < self._closed_until:
            raise ServiceLimited(self._service, self._closed_until - now)
        if self._said_left is None or now - self._said_left[1] >= WINDOW_S:
            return
        left, said_at = self._said_left
        since = sum(at > said_at for at in self._sent)
        # We know when our own requests leave the minute; those of others leave it at most a minute after the reply.
        back = sum(said_at - WINDOW_S < at <= min(said_at, now - WINDOW_S) for at in self._sent)
        if left + back - since <= SPARE:
            raise ServiceLimited(self._service, said_at + WINDOW_S - now)

    async def _take(self, block: str, holder: str, ttl_s: float) -> bool:
        try:
            return await self._leases.acquire_lease(block, holder, now=self._now(), ttl_s=ttl_s) is not None
        except StorageError:
            # Plane itself still refuses what is too much.
            logger.warning("the shared record of requests to %s cannot be used", self._service, exc_info=True)
            return True
