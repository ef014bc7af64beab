"""What the best chunks of a first search say together, to search a second time with it, and how two searches are weighed. Pure.

Source: the feedback is in the manner of Rocchio, "Relevance feedback in information retrieval", 1971, with the first
chunks taken for relevant; the sum of normalised scores: Bruch, Gai, Ingber, "An analysis of fusion functions for hybrid
retrieval", TOIS 42(1), 2023. Why these, and what each number says: decision record 14.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from knowledge.index.ports import QueryTerm, Scored
from knowledge.pages.markdown.language import STOP_WORDS
from knowledge.search.fusion import Fused
from knowledge.search.query.analysis import remembered_words, stem

CHUNKS = 5
"""Chunks that are believed."""
MOST_TERMS = 16
WEIGHT = 0.5
"""Of the heaviest word that was fed back, where a word of the question has 1."""
SHARED = 2
"""Chunks that must have a word: what only one says is its own subject."""
SATURATION = 1.2
"""k1 of BM25: how soon saying a word again counts no more."""
MEANING = 1.0
"""What the best cosine there could be weighs, where the best chunk by words has 1."""


class RelevanceWords:
    """The words that at least `SHARED` of `chunks` (text and language of each) share and that were not asked for."""

    def __init__(self, chunks: Sequence[tuple[str, str]], asked: Collection[QueryTerm]) -> None:
        known = {term for word in asked for term, _ in word.alternatives}
        counts = [(Counter(remembered_words(text)), language) for text, language in chunks]
        having: Counter[str] = Counter()
        for said, _ in counts:
            having.update(said.keys())
        self.shared = tuple(word for word, chunks_with in having.items() if chunks_with >= SHARED)
        """All of them, for their frequencies to be asked; those that say nothing tell how many chunks there are."""
        self._said: list[tuple[str, str, int]] = []
        telling: dict[str, dict[str, str]] = {}
        for said, language in counts:
            if language not in telling:
                stop = STOP_WORDS.get(language, ())
                stems = {w: stem(w, language) for w in self.shared if len(w) > 1 and w not in stop}
                telling[language] = {word: term for word, term in stems.items() if term not in known}
            self._said += [(term, word, said[word]) for word, term in telling[language].items() if word in said]

    def terms(self, frequencies: Mapping[str, int]) -> tuple[QueryTerm, ...]:
        """Return the heaviest words, heaviest first; `frequencies` says in how many chunks each of `shared` occurs."""
        # The commonest word of all stands in nearly every chunk.
        every = max(frequencies.values(), default=1)
        weights: dict[str, float] = {}
        for term, word, count in self._said:
            rarity = math.log(1 + every / frequencies.get(word, 1))
            weights[term] = weights.get(term, 0.0) + rarity * count / (count + SATURATION)
        heaviest = sorted(weights.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_TERMS]
        return tuple(QueryTerm(term, ((term, WEIGHT * weight / heaviest[0][1]),)) for term, weight in heaviest)


def weigh(keyword: Sequence[Scored], vectors: Sequence[Scored], cosines: Mapping[int, float]) -> list[Fused]:
    """Return every chunk of both lists once, best first: its share of the best score by words, and its cosine.

    `cosines` has those of chunks that only `keyword` names. Equal sums are in the order of `seq`.
    """
    places = [{hit.seq: place for place, hit in enumerate(hits, 1)} for hits in (keyword, vectors)]
    docs = {hit.seq: hit.doc for hits in (keyword, vectors) for hit in hits}
    return [
        Fused(seq, docs[seq], -less, (places[0].get(seq), places[1].get(seq)))
        for less, seq in _sums(keyword, vectors, cosines)
    ]


def believed(keyword: Sequence[Scored], vectors: Sequence[Scored], cosines: Mapping[int, float]) -> list[int]:
    """Return the first `CHUNKS` of what `weigh` returns, as their `seq`: asked first, when nothing else is needed yet."""
    return [seq for _, seq in _sums(keyword, vectors, cosines)[:CHUNKS]]


def _sums(
    keyword: Sequence[Scored], vectors: Sequence[Scored], cosines: Mapping[int, float]
) -> list[tuple[float, int]]:
    """Return what each chunk weighs, below zero, and its `seq`: so they sort as they are, which is quicker than by a key."""
    best = max((hit.score for hit in keyword), default=0.0) or 1.0
    sums = {hit.seq: hit.score / best for hit in keyword}
    near = {hit.seq: hit.score for hit in vectors}
    for seq in near.keys() | sums.keys():
        cosine = near[seq] if seq in near else cosines.get(seq, 0.0)
        if cosine > 0:
            sums[seq] = sums.get(seq, 0.0) + MEANING * cosine
    return sorted((-sums.get(seq, 0.0), seq) for seq in near.keys() | sums.keys())
