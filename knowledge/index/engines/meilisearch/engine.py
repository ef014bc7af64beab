"""Keyword search by Meilisearch, with its own tolerance of typing errors and its own ranking.

Searches use the index with the knowledge base's name. A rebuild fills another index and swaps the names when it is
complete, in one step of the server, so no search sees half of an index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import anyio.to_thread

from knowledge.index.engines.catch_up import NOWHERE
from knowledge.index.engines.meilisearch import wire
from knowledge.index.engines.meilisearch.server import ENGINE, MeilisearchLine
from knowledge.index.engines.meilisearch.wire import SHAPE, IndexMark, Terms, WordQuery
from knowledge.index.engines.server_filters import needs_numbers
from knowledge.index.engines.server_line import WIDER, MissingIndex, ServerIndex
from knowledge.index.ports import QueryTerm, Scored
from knowledge.state.ports import Delta, Filters, IndexPosition, IndexStore

BATCH = 20_000
OUTSTANDING = 4
"""Tasks that may be in the server's queue before we wait for one."""


class MeilisearchKeywordIndex(ServerIndex[IndexMark]):
    """The keyword index of one store on a Meilisearch server.

    The mark is a document in the index, added by the same task as the last rows, so neither exists without the other.
    `store` selects the documents that a filter by time admits; by default, it is the store that was caught up last.
    """

    def __init__(
        self, line: MeilisearchLine, name: str, terms: Terms, *, lock: Path, store: IndexStore | None = None
    ) -> None:
        super().__init__(ENGINE, name, lock, store)
        self._line, self._terms = line, terms
        self._counted: dict[tuple[IndexMark | None, str | None], int] = {}
        """The number of chunks by filter, for the newest mark."""
        self._filled: tuple[str, IndexMark] | None = None
        """The index that this process filled last, with its mark; no row in it is beyond that mark."""

    @property
    def shown(self) -> str:
        """The server's address and the index, for display."""
        return f"{self._line.shown}, index {self._name}"

    # --- filling ------------------------------------------------------------------------------------------------------

    async def _fill(self, store: IndexStore, *, restart: bool) -> tuple[int, bool]:
        served = await self.mark(fresh=True)
        position = await store.position()
        generation = position.generation
        if served and served.at == position and served.shape == SHAPE and self._swept:
            return 0, True
        if served and not restart and _fits(served, generation):
            target, mark = self._name, await self._begun(self._name, served)
        else:
            target = f"{self._name}-{generation}-{SHAPE}"
            mark = await self._begun(target, await self._mark_in(target, wait=True), generation)
        mark, taken = await self._take(store, target, mark, generation)
        if (await store.position()).generation != generation:
            return taken, False
        if target != self._name:
            await self._serve(target, instead=served is not None)
        self._serves(mark)
        self._filled = (self._name, mark)
        if not self._swept or target != self._name:
            # After a swap this deletes the old index, after a crash any other.
            beside = await self._line.do(lambda line: line.names(f"{self._name}-"))
            await self._drop(beside)
            self._swept = True
        return taken, True

    async def _begun(self, index: str, mark: IndexMark | None, generation: str = "") -> IndexMark:
        """Return the mark from which `index` can be filled, after deleting what a killed process wrote beyond it."""
        # This process wrote everything up to this mark, and nothing beyond it.
        if mark and self._filled == (index, mark):
            return mark
        # Tasks of a killed process may still run, so the mark is read again after them.
        await self._line.drained([self._name, index])
        mark = await self._mark_in(index, wait=True)
        if mark is None or (generation and not _fits(mark, generation)):
            await self._line.finish(lambda line: line.drop(index), missing_ok=True)
            await self._line.finish(lambda line: line.configure(index, wire.SETTINGS))
            return IndexMark(NOWHERE, SHAPE)
        filter_ = wire.unmarked(mark)
        await self._line.finish(lambda line: line.forget(index, filter_))
        return mark

    async def _take(self, store: IndexStore, index: str, mark: IndexMark, generation: str) -> tuple[IndexMark, int]:
        """Bring `index` up to date with the store; stop early if the store starts over."""
        taken = 0
        target = await store.position()
        while mark.at != target and target.generation == generation:
            delta = await store.delta(mark.at, limit=BATCH, texts=True)
            if delta.upto.generation != generation or delta.upto == mark.at:
                break
            # Unknown until it has succeeded: a failed piece may leave rows beyond the mark, which `_begun` has to delete.
            after, mark, self._filled = mark.at, IndexMark(delta.upto, SHAPE), None
            await self._put(store, index, delta, after, mark)
            self._filled = (index, mark)
            taken += len(delta.texts) + len(delta.removed)
            if delta.upto.seq >= target.seq:
                break
        return mark, taken

    async def _put(self, store: IndexStore, index: str, delta: Delta, after: IndexPosition, mark: IndexMark) -> None:
        """Apply `delta` to `index`; `mark` is sent with the very last piece, after all others have succeeded."""
        records = await store.records({row.doc for row in delta.texts})
        documents = await anyio.to_thread.run_sync(
            lambda: [wire.document(row, records.get(row.doc), after, self._terms) for row in delta.texts]
        )
        tasks: list[int] = []
        for start in range(0, len(delta.removed), wire.PAYLOAD_ROWS):
            gone = delta.removed[start : start + wire.PAYLOAD_ROWS]
            tasks.append(await self._line.do(methodcaller("remove", index, gone)))
        *pieces, last = [*wire.payloads([*documents, mark.document()])]
        for piece in pieces:
            tasks.append(await self._line.do(methodcaller("add", index, piece)))
            if len(tasks) >= OUTSTANDING:
                await self._line.finished([tasks.pop(0)])
        await self._line.finished(tasks)
        await self._line.finish(methodcaller("add", index, last))

    async def _serve(self, index: str, *, instead: bool) -> None:
        """Give `index` the name that searches use.

        With `instead`, another index has that name now, and the two swap names.
        """
        await self._line.finish(lambda line: line.swap(index, self._name, rename=not instead))

    async def _drop(self, names: Sequence[str]) -> None:
        tasks = [await self._line.do(methodcaller("drop", name)) for name in names]
        await self._line.finished(tasks, missing_ok=True)

    # --- the mark -----------------------------------------------------------------------------------------------------

    async def position(self) -> IndexPosition:
        """Return the position up to which searches find the store's rows, at most `FRESH_S` old."""
        mark = await self.mark()
        return mark.at if mark else NOWHERE

    async def caught_up(self, store: IndexStore) -> bool:
        """Return whether the server has everything that the store has now."""
        mark = await self.mark(fresh=True)
        return mark is not None and mark.shape == SHAPE and mark.at == await store.position()

    async def _read_mark(self, *, wait: bool) -> IndexMark | None:
        return await self._mark_in(self._name, wait=wait)

    async def _mark_in(self, index: str, *, wait: bool) -> IndexMark | None:
        send = self._line.do if wait else self._line.ask
        try:
            mark = wire.mark_of(await send(lambda line: line.get(f"indexes/{index}/documents/{wire.MARK}")))
        except MissingIndex:
            return None
        return mark if mark.shape else None

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
        if docs is None and needs_numbers(filters) and filters and self._store:
            docs = await self._store.select(filters)
        queries = wire.word_queries(terms)
        if not queries or limit <= 0 or (docs is not None and not docs):
            return []
        within = wire.restriction(docs, filters)
        deep = max(limit, wire.DEEP) * (WIDER if within.wider else 1)
        while True:
            try:
                words, total = await self._asked(queries, deep, within.expression)
            except MissingIndex:
                self._serves(None)
                return []
            answer = wire.answer(words, total=total, limit=limit, docs=docs)
            if not within.wider or len(answer.found) >= limit or answer.all:
                return answer.found
            # The filter admitted too much, and what was dropped left too few hits.
            deep *= WIDER

    async def _asked(
        self, queries: Sequence[WordQuery], deep: int, filter_: str | None
    ) -> tuple[Sequence[Sequence[Mapping[str, Any]]], int]:
        """Return the lists of each word (exact, or else nearly so), and how many chunks the filter admits."""
        searching = partial(wire.searches, self._name, deep=deep, filter_=filter_)
        searches = searching([text for query in queries for text in query.exact])
        total = self._counted.get((self._mark, filter_)) if self._mark else None
        if total is None:
            searches.append(wire.counting(self._name, filter_))
        results = await self._in_halves(searches)
        if total is None:
            total = wire.matches(results.pop())
            # Of an earlier state of the index, nothing is kept.
            known = {key: n for key, n in self._counted.items() if key[0] == self._mark}
            self._counted = {**known, (self._mark, filter_): total}
        exact = iter(results)
        words = [[next(exact) for _ in query.exact] for query in queries]
        unknown = [place for place, lists in enumerate(words) if not any(map(wire.matches, lists))]
        loose = await self._in_halves(searching([queries[place].loose for place in unknown]))
        for place, one in zip(unknown, loose, strict=True):
            words[place] = [one]
        return words, total

    async def _in_halves(self, searches: Sequence[dict[str, Any]]) -> list[Any]:
        """Return the results. The server does the searches of a request one after the other, so two requests share them."""
        half = (len(searches) + 1) // 2
        parts = [part for part in (searches[:half], searches[half:]) if part]
        return await self._line.search(parts) if parts else []

    async def forget(self) -> None:
        """Delete everything on the server that belongs to this name."""
        await self._drop(await self._line.do(lambda line: line.names(self._name)))

    async def close(self) -> None:
        """Close the connections."""
        await self._line.close()


def _fits(mark: IndexMark, generation: str) -> bool:
    return mark.at.generation == generation and mark.shape == SHAPE
