"""A chunk's signals are added up by their weights."""

from __future__ import annotations

import pytest

from knowledge.index.ports import Scored
from knowledge.search.ranking.signals import LEAST_FEEDBACK, ChunkSignals, page_shares, shares
from knowledge.search.ranking.weights import LONG_AT, LONG_FROM, RankingWeights

NOTHING = RankingWeights(cosine=0.0, cosine_of_long=0.0, pages=0.0, names=0.0, feedback=0.0)


def signals(**more: dict[int, float]) -> ChunkSignals:
    """Chunks 1 and 2 of page 7, chunk 3 of page 8."""
    made = ChunkSignals({1: 1.0, 2: 0.2}, {7: 1.0, 8: 0.5}, {8: 1.0}, {1: 7, 2: 7, 3: 8}, {1: 0.3, 2: 0.5, 3: -0.4})
    made.feedback = more.get("feedback", {})
    return made


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (NOTHING, {1: 1.0, 2: 0.2, 3: 0.0}),
        (RankingWeights(1.0, 0.0, 0.0, 0.0, 0.0, 0.0), {1: 1.3, 2: 0.7, 3: 0.0}),
        (RankingWeights(0.0, 0.0, 0.0, 0.5, 0.0, 0.0), {1: 1.0, 2: 0.6, 3: 0.25}),
        (RankingWeights(0.0, 0.0, 0.0, 0.0, 0.5, 0.0), {1: 1.0, 2: 0.2, 3: 0.5}),
    ],
)
def test_each_weight_adds_its_own_signal(weights: RankingWeights, expected: dict[int, float]) -> None:
    assert dict(signals().ranked(weights, 3)) == pytest.approx(expected)


def test_without_pages_the_words_of_the_chunk_count_in_full() -> None:
    made = signals()
    made.pages = {}
    assert dict(made.ranked(RankingWeights(0.0, 0.0, 0.0, 0.5, 0.0, 0.0), 3))[1] == 1.0


def test_feedback_counts_as_far_as_the_first_chunk_has_it() -> None:
    weights = RankingWeights(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    full = dict(signals(feedback={1: 1.0, 3: 0.8, 4: 0.5}).ranked(weights, 3))
    assert full == pytest.approx({1: 2.0, 2: 0.2, 3: 0.8, 4: 0.5})
    assert dict(signals(feedback={1: LEAST_FEEDBACK, 3: 1.0}).ranked(weights, 3))[3] == 0.0
    assert dict(signals(feedback={3: 1.0}).ranked(weights, 3))[3] == 0.0


def test_a_cosine_counts_more_in_a_long_question() -> None:
    weights = RankingWeights(cosine=0.8, cosine_of_long=0.6)
    assert weights.cosine_for(LONG_FROM) == 0.8
    assert weights.cosine_for((LONG_FROM + LONG_AT) // 2) == pytest.approx(1.1)
    assert weights.cosine_for(90) == pytest.approx(1.4)
    # A weight of 0 ignores meaning in long questions as well.
    assert RankingWeights(cosine=0.0).cosine_for(90) == 0.0


def test_shares_are_of_the_best_and_of_equal_sums_the_one_found_first_by_words_comes_first() -> None:
    assert shares([Scored(5, 1, 4.0), Scored(6, 1, 1.0)]) == {5: 1.0, 6: 0.25}
    assert page_shares([Scored(5, 1, 4.0), Scored(9, 1, 2.0), Scored(6, 2, 1.0)]) == {1: 1.0, 2: 0.25}
    assert shares([]) == page_shares([]) == {}
    ranked = ChunkSignals({9: 1.0, 4: 1.0}, {}, {}, {9: 1, 4: 1}).ranked(NOTHING, 1)
    assert [seq for seq, _ in ranked] == [9, 4]


def test_a_transformers_list_is_stretched_because_the_scales_of_models_differ() -> None:
    """Some models give 0.7 to everything: a plain cosine would mean nothing, and outweigh the words."""
    made = ChunkSignals({1: 1.0}, {}, {}, {1: 7, 2: 7, 3: 8}, {1: 0.70, 2: 0.90, 3: 0.80}, nearest=(0.90, 0.70))
    assert dict(made.ranked(RankingWeights(), 3)) == pytest.approx({1: 1.0, 2: 1.0, 3: 0.5})
    # Below the last of the list, and if a person wants words only.
    made.cosines[1] = 0.1
    assert dict(made.ranked(RankingWeights(), 3))[1] == 1.0
    assert dict(made.ranked(RankingWeights(cosine=0.0), 3))[2] == 0.0
