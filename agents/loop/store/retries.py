"""Retries while a database cannot be used for a moment: it is locked by a long write, restarting, or out of reach."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from knowledge.errors import DatabaseUnavailable

T = TypeVar("T")

WAITS_S = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds before each further attempt: half a minute in all, besides the attempts themselves."""


async def outlasting(work: Callable[[], Awaitable[T]], sleep: Callable[[float], Awaitable[None]]) -> T:
    """Return what `work` returns; it is called again while the database cannot be used, and must be safe to repeat.

    Raises:
        DatabaseUnavailable: it could not be used for all that time.
    """
    for wait_s in WAITS_S:
        try:
            return await work()
        except DatabaseUnavailable:
            if wait_s:
                await sleep(wait_s)
    return await work()
