from __future__ import annotations

import pytest

from knowledge.index.ports import QueryTerm, Scored
from knowledge.search.query.analysis import toned
from knowledge.search.ranking.feedback import MOST_TERMS, RelevanceWords, are_relevant


def asked(*words: str) -> list[QueryTerm]:
    return [QueryTerm(word, ((word, 1.0),)) for word in words]


def test_only_words_that_two_chunks_share_and_nobody_asked_for_are_fed_back() -> None:
    chunks = [("the queue drops a message", "en"), ("the queue keeps a message", "en"), ("the exotic one", "en")]
    feedback = RelevanceWords(chunks, asked("queue"))
    known = {"the": 90, "queue": 9, "message": 12, "a": 80}
    assert [term.word for term in feedback.terms(known)] == ["messag"]


def test_the_rarer_word_weighs_more_and_no_word_more_than_its_share() -> None:
    chunks = [("the rare usual", "en")] * 2
    terms = RelevanceWords(chunks, asked("x")).terms({"the": 100, "rare": 1, "usual": 50})
    assert (terms[0].word, terms[0].alternatives[0][1]) == ("rare", 1.0)
    assert all(term.alternatives[0][1] <= 1.0 for term in terms)


def test_no_more_than_a_number_of_words_is_fed_back() -> None:
    text = " ".join(f"word{chr(97 + i)}{chr(97 + j)}" for i in range(8) for j in range(8))
    feedback = RelevanceWords([(text, ""), (text, "")], asked("x"))
    assert len(feedback.terms(dict.fromkeys(feedback.shared, 3))) == MOST_TERMS


def test_nothing_shared_is_nothing_fed_back() -> None:
    assert RelevanceWords([("one", "en"), ("other", "en")], asked("x")).terms({}) == ()


def test_a_vietnamese_word_is_fed_back_with_its_tone() -> None:
    feedback = RelevanceWords([("thủ tướng", "vi"), ("thủ tướng", "vi")], asked("thu"))
    assert [term.word for term in feedback.terms({"thủ": 3, "tướng": 3})] == [toned("tướng", "vi")]


@pytest.mark.parametrize(
    ("nearest", "pages", "relevant"),
    [
        ([1, 2, 3, 90], [10, 20, 30], True),
        ([1, 2, 90, 91], [10, 20, 30], False),
        ([*range(90, 98), 1, 2, 3], [10, 20, 30], False),
        ([1, 2, 3], [10, 20, 70], False),
        ([1, 2, 3], [70, 71, 72, 10, 20, 30], False),
        ([], [10, 20, 30], False),
        ([1, 2, 3], [], False),
    ],
)
def test_chunks_are_learnt_from_only_if_meaning_and_whole_pages_agree_with_them(
    nearest: list[int], pages: list[int], *, relevant: bool
) -> None:
    """Otherwise the first chunks may be about something else, and their words lead further away."""
    best = {1: 10, 2: 20, 3: 30, 4: 40, 5: 50}
    by_meaning = [Scored(seq, 10 * seq, 0.5) for seq in nearest]
    assert are_relevant(best, by_meaning, [Scored(doc, doc, 0.5) for doc in pages]) is relevant


def test_chunks_of_one_page_agree_with_it() -> None:
    best = dict.fromkeys(range(5), 10)
    assert are_relevant(best, [Scored(seq, 10, 0.5) for seq in range(5)], [Scored(9, 10, 0.5)])
