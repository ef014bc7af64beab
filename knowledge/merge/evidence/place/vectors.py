"""Measures how alike texts are by their words: tf-idf vectors and their cosines. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from knowledge.pages.markdown.inline import plain
from knowledge.search.query.analysis import analyzer, is_stop_word

T = TypeVar("T")

_LETTERS = re.compile(r"[^\W\d_]+")

MOST_HOLDING = 300
"""The most documents that one text is compared with because of one word: a word in more documents says nothing."""
REMEMBERED = 2048
"""Texts, mostly sections and blocks, whose terms are cached."""


@lru_cache(REMEMBERED)
def count_terms(text: str, language: str) -> Counter[str]:
    """Return how often each term occurs in a text. The result is cached and shared: don't modify it."""
    return Counter(analyzer(language).terms(plain(text)))


@lru_cache(REMEMBERED)
def count_pairs(text: str, language: str) -> Counter[tuple[str, str]]:
    """Return how often each pair of successive terms occurs in a text. The result is cached and shared: don't modify it."""
    terms = analyzer(language).terms(plain(text))
    return Counter(pairwise(terms))


@lru_cache(REMEMBERED)
def count_stop_words(text: str) -> Counter[str]:
    """Return how often each stop word occurs in a text. The result is cached and shared: don't modify it."""
    return Counter(filter(is_stop_word, _LETTERS.findall(plain(text).casefold())))


def times(counts: Counter[str], factor: int) -> Counter[str]:
    """Return the counts of a text that is repeated `factor` times."""
    return Counter({term: count * factor for term, count in counts.items()})


class TermVectors:
    """Documents as tf-idf vectors with logarithmic term counts, indexed by term."""

    def __init__(self, documents: Sequence[Counter[str]]) -> None:
        holding = Counter(term for document in documents for term in document)
        self._weights = {term: math.log(1 + (len(documents) + 1) / (1 + count)) for term, count in holding.items()}
        self._unknown = math.log(2 + len(documents))
        self._lengths: list[float] = []
        self._holders: dict[str, list[tuple[int, float]]] = {}
        for number, document in enumerate(documents):
            vector = self._vector(document)
            self._lengths.append(_length(vector))
            for term, weight in vector.items():
                self._holders.setdefault(term, []).append((number, weight))

    def cosines(self, query: Counter[str]) -> dict[int, float]:
        """Return the cosine of `query` with each document that has a word in common with it."""
        vector = self._vector(query)
        length = _length(vector)
        dots: dict[int, list[float]] = {}
        # Rare terms first: once they have named documents, the frequent terms would only add time.
        for term in sorted(vector, key=lambda term: len(self._holders.get(term, ()))):
            holders = self._holders.get(term, [])
            if len(holders) > MOST_HOLDING:
                if dots:
                    break
                # All terms are frequent: comparing with some documents is better than with none.
                holders = holders[-MOST_HOLDING:]
            for number, weight in holders:
                dots.setdefault(number, []).append(vector[term] * weight)
        # Summed exactly, so that the order of the terms decides nothing.
        return {number: math.fsum(products) / (length * self._lengths[number]) for number, products in dots.items()}

    def _vector(self, counts: Counter[str]) -> dict[str, float]:
        return {
            term: (1 + math.log(count)) * self._weights.get(term, self._unknown)
            for term, count in counts.items()
            if count > 0
        }


def _length(vector: Mapping[str, float]) -> float:
    return math.sqrt(math.fsum(weight * weight for weight in vector.values()))


def bm25_scores(asked: Counter[str], documents: Sequence[Counter[str]]) -> Sequence[float]:
    """Return the BM25 score of each document, as a share of the highest that is possible."""
    holding = Counter(term for document in documents for term in document.keys() & asked.keys())
    sizes = [document.total() for document in documents]
    usual = math.fsum(sizes) / (len(sizes) or 1) or 1.0
    weights = {term: math.log(1 + (len(documents) - holding[term] + 0.5) / (holding[term] + 0.5)) for term in asked}
    most = 2.2 * math.fsum(weights.values()) or 1.0
    return [
        math.fsum(
            weights[term] * document[term] * 2.2 / (document[term] + 1.2 * (0.25 + 0.75 * size / usual))
            for term in asked.keys() & document.keys()
        )
        / most
        for document, size in zip(documents, sizes, strict=True)
    ]


def dice(one: Counter[str], other: Counter[str]) -> float:
    """Return the Dice coefficient of two texts, 0..1."""
    return 2 * (one & other).total() / (one.total() + other.total() or 1)


def rarities(asked: Iterable[T], documents: Sequence[Counter[T]]) -> Mapping[T, float]:
    """Return how rare each asked term is in the documents: the logarithm of the inverse share of those that have it."""
    return {term: math.log((1 + len(documents)) / (0.5 + sum(term in one for one in documents))) for term in asked}


def shared(asked: Collection[T], rarity: Mapping[T, float], document: Counter[T]) -> float:
    """Return the sum of the rarities of the asked terms that the document has."""
    return math.fsum(rarity[term] for term in asked if term in document)


def ranks_of(values: Sequence[float]) -> Sequence[float]:
    """Return the rank of each value, from 0, the highest first."""
    order = sorted(range(len(values)), key=lambda at: (-values[at], at))
    ranks = [0.0] * len(values)
    for rank, at in enumerate(order):
        ranks[at] = float(rank)
    return ranks


def likelier_words(asked: Counter[str], part: Counter[str], whole: Counter[str], smoothed: int) -> float:
    """Return how much likelier the asked words are in `part` than in `whole`: summed logarithms over the root of their number.

    `smoothed` words, distributed as in `whole`, are added to `part`.
    """
    size, of_whole = part.total(), whole.total()
    found = 0.0
    for term, count in asked.items():
        usual = (whole[term] + 0.1) / (of_whole + 1)
        found += count * math.log((part[term] + smoothed * usual) / (size + smoothed) / usual)
    return found / math.sqrt(asked.total() or 1)
