"""The port for long computations: pure steps that may run in another process, where they can be stopped.

A step is a function of one argument at the top level of a module. Its argument and result must be picklable.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol, TypeVar

A = TypeVar("A")
R = TypeVar("R")

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""The principal that the current task works for, so that none can take all workers; "" for the server itself."""
COMPARED_PER_READ = 500
"""Pairs of characters that are compared in the time that it takes to read one character."""


def comparison_size(one: int, other: int, *, read: int | None = None) -> int:
    """Return the size of a step that compares a text of `one` characters with a text of `other` characters.

    `read` is how many characters the step reads; by default, both texts.
    """
    return max(one + other if read is None else read, one * other // COMPARED_PER_READ)


class StepRunner(Protocol):
    """Runs a pure step without keeping other callers waiting. Cancelling the caller stops the step."""

    async def run(self, step: Callable[[A], R], argument: A, *, size: int, what: str) -> R:
        """Return `step(argument)`. `size` is the number of characters that it reads; `what` names it in messages ("this merge").

        Raises:
            TooMuchWork: it took more time or memory than one call may take.
            TooMuchWaiting: the caller has too many steps in progress.
            Any error of `step`.
        """
        ...


class InlineRunner:
    """Runs steps in this process, for terminals and tests, where no other caller has to wait."""

    async def run(self, step: Callable[[A], R], argument: A, *, size: int, what: str) -> R:  # noqa: ARG002  (the port's)
        """Return `step(argument)`."""
        return step(argument)
