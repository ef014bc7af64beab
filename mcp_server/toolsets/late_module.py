"""A module whose functions can be named in a declaration without importing it: start-up lists tools, and calls none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any


class LateModule:
    """Stands for a module of coroutine functions. The first call to one of them imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Callable[..., Awaitable[Any]]:
        """Return a function that calls the one of that name."""

        async def call(*arguments: Any, **options: Any) -> Any:
            return await getattr(import_module(self._name), function)(*arguments, **options)

        return call
