"""Vector search by Qdrant.

Searches use the collection that the knowledge base's alias names. A rebuild fills another collection and moves the alias
when it is complete, so no search sees half of a collection.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EngineUnavailable
from knowledge.index.engines.catch_up import NOWHERE
from knowledge.index.engines.qdrant.points import CollectionMark, Condition, QdrantOptions, by_number, restriction
from knowledge.index.engines.qdrant.server import ENGINE, QdrantLine, read_mark
from knowledge.index.engines.server_line import WIDER, MissingIndex, ServerIndex
from knowledge.index.ports import Scored
from knowledge.state.ports import Filters, IndexPosition, IndexStore

if TYPE_CHECKING:
    from knowledge.index.engines.qdrant.fill import Filling


class QdrantVectorIndex(ServerIndex[CollectionMark]):
    """The vectors of one knowledge base on a Qdrant server, in half precision.

    Small collections are searched exactly, large ones by HNSW graph.
    """

    def __init__(self, line: QdrantLine, name: str, *, lock: Path, options: QdrantOptions | None = None) -> None:
        super().__init__(ENGINE, name, lock)
        self._line, self._options = line, options or QdrantOptions()

    # --- filling ------------------------------------------------------------------------------------------------------

    def _filling(self) -> Filling:
        # Imports the client's package, which a process that searches elsewhere never needs.
        from knowledge.index.engines.qdrant.fill import Filling

        return Filling(self._line, self._name, self._options)

    async def _fill(self, store: IndexStore, *, restart: bool) -> tuple[int, bool]:
        served = await self.mark(fresh=True)
        filling = self._filling()
        generation = (await store.space()).position.generation
        fits = served is not None and not restart and served.fits(self._options.shape, generation)
        mark = served if served and fits else await filling.begun(store, generation)
        mark, taken = await filling.take(store, mark)
        # The index started over meanwhile: what was taken belongs to a generation that is gone.
        if not mark.fits(self._options.shape, (await store.space()).position.generation):
            return taken, False
        moved = served is None or served.collection != mark.collection
        if moved:
            await filling.serve(mark)
        self._serves(mark)
        # Also once per process: another process may have died before it deleted its own collections.
        if moved or not self._swept:
            await filling.sweep(mark)
            self._swept = True
        return taken, True

    async def position(self) -> IndexPosition | None:
        """Return the position up to which searches find the store's vectors."""
        mark = await self.mark()
        return IndexPosition(mark.generation, mark.seq) if mark else NOWHERE

    async def caught_up(self, store: IndexStore) -> bool:
        """Return whether the server has everything that the store has now."""
        mark = await self.mark(fresh=True)
        return mark is not None and IndexPosition(mark.generation, mark.seq) == (await store.space()).position

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
        store: IndexStore,
        vector: NDArray[np.float32],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks, best first, equal ones by `seq`, score = cosine."""
        if not vector.any() or limit <= 0 or (docs is not None and not docs):
            return []
        for again in (True, False):
            mark = await self._serving(store, fresh=not again)
            # Vectors of another embedder cannot be compared.
            if mark is None or mark.dimensions != len(vector):
                break
            try:
                return await self._found(mark, vector.tolist(), limit, docs, filters)
            except MissingIndex:
                # The alias was moved and the collection deleted; the next look finds the new one.
                self._looked_at = float("-inf")
        return []

    async def _serving(self, store: IndexStore, *, fresh: bool) -> CollectionMark | None:
        """Return the mark of the collection in use, if it has the store's generation.

        In another generation, the numbers mean other chunks.

        Raises:
            EngineUnavailable: the store has started over and the new collection is not complete.
        """
        mark = await self.mark(fresh=fresh)
        if mark is None or mark.generation == (await store.space()).position.generation:
            return mark
        mark = await self.mark(fresh=True)
        if mark is not None and mark.generation != (await store.space()).position.generation:
            raise EngineUnavailable(ENGINE, f"the collection {self._name} is still being rebuilt")
        return mark

    async def _found(
        self,
        mark: CollectionMark,
        vector: Sequence[float],
        limit: int,
        docs: frozenset[int] | None,
        filters: Filters | None,
    ) -> list[Scored]:
        within = restriction(docs, filters)
        fetched = limit * WIDER if within.wider else limit
        hits = await self._query(mark, vector, within.conditions, fetched)
        admitted = _admitted(hits, docs)[:limit]
        # There are enough admitted hits, or no more to fetch.
        if not within.wider or len(admitted) == limit or len(hits) < fetched:
            return admitted
        return _admitted(await self._query(mark, vector, by_number(docs or ()), limit), docs)

    async def _query(
        self, mark: CollectionMark, vector: Sequence[float], conditions: Sequence[Condition], limit: int
    ) -> list[Scored]:
        from knowledge.index.engines.qdrant.client import nearest  # loaded: the mark was read

        options = self._options
        return await self._line.ask(
            lambda client: nearest(client, mark.collection, vector, conditions, limit=limit, options=options)
        )


def _admitted(hits: Sequence[Scored], docs: Collection[int] | None) -> list[Scored]:
    """Drop hits that `docs` does not admit: the server may be a moment behind the store that chose them."""
    return [hit for hit in hits if docs is None or hit.doc in docs]
