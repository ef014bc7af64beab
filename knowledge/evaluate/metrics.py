"""Measures of a ranked list against judgements, and how sure their averages are. Pure.

A ranking names each thing once; a thing named again counts where it stood first, and those behind it move up.
Grades say how well a thing answers: 0 or absent is not at all.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T", bound=Hashable)

Gain = Literal["linear", "exponential"]

ROUNDS = 2_000
"""Resamplings of a bootstrap: the interval's ends are then steady in the third digit."""
SEED = 1


def ndcg(ranked: Sequence[T], grades: Mapping[T, float], k: int = 10, *, gain: Gain = "linear") -> float:
    """Return how near the first `k` come to the best order there could be, 0..1; 0 when nothing is relevant.

    The place i, from 1, gives gain / log2(i + 1); the sum is divided by that of the best order. The gain is the grade
    itself, as in trec_eval and the BEIR tables, or 2 ** grade - 1.

    Source: Järvelin, Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 20(4), 2002; the exponential
    gain: Burges et al., "Learning to rank using gradient descent", ICML 2005.
    """
    worth = _gain(gain)
    best = _discounted(sorted((worth(grade) for grade in grades.values() if grade > 0), reverse=True)[:k])
    if not best:
        return 0.0
    return _discounted([worth(max(grades.get(name, 0.0), 0.0)) for name in distinct(ranked, k)]) / best


def recall(ranked: Sequence[T], relevant: Collection[T], k: int = 20) -> float:
    """Return the share of `relevant` that is among the first `k`; 0 when nothing is relevant."""
    wanted = frozenset(relevant)
    return len(wanted.intersection(distinct(ranked, k))) / len(wanted) if wanted else 0.0


def reciprocal_rank(ranked: Sequence[T], relevant: Collection[T], k: int | None = None) -> float:
    """Return 1 / the place of the first relevant one among the first `k` (all, if None); 0 when there is none."""
    wanted = frozenset(relevant)
    return next((1 / place for place, name in enumerate(distinct(ranked, k), 1) if name in wanted), 0.0)


def distinct(ranked: Iterable[T], k: int | None = None) -> list[T]:
    """Return the first `k` different ones in their order."""
    return list(dict.fromkeys(ranked))[:k]


def mean(values: Sequence[float]) -> float:
    """Return the average, 0 of nothing."""
    return math.fsum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0..1) of `values` lie, between neighbours in proportion; 0 of nothing.

    Source: Hyndman, Fan, "Sample quantiles in statistical packages", 1996, definition 7.
    """
    if not values:
        return 0.0
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    # Written so that equal neighbours give exactly themselves.
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


@dataclass(frozen=True, slots=True)
class Interval:
    """An average and the ends between which it lies with the asked confidence."""

    mean: float
    low: float
    high: float


def bootstrap(values: Sequence[float], *, confidence: float = 0.95, rounds: int = ROUNDS, seed: int = SEED) -> Interval:
    """Return the mean of `values` and its percentile bootstrap interval; the same for the same seed.

    Source: Efron, Tibshirani, "An introduction to the bootstrap", 1993, chapter 13.
    """
    means = _resampled_means(values, rounds, seed)
    tail = (1 - confidence) / 2
    return Interval(mean(values), percentile(means, tail), percentile(means, 1 - tail))


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """What changed on average over the same queries. `chance` is how likely a change so large is without a reason."""

    mean: float
    low: float
    high: float
    chance: float

    @property
    def is_sure(self) -> bool:
        """Return whether the whole interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


def paired_bootstrap(
    before: Sequence[float],
    after: Sequence[float],
    *,
    confidence: float = 0.95,
    rounds: int = ROUNDS,
    seed: int = SEED,
) -> MetricDifference:
    """Return the mean of `after` - `before`, query by query, with its interval and how likely it is by chance.

    The chance is two-sided: the share of resampled differences, moved to have mean 0, that are at least as large.

    Raises:
        ValueError: the lists differ in length, so they are not about the same queries.

    Source: Sakai, "Evaluating evaluation metrics based on the bootstrap", SIGIR 2006 (paired test, studentless).
    """
    changes = [a - b for b, a in zip(before, after, strict=True)]
    if not any(changes):
        return MetricDifference(0.0, 0.0, 0.0, 1.0)
    found = mean(changes)
    means = _resampled_means(changes, rounds, seed)
    tail = (1 - confidence) / 2
    as_large = sum(abs(other - found) >= abs(found) for other in means)
    # One is added to both, so that no chance is ever said to be nothing.
    chance = (as_large + 1) / (len(means) + 1)
    return MetricDifference(found, percentile(means, tail), percentile(means, 1 - tail), chance)


def _gain(kind: Gain) -> Callable[[float], float]:
    return float if kind == "linear" else lambda grade: 2.0**grade - 1


def _discounted(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(place + 1) for place, gain in enumerate(gains, 1))


def _resampled_means(values: Sequence[float], rounds: int, seed: int) -> list[float]:
    draw = random.Random(seed)  # noqa: S311 - chance for statistics, repeatable on purpose
    return [mean(draw.choices(values, k=len(values))) for _ in range(rounds)] if values else []
