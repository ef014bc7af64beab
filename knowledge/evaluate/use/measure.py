"""Measures a ranking of pages by labels from use. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knowledge.evaluate.metrics import ROUNDS, SEED, TAIL, Interval, ndcg, recall, reciprocal_rank
from knowledge.evaluate.use.labels import UseLabel

DEPTH = 20
"""Pages of a ranking that are evaluated."""
DEPTH_NDCG = 10


@dataclass(frozen=True, slots=True)
class MeasuredLabel:
    """How well today's search does on a label. `place` is the current place of its page; None if it is not among the first `DEPTH`."""

    label: UseLabel
    ndcg: float
    recall: float
    reciprocal_rank: float
    place: int | None
    first: str
    """The page that comes first now, `""` if nothing is found."""


@dataclass(frozen=True, slots=True)
class UseSummary:
    """Averages over labels, in which each question has the weight of its use.

    `below_first` has the same averages over fewer questions: those after which a page was used that was not ranked
    first, or not shown. A use of the first hit always agrees with the ranking that showed it.
    """

    labels: int
    ndcg: Interval
    recall: Interval
    reciprocal_rank: Interval
    below_first: UseSummary | None = None


def measured(label: UseLabel, ranked: Sequence[str]) -> MeasuredLabel:
    """Return how well the ranking does on the label."""
    pages = list(ranked[:DEPTH])
    return MeasuredLabel(
        label,
        ndcg(pages, label.grades, DEPTH_NDCG),
        recall(pages, label.grades, DEPTH),
        reciprocal_rank(pages, label.grades),
        pages.index(label.page) + 1 if label.page in pages else None,
        pages[0] if pages else "",
    )


def summary(found: Sequence[MeasuredLabel]) -> UseSummary:
    """Return the weighted averages of these labels."""
    below = [one for one in found if one.label.below_first]
    return _averages(found, below=_averages(below) if below else None)


def _averages(found: Sequence[MeasuredLabel], below: UseSummary | None = None) -> UseSummary:
    labels = [one.label for one in found]
    return UseSummary(
        len(found),
        ndcg=weighted_interval([one.ndcg for one in found], labels),
        recall=weighted_interval([one.recall for one in found], labels),
        reciprocal_rank=weighted_interval([one.reciprocal_rank for one in found], labels),
        below_first=below,
    )


def weighted_interval(values: Sequence[float] | NDArray[np.float64], labels: Sequence[UseLabel]) -> Interval:
    """Return the weighted mean of one value per label, and its bootstrap interval. Same values, same interval.

    Whole pages are drawn, with all questions that led to each: questions about one page are not independent, and would make the
    interval too narrow.

    Source: Field, Welsh, "Bootstrapping clustered data", JRSS B 69(3), 2007.
    """
    if not labels:
        return Interval(0.0, 0.0, 0.0)
    weights, clusters = weights_and_clusters(labels)
    sums = np.bincount(clusters, weights * np.asarray(values, dtype=float))
    totals = np.bincount(clusters, weights)
    drawn = np.random.default_rng(SEED).integers(0, len(sums), size=(ROUNDS, len(sums)))
    means = sums[drawn].sum(axis=1) / totals[drawn].sum(axis=1)
    low, high = np.quantile(means, [TAIL, 1 - TAIL])
    return Interval(float(sums.sum() / totals.sum()), float(low), float(high))


def weights_and_clusters(labels: Sequence[UseLabel]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the weight of each label, and the number of its page."""
    numbers: dict[str, int] = {}
    clusters = [numbers.setdefault(label.page, len(numbers)) for label in labels]
    return np.array([label.weight for label in labels], dtype=float), np.array(clusters, dtype=np.int64)


def places(labels: Sequence[UseLabel]) -> Mapping[str, int]:
    """Return the number of labels by the place where their page was shown when it was used."""
    counts = {"1": 0, "2 to 3": 0, "4 to 10": 0, "below 10": 0, "not shown": 0}
    for label in labels:
        rank = label.ranks[label.page]
        bounds = (("1", 1), ("2 to 3", 3), ("4 to 10", 10))
        name = "not shown" if rank is None else next((name for name, last in bounds if rank <= last), "below 10")
        counts[name] += 1
    return counts
