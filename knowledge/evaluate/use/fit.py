"""Finds ranking weights that fit the labels better than those in use, or says why there are none. Pure.

Two rules prevent choosing merely the luckiest of many candidates. First, cross-validation: the labels are divided by
page into `FOLDS` parts; for each part the best weights are chosen on the other parts and compared with the weights in
use on the part that was left out. So the reported gain is measured on questions that took no part in choosing the
weights. Second, `chance` is how often the best of all candidates would look as good as this one if no candidate
differed from the weights in use: a permutation test that gives the differences of whole pages random signs.

Source: Westfall, Young, "Resampling-based multiple testing", 1993 (the largest of several statistics under one resampling).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from knowledge.evaluate.metrics import ROUNDS, SEED, Interval
from knowledge.evaluate.use.labels import UseLabel
from knowledge.evaluate.use.measure import weighted_interval, weights_and_clusters
from knowledge.search.ranking.weights import RankingWeights

FOLDS = 5
FEWEST_QUESTIONS = 40
FEWEST_PAGES = 20
MOST_CHANCE = 0.05
SAME = 1e-9
LEAST_GAIN = 0.01
"""A smaller gain in nDCG@10 is not worth a change, however certain it is."""
_COSINES = (0.4, 0.8, 1.2, 2.0)
_COVERAGES = (0.0, 0.2, 0.4)
_NAMES = (0.0, 0.15, 0.4, 1.0)


@dataclass(frozen=True, slots=True)
class FittedWeights:
    """The weights in use (`used`), the best ones that were tried (`best`), and whether to switch to them (`refused`).

    `gain` is the difference in nDCG@10 on questions that took no part in the choice, None if there are too few.
    `gain_seen` is the gain on all questions, which is too optimistic. `chance` is the probability that the best
    candidate would look this good if all candidates were equally good. `agreeing` says how many of the `FOLDS` choices,
    each made without some of the questions, are the same as the choice with all questions. `refused` says why the
    weights in use should be kept, `""` if the best ones should replace them.
    """

    used: RankingWeights
    best: RankingWeights
    questions: int
    pages: int
    gain: Interval | None
    gain_seen: float
    chance: float
    agreeing: int
    refused: str


def candidates(used: RankingWeights) -> list[RankingWeights]:
    """Return the candidate weights: those in use and a coarse grid, ordered by how much they change, least first.

    A fine grid would only fit noise better.
    """

    def change(one: RankingWeights) -> tuple[int, float]:
        changes = [abs(value - was) for value, was in zip(astuple(one), astuple(used), strict=True)]
        return sum(map(bool, changes)), sum(changes)

    grid = {
        replace(RankingWeights(), cosine=cosine, coverage=coverage, names=names)
        for cosine, coverage, names in product(_COSINES, _COVERAGES, _NAMES)
    }
    return sorted(grid | {used}, key=lambda one: (*change(one), astuple(one)))


def too_few(labels: Sequence[UseLabel]) -> str:
    """Return why these labels do not suffice to choose weights, `""` if they do."""
    pages = len({label.page for label in labels})
    if len(labels) >= FEWEST_QUESTIONS and pages >= FEWEST_PAGES:
        return ""
    return (
        f"there are {len(labels)} questions that led to {pages} pages; at least {FEWEST_QUESTIONS} questions and {FEWEST_PAGES} pages "
        "are needed to tell a gain from chance"
    )


def fit(labels: Sequence[UseLabel], tried: Sequence[RankingWeights], quality: NDArray[np.float64]) -> FittedWeights:
    """Return the best of the weights `tried`, of which the first are in use. `quality` has nDCG@10 by label and weights."""
    pages = len({label.page for label in labels})
    if refused := too_few(labels):
        return FittedWeights(tried[0], tried[0], len(labels), pages, None, 0.0, 1.0, 0, refused)
    weights, clusters = weights_and_clusters(labels)
    best = _best(quality, weights)
    folds = np.array([_fold(label.page) for label in labels])
    held_out = np.zeros(len(labels))
    agreeing = 0
    for fold in range(FOLDS):
        left_out = folds == fold
        # Column 0 has the weights in use: they stay if no label is left to choose by.
        chosen = _best(quality[~left_out], weights[~left_out]) if not left_out.all() else 0
        agreeing += chosen == best
        held_out[left_out] = quality[left_out, chosen] - quality[left_out, 0]
    gain = weighted_interval(held_out, labels)
    seen = weighted_interval(quality[:, best] - quality[:, 0], labels).mean
    chance = _chance(quality - quality[:, [0]], weights, clusters, best)
    if best == 0:
        refused = "no other weights fit better"
    elif gain.low <= 0:
        refused = "the gain may be chance, because its interval includes 0"
    elif chance > MOST_CHANCE:
        refused = f"the gain may be chance: with {len(tried)} candidates, the best looks this good by luck in {chance:.0%} of cases"
    elif gain.mean < LEAST_GAIN:
        refused = f"the gain is less than {LEAST_GAIN}"
    return FittedWeights(tried[0], tried[best], len(labels), pages, gain, seen, chance, agreeing, refused)


def _best(quality: NDArray[np.float64], weights: NDArray[np.float64]) -> int:
    """Return the column with the highest weighted mean; of equal ones the first, which changes least."""
    means = weights @ quality / weights.sum()
    # Of booleans, `argmax` returns the first that is true.
    return int(np.argmax(means >= means.max() - SAME))


def _chance(
    differences: NDArray[np.float64], weights: NDArray[np.float64], clusters: NDArray[np.int64], best: int
) -> float:
    """Return the probability that the largest statistic of all candidates reaches that of `best` if no candidate is better."""
    sums = np.zeros((int(clusters.max()) + 1, differences.shape[1]))
    np.add.at(sums, clusters, differences * weights[:, None])
    spread = np.sqrt((sums**2).sum(axis=0))
    # Without any difference from the weights in use, the best is as good as chance.
    if not spread[best]:
        return 1.0
    scaled = sums[:, spread > 0] / spread[spread > 0]
    signs = np.random.default_rng(SEED).choice([-1.0, 1.0], size=(ROUNDS, len(sums)))
    largest = (signs @ scaled).max(axis=1)
    # One is added to both, because a limited number of rounds can't show that a chance is zero.
    return float((np.sum(largest >= sums[:, best].sum() / spread[best] - SAME) + 1) / (ROUNDS + 1))


def _fold(page: str) -> int:
    """Return the fold of a page, always the same, so that all questions about one page are in one fold."""
    return hashlib.blake2b(page.encode("utf-8", "surrogatepass")).digest()[0] % FOLDS
