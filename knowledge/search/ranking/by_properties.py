"""Finds the pages whose front matter has words of a question."""

from __future__ import annotations

import math
from collections.abc import Sequence

from knowledge.index.ports import QueryTerm, Scored
from knowledge.state.ports import ChunkRow, IndexStore

MOST_FOUND, COMMON = 3, 500
"""The most pages that are found, and the most pages, inside and outside the filters, that a term may be on: one that is on more tells
none apart."""
LEAST = 0.3
"""The lowest score, as a share of the best passage's: a tag that is one of many words means little."""


async def find_by_properties(
    index: IndexStore, terms: Sequence[QueryTerm], docs: frozenset[int] | None, *, best: float
) -> Sequence[Scored]:
    """Return the first chunks of the pages whose properties match the terms best, best first; only of `docs` if they are given.

    A score is on the scale of BM25: that of a text of usual length with each of the terms once. `best` is that of the best passage.
    """
    forms: dict[str, list[tuple[str, float]]] = {}
    for term in terms:
        for form, weight in term.alternatives:
            forms.setdefault(form, []).append((term.word, weight))
    having = await index.having_properties(forms.keys(), most=COMMON)
    if not having:
        return ()
    pages = (await index.progress()).done
    found: dict[int, dict[str, float]] = {}
    for form, having_form in having.items():
        rarity = math.log(1 + (max(pages - len(having_form), 0) + 0.5) / (len(having_form) + 0.5))
        for doc in having_form:
            if docs is None or doc in docs:
                words = found.setdefault(doc, {})
                for word, weight in forms[form]:
                    words[word] = max(words.get(word, 0.0), weight * rarity)
    scores = {doc: sum(words.values()) for doc, words in found.items()}
    enough = [doc for doc, score in scores.items() if score >= LEAST * best]
    chosen = sorted(enough, key=lambda doc: (-scores[doc], doc))[:MOST_FOUND]
    firsts = await index.first_chunks(chosen) if chosen else {}
    return [Scored(firsts[doc], doc, scores[doc]) for doc in chosen if doc in firsts]


async def rows_with_properties(index: IndexStore, rows: Sequence[ChunkRow]) -> dict[int, ChunkRow]:
    """Return, by chunk, the rows of pages that have properties, with these behind the text."""
    properties = await index.properties([row.doc for row in rows])
    found: dict[int, ChunkRow] = {}
    for row in rows:
        if row.doc in properties:
            start, text = properties[row.doc]
            found[row.seq] = row._replace(text=f"{row.text}\n\n{text}", line_start=min(start, row.line_start))
    return found
