"""Read from the history where pages were before they were renamed."""

from __future__ import annotations

from knowledge.errors import KnowledgeError
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.page_repairs import FormerPaths

LINES = 1_000
"""Lines of the history that are read at a time."""


async def former_paths(settings: Settings) -> FormerPaths:
    """Return what the history knows of former paths; nothing if the state can't be read, which is a finding of its own."""
    moves, after = dict[str, str](), 0
    try:
        async with open_state(settings) as state:
            states = {line.path: line.revision or line.before or "" for line in await state.ledger.newest_lines()}
            while lines := await state.ledger.lines_after(after, limit=LINES, moves=True):
                moves |= {line.moved_from: line.path for line in lines if line.moved_from is not None}
                after = lines[-1].id
    except KnowledgeError:
        return FormerPaths()
    return FormerPaths(moves, states)
