from __future__ import annotations

import random
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.search.query.corrections import Vocabulary


def distance(a: str, b: str) -> int:
    """Optimal string alignment, written to be readable."""
    rows = [[max(i, j) if not i or not j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


_WORD = st.text("abcé", min_size=3, max_size=13)


@settings(max_examples=100)
@given(_WORD, st.dictionaries(_WORD, st.integers(1, 5), max_size=60))
def test_near_words_are_those_within_the_edits(word: str, counts: dict[str, int]) -> None:
    edits = 0 if len(word) < 4 else 1 if len(word) < 9 else 2
    close = [w for w in counts if w != word and distance(word, w) <= edits]
    expected = sorted(close, key=lambda w: (distance(word, w), -counts[w], w))
    assert Vocabulary(list(counts.items())).near(word, limit=100) == (expected if edits else [])


@settings(max_examples=100)
@given(st.text("abcdefgh", min_size=4, max_size=14), st.data())
def test_every_single_edit_is_found_back(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 2))
    kind = data.draw(st.sampled_from(["insert", "delete", "replace", "swap"]))
    rest = {
        "insert": "x" + word[at:],
        "delete": word[at + 1 :],
        "replace": "x" + word[at + 1 :],
        "swap": word[at + 1] + word[at] + word[at + 2 :],
    }[kind]
    typed = word[:at] + rest
    if len(typed) >= 4 and typed != word:
        assert Vocabulary([(word, 1)]).near(typed) == [word]


def test_the_most_frequent_come_first_and_no_more_than_asked() -> None:
    known = Vocabulary([("journey", 3), ("journeys", 9), ("jorney", 1), ("bourney", 2), ("kourney", 2)])
    assert known.near("ourney") == ["journey", "bourney", "kourney"]


def test_one_edit_comes_before_two_however_frequent_the_other_is() -> None:
    assert Vocabulary([("relation", 900), ("relaxation", 2), ("delation", 5000)]).near("relaation") == [
        "relation",
        "relaxation",
        "delation",
    ]


def test_short_words_and_words_with_digits_have_no_neighbours() -> None:
    known = Vocabulary([("the", 1), ("word", 1), ("version2", 1), ("abcde1", 1)])
    assert known.near("teh") == []
    assert known.near("wrod") == ["word"]
    assert known.near("version1") == []
    assert Vocabulary([]).near("words") == []


def test_a_hundred_thousand_words_take_milliseconds() -> None:
    rng = random.Random(1)  # noqa: S311 - a corpus, no secret
    known = {"".join(rng.choices("abcdefghijklmnop", k=rng.randint(4, 13))): 1 for _ in range(100_000)}
    vocabulary = Vocabulary(list(known.items()))
    vocabulary.near("knowledge")
    best = min(_seconds(word, vocabulary) for word in ["knowledgf", "abcdefghij"] for _ in range(3))
    assert best < 0.05


def _seconds(word: str, vocabulary: Vocabulary) -> float:
    started = time.process_time()
    vocabulary.near(word)
    return time.process_time() - started
