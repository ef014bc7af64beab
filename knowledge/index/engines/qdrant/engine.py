"""Search by Qdrant: vectors and, if wanted, words as sparse vectors in one collection, both joined by the server.

Searches use the collection that the knowledge base's alias names. A rebuild fills another collection and moves the alias
when it is complete, so no search sees half of a collection.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EngineUnavailable
from knowledge.index.engines.catch_up import NOWHERE
from knowledge.index.engines.qdrant.points import (
    CollectionMark,
    Condition,
    QdrantOptions,
    Terms,
    by_number,
    query_weights,
    restriction,
)
from knowledge.index.engines.qdrant.server import ENGINE, QdrantLine, read_mark
from knowledge.index.engines.server_line import WIDER, MissingIndex, ServerIndex
from knowledge.index.ports import Both, QueryTerm, Scored
from knowledge.search.ranking.fusion import fuse
from knowledge.state.ports import Filters, IndexPosition, IndexStore

if TYPE_CHECKING:
    from qdrant_client import models

    from knowledge.index.engines.qdrant.fill import Filling

FUSES_WITH_K = (1, 16)
"""The first version that accepts a constant for fusion. Older servers use 2; then both lists are joined here."""
NOTHING = Both((), (), ())


@dataclass(frozen=True, slots=True)
class _CollectionQuery:
    """A question in the form that a collection takes. Either side may be missing."""

    words: Mapping[int, float] | None
    meaning: Sequence[float] | None
    limit: int
    docs: frozenset[int] | None
    filters: Filters | None

    @property
    def empty(self) -> bool:
        """Whether nothing can be found."""
        no_question = not self.words and self.meaning is None
        return no_question or self.limit <= 0 or (self.docs is not None and not self.docs)


class QdrantEngine(ServerIndex[CollectionMark]):
    """One knowledge base on a Qdrant server, with its index engines `vectors` and `keyword`.

    `terms` makes the words of a chunk; None if another engine searches words, and then `keyword` must not be used.
    `store` is the one that keyword searches belong to; by default, the one that was caught up last.
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
        super().__init__(ENGINE, name, lock, store)
        self._line, self._terms, self._options = line, terms, options or QdrantOptions()
        self._fuses: bool | None = None
        self.vectors = QdrantVectorIndex(self)
        self.keyword = QdrantKeywordIndex(self)

    def _filling(self) -> Filling:
        # Imports the client's package, which a process that searches elsewhere never needs.
        from knowledge.index.engines.qdrant.fill import Filling

        return Filling(self._line, self._name, self._options, self._terms)

    async def _fill(self, store: IndexStore, *, restart: bool) -> tuple[int, bool]:
        served = await self.mark(fresh=True)
        filling = self._filling()
        at, texts = (await store.space()).position, (await store.position()).generation
        if served and not restart and served.fits(filling.shape, at, texts):
            mark = served
        else:
            renewal = served.mean_until if served and served.texts == texts else 0
            mark = await filling.begun(store, at, texts, renewal=renewal)
        mark, taken = await filling.take(store, mark)
        at, texts = (await store.space()).position, (await store.position()).generation
        if not mark.fits(filling.shape, replace(at, seq=mark.seq), texts):
            return taken, False
        moved = served is None or served.collection != mark.collection
        if moved:
            await filling.serve(mark)
        self._serves(mark)
        if moved or not self._swept:
            await filling.sweep(mark)
            self._swept = True
        return taken, True

    async def caught_up(self, store: IndexStore) -> bool:
        """Return whether the server has everything that the store has now."""
        mark = await self.mark(fresh=True)
        at, texts = (await store.space()).position, (await store.position()).generation
        return mark is not None and (mark.generation, mark.texts, mark.seq) == (at.generation, texts, at.seq)

    async def _read_mark(self, *, wait: bool) -> CollectionMark | None:
        send = self._line.do if wait else self._line.ask
        try:
            return await send(lambda client: read_mark(client, self._name))
        except MissingIndex:
            return None

    async def close(self) -> None:
        """Close the connections."""
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
        """Return the list for each side of the question, and the joined list if it has both."""
        meaning = vector.tolist() if vector is not None and vector.any() else None
        question = _CollectionQuery(query_weights(terms) or None, meaning, limit, docs, filters)
        if question.empty:
            return NOTHING
        for again in (True, False):
            mark = await self._serving(question, store or self._store, fresh=not again)
            if mark is None:
                break
            try:
                return await self._found(question, mark)
            except MissingIndex:
                # The alias was moved and the collection deleted; the next look finds the new one.
                self._looked_at = float("-inf")
        return NOTHING

    async def _serving(
        self, question: _CollectionQuery, store: IndexStore | None, *, fresh: bool
    ) -> CollectionMark | None:
        """Return the mark of the collection in use, if it has the store's generation; in another one the numbers mean other chunks.

        Raises:
            EngineUnavailable: the store has started over and the new collection is not complete.
        """
        mark = await self.mark(fresh=fresh)
        if mark is None or store is None:
            return mark
        if not await _same_generation(question, mark, store):
            mark = await self.mark(fresh=True)
            if mark is not None and not await _same_generation(question, mark, store):
                raise EngineUnavailable(ENGINE, f"the collection {self._name} is still being rebuilt")
        return mark

    async def _found(self, question: _CollectionQuery, mark: CollectionMark) -> Both:
        within = restriction(question.docs, question.filters)
        # Vectors of another embedder cannot be compared: only the words are searched.
        if question.meaning is not None and len(question.meaning) != mark.dimensions:
            question = replace(question, meaning=None)
            if question.empty:
                return NOTHING
        if not within.wider:
            return await self._query(question, mark, within.conditions)
        fetched = question.limit * WIDER
        wide = await self._query(replace(question, limit=fetched, docs=None), mark, within.conditions, join=False)
        lists = [_admitted(found, question.docs) for found in (wide.keyword, wide.vectors)]
        exhausted = [len(found) < fetched for found in (wide.keyword, wide.vectors)]
        # Each list has enough admitted hits, or there are no more to fetch.
        if all(len(found) >= question.limit or done for found, done in zip(lists, exhausted, strict=True)):
            return _joined(*(found[: question.limit] for found in lists))
        return await self._query(question, mark, by_number(question.docs or ()))

    async def _query(
        self, question: _CollectionQuery, mark: CollectionMark, conditions: Sequence[Condition], *, join: bool = True
    ) -> Both:
        """Request in one round trip each side's list and, if the server can join them, the joined list."""
        from knowledge.index.engines.qdrant.client import queries  # loaded: the mark was read

        both = bool(question.words) and question.meaning is not None
        fused_there = join and both and await self._server_fuses()
        requests = queries(
            words=question.words,
            meaning=question.meaning,
            conditions=conditions,
            limit=question.limit,
            options=self._options,
            fused=fused_there,
        )
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
            except (EngineUnavailable, MissingIndex, ValueError):
                # A key may be valid for one collection only, and not for this question.
                numbers = (0, 0)
            self._fuses = numbers >= FUSES_WITH_K
        return self._fuses


