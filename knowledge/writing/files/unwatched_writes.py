"""Finds pages whose writer died, so that nobody noticed if an editor saved over the write unknowingly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.history.ports import ActsWanted, Ledger, Revision
from knowledge.pages.vault import Vault

LOOKED_BACK = timedelta(days=7)
MOST_ACTS = 100

WATCHED = timedelta(seconds=11)
"""How long a page is checked after a write; see `save_watch.LOOKS_S`."""


async def saved_over(vault: Vault, ledger: Ledger, now: datetime) -> Sequence[str]:
    """Return the pages that acts of the last days wrote last, and that have been saved by another program since."""
    lines = await _written_since(ledger, now - LOOKED_BACK)
    return await anyio.to_thread.run_sync(lambda: [path for path, line in lines.items() if _is_changed(vault, line)])


async def written_lately(ledger: Ledger, now: datetime) -> Sequence[str]:
    """Return the pages that an editor may still save over unknowingly."""
    return list(await _written_since(ledger, now - WATCHED))


async def _written_since(ledger: Ledger, since: datetime) -> Mapping[str, Revision]:
    newest: dict[str, Revision] = {}
    for act in await ledger.timeline(ActsWanted(since=since), limit=MOST_ACTS):
        for line in act.lines:
            newest.setdefault(line.path, line)
    return {path: line for path, line in newest.items() if line.how == "written" and line.revision is not None}


def _is_changed(vault: Vault, line: Revision) -> bool:
    try:
        return vault.read(line.path).revision != line.revision
    except KnowledgeError:  # the page is gone, or can't be read
        return False
