"""The signals that rank a chunk, and their weighted sum. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from knowledge.index.ports import QueryTerm, Scored
from knowledge.search.ranking.weights import RankingWeights

LEAST_FEEDBACK = 0.1
"""Share of the best feedback score that the first chunk must have. If it has less, the question asks for something other
than what the first chunks have in common."""

OF_PROPERTIES = 0.75
"""The weight of a match in properties: below a passage with as many of the words, above one with few."""

PASSAGE, PAGE, NAMES, MEANING, PROPERTIES = "passage", "page", "names", "meaning", "properties"
FEEDBACK = "shared words"
PARTS = (PASSAGE, PAGE, NAMES, MEANING, PROPERTIES)
"""The summands of a chunk's sum, in the order in which they are added; `FEEDBACK` comes after them."""


@dataclass(slots=True)
class ChunkSignals:
    """The scores of the chunks that were found, by chunk or by page.

    `keyword`: BM25 of the chunk; `pages` and `names`: BM25 of its whole page, and of the page's names, by document;
    `cosines`: nearness in meaning, -1..1; `feedback`: BM25 for the words that the first chunks share.
    `properties`: the score of the properties of a page, by its first chunk.
    `docs` maps each chunk that may be shown to its document, those found by words first, each list best first.
    """

    keyword: Mapping[int, float]
    pages: Mapping[int, float]
    names: Mapping[int, float]
    docs: dict[int, int]
    cosines: dict[int, float] = field(default_factory=dict)
    feedback: Mapping[int, float] = field(default_factory=dict)
    properties: Mapping[int, float] = field(default_factory=dict)
    added: tuple[QueryTerm, ...] = ()
    """The words that the first chunks share, and those chunks."""
    learnt_from: tuple[int, ...] = ()
    trust: float = 0.0
    """The weight of `feedback` in the sums of the last `ranked`."""
    nearest: tuple[float, float] | None = None
    """The first and the last cosine of a transformer's list; None for static vectors."""
    _summed: tuple[tuple[RankingWeights, int] | None, dict[int, float]] = field(default=(None, {}), repr=False)

    def ranked(self, weights: RankingWeights, words: int) -> list[tuple[int, float]]:
        """Return chunks and their sums, best first, for a question of `words` words; equal sums stay in the order of `docs`.

        Scores for words count as shares of the best one, because BM25 scores of different questions are not comparable.

        Source: the sum of normalised scores: Bruch, Gai, Ingber, "An analysis of fusion functions for hybrid retrieval",
        TOIS 42(1), 2023.
        """
        sums = self._sums(weights, words)
        best = max(sums.values(), default=0.0)
        first = min((seq for seq, found in sums.items() if found == best), default=0)
        self.trust = weights.feedback * (self.feedback.get(first, 0.0) - LEAST_FEEDBACK) / (1 - LEAST_FEEDBACK)
        if self.trust > 0:
            for seq, score in self.feedback.items():
                sums[seq] = sums.get(seq, 0.0) + self.trust * score
        return sorted(sums.items(), key=itemgetter(1), reverse=True)

    def parts(self, seq: int, weights: RankingWeights, words: int) -> dict[str, float]:
        """Return the summands of a chunk's sum in the last `ranked`, by name."""
        parts = dict(zip(PARTS, self._summands(weights, words)(seq, self.docs[seq]), strict=True))
        return {**parts, FEEDBACK: max(self.trust, 0.0) * self.feedback.get(seq, 0.0)}

    def _sums(self, weights: RankingWeights, words: int) -> dict[int, float]:
        """Return the sums without feedback. Those of the first list are used again for the second, which adds chunks to it."""
        if self._summed[0] != (weights, words):
            self._summed = (weights, words), {}
        known = self._summed[1]
        summands = self._summands(weights, words)
        for seq, doc in self.docs.items():
            if seq not in known:
                known[seq] = sum(summands(seq, doc))
        return dict(known)

    def _summands(
        self, weights: RankingWeights, words: int
    ) -> Callable[[int, int], tuple[float, float, float, float, float]]:
        """Return the function of chunk and document that returns the summands. It runs 300 times in a search."""
        of_page = weights.pages if self.pages else 0.0
        of_passage, of_names = 1 - of_page, weights.names
        keyword, pages, names, cosines = self.keyword, self.pages, self.names, self.cosines
        properties = self.properties
        if self.nearest is None or not weights.cosine:
            above, of_meaning, distance = 0.0, weights.cosine_for(words), 1.0
        else:
            above, of_meaning, distance = self.nearest[1], weights.nearness, self.nearest[0] - self.nearest[1]

        def summands(seq: int, doc: int) -> tuple[float, float, float, float, float]:
            # A negative value means no more than zero: it must not pull down a chunk that has the words.
            near = max(cosines.get(seq, 0.0), 0.0) - above
            passage, page = of_passage * keyword.get(seq, 0.0), of_page * pages.get(doc, 0.0)
            return (
                passage,
                page,
                of_names * names.get(doc, 0.0),
                of_meaning * near / distance if near > 0.0 else 0.0,
                # Words that are in the text as well count once.
                max(OF_PROPERTIES * properties.get(seq, 0.0) - passage - page, 0.0) if properties else 0.0,
            )

        return summands


def shares(found: Sequence[Scored], best_share: float = 1.0) -> dict[int, float]:
    """Return the score of each chunk as a share: that of the best one is `best_share`."""
    best = (max((hit.score for hit in found), default=0.0) or 1.0) / best_share
    return {hit.seq: hit.score / best for hit in found}


def page_shares(found: Sequence[Scored], best_share: float = 1.0) -> dict[int, float]:
    """Return the score of each document as a share: the best one is `best_share`.

    Of a document that is listed twice, the better score counts.
    """
    best = (max((hit.score for hit in found), default=0.0) or 1.0) / best_share
    return {hit.doc: hit.score / best for hit in reversed(found)}
