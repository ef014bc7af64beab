"""Several requests at the same time, but not too many: a service limits them per minute."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from knowledge.errors import KnowledgeError

T = TypeVar("T")


async def in_parallel(calls: Sequence[Callable[[], Awaitable[T]]], *, at_most: int) -> list[T]:
    """Return the result of each call, in their order.

    Raises:
        KnowledgeError: of the first call that failed; the others are cancelled.
    """
    results: dict[int, T] = {}
    failed: list[KnowledgeError] = []
    room = anyio.CapacityLimiter(at_most)

    async def call(number: int) -> None:
        async with room:
            try:
                results[number] = await calls[number]()
            except KnowledgeError as error:  # a task group would raise it inside an exception group
                failed.append(error)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for number in range(len(calls)):
            tasks.start_soon(call, number)
    if failed:
        raise failed[0]
    return [results[number] for number in range(len(calls))]
