"""Modules that are declared at the top of a file and imported at their first use, because a host waits for the start.

For example:

    if TYPE_CHECKING:
        from mcp_server.toolsets.trust import handlers
    else:
        handlers = LateModule("mcp_server.toolsets.trust.handlers")
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any


class LateName:
    """A function or class of a module that is imported when it is first called or loaded."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def load(self) -> Any:
        """Return the function or class itself."""
        return getattr(_loaded(self._module), self._name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call it."""
        return self.load()(*arguments, **options)


class LateModule:
    """A placeholder for a module; its attributes are `LateName`s. Type checkers see the module itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> LateName:
        return LateName(self._name, name)


@cache
def _loaded(name: str) -> Any:
    """Return the module. Every call of a tool asks for some, and `import_module` takes its time to find one that is loaded."""
    return import_module(name)
