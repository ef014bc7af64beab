"""Search by Qdrant: vectors and, if asked to, words as sparse vectors in one collection, both joined by the server.

Searches go to the collection that the alias of the knowledge base names. A rebuild fills another collection beside it
and moves the alias when it is complete, so no search sees half of one.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EngineUnavailable
from knowledge.index.engines.catch_up import try_lock
from knowledge.index.engines.qdrant.fill import MEANING, WORDS, CollectionMark, Filling, QdrantOptions, Terms, read_mark
from knowledge.index.engines.qdrant.points import asked, by_number, restriction
from knowledge.index.engines.qdrant.server import ENGINE, Gone, QdrantLine
from knowledge.index.ports import Both, QueryTerm, Scored
from knowledge.search.ranking.fusion import fuse
from knowledge.state.ports import Filters, IndexPosition, IndexStore

if TYPE_CHECKING:
    from qdrant_client import models

K = 60
SERVER_K = K + 1
"""The server counts places from 0, we from 1."""
FUSES_WITH_K = (1, 16)
"""Older servers have a k of their own, 2, and refuse to be told; then both lists are joined here."""
FRESH_S = 1.0
"""So long what another process did to the alias may stay unnoticed."""
WIDER = 8
STARTS_OVER = 3


@dataclass(frozen=True, slots=True)
class _CollectionQuery:
    """A question as the collection takes it. Either side may be missing."""

    words: Mapping[int, float] | None
    meaning: Sequence[float] | None
    limit: int
    docs: frozenset[int] | None
    filters: Filters | None

    @property
    def empty(self) -> bool:
        """Return whether nothing can be found."""
        nothing = not self.words and self.meaning is None
        return nothing or self.limit <= 0 or (self.docs is not None and not self.docs)


class QdrantEngine:
    """One knowledge base on a Qdrant server, with its index engines `vectors` and `keyword`.

    `name` is the alias and the beginning of every collection's name; no two stores may share it. `terms` makes the words
    of a chunk; None leaves words to another engine, and `keyword` must not be used then. `lock` is a file beside the
    store: one process fills at a time. `store` is what searches by words belong to; without it, what was caught up last.
    """

    def __init__(
        self,
        line: QdrantLine,
        name: str,
        *,
        lock: Path,
        terms: Terms | None,
        options: QdrantOptions | None = None,
        store: IndexStore | None = None,
    ) -> None:
        self._line, self._name, self._lock = line, name, lock
        self._options = options or QdrantOptions()
        self._filling = Filling(line, name, self._options, terms)
        self._store = store
        self._looking = anyio.Lock()
        self._mark: CollectionMark | None = None
        self._looked_at = float("-inf")
        self._swept = False
        self._fuses: bool | None = None
        self.vectors = QdrantVectorIndex(self)
        self.keyword = QdrantKeywordIndex(self)

    # --- filling ------------------------------------------------------------------------------------------------------

    async def catch_up(self, store: IndexStore) -> int:
        """Take in what the store has and the server has not, and return how many rows that were.

        Returns 0 at once while another process does it.
        """
        self._store = store
        with try_lock(self._lock) as mine:
            if not mine:
                return 0
            taken, complete = 0, False
            for attempt in range(STARTS_OVER):
                try:
                    rows, complete = await self._fill(store, anew=attempt > 0)
                except Gone as error:
                    # Somebody deleted what was being filled. Once may happen.
                    if attempt == STARTS_OVER - 1:
                        raise EngineUnavailable(ENGINE, f"{self._name} is deleted while it is filled") from error
                    rows = 0
                taken += rows
                if complete:
                    break
            return taken

    async def _fill(self, store: IndexStore, *, anew: bool) -> tuple[int, bool]:
        """Bring the server up to the store; not complete if the store started over meanwhile, or has its first vector."""
        served = await self.mark(fresh=True)
        at, texts = (await store.space()).position, (await store.position()).generation
        if served and not anew and served.fits(self._filling.shape, at, texts):
            mark = served
        else:
            renewal = served.mean_until if served and served.texts == texts else 0
            mark = await self._filling.begun(store, at, texts, renewal=renewal)
        mark, taken = await self._filling.take(store, mark)
        at, texts = (await store.space()).position, (await store.position()).generation
        if not mark.fits(self._filling.shape, replace(at, seq=mark.seq), texts):
            return taken, False
        if served is None or served.collection != mark.collection:
            await self._filling.serve(mark)
        self._mark, self._looked_at = mark, time.monotonic()
        if not self._swept or served is None or served.collection != mark.collection:
            await self._filling.sweep(mark)
            self._swept = True
        return taken, True

    async def caught_up(self, store: IndexStore) -> bool:
        """Return whether the server has all that the store has now."""
        mark = await self.mark(fresh=True)
        at, texts = (await store.space()).position, (await store.position()).generation
        return mark is not None and (mark.generation, mark.texts, mark.seq) == (at.generation, texts, at.seq)

    # --- where it is --------------------------------------------------------------------------------------------------

    async def mark(self, *, fresh: bool = False) -> CollectionMark | None:
        """Return what the collection that serves says of itself, at most a second old; None while there is none."""
        async with self._looking:
            if fresh or time.monotonic() - self._looked_at >= FRESH_S:
                ask = self._line.do if fresh else self._line.ask
                try:
                    self._mark = await ask(lambda client: read_mark(client, self._name))
                except Gone:
                    self._mark = None
                self._looked_at = time.monotonic()
            return self._mark

    async def close(self) -> None:
        """Give everything back."""
        await self._line.close()

    # --- searching ----------------------------------------------------------------------------------------------------

    async def search(
        self,
        *,
        terms: Sequence[QueryTerm] = (),
        vector: NDArray[np.float32] | None = None,
        limit: int,
        docs: frozenset[int] | None,
        filters: Filters | None,
        store: IndexStore | None = None,
    ) -> Both:
        """Return what both sides of the question find, and, if it has both, the joined list."""
        meaning = vector.tolist() if vector is not None and vector.any() else None
        question = _CollectionQuery(asked(terms) or None, meaning, limit, docs, filters)
        if question.empty:
            return Both((), (), ())
        for again in (True, False):
            mark = await self._serving(question, store or self._store, fresh=not again)
            if mark is None:
                break
            try:
                return await self._found(question, mark)
            except Gone:
                # The alias has moved on and the collection was deleted: the next look says to which.
                self._looked_at = float("-inf")
        return Both((), (), ())

    async def _serving(
        self, question: _CollectionQuery, store: IndexStore | None, *, fresh: bool
    ) -> CollectionMark | None:
        """Return the mark of what serves; numbers of another generation would name other chunks.

        Raises:
            EngineUnavailable: the store has started over and the new collection is not complete.
        """
        mark = await self.mark(fresh=fresh)
        if mark is None or store is None:
            return mark
        if not await _same(question, mark, store):
            mark = await self.mark(fresh=True)
            if mark is not None and not await _same(question, mark, store):
                raise EngineUnavailable(ENGINE, f"the collection {self._name} is still being filled anew")
        return mark

    async def _found(self, question: _CollectionQuery, mark: CollectionMark) -> Both:
        meant = restriction(question.docs, question.filters)
        if question.meaning is not None and len(question.meaning) != mark.dimensions:
            question = replace(question, meaning=None)
            if question.empty:
                return Both((), (), ())
        if not meant.wider:
            return await self._query(question, mark, meant.conditions)
        fetched = question.limit * WIDER
        wide = await self._query(replace(question, limit=fetched, docs=None), mark, meant.conditions, join=False)
        lists = [_admitted(found, question.docs) for found in (wide.keyword, wide.vectors)]
        exhausted = [len(found) < fetched for found in (wide.keyword, wide.vectors)]
        if all(len(found) >= question.limit or done for found, done in zip(lists, exhausted, strict=True)):
            return _joined(*(found[: question.limit] for found in lists))
        return await self._query(question, mark, by_number(question.docs or ()))

    async def _query(
        self,
        question: _CollectionQuery,
        mark: CollectionMark,
        conditions: Sequence[Mapping[str, object]],
        *,
        join: bool = True,
    ) -> Both:
        """Ask in one round trip: each side for its list and, where it can, the server for the joined one."""
        both = bool(question.words) and question.meaning is not None
        fused_there = join and both and await self._server_fuses()
        requests = _requests(question, conditions, self._options, fused=fused_there)
        answers = await self._line.ask(lambda client: client.query_batch_points(mark.collection, requests=requests))
        lists = [_admitted(_hits(answer.points), question.docs) for answer in answers]
        words = lists.pop(0) if question.words else ()
        meaning = lists.pop(0) if question.meaning is not None else ()
        return Both(words, meaning, lists[0]) if fused_there else _joined(words, meaning)

    async def _server_fuses(self) -> bool:
        if self._fuses is None:
            try:
                version = (await self._line.ask(lambda client: client.info())).version
                numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2])
            except (EngineUnavailable, Gone, ValueError):
                # A key may be good for one collection only, and not for asking this.
                numbers = (0, 0)
            self._fuses = numbers >= FUSES_WITH_K
        return self._fuses


class QdrantVectorIndex:
    """The vectors of an engine: exact in small collections, by HNSW graph in large ones. Half precision."""

    def __init__(self, engine: QdrantEngine) -> None:
        self._engine = engine

    async def catch_up(self, store: IndexStore) -> int:
        """Take in what the store has and this index has not, and return how many rows that were."""
        return await self._engine.catch_up(store)

    async def search(
        self,
        store: IndexStore,
        vector: NDArray[np.float32],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks, best first, equal ones by `seq`, score = cosine."""
        found = await self._engine.search(vector=vector, limit=limit, docs=docs, filters=filters, store=store)
        return list(found.vectors)

    async def position(self) -> IndexPosition | None:
        """Return up to where searches find the store's vectors."""
        mark = await self._engine.mark()
        return IndexPosition(mark.generation, mark.seq) if mark else IndexPosition("", 0)

    async def close(self) -> None:
        """Give everything back, the engine's other side with it."""
        await self._engine.close()


