"""Measures of a ranked list against judgements, and how certain their averages are. Pure.

A ranking names each item once; a repeated item counts only at its first place, and the later ones move up.
A grade says how well an item answers: 0 or absent means not at all.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

T = TypeVar("T", bound=Hashable)

ROUNDS = 2_000
"""Resamplings of a bootstrap: enough for the ends of the interval to be stable to three digits."""
# Fixed, so that the same values always have the same interval.
SEED = 1
TAIL = 0.025
"""Intervals are 95 %."""


def ndcg(ranked: Sequence[T], grades: Mapping[T, float], k: int = 10) -> float:
    """Return how close the first `k` come to the best possible order, 0..1; 0 if nothing is relevant.

    Place i, from 1, counts grade / log2(i + 1); the sum is divided by that of the best order. The grade itself is the gain, as in
    trec_eval and the BEIR tables.

    Source: Järvelin, Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 20(4), 2002.
    """
    best = _discounted(sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k])
    return _discounted([max(grades.get(name, 0.0), 0.0) for name in distinct(ranked, k)]) / best if best else 0.0


def _discounted(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(place + 1) for place, gain in enumerate(gains, 1))


def recall(ranked: Sequence[T], relevant: Collection[T], k: int = 20) -> float:
    """Return the share of `relevant` that is among the first `k`; 0 if nothing is relevant."""
    wanted = frozenset(relevant)
    return len(wanted.intersection(distinct(ranked, k))) / len(wanted) if wanted else 0.0


def reciprocal_rank(ranked: Sequence[T], relevant: Collection[T]) -> float:
    """Return 1 / the rank of the first relevant hit, or 0."""
    wanted = frozenset(relevant)
    return next((1 / place for place, name in enumerate(distinct(ranked), 1) if name in wanted), 0.0)


def distinct(ranked: Iterable[T], k: int | None = None) -> list[T]:
    """Return the first `k` distinct items in their order."""
    return list(dict.fromkeys(ranked))[:k]


def mean(values: Sequence[float]) -> float:
    """Return the average, or 0 without values."""
    return math.fsum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0..1) of `values` are, interpolated between neighbours; 0 without values.

    Source: Hyndman, Fan, "Sample quantiles in statistical packages", 1996, definition 7.
    """
    return float(np.quantile(values, share)) if values else 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """An average and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


def bootstrap(values: Sequence[float]) -> Interval:
    """Return the mean of `values` and its percentile bootstrap interval; the same for the same values.

    Source: Efron, Tibshirani, "An introduction to the bootstrap", 1993, chapter 13.
    """
    means = _resampled_means(values)
    return Interval(mean(values), percentile(means, TAIL), percentile(means, 1 - TAIL))


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """The average change over the same queries. `chance` is how likely a change of that size is by chance alone."""

    mean: float
    low: float
    high: float
    chance: float

    @property
    def is_sure(self) -> bool:
        """Whether the whole interval is on one side of zero."""
        return self.low > 0 or self.high < 0


def paired_bootstrap(before: Sequence[float], after: Sequence[float]) -> MetricDifference:
    """Return the mean of `after` - `before`, query by query, with its interval and how likely it is by chance.

    The chance is two-sided: the share of resampled differences, shifted to have mean 0, that are at least as large.

    Raises:
        ValueError: the lists differ in length, so they are not about the same queries.

    Source: Sakai, "Evaluating evaluation metrics based on the bootstrap", SIGIR 2006 (paired test, studentless).
    """
    changes = [a - b for b, a in zip(before, after, strict=True)]
    if not any(changes):
        return MetricDifference(0.0, 0.0, 0.0, 1.0)
    found = mean(changes)
    means = _resampled_means(changes)
    as_large = sum(abs(other - found) >= abs(found) for other in means)
    # One is added to both, because a limited number of rounds can't show that a chance is zero.
    chance = (as_large + 1) / (len(means) + 1)
    return MetricDifference(found, percentile(means, TAIL), percentile(means, 1 - TAIL), chance)


def _resampled_means(values: Sequence[float]) -> list[float]:
    draw = random.Random(SEED)  # noqa: S311 - chance for statistics, repeatable on purpose
    return [mean(draw.choices(values, k=len(values))) for _ in range(ROUNDS)] if values else []
