"""The weights of ranking, which a person may change for one knowledge base. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

ACROSS_LANGUAGES = 2.5
"""Factor on `nearness` for a question in another language than the pages."""
LONG_FROM, LONG_AT = 6, 16
"""Content words above which a question begins to count as long, and from which it counts as long in full."""


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """How much each sign counts, relative to 1 for the best chunk by words. Decision record 14 gives the reasons for the defaults.

    They apply only where scores are summed. A search server with its own ranking, or one that holds both lists, ignores them.
    """

    cosine: float = 0.8
    """The weight of a cosine of 1 between question and chunk. 0 ignores meaning."""
    cosine_of_long: float = 0.6
    """Added to `cosine` for a long question: a vector sums up many words better than BM25 does."""
    nearness: float = 1.0
    """The weight of the nearest chunk by a transformer, instead of the two above. The scales of models differ, so its list is
    stretched to 0..1; static vectors are too coarse for that: their nearest chunk is often near nothing."""
    pages: float = 0.4
    """The share of the words of the whole page in the score for words; the rest is for the words of the chunk."""
    names: float = 0.15
    """Added to the chunks of the page whose title, aliases and path match the words of the question best."""
    feedback: float = 0.5
    """Added to the chunk that has most of the words that the first chunks share, if the first chunk has them too."""
    coverage: float = 0.2
    """Added to a chunk that has every word of the question in its text, its headings or its page's title."""
    pairs: float = 0.3
    """Added to a chunk in which all words that are neighbours in the question are neighbours too."""
    phrase: float = 1.0
    """Added to a chunk that has the question as it was written. With the two above, which such a chunk has in full, it comes
    before all chunks that have not."""

    def cosine_for(self, words: int) -> float:
        """Return the weight of a cosine of 1 for a question of `words` content words."""
        long = min(1.0, max(0.0, (words - LONG_FROM) / (LONG_AT - LONG_FROM)))
        return self.cosine + self.cosine_of_long * long if self.cosine else 0.0

    def across_languages(self) -> RankingWeights:
        """Return the weights for a question in another language than the pages.

        Meaning decides: the words that both languages share are only names, identifiers and numbers, and words that the first
        pages share have nothing to do with the question's.
        """
        return replace(self, nearness=self.nearness * ACROSS_LANGUAGES, feedback=0.0)


DEFAULT_WEIGHTS = RankingWeights()

WeightsOf = Callable[[], Awaitable[RankingWeights]]
"""Returns the weights that apply now. Asked with every search, so it must be cheap."""


async def default_weights() -> RankingWeights:
    """Return the weights that ship with the program."""
    return DEFAULT_WEIGHTS
