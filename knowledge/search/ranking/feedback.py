"""Relevance feedback: the words that the best chunks of a first search share, for a second search. Pure.

Source: in the manner of Rocchio, "Relevance feedback in information retrieval", 1971, with the first chunks assumed
relevant. Decision record 14 gives the reasons for each constant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from knowledge.index.ports import QueryTerm, Scored
from knowledge.pages.markdown.language import STOP_WORDS
from knowledge.search.query.analysis import index_language, remembered_words, stem, toned

CHUNKS = 5
"""How many chunks are assumed relevant."""
MOST_TERMS = 16
SHARED = 2
"""How many of the chunks must have a word: one that only a single chunk has is about that chunk's own subject."""
SATURATION = 1.2
"""k1 of BM25: the higher it is, the more each further repetition of a word counts."""
AGREEING = 3
"""How many of the chunks must be among the nearest in meaning, and on one of the best pages."""
NEAREST, BEST_PAGES = 10, 5
"""How many chunks count as nearest in meaning, and how many pages as the best by their words."""


def are_relevant(best: Mapping[int, int], nearest: Sequence[Scored], pages: Sequence[Scored]) -> bool:
    """Return whether the `best` chunks (the document of each) may be assumed relevant: meaning and whole pages say so too.

    Where passages, pages and meaning disagree, feedback does as much harm as good, and costs a fifth of a search.
    """
    near = sum(hit.seq in best for hit in nearest[:NEAREST])
    first = {hit.doc for hit in pages[:BEST_PAGES]}
    return near >= AGREEING and sum(doc in first for doc in best.values()) >= AGREEING


class RelevanceWords:
    """The words that at least `SHARED` of `chunks` (text and language of each) share and that the question doesn't have."""

    def __init__(self, chunks: Sequence[tuple[str, str]], asked: Collection[QueryTerm]) -> None:
        known = {term for word in asked for term, _ in word.alternatives}
        counts = [(Counter(remembered_words(text)), language) for text, language in chunks]
        having: Counter[str] = Counter()
        for counted, _ in counts:
            having.update(counted.keys())
        self.shared = tuple(word for word, chunks_with in having.items() if chunks_with >= SHARED)
        """All shared words, including stop words, whose frequencies show roughly how many chunks there are."""
        self._occurrences: list[tuple[str, str, int]] = []
        new_terms: dict[str, dict[str, str]] = {}
        for counted, language in counts:
            if language not in new_terms:
                stop = STOP_WORDS.get(language, ())
                stems = {w: stem(w, index_language(language)) for w in self.shared if len(w) > 1 and w not in stop}
                new_terms[language] = {
                    word: toned(word, language) or term for word, term in stems.items() if term not in known
                }
            self._occurrences += [
                (term, word, counted[word]) for word, term in new_terms[language].items() if word in counted
            ]

    def terms(self, frequencies: Mapping[str, int]) -> tuple[QueryTerm, ...]:
        """Return the heaviest words, heaviest first; `frequencies` is the number of chunks with each word of `shared`."""
        # The commonest word of all is in nearly every chunk.
        every = max(frequencies.values(), default=1)
        weights: dict[str, float] = {}
        for term, word, count in self._occurrences:
            # The weight of a word in BM25, without the length of the chunk.
            rarity = math.log(1 + every / frequencies.get(word, 1))
            weights[term] = weights.get(term, 0.0) + rarity * count / (count + SATURATION)
        heaviest = sorted(weights.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_TERMS]
        return tuple(QueryTerm(term, ((term, weight / heaviest[0][1]),)) for term, weight in heaviest)
