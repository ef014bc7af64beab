"""What can be measured of an answer, to judge by it whether the answer suffices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

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
MOST_RUNS = 6
"""Places of a chunk that are looked at for one word; ordinary beginnings such as `con` are everywhere."""
REST = slice(9, 20)
"""The tenth to the twentieth nearest passage: what lies about as near to any question."""


async def signs_of(index: IndexStore, question: Question, ranking: Ranking, shown: Sequence[int]) -> Signs:
    """Return the signs of the answer that shows the chunks `shown`, best first."""
    if not shown:
        return Signs(0.0, 0.0, 0.0, exact=False)
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
        exact=best in ranking.exact,
        missing=missing,
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
    pages: dict[int, dict[str, float]] = {}
    for row in rows:
        page = pages.setdefault(row.doc, {})
        for word, weight in _words_had(terms, row):
            page[word] = max(weight, page.get(word, 0.0))
    return pages


def _words_had(terms: Sequence[QueryTerm], row: ChunkRow) -> Iterator[tuple[str, float]]:
    text = f"{' '.join(row.section)} {row.title} {row.text[:LOOKED_CHARACTERS]}"
    if not text.isascii():  # accents fold, and not every script has blanks
        stems = {stem(word, row.language) for word in set(words(text))}
        yield from _had_of(terms, stems)
        return
    lower = text.lower()
    for term in terms:
        beginnings = {form[:ALIKE_LETTERS] for form, _ in term.alternatives}
        if any(beginning in lower for beginning in beginnings):
            stems = {
                stem(word, row.language)
                for start in beginnings
                for run in _runs(text, lower, start)
                for word in words(run)
            }
            yield from _had_of((term,), stems)


def _had_of(terms: Sequence[QueryTerm], stems: set[str]) -> Iterator[tuple[str, float]]:
    for term in terms:
        weight = max((weight for form, weight in term.alternatives if form in stems), default=0.0)
        if weight:
            yield term.word, weight


def _runs(text: str, lower: str, beginning: str) -> set[str]:
    """Return the runs between blanks in which `beginning` occurs; taking all of a text apart costs ten times this."""
    runs: set[str] = set()
    at = lower.find(beginning)
    while at >= 0 and len(runs) < MOST_RUNS:
        start, end = at, at + len(beginning)
        while start and not text[start - 1].isspace():
            start -= 1
        while end < len(text) and not text[end].isspace():
            end += 1
        runs.add(text[start:end])
        at = lower.find(beginning, end)
    return runs


def _agreement(best: int, ranking: Ranking) -> float:
    """Return how high both engines have the chunk, 0..1: the mean of 1 / place; an engine that is away counts 0."""
    places = [_place(best, found) for found in (ranking.keyword, ranking.vectors)]
    return fmean(1 / place if place else 0.0 for place in places)


def _place(seq: int, found: Sequence[Scored]) -> int | None:
    return next((place for place, hit in enumerate(found, 1) if hit.seq == seq), None)


def _nearness(vectors: Sequence[Scored]) -> float:
    """Return how far the nearest passage stands out from those that lie about as near to any question, 0..1."""
    if not vectors or vectors[0].score <= 0:
        return 0.0
    rest = vectors[REST] or vectors[len(vectors) // 2 :]
    return max(0.0, 1 - fmean(hit.score for hit in rest) / vectors[0].score)
