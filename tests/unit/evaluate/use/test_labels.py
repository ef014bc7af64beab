"""Which use becomes a label, and its weight: each line of the table in `labels.py`, and its limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from knowledge.evaluate.use.labels import NOT_SHOWN, UseLabel, labels
from knowledge.search.answers import RouteMode
from knowledge.search.use.events import AskedQuestion, PageUse, PageUseKind, SearchedFor, UsingSession
from knowledge.state.ports import Filters

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
ADA = UsingSession("ada@desktop", "", "p1")
SHOWN = tuple("abcdefgh")


def question(
    query: str = "rotate the keys",
    *shown: str,
    at: float = 0,
    by: UsingSession = ADA,
    route: RouteMode = "discovery",
    continued: bool = False,
    path: str = "",
) -> AskedQuestion:
    asked = SearchedFor(query, path, Filters(), continued=continued)
    return AskedQuestion(BEGAN + timedelta(seconds=at), by, asked, route, shown or SHOWN)


def use(
    path: str, *, at: float = 10, by: UsingSession = ADA, how: PageUseKind = "read", untrusted: bool = False
) -> PageUse:
    return PageUse(BEGAN + timedelta(seconds=at), by, path, how, untrusted=untrusted)


def only(questions: list[AskedQuestion], uses: list[PageUse]) -> UseLabel:
    (label,) = labels(questions, uses)
    return label


@pytest.mark.parametrize(("path", "counts"), [("a", 1.0), ("d", 2.0), ("h", 8**0.5), ("elsewhere", NOT_SHOWN)])
def test_a_use_counts_more_the_lower_its_page_was_shown_and_most_if_it_was_not(path: str, counts: float) -> None:
    """Hits at the top are read because they are at the top."""
    label = only([question()], [use(path)])
    assert label.grades == {path: pytest.approx(counts)}
    assert label.ranks == {path: None if path == "elsewhere" else SHOWN.index(path) + 1}
    assert label.below_first == (path != "a")
    assert label.page == path
    assert label.weight == pytest.approx(counts)


def test_no_rank_counts_more_than_a_page_that_was_not_shown() -> None:
    many = [f"p{number}" for number in range(50)]
    assert only([question("q", *many)], [use("p49")]).grades == {"p49": NOT_SHOWN}


def test_a_page_that_was_not_shown_counts_little_after_one_that_was() -> None:
    """It may have been a link in that page."""
    assert only([question()], [use("d"), use("linked", at=20)]).grades == {"d": 2.0, "linked": 1.0}


def test_a_question_without_use_says_nothing() -> None:
    """The snippets may have been enough."""
    assert labels([question()], []) == []


@pytest.mark.parametrize(("seconds", "counted"), [(600, True), (601, False)])
def test_a_page_is_counted_for_ten_minutes(seconds: float, *, counted: bool) -> None:
    assert bool(labels([question()], [use("a", at=seconds)])) == counted


def test_a_use_belongs_to_its_sessions_last_question() -> None:
    bob = UsingSession("bob@desktop", "", "p2")
    other_window = UsingSession("ada@desktop", "", "p3")
    found = labels(
        [
            question("one"),
            question("two", at=5),
            question("three", at=6, by=bob),
            question("four", at=7, by=other_window),
        ],
        [use("b", at=30)],
    )
    assert [label.asked_for.query for label in found] == ["two"]
    assert found[0].grades == {"b": pytest.approx(2**0.5)}


def test_rewording_credits_the_first_wording_with_the_page_that_it_did_not_show() -> None:
    found = labels(
        [question("rotate the keys", "x", "y"), question("rotate signing keys", "x", "goal", at=60)],
        [use("goal", at=70)],
    )
    assert {label.asked_for.query: dict(label.grades) for label in found} == {
        "rotate the keys": {"goal": NOT_SHOWN},
        "rotate signing keys": {"goal": pytest.approx(2**0.5)},
    }


@pytest.mark.parametrize(("second", "at"), [("height of the moon", 60), ("rotate signing keys", 121)])
def test_another_question_or_a_late_one_is_not_a_rewording(second: str, at: float) -> None:
    found = labels([question("rotate the keys"), question(second, at=at)], [use("a", at=at + 5)])
    assert [label.asked_for.query for label in found] == [second]


def test_a_similar_question_soon_after_a_use_makes_it_count_half_unless_a_merge_named_the_page() -> None:
    asked = [question("rotate the keys"), question("how are signing keys rotated, keys", at=65)]
    first = labels(asked, [use("d", at=10)])
    assert [dict(label.grades) for label in first] == [{"d": 1.0}]
    merged = labels(asked, [use("d", at=10), use("d", at=11, how="merge")])
    assert [dict(label.grades) for label in merged] == [{"d": 4.0}]
    later = labels([question("rotate the keys"), question("rotate keys", at=71)], [use("d", at=10)])
    assert [dict(label.grades) for label in later] == [{"d": 2.0}]


def test_further_pages_of_one_answer_continue_its_ranks() -> None:
    further = question("rotate the keys", "a", "i", at=5, continued=True)
    assert only([question(), further], [use("i")]).grades == {"i": 3.0}


def test_counts_are_averaged_over_all_times_that_a_question_was_asked() -> None:
    asked = [question("Rotate  the keys"), question("rotate the KEYS", at=3_600), question("rotate the keys", at=7_200)]
    label = only(asked, [use("d"), use("a", at=7_210)])
    assert label.asked == 3
    assert label.grades == {"d": pytest.approx(2 / 3), "a": pytest.approx(1 / 3)}


def test_one_host_that_repeats_a_question_a_thousand_times_is_one_question() -> None:
    asked = [question(at=1_000 * number) for number in range(1_000)]
    label = only(asked, [use("d", at=1_000 * number + 10) for number in range(1_000)])
    assert label.weight == pytest.approx(2.0)


def test_the_same_words_about_another_directory_are_another_question() -> None:
    found = labels([question(), question(path="guides", at=1_000)], [use("a"), use("a", at=1_010)])
    assert len(found) == 2


def test_a_question_about_a_place_is_not_a_label() -> None:
    assert labels([question(route="navigation")], [use("d")]) == []


def test_pages_of_untrusted_sources_are_marked() -> None:
    assert only([question()], [use("d", untrusted=True), use("e", at=20)]).untrusted == {"d"}


def test_events_in_any_order_make_the_same_labels() -> None:
    asked = [question(), question("other", at=700)]
    uses = [use("d"), use("c", at=705)]
    assert labels(asked[::-1], uses[::-1]) == labels(asked, uses)
