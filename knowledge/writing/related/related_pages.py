"""Finds pages about the same things as a text, in the keyword index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from knowledge.index.ports import KeywordIndex, QueryTerm
from knowledge.pages.markdown.language import detect
from knowledge.search.query.analysis import analyzer
from knowledge.state.ports import ChunkRow, Filters, IndexStore

MOST_TERMS = 24
LONGEST_ASKED = 1_500
LEAST_TERMS = 2


class RelatedPages:
    """Asks the keyword index; pages that are not indexed yet are not found."""

    def __init__(self, index: IndexStore, keyword: Callable[[], Awaitable[KeywordIndex]]) -> None:
        self._index, self._keyword = index, keyword

    async def pages(self, texts: Sequence[str], *, but: str, limit: int) -> list[str]:
        """Return the pages, other than `but`, that share most terms with one of `texts`, best first.

        Raises:
            EngineUnavailable: the index can't be asked now.
        """
        best: dict[str, float] = {}
        for text in texts:
            for row, score in await self._chunks(text, Filters(), limit * 2):
                if row.path != but:
                    best[row.path] = max(best.get(row.path, 0.0), score)
        return sorted(best, key=lambda path: -best[path])[:limit]

    async def _chunks(self, text: str, filters: Filters, limit: int) -> list[tuple[ChunkRow, float]]:
        terms = _terms(text)
        if len(terms) < LEAST_TERMS:
            return []
        docs = await self._index.select(filters)
        scored = await (await self._keyword()).search(terms, limit=limit, docs=docs, filters=filters)
        rows = await self._index.chunks([one.seq for one in scored])
        return [(rows[one.seq], one.score) for one in scored if one.seq in rows]


def _terms(text: str) -> list[QueryTerm]:
    found = analyzer(detect(text)).terms(text[:LONGEST_ASKED])
    return [QueryTerm(term, ((term, 1.0),)) for term in dict.fromkeys(found)][:MOST_TERMS]
