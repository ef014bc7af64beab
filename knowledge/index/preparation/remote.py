"""Indexing large pages in another process: what is asked of it, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from knowledge.index.preparation.page_rows import Known
    from knowledge.state.ports import IndexIdentity


@dataclass(frozen=True, slots=True)
class PageBatch:
    """Pages to index, each with what the index has of it, and pages to remove in the same transaction."""

    jobs: tuple[tuple[str, Known | None], ...]
    removals: tuple[str, ...]
    stored: frozenset[str]
    """Those of the pages that the index has."""
    reuse: bool
    """Whether the index may have vectors of the same texts."""
    embedder: IndexIdentity
    fence: int


@dataclass(frozen=True, slots=True)
class IndexedPages:
    """What was done. `changed` are pages that say something else now or are gone, `problems` by path."""

    changed: tuple[str, ...] = ()
    embedded: int = 0
    touched: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)


class Apart(Protocol):
    """Indexes pages in another process, which ends when the caller is cancelled."""

    async def index(self, pages: PageBatch, *, size: int) -> IndexedPages:
        """Store the pages, with the keyword index caught up. `size` is how many bytes they have.

        Raises:
            TooMuchWork: it took more time or memory than one step may take; perhaps nothing was stored.
            OSError: no process can be started.
            LeaseLost, StorageError, VaultUnavailable: as for `Indexer.reconcile`.
        """
        ...
