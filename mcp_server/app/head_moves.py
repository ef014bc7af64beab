"""Records changes that Git made to pages, once HEAD has moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio.to_thread

from knowledge.git.head_moves import HeadMoves
from mcp_server.app.knowledge_base import KnowledgeBase

if TYPE_CHECKING:
    from knowledge.writing.files.outside_changes import OutsideChanges

KEPT_FILE = "git-head"


def moves_of(base: KnowledgeBase) -> HeadMoves:
    """Return what notices that HEAD of the knowledge base's repository has moved."""
    return HeadMoves(base.vault.root, base.state_dir / KEPT_FILE)


async def record_after_move(base: KnowledgeBase, changes: Callable[[], OutsideChanges]) -> bool:
    """Record changes that Git made to pages, if HEAD has moved since that was done last. Return whether it had moved.

    Raises:
        KnowledgeError: the folder or the database can't be used. It is tried again the next time.
    """
    moves = moves_of(base)
    stamp = await anyio.to_thread.run_sync(moves.moved)
    if not stamp:
        return False
    while (await changes().record()).left:
        pass
    # What HEAD was before the pages were compared: a move in between is noticed the next time.
    await anyio.to_thread.run_sync(moves.keep, stamp)
    return True
