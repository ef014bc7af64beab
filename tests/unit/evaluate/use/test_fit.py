"""Measures over labels, and when other weights are offered.

Only if held-out questions show an improvement beyond chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest
from numpy.typing import NDArray

from knowledge.evaluate.use.fit import FEWEST_PAGES, FEWEST_QUESTIONS, FittedWeights, candidates, fit, too_few
from knowledge.evaluate.use.labels import UseLabel
from knowledge.evaluate.use.measure import measured, places, summary, weighted_interval
from knowledge.search.ranking.weights import RankingWeights
from knowledge.search.use.events import SearchedFor

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def label(number: int = 0, *, page: str = "", grade: float = 1.0, rank: int | None = 1) -> UseLabel:
    path = page or f"page{number}.md"
    return UseLabel(SearchedFor(f"question {number}"), {path: grade}, {path: rank}, 1, NOW)


def many(count: int = 120) -> list[UseLabel]:
    return [label(number) for number in range(count)]


def fitted(quality: Sequence[Sequence[float] | NDArray[np.float64]], made: Sequence[UseLabel] = ()) -> FittedWeights:
    table = np.array(quality, dtype=float).T
    tried = candidates(RankingWeights())[: table.shape[1]]
    return fit(made or many(table.shape[0]), tried, table)


def test_a_real_gain_is_offered() -> None:
    draw = np.random.default_rng(0)
    used = draw.uniform(0.2, 0.6, 120)
    done = fitted([used, used + 0.1 + draw.normal(0, 0.05, 120)])
    assert done.refused == ""
    assert done.best == candidates(RankingWeights())[1] != done.used
    assert done.gain is not None
    assert 0.05 < done.gain.low < done.gain.mean < 0.15
    assert (done.questions, done.pages, done.agreeing) == (120, 120, 5)


def test_a_gain_that_comes_from_choosing_the_luckiest_is_refused() -> None:
    """Thirty candidates that differ from the weights in use by noise alone: the best of them looks better on all questions."""
    refused, seen = 0, []
    for seed in range(50):
        draw = np.random.default_rng(seed)
        used = draw.uniform(0, 1, 120)
        done = fitted([used, *[used + draw.normal(0, 0.2, 120) for _ in range(30)]])
        refused += bool(done.refused)
        seen.append(done.gain_seen)
    assert refused >= 46
    assert np.mean(seen) > 0.02


def test_questions_about_one_page_are_one_observation() -> None:
    """A hundred improved questions that led to one page prove nothing."""
    made = [label(number) for number in range(30)] + [label(100 + number, page="same.md") for number in range(100)]
    draw = np.random.default_rng(1)
    better = [*draw.normal(0, 0.1, 30), *([0.3] * 100)]
    done = fitted([[0.5] * 130, 0.5 + np.array(better)], made)
    assert "chance" in done.refused
    alone = fitted([[0.5] * 130, 0.5 + np.array(better)], many(130))
    assert alone.refused == ""


def test_a_gain_too_small_to_matter_is_refused() -> None:
    assert "less than" in fitted([[0.5] * 120, [0.505] * 120]).refused


def test_weights_in_use_that_are_the_best_stay() -> None:
    done = fitted([[0.5] * 120, [0.4] * 120, [0.5] * 120])
    assert done.best == done.used
    assert "no other weights" in done.refused


@pytest.mark.parametrize(
    "made",
    [[], many(FEWEST_QUESTIONS - 1), [label(n, page=f"{n % (FEWEST_PAGES - 1)}.md") for n in range(500)]],
)
def test_too_few_questions_or_pages_are_refused_whatever_the_gain(made: list[UseLabel]) -> None:
    done = fit(made, candidates(RankingWeights())[:2], np.array([[0.0, 1.0]] * len(made)).reshape(-1, 2))
    assert done.refused == too_few(made) != ""
    assert done.gain is None
    assert done.best == done.used


def test_the_weights_in_use_are_the_first_candidate_and_each_is_tried_once() -> None:
    for used in (RankingWeights(), RankingWeights(cosine=0.7)):
        tried = candidates(used)
        assert tried[0] == used
        assert len(set(tried)) == len(tried)
        assert RankingWeights() in tried


def test_of_equally_good_candidates_the_smallest_change_is_offered() -> None:
    tried = candidates(RankingWeights())
    quality = np.array([[1.0 if one.names >= 0.4 else 0.2 for one in tried]] * 120)
    assert fit(many(), tried, quality).best == RankingWeights(names=0.4)


def test_a_use_that_says_more_weighs_more_in_the_averages() -> None:
    found = [measured(label(0), ["page0.md"]), measured(label(1, grade=3.0, rank=9), ["x", "page1.md"])]
    averages = summary(found)
    assert averages.reciprocal_rank.mean == pytest.approx((1 * 1.0 + 3 * 0.5) / 4)
    assert averages.below_first is not None
    assert (averages.below_first.labels, averages.below_first.reciprocal_rank.mean) == (1, 0.5)
    assert found[1].place == 2
    assert (found[0].first, found[1].first) == ("page0.md", "x")


def test_a_page_that_is_not_found_measures_zero() -> None:
    lost = measured(label(0), [f"{number}.md" for number in range(40)])
    assert (lost.ndcg, lost.recall, lost.reciprocal_rank, lost.place) == (0, 0, 0, None)
    assert measured(label(0), []).first == ""


def test_questions_about_one_page_do_not_narrow_the_interval() -> None:
    values = [0.0, 1.0] * 20
    apart = weighted_interval(values, many(40))
    together = weighted_interval(values, [label(n, page=f"{n % 2}.md") for n in range(40)])
    assert together.high - together.low > apart.high - apart.low
    assert (together.mean, apart.mean) == (0.5, 0.5)
    assert weighted_interval(values, many(40)) == apart


def test_labels_are_counted_by_the_place_where_their_page_was_shown() -> None:
    ranks = [1, 1, 3, 7, 12, None]
    counted = places([label(number, rank=rank) for number, rank in enumerate(ranks)])
    assert counted == {"1": 2, "2 to 3": 1, "4 to 10": 1, "below 10": 1, "not shown": 1}
