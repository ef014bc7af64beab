from __future__ import annotations

from knowledge.index.ports import QueryTerm, Scored
from knowledge.search.ranking.feedback import MOST_TERMS, WEIGHT, RelevanceWords
from knowledge.search.ranking.fusion import weigh


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
    assert (terms[0].word, terms[0].alternatives[0][1]) == ("rare", WEIGHT)
    assert all(term.alternatives[0][1] <= WEIGHT for term in terms)


def test_no_more_than_a_number_of_words_is_fed_back() -> None:
    text = " ".join(f"word{chr(97 + i)}{chr(97 + j)}" for i in range(8) for j in range(8))
    feedback = RelevanceWords([(text, ""), (text, "")], asked("x"))
    assert len(feedback.terms(dict.fromkeys(feedback.shared, 3))) == MOST_TERMS


def test_nothing_shared_is_nothing_fed_back() -> None:
    assert RelevanceWords([("one", "en"), ("other", "en")], asked("x")).terms({}) == ()


def test_scores_are_weighed_and_not_places() -> None:
    keyword = [Scored(1, 1, 10.0), Scored(2, 1, 2.0)]
    vectors = [Scored(2, 1, 0.5), Scored(3, 2, 0.4)]
    found = weigh(keyword, vectors, {1: 0.3})
    assert [(hit.seq, round(hit.score, 3), hit.ranks) for hit in found] == [
        (1, 1.3, (1, None)),
        (2, 0.7, (2, 1)),
        (3, 0.4, (None, 2)),
    ]


def test_one_list_alone_keeps_its_order() -> None:
    hits = [Scored(5, 1, 3.0), Scored(4, 1, 3.0), Scored(3, 1, 1.0)]
    assert [hit.seq for hit in weigh(hits, [], {})] == [4, 5, 3]
    assert weigh([], [], {}) == []


def test_the_weight_of_cosines_decides_between_words_and_meaning() -> None:
    keyword = [Scored(1, 1, 10.0), Scored(2, 1, 4.0)]
    vectors = [Scored(3, 2, 0.9), Scored(2, 1, 0.5)]
    order = {weight: [hit.seq for hit in weigh(keyword, vectors, {1: 0.0}, weight)] for weight in (0.0, 0.5, 2.0)}
    assert order == {0.0: [1, 2, 3], 0.5: [1, 2, 3], 2.0: [3, 2, 1]}
