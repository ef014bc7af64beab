"""Opens this machine's copy of pages that are in the database. Loaded only where FORGE_PAGES says so."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import anyio.to_thread

from knowledge.errors import VaultUnavailable
from knowledge.pages.vault import OBSIDIAN_FOLDER, Vault
from knowledge.state.ports import StateStore
from knowledge.stored_pages.copy import PagesCopy, caught_up
from knowledge.stored_pages.sql import SqlStoredPages
from knowledge.writing.locks.page_locks import Locks

RECORD_FILE = "copy.db"
COPY_LOCKS = "copy-locks"
EDITS_LOCKS = "edits-locks"
EDITS = "edits"
__all__ = ["EDITS", "caught_up", "copy_of", "edits_lock"]
LONGEST_FILL_S = 600.0
"""How long a process waits for another one that fills the copy."""


async def copy_of(
    vault: Vault, state: StateStore, folder: Path, stack: AsyncExitStack, *, whole: bool, mirror: bool
) -> PagesCopy:
    """Return the copy in the folder of `vault`, up to date, with its record in the state folder `folder`.

    Raises:
        VaultUnavailable: the folder holds files that are not in the database, or is used with Obsidian and is no `mirror`.
        StorageError: the database can't be used.
    """
    if not mirror and await anyio.to_thread.run_sync(vault.is_obsidian):
        raise VaultUnavailable(
            str(vault.root),
            f"the pages are in the database, and this folder has {OBSIDIAN_FOLDER}: links would mean something else on this machine "
            "than on others; name another folder with FORGE_KB, and keep this one with `knowledge-forge mirror`",
        )
    locks = Locks(folder / COPY_LOCKS, longest_wait_s=LONGEST_FILL_S)
    copy = PagesCopy(vault, SqlStoredPages(state.tables), folder / RECORD_FILE, locks)
    stack.push_async_callback(copy.close)
    await copy.require_ours()
    await copy.catch_up(whole=whole)
    return copy


def edits_lock(folder: Path) -> Locks:
    """Return the lock of the process that takes edits in the copy; its name is `EDITS`."""
    return Locks(folder / EDITS_LOCKS)
