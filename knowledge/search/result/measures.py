"""What can be measured of an answer, to judge by it whether the answer suffices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from knowledge.index.ports import Scored
from knowledge.search.query.question import SearchQuestion
from knowledge.search.query.term_match import AskedWords
from knowledge.search.ranker import Ranking
from knowledge.search.result.scent import ScentSigns
from knowledge.state.ports import IndexStore

LOOKED_AT = 8
"""Shown chunks that are looked into."""
ORDINARY_CHARACTERS = 1_200
"""Of a chunk: about where a long section is cut."""
REST = slice(9, 20)
"""The tenth to the twentieth nearest passage: what lies about as near to any question."""

LEAST_COSINE = 0.3
"""Nothing near lies below; what stands out there stands out from noise."""


async def signs_of(index: IndexStore, question: SearchQuestion, ranking: Ranking, shown: Sequence[int]) -> ScentSigns:
    """Return the signs of the answer that shows the chunks `shown`, best first."""
    if not shown:
        return ScentSigns(0.0, 0.0, 0.0, 0.0, exact=False)
    best = shown[0]
    known = await index.frequencies(question.content)
    # Rare words tell pages apart; one that is nowhere tells most of all: that there may be no answer.
    rarity = {term.word: 1 / math.log2(2 + known.get(term.word, 0)) for term in question.terms}
    found = _by_page(question, ranking, shown[:LOOKED_AT])
    coverage, missing = _coverage(rarity, found)
    return ScentSigns(
        coverage,
        agreement=_agreement(best, ranking),
        nearness=_nearness(ranking.vectors),
        substance=min(1.0, len(ranking.rows[best].text) / ORDINARY_CHARACTERS),
        exact=best in ranking.exact,
        missing=missing,
        asked=question.content,
    )


def _coverage(rarity: Mapping[str, float], pages: Mapping[int, Mapping[str, float]]) -> tuple[float, tuple[str, ...]]:
    """Return the share of the words asked for that the best page has, weighed by rarity, and which no page has, rarest first."""
    total = sum(rarity.values())
    if not total:
        return 0.0, ()
    best = max(sum(rarity[word] * weight for word, weight in page.items()) for page in pages.values())
    had = set().union(*pages.values())
    return best / total, tuple(sorted(set(rarity) - had, key=lambda word: (-rarity[word], word)))


def _by_page(question: SearchQuestion, ranking: Ranking, shown: Sequence[int]) -> Mapping[int, dict[str, float]]:
    """Return for each page which asked words its chunks have, each with the weight of the form that was found."""
    asked = AskedWords(question.terms)
    pages: dict[int, dict[str, float]] = {}
    for seq in shown:
        row = ranking.rows[seq]
        page = pages.setdefault(row.doc, {})
        said = ranking.said[seq] if seq in ranking.said else asked.said_in(row)
        for word, weight in said.items():
            page[word] = max(weight, page.get(word, 0.0))
    return pages


def _agreement(best: int, ranking: Ranking) -> float:
    """Return how high both engines have the chunk, 0..1: the mean of 1 / place; an engine that is away counts 0."""
    places = [_place(best, found) for found in (ranking.keyword, ranking.vectors)]
    return fmean(1 / place if place else 0.0 for place in places)


def _place(seq: int, found: Sequence[Scored]) -> int | None:
    return next((place for place, hit in enumerate(found, 1) if hit.seq == seq), None)


def _nearness(vectors: Sequence[Scored]) -> float:
    """Return how far the nearest passage stands out from those that lie about as near to any question, 0..1.

    0 where there are too few passages to stand out from.
    """
    rest = vectors[REST]
    if not rest or vectors[0].score <= 0:
        return 0.0
    nearest = vectors[0].score
    return min(1.0, max(0.0, nearest - fmean(hit.score for hit in rest)) / max(nearest, LEAST_COSINE))
