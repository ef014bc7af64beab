"""A host that reads what it quotes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agents.engine.work.gaps import citations_in


async def read_cited(
    call: Callable[..., Awaitable[Mapping[str, Any]]], told: Mapping[str, Any], work: Mapping[str, Any]
) -> None:
    """Read every page that the work quotes, in full, if the journey's phase allows it."""
    if "kb_read" in told["allowed_tools"]:
        for path in dict.fromkeys(citation.path for _, citation in citations_in(work)):
            await call("kb_read", path=path, view="full", journey_id=told["journey_id"])
