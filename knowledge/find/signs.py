"""What can be measured of an answer, to judge by it whether the answer suffices."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from knowledge.find.analysis import stem, words
from knowledge.find.question import Question
from knowledge.find.ranking import Ranking
from knowledge.find.scent import Signs
from knowledge.index.ports import QueryTerm, Scored
from knowledge.storage.ports import ChunkRow, IndexStore

ALIKE_LETTERS = 3
"""A stem keeps at least so much of the beginning of its word."""
LOOKED_AT = 8
"""Shown chunks that are looked into."""
LOOKED_CHARACTERS = 4_000
"""Of one chunk; only an uncut table or fence has more."""
ORDINARY_CHARACTERS = 1_200
"""Of a chunk: about where a long section is cut."""
MOST_ALIKE = 6
"""Words of a chunk that are stemmed for one asked word; ordinary beginnings such as `con` are everywhere."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_LETTERS = re.compile(r"[^\W_]*")
REST = slice(9, 20)
"""The tenth to the twentieth nearest passage: what lies about as near to any question."""

LEAST_COSINE = 0.3
"""Nothing near lies below; what stands out there stands out from noise."""


async def signs_of(index: IndexStore, question: Question, ranking: Ranking, shown: Sequence[int]) -> Signs:
    """Return the signs of the answer that shows the chunks `shown`, best first."""
    if not shown:
        return Signs(0.0, 0.0, 0.0, 0.0, exact=False)
    best = shown[0]
    known = await index.frequencies(question.content)
    # Rare words tell pages apart; one that is nowhere tells most of all: that there may be no answer.
    rarity = {term.word: 1 / math.log2(2 + known.get(term.word, 0)) for term in question.terms}
    found = _by_page(question.terms, [ranking.rows[seq] for seq in shown[:LOOKED_AT]])
    coverage, missing = _coverage(rarity, found)
    return Signs(
        coverage,
        agreement=_agreement(best, ranking),
        nearness=_nearness(ranking.vectors),
        substance=min(1.0, len(ranking.rows[best].text) / ORDINARY_CHARACTERS),
        exact=best in ranking.exact,
        missing=missing,
        asked=question.content,
    )


def _coverage(rarity: Mapping[str, float], pages: Mapping[int, Mapping[str, float]]) -> tuple[float, tuple[str, ...]]:
    """Return the share of the asked words that the best page has, weighed by rarity, and which no page has, rarest first."""
    total = sum(rarity.values())
    if not total:
        return 0.0, ()
    best = max(sum(rarity[word] * weight for word, weight in page.items()) for page in pages.values())
    had = set().union(*pages.values())
    return best / total, tuple(sorted(set(rarity) - had, key=lambda word: (-rarity[word], word)))


def _by_page(terms: Sequence[QueryTerm], rows: Sequence[ChunkRow]) -> Mapping[int, dict[str, float]]:
    """Return for each page which asked words its chunks have, each with the weight of the form that was found."""
    looked_for = [_looked_for(term) for term in terms]
    pages: dict[int, dict[str, float]] = {}
    for row in rows:
        page = pages.setdefault(row.doc, {})
        wanted = [one for one in looked_for if page.get(one.word, 0.0) < 1.0]
        text = f"{' '.join(row.section)} {row.title} {row.text[:LOOKED_CHARACTERS]}"
        for word, weight in _had(wanted, text, row.language):
            page[word] = max(weight, page.get(word, 0.0))
    return pages


class _LookedFor(NamedTuple):
    """An asked word, the terms that count as it with their weights, and how words begin that may become such a term."""

    word: str
    weights: Mapping[str, float]
    beginnings: tuple[str, ...]


def _looked_for(term: QueryTerm) -> _LookedFor:
    beginnings = {form[: max(ALIKE_LETTERS, len(form) - 1)] for form, _ in term.alternatives}
    shortest = tuple(
        one for one in beginnings if not any(one != other and one.startswith(other) for other in beginnings)
    )
    return _LookedFor(term.word, dict(term.alternatives), shortest)


def _had(terms: Sequence[_LookedFor], text: str, language: str) -> Iterator[tuple[str, float]]:
    """Yield which of `terms` are in `text`. Only words that begin like one of them are stemmed: that is what costs."""
    lower = text.lower()
    # Accents fold, and not every script has blanks; dashes and quotes change nothing.
    plain = not any(map(str.isalpha, _NOT_ASCII.findall(text)))
    stems = frozenset[str]() if plain else _stems_like(terms, text, language)
    for term in terms:
        if plain:
            stems = frozenset(stem(word, language) for start in term.beginnings for word in _alike(lower, start))
        weight = max((term.weights[form] for form in stems & term.weights.keys()), default=0.0)
        if weight:
            yield term.word, weight


def _stems_like(terms: Sequence[_LookedFor], text: str, language: str) -> frozenset[str]:
    beginnings = tuple(start for term in terms for start in term.beginnings)
    near = (word for word in set(words(text)) if not word.isascii() or word.startswith(beginnings))
    return frozenset(stem(word, language) for word in near)


def _alike(text: str, beginning: str) -> set[str]:
    """Return the words of `text` that begin with `beginning`; taking all of it apart costs ten times this."""
    found: set[str] = set()
    at = text.find(beginning)
    while at >= 0 and len(found) < MOST_ALIKE:
        end = at + len(beginning)
        if not at or not text[at - 1].isalnum():
            rest = _LETTERS.match(text, end)
            end = rest.end() if rest else end
            found.add(text[at:end])
        at = text.find(beginning, end)
    return found


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