class QdrantVectorIndex:
    """The vectors of an engine: exact in small collections, by HNSW graph in large ones. Half precision."""

    def __init__(self, engine: QdrantEngine) -> None:
        self._engine = engine
        self.catch_up, self.close = engine.catch_up, engine.close

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
        """Return the position up to which searches find the store's vectors."""
        mark = await self._engine.mark()
        return IndexPosition(mark.generation, mark.seq) if mark else NOWHERE


class QdrantKeywordIndex:
    """The words of an engine: BM25 as the product of two sparse vectors, with the server's current idf.

    It differs from the specification in three ways. If a chunk has several alternatives of a word, their weights add up,
    where the port says that the best one counts: a product of vectors has no maximum. The mean length of a chunk is that
    of the time when the collection was created. In a collection with several shards each has its own idf.
    """

    def __init__(self, engine: QdrantEngine) -> None:
        self._engine = engine
        self.catch_up, self.close = engine.catch_up, engine.close

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
        """Return at most `limit` chunks of each list, joined by reciprocal rank, in one round trip."""
        return await self._engine.search(terms=terms, vector=vector, limit=limit, docs=docs, filters=filters)

    async def position(self) -> IndexPosition:
        """Return the position up to which searches find the store's texts."""
        mark = await self._engine.mark()
        return IndexPosition(mark.texts, mark.seq) if mark else NOWHERE


async def _same_generation(question: _CollectionQuery, mark: CollectionMark, store: IndexStore) -> bool:
    """Return whether the collection has the store's texts and, if the question needs them, its vectors."""
    if mark.texts != (await store.position()).generation:
        return False
    return question.meaning is None or mark.generation == (await store.space()).position.generation


def _hits(points: Sequence[models.ScoredPoint]) -> list[Scored]:
    hits = [Scored(int(point.id), int((point.payload or {}).get("doc", 0)), point.score) for point in points]
    return sorted(hits, key=lambda hit: (-hit.score, hit.seq))


def _admitted(hits: Sequence[Scored], docs: Collection[int] | None) -> list[Scored]:
    """Drop hits that `docs` does not admit: the server may be a moment behind the store that chose them."""
    return [hit for hit in hits if docs is None or hit.doc in docs]


def _joined(words: Sequence[Scored], meaning: Sequence[Scored]) -> Both:
    return Both(words, meaning, [Scored(hit.seq, hit.doc, hit.score) for hit in fuse([words, meaning])])
