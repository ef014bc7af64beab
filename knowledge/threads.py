"""Work on another thread that begins at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def begin(work: Callable[[*Ts], T], *args: *Ts) -> Awaitable[T]:
    """Start `work` on another thread now, and return what to await for its result.

    `anyio.to_thread.run_sync` starts it only after other tasks had their turn: what they compute would come first, and not
    beside it. If the caller is cancelled, `work` runs to its end and its result is dropped.
    """
    return asyncio.get_running_loop().run_in_executor(None, work, *args)
