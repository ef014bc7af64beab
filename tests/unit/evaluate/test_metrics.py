from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.evaluate.metrics import (
    bootstrap,
    mean,
    ndcg,
    paired_bootstrap,
    percentile,
    recall,
    reciprocal_rank,
)

GRADES = st.dictionaries(st.integers(0, 30), st.integers(0, 3).map(float), max_size=12)


def test_ndcg_of_a_graded_list_worked_by_hand() -> None:
    """Places 1..6 hold grades 3 2 3 0 1 2; two more (3, 2) are not found. Values as on paper."""
    grades = {"a": 3.0, "b": 2.0, "c": 3.0, "d": 0.0, "e": 1.0, "f": 2.0, "g": 3.0, "h": 2.0}
    dcg = 3 + 2 / 1.584963 + 3 / 2 + 0 + 1 / 2.584963 + 2 / 2.807355
    ideal = 3 + 3 / 1.584963 + 3 / 2 + 2 / 2.321928 + 2 / 2.584963 + 2 / 2.807355
    assert ndcg("abcdef", grades, k=6) == pytest.approx(dcg / ideal, abs=1e-6)
    assert ndcg("abcdef", grades, k=6) == pytest.approx(0.785, abs=1e-3)


def test_ndcg_counts_a_doubled_page_once() -> None:
    assert ndcg("xxa", {"a": 1.0}) == ndcg("xa", {"a": 1.0}) == pytest.approx(1 / math.log2(3))
    assert ndcg("aaa", {"a": 1.0, "b": 1.0}, k=3) == pytest.approx(1 / (1 + 1 / math.log2(3)))


def test_ndcg_looks_no_further_than_k_in_both_orders() -> None:
    grades = dict.fromkeys("abcd", 1.0)
    assert ndcg("xya", grades, k=2) == 0
    assert ndcg("ab", grades, k=2) == 1


def test_nothing_relevant_scores_nothing() -> None:
    assert ndcg("ab", {}) == ndcg("ab", {"a": 0.0}) == recall("ab", []) == reciprocal_rank("ab", []) == 0
    assert ndcg("", {"a": 1.0}) == recall("", "a") == reciprocal_rank("", "a") == 0


def test_recall_and_reciprocal_rank_by_hand() -> None:
    assert recall("abcd", "bdz", k=4) == pytest.approx(2 / 3)
    assert recall("abcd", "bdz", k=3) == pytest.approx(1 / 3)
    assert reciprocal_rank("abcd", "dc") == pytest.approx(1 / 3)
    assert reciprocal_rank("aab", "b") == pytest.approx(1 / 2)


@given(GRADES, st.lists(st.integers(0, 30), max_size=30), st.integers(1, 12))
def test_measures_stay_within_bounds_and_the_best_order_scores_one(
    grades: dict[int, float], ranked: list[int], k: int
) -> None:
    best = sorted(grades, key=lambda name: -grades[name])
    relevant = [name for name in grades if grades[name] > 0]
    assert 0 <= ndcg(ranked, grades, k) <= 1 + 1e-12
    assert 0 <= recall(ranked, relevant, k) <= 1
    assert 0 <= reciprocal_rank(ranked, relevant) <= 1
    assert ndcg(best, grades, k) == pytest.approx(1 if relevant else 0)


@given(GRADES, st.lists(st.integers(0, 30), unique=True, max_size=30), st.data())
def test_moving_the_better_one_up_never_costs(grades: dict[int, float], ranked: list[int], data: st.DataObject) -> None:
    if len(ranked) < 2:
        return
    at = data.draw(st.integers(0, len(ranked) - 2))
    first, second = ranked[at], ranked[at + 1]
    swapped = [*ranked[:at], second, first, *ranked[at + 2 :]]
    better, worse = (swapped, ranked) if grades.get(second, 0) > grades.get(first, 0) else (ranked, swapped)
    assert ndcg(better, grades) >= ndcg(worse, grades) - 1e-12


def test_mean_and_percentile_by_hand() -> None:
    assert mean([]) == percentile([], 0.5) == 0
    assert mean([1, 2, 6]) == 3
    assert percentile([4, 1, 3, 2], 0.5) == 2.5
    assert percentile([10, 20, 30, 40, 50], 0.95) == pytest.approx(48)
    assert percentile([7], 0.95) == 7
    assert [percentile([3, 1, 2], share) for share in (0.0, 1.0)] == [1, 3]


def test_a_bootstrap_interval_holds_the_mean_and_is_as_wide_as_theory_says() -> None:
    """Half zeros, half ones, 100 of them: the standard error is 0.05, so 95 % lie within about 0.098."""
    found = bootstrap([0.0, 1.0] * 50)
    assert found.mean == 0.5
    assert found.low == pytest.approx(0.402, abs=0.015)
    assert found.high == pytest.approx(0.598, abs=0.015)
    assert found == bootstrap([0.0, 1.0] * 50)
    assert bootstrap([]) == type(found)(0, 0, 0)


def test_a_paired_difference_that_is_everywhere_is_sure_and_noise_is_not() -> None:
    before = [0.1, 0.9, 0.5, 0.4, 0.7, 0.2, 0.3, 0.6] * 3
    sure = paired_bootstrap(before, [value + 0.05 for value in before])
    assert sure.mean == pytest.approx(0.05)
    assert sure.is_sure
    assert sure.chance < 0.001
    noise = paired_bootstrap(before, [value + 0.2 * (-1) ** place for place, value in enumerate(before)])
    assert not noise.is_sure
    assert noise.chance > 0.5
    assert paired_bootstrap(before, before).chance == 1


def test_runs_over_different_queries_are_not_compared() -> None:
    with pytest.raises(ValueError, match="argument"):
        paired_bootstrap([1.0], [1.0, 2.0])
