"""The composition root's part for large pages: each step of indexing them runs in a worker process (kb/decisions/0047)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from knowledge.errors import DatabaseUnavailable, EmbedderUnavailable
from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.pages.vault import Vault
from mcp_server.app.allocator import return_freed_memory
from mcp_server.app.factories.embedder import STATIC
from mcp_server.late_module import LateModule
from mcp_server.workers.pool import Workers

if TYPE_CHECKING:
    from knowledge.index.embed.ports import Embedder
    from knowledge.index.ports import IndexedPages, KeywordIndex, PageBatch
    from knowledge.search.maps.page_health import PageHealth
    from knowledge.state.ports import IndexIdentity, IndexPosition, LinkedDocument
    from mcp_server.app.factories import keywords
else:
    keywords = LateModule("mcp_server.app.factories.keywords")

LARGE_BYTES = 64_000
"""Pages from this size on are indexed in another process: in a thread they would slow every caller and leave memory behind."""
CPU_S = 300
"""Processor time for one step: the largest page that is read at all (32 MiB) takes about 40 s."""
WALL_S = 3600.0
RETIRES_AT_BYTES = 256 * 2**20
"""The process is replaced after a step with more memory than this. A step needs more than those of texts."""


@dataclass(frozen=True, slots=True)
class _IndexingStep:
    """Pages of one knowledge base to index, and where its index and its keyword index are."""

    root: Path
    index: Path
    keyword: Path
    pages: PageBatch


class PagesApart:
    """Indexes pages in a separate worker process, one step after the other: large ones, or all of them."""

    def __init__(self, root: Path, index: Path, keyword: Path, *, takes_all: bool = False) -> None:
        self._root, self._index, self._keyword, self._takes_all = root, index, keyword, takes_all
        # No memory limit: the process maps the whole index, however large that is.
        self._workers = Workers(
            most=1,
            inline_characters=-1,
            cpu_s=CPU_S,
            wall_s=WALL_S,
            memory_bytes=None,
            retires_at_bytes=RETIRES_AT_BYTES,
            patience_s=WALL_S,
        )

    @property
    def takes_all(self) -> bool:
        """Whether this process should stay small."""
        return self._takes_all

    def takes(self, size: int, embedder: IndexIdentity) -> bool:
        """Return whether the page is large, or all pages are indexed apart and there is the embedder for them."""
        return size >= LARGE_BYTES or (self._takes_all and _has_static(embedder))

    async def index(self, pages: PageBatch, *, size: int) -> IndexedPages:
        """Store the pages, as the port `Apart` says."""
        step = _IndexingStep(self._root, self._index, self._keyword, pages)
        what = f"indexing {pages.jobs[0][0]}" if pages.jobs else "bringing the keyword index up to date"
        return await self._workers.run(indexed, step, size=size, what=what)

    async def close(self) -> None:
        """Kill the process."""
        await self._workers.close()


def indexed(step: _IndexingStep) -> IndexedPages:
    """Carry out the step in this process."""
    # Otherwise it would keep the memory of each step, and be replaced by a new process after each.
    return_freed_memory()
    return anyio.run(_indexed, step)


async def _indexed(step: _IndexingStep) -> IndexedPages:
    # Here and not above: the server imports this module at its start, and the indexer only later.
    from knowledge.index.indexer import Indexer

    store = await _opened(step.index)
    try:
        keyword = keywords.keyword_engine(step.keyword)

        async def opened() -> KeywordIndex:
            return keyword

        try:
            indexer = Indexer(
                Vault(step.root), store, keyword=opened, embedder=_static_embedder_for, now_ns=time.time_ns
            )
            return await indexer.index_here(step.pages)
        finally:
            await keyword.close()
    finally:
        await store.close()


def linked_documents_in(index: Path) -> tuple[IndexPosition, Sequence[LinkedDocument]]:
    """Return all documents of the index with their links, and its position before they were read.

    Raises:
        DatabaseUnavailable: the index was damaged.
    """
    return anyio.run(_linked_documents_in, index)


async def _linked_documents_in(index: Path) -> tuple[IndexPosition, Sequence[LinkedDocument]]:
    store = await _opened(index)
    try:
        # The position first: a page that is written meanwhile then makes the documents count as outdated.
        return await store.position(), await store.linked_documents()
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class HealthJob:
    """The pages and their index, patterns of excluded pages, the time, and whether ordinary links are found by name, too."""

    root: Path
    index: Path
    excluded: tuple[str, ...]
    now_ns: int
    by_name: bool


def counted_health(job: HealthJob) -> PageHealth:
    """Return the health of all pages, counted in this process."""
    return anyio.run(_counted_health, job)


async def _counted_health(job: HealthJob) -> PageHealth:
    from knowledge.pages.own_pages import own_pages_among
    from knowledge.search.maps.page_health import page_health

    vault, store = Vault(job.root), await _opened(job.index)
    try:
        return await page_health(
            store,
            lambda paths: own_pages_among(vault, paths, job.excluded),
            now_ns=job.now_ns,
            by_name=job.by_name,
        )
    finally:
        await store.close()


async def _opened(index: Path) -> SqliteIndexStore:
    store = await SqliteIndexStore.open(index)
    if store.rebuilt:
        await store.close()
        raise DatabaseUnavailable(str(index), f"it was damaged ({store.rebuilt}) and is being rebuilt")
    return store


async def _static_embedder_for(identity: IndexIdentity) -> Embedder:
    """Return the built-in embedder, which needs no network. With another one the server adds the vectors later."""
    if _has_static(identity):
        from knowledge.index.embed.static import shared_embedder

        return shared_embedder()
    raise EmbedderUnavailable(identity.embedder, "large pages get their vectors later")


def _has_static(identity: IndexIdentity) -> bool:
    return identity.embedder in ("", STATIC.embedder)
