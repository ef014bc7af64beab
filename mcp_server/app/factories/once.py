"""Parts that are built when they are first used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Generic, TypeVar, cast

import anyio
import anyio.to_thread

T = TypeVar("T")


class Once(Generic[T]):
    """An expensive part that is built once, at first use, off the event loop."""

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._lock = anyio.Lock()
        self.built: T | None = None

    async def get(self) -> T:
        """Return the part; the first call builds it."""
        if self.built is None:
            async with self._lock:
                # Another task may have built it while this one waited for the lock.
                if self.built is None:
                    self.built = await anyio.to_thread.run_sync(self._build)
        return self.built

    async def close(self) -> None:
        """Close the part, if it was built."""
        if self.built is not None:
            await cast("Any", self.built).close()


def awaited_once(find: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    """Return `find` with its first result kept; calls that come before there is one await it themselves."""
    found: list[T] = []

    @wraps(find)
    async def first() -> T:
        if not found:
            found.append(await find())
        return found[0]

    return first
