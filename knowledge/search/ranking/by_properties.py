"""Finds the pages whose front matter has words of a question."""

from __future__ import annotations

import math
from collections.abc import Sequence

from knowledge.index.ports import QueryTerm, Scored
from knowledge.state.ports import ChunkRow, IndexStore

MOST_FOUND, COMMON = 3, 500
"""The most pages that are found, and the most that a term may find: one that more pages have tells none of them apart."""
LEAST = 0.3
"""The score that is enough to be found, as a share of the best passage's: a tag that is one of many words says nothing."""


async def find_by_properties(
    index: IndexStore, terms: Sequence[QueryTerm], docs: frozenset[int] | None, *, best: float
) -> Sequence[Scored]:
    """Return the first chunks of the pages whose properties have most of the terms, best first; only of `docs` if they are given.

    A score is on the scale of BM25: that of a text of usual length with each of the terms once. `best` is that of the best passage.
    """
    forms = {form: (term.word, weight) for term in terms for form, weight in term.alternatives}
    having = await index.having_properties(forms.keys(), most=COMMON)
    if not having:
        return ()
    pages = (await index.progress()).done
    found: dict[int, dict[str, float]] = {}
    for form, having_form in having.items():
        word, weight = forms[form]
        score = weight * math.log(1 + (pages - len(having_form) + 0.5) / (len(having_form) + 0.5))
        for doc in having_form:
            if docs is None or doc in docs:
                words = found.setdefault(doc, {})
                words[word] = max(words.get(word, 0.0), score)
    scores = {doc: sum(words.values()) for doc, words in found.items()}
    enough = [doc for doc, score in scores.items() if score >= LEAST * best]
    chosen = sorted(enough, key=lambda doc: (-scores[doc], doc))[:MOST_FOUND]
    firsts = await index.first_chunks(chosen) if chosen else {}
    return [Scored(firsts[doc], doc, scores[doc]) for doc in chosen if doc in firsts]


async def with_properties(index: IndexStore, rows: Sequence[ChunkRow]) -> dict[int, ChunkRow]:
    """Return the rows with the properties of their pages behind the text, by chunk."""
    properties = await index.properties([row.doc for row in rows])
    return {
        row.seq: row._replace(text=f"{row.text}\n\n{text}", line_start=min(start, row.line_start))
        for row in rows
        if row.doc in properties
        for start, _, text in (properties[row.doc],)
    }
