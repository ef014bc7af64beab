"""The contract of index engines; `tests/support/index/memory_engines.py` is the specification, one suite tests them all.

An index is a cache of an `IndexStore`. If it is late, deleted or corrupt, it catches up or starts over by itself, and it
never fails a write. Searching never waits for indexing: it answers from what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from knowledge.state.ports import Filters, IndexIdentity, IndexPosition, IndexStore, Stamp

if TYPE_CHECKING:
    # Loading numpy takes longer than everything else that a start needs.
    import numpy as np
    from numpy.typing import NDArray

# --- searching --------------------------------------------------------------------------------------------------------


class Scored(NamedTuple):
    """A chunk and its score; higher is closer. Scores of different engines cannot be compared."""

    seq: int
    doc: int
    score: float


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One word of a question, and the indexed terms that count as it, each with its weight in 0..1.

    A document scores for a query term by the best of its alternatives, not by their sum.
    """

    word: str
    alternatives: tuple[tuple[str, float], ...]


PageField = Literal["text", "names"]
"""The part of a page that is searched: the text of all its chunks, or its title, aliases and path."""


class KeywordIndex(Protocol):
    """Ranks chunks by the words they share with a question.

    The embedded engines rank by BM25 (k1 = 1.2, b = 0.75) over the terms of our own analysis. A server may analyse and rank in its
    own way, but must find, leave out and forget the same chunks.

    Any method may raise `EngineUnavailable`: the engine is down, too slow or refuses the request, and nothing was done.
    """

    async def catch_up(self, store: IndexStore) -> int:
        """Add the store's rows that this index lacks, and return their number.

        Several processes may call it at once (one works, the others wait or return 0), and it may be killed.
        """
        ...

    async def search(
        self,
        terms: Sequence[QueryTerm],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks that have any of the terms, best first.

        `docs` restricts to these documents. `filters` is the same restriction in words, for an engine that stores the
        documents' fields itself and should not be sent thousands of numbers.
        """
        ...

    async def position(self) -> IndexPosition:
        """Return the position up to which searches find the store's rows; an empty generation if there is nothing yet. Cheap."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...


@runtime_checkable
class RanksPages(Protocol):
    """A keyword index that also ranks whole pages, by all of their text or by their names (title, aliases, path)."""

    async def pages(
        self, terms: Sequence[QueryTerm], *, by: PageField, limit: int, docs: frozenset[int] | None = None
    ) -> Sequence[Scored]:
        """Return at most `limit` pages that have any of the terms, best first; `seq` is the first chunk of the page.

        The pages are ranked by BM25, as chunks are, but with the lengths and frequencies of the field `by`. A page may
        be listed twice while it is being indexed.
        """
        ...


class VectorIndex(Protocol):
    """Ranks chunks by the angle between their vector and a question's. May raise `EngineUnavailable` as above."""

    async def catch_up(self, store: IndexStore) -> int:
        """Add the store's rows that this index lacks, as a keyword index does; return 0 if searches do that."""
        ...

    async def search(
        self,
        store: IndexStore,
        vector: NDArray[np.float32],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks, best first, score = cosine in -1..1.

        An embedded engine first reads the store's new rows; a server has those of the last `catch_up`. Both compare only
        vectors of the store's current space (`store.space().position.generation`); an engine that still has those of
        another embedder raises `EngineUnavailable`. `docs` and `filters` as for a keyword index.
        """
        ...

    async def position(self) -> IndexPosition | None:
        """Return the position up to which searches find the store's rows, as in `IndexStore.space`; None if they always find all."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...


@runtime_checkable
class HoldsVectors(Protocol):
    """A vector index with vectors in memory, which need not be read from the store."""

    @property
    def is_immediate(self) -> bool:
        """Whether a search is computed on the event loop, so that nothing else could be done meanwhile."""
        ...

    def cosines(self, vector: NDArray[np.float32], seqs: Sequence[int]) -> Mapping[int, float]:
        """Return the cosines (0 for zeros) of the chunks whose vector was in memory at the last search."""
        ...


class Noted(list[Scored]):
    """Hits with a note for the reader about the engine that found them."""

    def __init__(self, found: Iterable[Scored], note: str) -> None:
        super().__init__(found)
        self.note = note


# --- indexing pages in another process --------------------------------------------------------------------------------

Known = tuple[Stamp, str, int]
"""The index's data about a document: stamp, revision, `indexed_at_ns`."""


@dataclass(frozen=True, slots=True)
class PageBatch:
    """Pages to index, each with the index's data about it, and pages to remove in the same transaction."""

    jobs: tuple[tuple[str, Known | None], ...]
    removals: tuple[str, ...]
    stored: frozenset[str]
    """The pages of the batch that are already in the index."""
    reuse: bool
    """Whether the index may have vectors of the same texts."""
    embedder: IndexIdentity
    fence: int
    catch_up: bool = True
    """Whether the keyword index is then brought up to date."""


@dataclass(frozen=True, slots=True)
class IndexedPages:
    """The result of a batch. `changed` are pages with a new content or removed; `problems` are sentences by path."""

    changed: tuple[str, ...] = ()
    embedded: int = 0
    touched: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)


class Apart(Protocol):
    """Indexes pages in another process, which ends if the caller is cancelled."""

    @property
    def takes_all(self) -> bool:
        """Whether the process of the caller should stay small: the other one brings the keyword index up to date, too."""
        ...

    def takes(self, size: int, embedder: IndexIdentity) -> bool:
        """Return whether a page of so many bytes should be indexed there, in an index with vectors of this embedder."""
        ...

    async def index(self, pages: PageBatch, *, size: int) -> IndexedPages:
        """Store the pages, and bring the keyword index up to date if the batch says so. `size` is their size in bytes.

        Raises:
            WorkerEnded: the process was killed, or memory ran out; possibly nothing was stored.
            TooMuchWork: it took more time or memory than one step may; possibly nothing was stored.
            OSError: no process can be started.
            LeaseLost, StorageError, VaultUnavailable: as for `Indexer.reconcile`.
        """
        ...
