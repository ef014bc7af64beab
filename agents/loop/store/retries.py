"""Patience with a database that cannot be used for a while: locked by a long write, started anew, or not reached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from knowledge.errors import DatabaseUnavailable

T = TypeVar("T")

WAITS_S = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0)
"""So long is waited before each further try: half a minute in all, besides what the tries take."""


async def outlasting(work: Callable[[], Awaitable[T]], sleep: Callable[[float], Awaitable[None]]) -> T:
    """Return what `work` returns, which is tried again while the database cannot be used. Done twice it must do no more than once.

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
