"""Keyword search by Meilisearch, with its own forgiveness for typing errors and its own ranking of places.

Searches go to the index that has the knowledge base's name. A rebuild fills another one beside it and changes names with
it when it is complete, in one step of the server, so no search sees half of one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio

from knowledge.index.engines.catch_up import try_lock
from knowledge.index.engines.meilisearch import wire
from knowledge.index.engines.meilisearch.server import MeilisearchConnection, MeilisearchLine, NoIndex
from knowledge.index.engines.meilisearch.wire import SHAPE, IndexMark, MeilisearchAnswer
from knowledge.index.ports import QueryTerm, Scored
from knowledge.state.ports import Delta, Filters, IndexPosition, IndexStore

NOWHERE = IndexPosition("", 0)
BATCH = 20_000
OUTSTANDING = 4
"""Tasks that may wait in the server's queue before we wait for it."""
FRESH_S = 1.0
"""So long what another process did to the index may stay unnoticed, unless a search comes by."""
STARTS_OVER = 3


class MeilisearchKeywordIndex:
    """The keyword index of one store on a Meilisearch server.

    `name` is the name of the index and the beginning of those that are being filled; no two stores may share it. `lock`
    is a file beside the store: one process fills at a time. How far an index is, is a document in it, written by the
    same task as the last rows, so neither is there without the other. `store` says which documents a filter by time
    admits; without it, the one that was caught up last.
    """

    def __init__(self, line: MeilisearchLine, name: str, *, lock: Path, store: IndexStore | None = None) -> None:
        self._line, self._name, self._lock, self._store = line, name, lock, store
        self._looking = anyio.Lock()
        self._mark: IndexMark | None = None
        self._looked_at = float("-inf")
        self._left: tuple[str, IndexMark] | None = None
        """Which index this process has filled, and up to where: beyond it there is nothing."""
        self._swept = False

    @property
    def shown(self) -> str:
        """Return the server's address, and the index."""
        return f"{self._line.shown}, index {self._name}"

    # --- filling ------------------------------------------------------------------------------------------------------

    async def catch_up(self, store: IndexStore) -> int:
        """Take in what the store has and the server has not, and return how many rows that were.

        Returns 0 at once while another process does it.
        """
        self._store = store
        with try_lock(self._lock) as mine:
            taken = 0
            for _ in range(STARTS_OVER if mine else 0):
                rows, complete = await self._fill(store)
                taken += rows
                if complete:
                    break
            return taken

    async def _fill(self, store: IndexStore) -> tuple[int, bool]:
        """Bring the server up to the store; not complete if the store started over meanwhile."""
        served = await self._read(self._name)
        position = await store.position()
        generation = position.generation
        if served and served.at == position and served.shape == SHAPE and self._swept:
            self._serves(served)
            return 0, True
        if served and _fits(served, generation):
            target, mark = self._name, await self._begun(self._name, served)
        else:
            target = f"{self._name}-{generation}-{SHAPE}"
            mark = await self._begun(target, await self._read(target), generation)
        mark, taken = await self._take(store, target, mark, generation)
        if (await store.position()).generation != generation:
            return taken, False
        if target != self._name:
            await self._serve(target, instead=served is not None)
        self._serves(mark)
        self._left = (self._name, mark)
        if not self._swept or target != self._name:
            await self._sweep()
        return taken, True

    async def _begun(self, index: str, mark: IndexMark | None, generation: str = "") -> IndexMark:
        """Return where to go on with `index`; what a killed process wrote beyond its mark is gone then."""
        if mark and self._left == (index, mark):
            return mark
        await self._line.drained([self._name, index])
        mark = await self._read(index)
        if mark is None or (generation and not _fits(mark, generation)):
            await self._line.done([await self._line.do(lambda line: line.drop(index))], missing_ok=True)
            await self._line.done([await self._line.do(lambda line: line.configure(index, wire.SETTINGS))])
            return IndexMark(NOWHERE, SHAPE)
        await self._line.done([await self._line.do(lambda line: line.forget(index, wire.unmarked(mark)))])
        return mark

    async def _take(self, store: IndexStore, index: str, mark: IndexMark, generation: str) -> tuple[IndexMark, int]:
        """Bring `index` up to where the store is now; stops early if that starts over."""
        taken = 0
        target = await store.position()
        while mark.at != target and target.generation == generation:
            delta = await store.delta(mark.at, limit=BATCH, texts=True)
            if delta.upto.generation != generation or delta.upto == mark.at:
                break
            after, mark, self._left = mark.at, IndexMark(delta.upto, SHAPE), None
            await self._put(store, index, delta, after, mark)
            self._left = (index, mark)
            taken += len(delta.texts) + len(delta.removed)
            if delta.upto.seq >= target.seq:
                break
        return mark, taken

    async def _put(self, store: IndexStore, index: str, delta: Delta, after: IndexPosition, mark: IndexMark) -> None:
        """Make `delta` part of `index`, and `mark` with the very last of it, when all else has succeeded."""
        records = await store.records({row.doc for row in delta.texts})
        documents = [wire.document(row, records.get(row.doc), after) for row in delta.texts]
        tasks: list[int] = []
        for start in range(0, len(delta.removed), wire.PAYLOAD_ROWS):
            gone = delta.removed[start : start + wire.PAYLOAD_ROWS]
            tasks.append(await self._line.do(partial(MeilisearchConnection.remove, index=index, keys=gone)))
        *pieces, last = [*wire.payloads([*documents, mark.document()])]
        for piece in pieces:
            tasks.append(await self._line.do(partial(MeilisearchConnection.add, index=index, documents=piece)))
            if len(tasks) >= OUTSTANDING:
                await self._line.done([tasks.pop(0)])
        await self._line.done(tasks)
        await self._line.done([await self._line.do(partial(MeilisearchConnection.add, index=index, documents=last))])

    async def _serve(self, index: str, *, instead: bool) -> None:
        """Let searches find `index` from now on, `instead` of one that is there."""
        swap = partial(MeilisearchConnection.swap, one=index, other=self._name, rename=not instead)
        await self._line.done([await self._line.do(swap)])

    async def _sweep(self) -> None:
        """Delete what was left beside the index that serves: after a swap the old one, after a crash any."""
        beside = await self._line.do(lambda line: line.names(f"{self._name}-"))
        await self._line.done(
            [await self._line.do(partial(MeilisearchConnection.drop, uid=name)) for name in beside], missing_ok=True
        )
        self._swept = True

    # --- where it is --------------------------------------------------------------------------------------------------

    async def position(self) -> IndexPosition:
        """Return up to where searches find the store's rows, as it was at most a second ago."""
        async with self._looking:
            if time.monotonic() - self._looked_at >= FRESH_S:
                self._serves(await self._read(self._name, ask=True))
        return self._mark.at if self._mark else NOWHERE

    async def caught_up(self, store: IndexStore) -> bool:
        """Return whether the server has all that the store has now."""
        mark = await self._read(self._name)
        return mark is not None and mark.shape == SHAPE and mark.at == await store.position()

    async def _read(self, index: str, *, ask: bool = False) -> IndexMark | None:
        asking = self._line.ask if ask else self._line.do
        try:
            mark = wire.mark_of(await asking(lambda line: line.get(f"indexes/{index}/documents/{wire.MARK}")))
        except NoIndex:
            return None
        return mark if mark.shape else None

    def _serves(self, mark: IndexMark | None) -> None:
        self._mark, self._looked_at = mark, time.monotonic()

    # --- searching ----------------------------------------------------------------------------------------------------

    async def search(
        self,
        terms: Sequence[QueryTerm],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks that have any of the terms, best first, equal ones by `seq`."""
        if docs is None and wire.timed(filters) and filters and self._store:
            docs = await self._store.select(filters)
        queries = wire.asked(terms)
        if not queries or limit <= 0 or (docs is not None and not docs):
            return []
        within = wire.restriction(docs, filters)
        deep = max(limit, wire.DEEP) * (wire.WIDER if within.wider else 1)
        while True:
            answer = await self._answered(queries, within.expression, deep, limit, docs)
            if not within.wider or len(answer.found) >= limit or answer.all:
                return answer.found
            deep *= wire.WIDER

    async def _answered(
        self, queries: Sequence[str], expression: str | None, deep: int, limit: int, docs: frozenset[int] | None
    ) -> MeilisearchAnswer:
        searches = wire.searches(self._name, queries, deep=deep, filter_=expression)
        try:
            results = await self._line.ask(lambda line: line.search(searches))
        except NoIndex:
            answer = MeilisearchAnswer(IndexMark(NOWHERE, 0), [], all=True)
        else:
            answer = wire.answer(results, limit=limit, docs=docs)
        self._serves(answer.mark)
        return answer

    async def forget(self) -> None:
        """Delete everything that the server has of this name."""
        names = await self._line.do(lambda line: line.names(self._name))
        await self._line.done(
            [await self._line.do(partial(MeilisearchConnection.drop, uid=name)) for name in names], missing_ok=True
        )

    async def close(self) -> None:
        """Give everything back."""
        await self._line.close()


def _fits(mark: IndexMark, generation: str) -> bool:
    return mark.at.generation == generation and mark.shape == SHAPE
