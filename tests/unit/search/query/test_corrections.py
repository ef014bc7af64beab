from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.search.query import corrections
from knowledge.search.query.analysis import words
from knowledge.search.query.corrections import Vocabularies, Vocabulary, corrected_query
from tests.contract.index.test_index_store import IDENTITY, page
from tests.support.state.memory.index import MemoryIndexStore


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


def near(word: str, counts: Mapping[str, int], limit: int = 100) -> list[str]:
    return [other.word for other in Vocabulary(list(counts.items())).near(word, limit)]


@settings(max_examples=100)
@given(_WORD, st.dictionaries(_WORD, st.integers(1, 5), max_size=60))
def test_near_words_are_those_within_the_edits(word: str, counts: dict[str, int]) -> None:
    edits = 2 if len(word) >= 9 else 1
    close = {w for w in counts if w != word and distance(word, w) <= edits}
    if len(word) < 4:
        close = {w for w in close if not Counter(word) - Counter(w)}
    assert set(near(word, counts)) == close


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
    if typed != word:
        assert near(typed, {word: 1}) == [word]


def test_the_most_frequent_come_first_and_no_more_than_asked() -> None:
    known = {"journey": 3, "journeys": 9, "jorney": 1, "bourney": 2, "kourney": 2}
    assert near("ourney", known, 3) == ["journey", "bourney", "kourney"]


def test_one_edit_comes_before_two_however_frequent_the_other_is() -> None:
    assert near("relaation", {"relation": 900, "relaxation": 2, "delation": 5000}) == [
        "relation",
        "relaxation",
        "delation",
    ]


@pytest.mark.parametrize(
    ("typed", "meant", "other"),
    [("presdent", "president", "present"), ("casues", "causes", "cases"), ("qule", "quel", "que")],
)
def test_a_lost_or_swapped_letter_is_likelier_than_an_invented_one(typed: str, meant: str, other: str) -> None:
    """There are as many letters to lose as the word has, but 26 times as many to add."""
    assert near(typed, {meant: 10, other: 100})[0] == meant


def test_words_of_three_letters_lack_one_and_other_digits_are_other_names() -> None:
    known = {"the": 1, "word": 1, "version2": 1, "abcde1": 1, "roam": 1, "to": 9}
    assert near("teh", known) == ["the"]
    assert near("rom", known) == ["roam"]
    assert near("rox", known) == []
    assert near("wrod", known) == ["word"]
    assert near("version1", known) == []
    assert near("verison2", known) == ["version2"]
    assert near("12", known) == []
    assert near("words", {}) == []


_ENGLISH = dict.fromkeys(
    words(
        "connect connection connected connector disconnect disconnected selection collection section correct direct "
        "direction contract extract instruct construct conduct product reduce produce protect"
    ),
    20,
)


def test_letters_that_seldom_follow_each_other_are_a_typing_error() -> None:
    """`conduct` and `connduct` are as near to a known word as `collect` and `correct`, which look like other words."""
    known = Vocabulary(list(_ENGLISH.items()))
    (error,), (right,) = known.near("prqduct", 1), known.near("corect", 1)
    assert error.word == "product"
    assert error.probability > 0.9
    unusual, usual = known.near("consuct", 1), known.near("conxuct", 1)
    assert unusual[0].word == usual[0].word == "conduct"
    assert unusual[0].probability < usual[0].probability
    assert right.word == "correct"


def test_a_frequent_word_is_likelier_to_have_been_meant() -> None:
    rare, frequent = (Vocabulary([*_ENGLISH.items(), ("cluster", n)]).near("clustre", 1)[0] for n in (1, 500))
    assert rare.word == frequent.word == "cluster"
    assert rare.probability < frequent.probability


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


@pytest.mark.parametrize(
    ("query", "best", "corrected"),
    [
        ("Pruge the logs, PRUGE all", {"pruge": "purge"}, "purge the logs, purge all"),
        ("pruge_logs apruge pruge2", {"pruge": "purge"}, "purge_logs apruge pruge2"),
        ("pruge v1.2x", {"pruge": "purge", "v1.2x": "v1.2"}, "purge v1.2"),
        ("Mülll leeren", {"mülll": "müll"}, "müll leeren"),
        ("aHrold", {"ahrold": "harold", "hrold": "herold"}, "harold herold"),
    ],
)
def test_misspelt_words_are_replaced_where_they_are_and_others_added(
    query: str, best: dict[str, str], corrected: str
) -> None:
    assert corrected_query(query, best) == corrected


async def test_candidates_of_no_more_than_some_words_are_kept_while_no_page_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corrections, "REMEMBERED_WORDS", 8)
    store, vocabularies = MemoryIndexStore(), Vocabularies()
    await store.begin(IDENTITY)
    await store.apply([page("a.md", "archive")], fence=1)
    for number in range(50):
        await vocabularies.near(store, f"unknown{number}")
        assert len(vocabularies._found) <= 8
    assert [near.word for near in await vocabularies.near(store, "archve")] == ["archive"]


async def test_words_are_known_as_soon_as_the_last_page_is_indexed() -> None:
    """A question right after the first indexing was not corrected for ten seconds, if one had been asked during it."""
    store, vocabularies = MemoryIndexStore(), Vocabularies()
    await store.begin(IDENTITY)
    await store.set_total(2)
    await store.apply([page("a.md", "archive")], fence=1)
    assert not await vocabularies.near(store, "deploiment")
    await store.apply([page("b.md", "deployment")], fence=1)
    assert [near.word for near in await vocabularies.near(store, "deploiment")] == ["deployment"]