class QdrantKeywordIndex:
    """The words of an engine: BM25 as the product of two sparse vectors, with the idf of the moment by the server.

    It differs from the specification in three things. Of a word's alternatives that one chunk has, the weights add up,
    where the port says that the best counts: a product of vectors has no maximum. The mean length of a chunk is that of
    the time when the collection was begun. In a collection of several shards each has its own idf.
    """

    def __init__(self, engine: QdrantEngine) -> None:
        self._engine = engine

    async def catch_up(self, store: IndexStore) -> int:
        """Take in what the store has and this index has not, and return how many rows that were."""
        return await self._engine.catch_up(store)

    async def search(
        self,
        terms: Sequence[QueryTerm],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks that have any of the terms, best first, equal ones by `seq`."""
        return list((await self._engine.search(terms=terms, limit=limit, docs=docs, filters=filters)).keyword)

    async def search_both(
        self,
        terms: Sequence[QueryTerm],
        vector: NDArray[np.float32],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,
    ) -> Both:
        """Return at most `limit` chunks of each list; joined by reciprocal rank, k = 60, in the same round trip."""
        return await self._engine.search(terms=terms, vector=vector, limit=limit, docs=docs, filters=filters)

    async def position(self) -> IndexPosition:
        """Return up to where searches find the store's texts."""
        mark = await self._engine.mark()
        return IndexPosition(mark.texts, mark.seq) if mark else IndexPosition("", 0)

    async def close(self) -> None:
        """Give everything back, the engine's other side with it."""
        await self._engine.close()


async def _same(question: _CollectionQuery, mark: CollectionMark, store: IndexStore) -> bool:
    """Return whether the collection is of the store's texts and, if it is asked for meaning, of its vectors."""
    if mark.texts != (await store.position()).generation:
        return False
    return question.meaning is None or mark.generation == (await store.space()).position.generation


def _requests(
    question: _CollectionQuery, conditions: Sequence[Mapping[str, object]], options: QdrantOptions, *, fused: bool
) -> list[models.QueryRequest]:
    """Return one request for each side, and one that joins both."""
    from qdrant_client import models

    only = models.Filter.model_validate({"must": list(conditions)}) if conditions else None
    sides: list[dict[str, Any]] = []
    if question.words:
        sparse = models.SparseVector(indices=list(question.words), values=list(question.words.values()))
        sides.append({"query": sparse, "using": WORDS, "filter": only, "limit": question.limit})
    if question.meaning is not None:
        dense: dict[str, Any] = {"query": question.meaning, "using": MEANING, "filter": only, "limit": question.limit}
        if options.quantization != "none":
            again = models.QuantizationSearchParams(
                rescore=True, oversampling=4.0 if options.quantization == "binary" else 2.0
            )
            dense["params"] = models.SearchParams(quantization=again)
        sides.append(dense)
    requests = [models.QueryRequest(**side, with_payload=["doc"]) for side in sides]
    if fused:
        requests.append(
            models.QueryRequest(
                prefetch=[models.Prefetch(**side) for side in sides],
                query=models.RrfQuery(rrf=models.Rrf(k=SERVER_K)),
                limit=2 * question.limit,
                with_payload=["doc"],
            )
        )
    return requests


def _hits(points: Sequence[models.ScoredPoint]) -> list[Scored]:
    hits = [Scored(int(point.id), int((point.payload or {}).get("doc", 0)), point.score) for point in points]
    return sorted(hits, key=lambda hit: (-hit.score, hit.seq))


def _admitted(hits: Sequence[Scored], docs: Collection[int] | None) -> list[Scored]:
    """Drop what `docs` does not admit: the engine may be a moment behind the store that chose them."""
    return [hit for hit in hits if docs is None or hit.doc in docs]


def _joined(words: Sequence[Scored], meaning: Sequence[Scored]) -> Both:
    fused = [Scored(hit.seq, hit.doc, hit.score) for hit in fuse([words, meaning], K)]
    return Both(words, meaning, fused)
