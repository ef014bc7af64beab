"""The weights of ranking, which a person may change for one knowledge base. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """How much each sign counts, where the best chunk by words has 1. Decision record 14 gives the reasons for the defaults.

    They apply where scores are summed. A search server with its own ranking, or one that holds both lists, ignores them.
    """

    cosine: float = 1.0
    """The weight of a cosine of 1 between question and chunk. 0 ignores meaning."""
    coverage: float = 0.2
    """Added to a chunk that has every word of the question in its text, its headings or its page's title."""
    names: float = 0.0
    """Added to a chunk that has every word of the question in its headings, its page's title or its path."""


DEFAULT_WEIGHTS = RankingWeights()

WeightsOf = Callable[[], Awaitable[RankingWeights]]
"""Returns the weights that apply now. Asked with every search, so it must be cheap."""


async def default_weights() -> RankingWeights:
    """Return the weights that ship with the program."""
    return DEFAULT_WEIGHTS
