"""A search server backed by an embedded engine, which answers while the server can't; such answers are marked.

Indexing fills only the embedded engine, which is on this machine. A separate task fills the servers, so that no page
waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EngineUnavailable
from knowledge.index.ports import KeywordIndex, Noted, QueryTerm, Scored, VectorIndex
from knowledge.state.ports import Filters, IndexPosition, IndexStore

E = TypeVar("E", bound=KeywordIndex | VectorIndex)


class _Standby(Generic[E]):
    """Asks `primary`, the server called `name`; if it is down or has nothing of the store's generation, asks `spare`."""

    def __init__(self, name: str, primary: E, spare: E) -> None:
        self._name, self.primary, self.spare = name, primary, spare

    async def catch_up(self, store: IndexStore) -> int:
        """Bring the embedded engine up to date with the store, and return the number of rows."""
        return await self.spare.catch_up(store)

    async def close(self) -> None:
        """Close both."""
        await self.primary.close()
        await self.spare.close()


class StandbyKeyword(_Standby[KeywordIndex]):
    """A keyword server with an embedded engine behind it."""

    def __init__(self, name: str, primary: KeywordIndex, spare: KeywordIndex, store: IndexStore) -> None:
        super().__init__(name, primary, spare)
        self._store = store

    async def search(
        self,
        terms: Sequence[QueryTerm],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,
    ) -> Sequence[Scored]:
        """Return the server's hits; a `Noted` list if they are the embedded engine's.

        Raises:
            EngineUnavailable: the server cannot be asked, and the embedded engine is empty.
        """
        try:
            await self._filled()
            return await self.primary.search(terms, limit=limit, docs=docs, filters=filters)
        except EngineUnavailable as error:
            if not (await self.spare.position()).generation:
                raise
            found = await self.spare.search(terms, limit=limit, docs=docs, filters=filters)
            return Noted(found, f"words were searched by the embedded index: {error}")

    async def position(self) -> IndexPosition:
        """Return the position of the engine that a search would ask."""
        try:
            return await self._filled()
        except EngineUnavailable:
            return await self.spare.position()

    async def _filled(self) -> IndexPosition:
        """Return the server's position.

        Raises:
            EngineUnavailable: it is down, or it has another generation, whose numbers name other chunks.
        """
        position = await self.primary.position()
        if position.generation != (await self._store.position()).generation:
            raise EngineUnavailable(self._name, "it is still being filled")
        return position


class StandbyVectors(_Standby[VectorIndex]):
    """A vector server with an embedded engine behind it."""

    async def search(
        self,
        store: IndexStore,
        vector: NDArray[np.float32],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,
    ) -> Sequence[Scored]:
        """Return the server's hits; a `Noted` list if they are the embedded engine's."""
        try:
            await self._require_filled(store)
            return await self.primary.search(store, vector, limit=limit, docs=docs, filters=filters)
        except EngineUnavailable as error:
            found = await self.spare.search(store, vector, limit=limit, docs=docs, filters=filters)
            return Noted(found, f"vectors were searched by the embedded index: {error}")

    async def position(self) -> IndexPosition | None:
        """Return the server's position while it answers, else the embedded engine's."""
        try:
            return await self.primary.position()
        except EngineUnavailable:
            return await self.spare.position()

    async def _require_filled(self, store: IndexStore) -> None:
        position = await self.primary.position()
        if position is not None and position.generation != (await store.space()).position.generation:
            raise EngineUnavailable(self._name, "it is still being filled")
