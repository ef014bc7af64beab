"""Where long computations are done. A port: what is pure may be handed to whoever has time, and stopped.

Steps are functions of one argument at the top level of a module. They, their arguments and their answers can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol, TypeVar

A = TypeVar("A")
R = TypeVar("R")

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""The principal that the current task works for, so that nobody takes all workers; "" for the server itself."""


class Aside(Protocol):
    """Runs a pure step without keeping others waiting. A caller that is cancelled stops it."""

    async def run(self, step: Callable[[A], R], asked: A, *, size: int, what: str) -> R:
        """Return `step(asked)`. `size` is how many characters it reads, `what` names them in messages ("this merge").

        Raises:
            TooMuchWork: it took more time or memory than one call may take.
            TooMuchWaiting: the caller has too many of them under way.
            What `step` raises.
        """
        ...


class Here:
    """Runs steps where they are asked for: at a terminal, and in tests, nobody else waits."""

    async def run(self, step: Callable[[A], R], asked: A, *, size: int, what: str) -> R:  # noqa: ARG002  (the port's)
        """Return `step(asked)`."""
        return step(asked)
