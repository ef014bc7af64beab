"""Task groups that raise a task's own error instead of an exception group."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def first_error() -> AsyncIterator[TaskGroup]:
    """Open a task group; the first error, of a task or of the block, cancels the others and is raised without an exception group.

    Callers handle errors by their types, which an exception group would hide.
    """
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except ExceptionGroup as group:
        failure = group.exceptions[0]
    if failure is not None:
        raise failure  # here, so that the group is not its context
