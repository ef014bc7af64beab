"""Pages in a database, with the copies of two machines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from knowledge.pages.vault import Vault
from knowledge.state.ports import StateStore
from knowledge.stored_pages.acts import StoredPageActs
from knowledge.stored_pages.copy import PagesCopy
from knowledge.stored_pages.sql import SqlStoredPages
from knowledge.writing.locks.page_locks import Locks
from tests.support.writing.acts import World, now, rejoin


@dataclass
class StoredWorld(World):
    """One process's view of pages in a database. `root` is its machine's copy, `locks` are those of all machines."""

    store: StateStore | None = None
    shared_locks: Path | None = None
    opened: list[PagesCopy] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.store is not None
        self.root = self.home / "kb"
        self.root.mkdir(parents=True, exist_ok=True)
        pages = SqlStoredPages(self.store.tables)
        self.copy = PagesCopy(
            Vault.open(self.root), pages, self.home / "copy.db", Locks(self.home / "copy locks", longest_wait_s=60)
        )
        self.opened.append(self.copy)
        self.locks = Locks(self.shared_locks or self.home / "locks", longest_wait_s=60)
        self.stored = StoredPageActs(self.copy, self.ledger, self.locks, now=now, rejoin=rejoin, patience=self.patience)
        self.acts = self.stored  # type: ignore[assignment]  # both are `PageActs`

    def beside(self) -> StoredWorld:
        return StoredWorld(self.home, self.ledger, store=self.store, shared_locks=self.shared_locks, opened=self.opened)

    def elsewhere(self, name: str = "elsewhere") -> StoredWorld:
        """Return the view of a process on another machine."""
        return StoredWorld(
            self.home / name,
            self.ledger,
            store=self.store,
            shared_locks=self.shared_locks or self.home / "locks",
            opened=self.opened,
        )


@asynccontextmanager
async def stored_world(home: Path, store: StateStore) -> AsyncIterator[StoredWorld]:
    """Yield an empty knowledge base in the database, and close all copies of it afterwards."""
    world = StoredWorld(home, store.ledger, store=store)
    await world.copy.require_ours()
    await world.copy.catch_up(whole=True)
    try:
        yield world
    finally:
        for copy in world.opened:
            await copy.close()
