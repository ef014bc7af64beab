"""Read from the history and the index where pages were before they were renamed."""

from __future__ import annotations

from contextlib import suppress

from knowledge.errors import KnowledgeError
from mcp_server.app.knowledge_base import open_base, open_state
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.page_repairs import FormerPaths

LINES = 1_000
"""Lines of the history that are read at a time."""


async def former_paths(settings: Settings) -> FormerPaths:
    """Return everything that is known of former paths.

    A database that can't be read adds nothing: `doctor` reports it elsewhere. The index is not brought up to date
    first, so it still has the last text of a page that no host has written.
    """
    moves, states, after = dict[str, str](), dict[str, str](), 0
    with suppress(KnowledgeError):
        async with open_base(settings) as base:
            states |= {path: revision for path, (_, revision, _) in (await base.index.stamps()).items()}
    with suppress(KnowledgeError):
        async with open_state(settings) as state:
            states |= {line.path: line.revision or line.before or "" for line in await state.ledger.newest_lines()}
            while lines := await state.ledger.lines_after(after, limit=LINES, moves=True):
                moves |= {line.moved_from: line.path for line in lines if line.moved_from is not None}
                after = lines[-1].id
    return FormerPaths(moves, states)
