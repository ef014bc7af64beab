"""The tools, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib import import_module

from mcp_server.app.settings.services import SERVICE_VARIABLES, TOOLSETS
from mcp_server.toolsets.spec import AnySpec, BadDeclaration

SERVICES = ("runs", *SERVICE_VARIABLES)
"""Toolsets that need a configured language model or service, and have nothing to do without one."""


def declared(configured: Collection[str] = SERVICES) -> tuple[AnySpec, ...]:
    """Return every tool of this program, without those of services that are not `configured`."""
    away = set(SERVICES) - set(configured)
    modules = (import_module(f"mcp_server.toolsets.{name}.tools") for name in TOOLSETS if name not in away)
    return tuple(spec for module in modules for spec in module.TOOLS)


def chosen(
    specs: Sequence[AnySpec],
    *,
    toolsets: Sequence[str] | None = None,
    read_only: bool | Collection[str] = False,
    configured: Collection[str] = SERVICES,
) -> tuple[AnySpec, ...]:
    """Return the tools to list, each declaration checked.

    Toolsets that need a service appear only if it is `configured`. `read_only` keeps only tools that read: if it is
    true, in all toolsets; if it is names, in the toolsets of these names.

    Raises:
        BadDeclaration: one is incomplete, or two have one name; the server must not start.
    """
    names: set[str] = set()
    for spec in specs:
        spec.check()
        if spec.name in names:
            raise BadDeclaration(f"two tools are called {spec.name}")
        names.add(spec.name)
    # A host must always be able to see why it was refused, and what became of its proposals.
    wanted = None if toolsets is None else {*toolsets, "trust"}
    away = set(SERVICES) - set(configured)

    def listed(spec: AnySpec) -> bool:
        only_reads = read_only if isinstance(read_only, bool) else spec.toolset in read_only
        here = spec.toolset not in away and (wanted is None or spec.toolset in wanted)
        return here and (spec.read_only or not only_reads)

    return tuple(spec for spec in specs if listed(spec))
