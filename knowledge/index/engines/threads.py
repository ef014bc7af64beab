"""Starts work on another thread without delay."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def begin(work: Callable[[*Ts], T], *args: *Ts) -> Awaitable[T]:
    """Start `work` on another thread now, and return an awaitable for its result.

    `anyio.to_thread.run_sync` would start it only after other tasks had their turn. Their computations would run before
    `work`, and not at the same time. If the caller is cancelled, `work` runs to its end and its result is dropped.
    """
    return asyncio.get_running_loop().run_in_executor(None, work, *args)
