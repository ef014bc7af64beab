"""What another service said, kept for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

KEPT_S = 300.0
"""Names change seldom; whoever asks for one that is not there has them asked for again."""
JUST_ASKED_S = 5.0
"""What was asked so short a time ago is not asked again for a name that it does not have."""

T = TypeVar("T")


class Kept(Generic[T]):
    """A value that is asked for when it is first needed, and again when it is old; callers at the same time share a request."""

    def __init__(
        self, ask: Callable[[], Awaitable[T]], *, monotonic: Callable[[], float], kept_s: float = KEPT_S
    ) -> None:
        self._ask, self._monotonic, self._kept_s = ask, monotonic, kept_s
        self._lock = anyio.Lock()
        self._value: tuple[T, float] | None = None

    async def get(self, *, fresh: bool = False) -> T:
        """Return the value; with `fresh` one that was asked for just now."""
        async with self._lock:
            if self._value is not None:
                value, at = self._value
                if self._monotonic() - at < (JUST_ASKED_S if fresh else self._kept_s):
                    return value
            asked_at = self._monotonic()
            value = await self._ask()
            self._value = value, asked_at
            return value

    def forget(self) -> None:
        """Have it asked for anew."""
        self._value = None
