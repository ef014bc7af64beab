"""Which tools there are, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_server.tools import journeys, knowledge, trust, writing
from mcp_server.tools.spec import BadDeclaration, ToolSpec

AnySpec = ToolSpec[Any, Any, Any]

MODULES: tuple[tuple[AnySpec, ...], ...] = (knowledge.TOOLS, writing.TOOLS, trust.TOOLS, journeys.TOOLS)
"""The order is fixed: hosts show it, and models read from the top."""


def declared() -> tuple[AnySpec, ...]:
    """Return every tool of this program."""
    return tuple(spec for tools in MODULES for spec in tools)


def chosen(
    specs: Sequence[AnySpec], *, toolsets: Sequence[str] | None = None, read_only: bool = False
) -> tuple[AnySpec, ...]:
    """Return the tools to list, each declaration checked.

    Raises:
        BadDeclaration: one is incomplete, or two have one name; the server must not start.
    """
    names: set[str] = set()
    for spec in specs:
        spec.check()
        if spec.name in names:
            raise BadDeclaration(f"two tools are called {spec.name}")
        names.add(spec.name)
    wanted = None if toolsets is None else {*toolsets, "trust"}
    return tuple(
        spec for spec in specs if (wanted is None or spec.toolset in wanted) and (spec.read_only or not read_only)
    )
