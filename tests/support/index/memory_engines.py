"""Both indexes as plain Python: slow, obvious, the specification. An engine that disagrees with this file is wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from knowledge.index.ports import PageField, QueryTerm, Scored
from knowledge.state.ports import Filters, IndexPosition, IndexStore, NameRow, TextRow

K1 = 1.2
B = 0.75
NOWHERE = IndexPosition("", 0)
BATCH = 10_000


class MemoryKeywordIndex:
    """Exact BM25 over the terms that `terms` makes of a chunk; ends with the process.

    Source: Robertson, Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, with the idf that
    never gets negative, ln(1 + (N - n + 0.5) / (n + 0.5)).
    """

    def __init__(
        self, terms: Callable[[TextRow], Sequence[str]], names: Callable[[NameRow], Sequence[str]] = lambda _: ()
    ) -> None:
        self._terms, self._name_terms = terms, names
        self._names: dict[int, Sequence[str]] = {}
        self._applied = NOWHERE
        self._rows: dict[int, tuple[int, Counter[str]]] = {}

    async def catch_up(self, store: IndexStore) -> int:
        """Index the store's new rows, and return how many there were."""
        taken = 0
        target = await store.position()
        while self._applied != target:
            delta = await store.delta(self._applied, limit=BATCH, texts=True)
            if delta.upto.generation != self._applied.generation:
                self._rows.clear()
            self._rows |= {row.seq: (row.doc, Counter(self._terms(row))) for row in delta.texts}
            self._names |= {page.doc: self._name_terms(page) for page in delta.names}
            for seq in delta.removed:
                self._rows.pop(seq, None)
            self._applied = delta.upto
            taken += len(delta.texts) + len(delta.removed)
            if delta.upto.seq >= target.seq:
                break
        return taken

    async def position(self) -> IndexPosition:
        """Return the position up to which searches find the store's rows."""
        return self._applied

    async def search(
        self,
        terms: Sequence[QueryTerm],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,  # noqa: ARG002 - `docs` says the same, and is at hand here
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks that have any of the terms, best first, ties by `seq`."""
        return self._ranked(self._rows, terms, limit, docs)

    async def pages(
        self, terms: Sequence[QueryTerm], *, by: PageField, limit: int, docs: frozenset[int] | None = None
    ) -> Sequence[Scored]:
        """Return at most `limit` pages that have any of the terms in that field, best first, ties by `seq`."""
        pages: dict[int, tuple[int, Counter[str]]] = {}
        first: dict[int, int] = {}
        for seq, (doc, counts) in sorted(self._rows.items()):
            if by == "names":
                pages.setdefault(first.setdefault(doc, seq), (doc, Counter(self._names[doc])))
            else:
                pages.setdefault(first.setdefault(doc, seq), (doc, Counter()))[1].update(counts)
        return self._ranked(pages, terms, limit, docs)

    def _ranked(
        self,
        rows: Mapping[int, tuple[int, Counter[str]]],
        terms: Sequence[QueryTerm],
        limit: int,
        docs: frozenset[int] | None,
    ) -> Sequence[Scored]:
        mean = sum(counts.total() for _, counts in rows.values()) / max(len(rows), 1)
        having = Counter(term for _, counts in rows.values() for term in counts)

        def score(counts: Counter[str], term: str) -> float:
            idf = math.log(1 + (len(rows) - having[term] + 0.5) / (having[term] + 0.5))
            norm = K1 * (1 - B + B * counts.total() / mean)
            return idf * counts[term] * (K1 + 1) / (counts[term] + norm)

        def best(counts: Counter[str], asked: QueryTerm) -> float:
            return max((w * score(counts, term) for term, w in asked.alternatives if term in counts), default=0.0)

        found = [
            Scored(seq, doc, sum(best(counts, asked) for asked in terms))
            for seq, (doc, counts) in rows.items()
            if (docs is None or doc in docs) and any(t in counts for asked in terms for t, _ in asked.alternatives)
        ]
        return sorted(found, key=lambda hit: (-hit.score, hit.seq))[:limit]

    async def close(self) -> None:
        """Close it: there is nothing to release."""


class MemoryVectorIndex:
    """Exact cosine against every vector in the store, which each search reads again."""

    async def search(
        self,
        store: IndexStore,
        vector: NDArray[np.float32],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,  # noqa: ARG002 - `docs` says the same, and is at hand here
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks, best first, ties by `seq`; a chunk without a vector is never found."""
        # Without a position every row counts as new.
        delta = await store.delta(NOWHERE, limit=2**31, codes=True)
        rows = [row for row in delta.codes if docs is None or row.doc in docs]
        found = []
        for row, half in zip(rows, await store.halves([row.seq for row in rows]), strict=True):
            stored = np.frombuffer(half, dtype="<f2").astype(np.float64)
            lengths = float(np.linalg.norm(stored) * np.linalg.norm(vector))
            if lengths:
                found.append(Scored(row.seq, row.doc, float(stored @ vector) / lengths))
        return sorted(found, key=lambda hit: (-hit.score, hit.seq))[:limit]

    async def catch_up(self, store: IndexStore) -> int:  # noqa: ARG002 - the port's shape
        """Return 0: searching reads new vectors itself."""
        return 0

    async def position(self) -> IndexPosition | None:
        """Return None: a search always reads its store."""
        return None

    async def close(self) -> None:
        """Close it: there is nothing to release."""
