"""Measures of whether texts say anything: honest ones in many forms and languages, and idle ones."""

# ruff: noqa: RUF001 - letters of other scripts that look like Latin ones are meant
from __future__ import annotations

import pytest

from agents.engine.evidence.substance import (
    emptiness,
    idle_answer,
    in_common,
    repetitions,
    same_words,
    telling,
)

TOLD = "Write one insight for each category: two to five sentences that go beyond any single answer."
STORED = "In winter the bees form a cluster and eat about 15 kilograms of stored honey."
HONEST = [
    "15",
    "2026-03-31",
    "Redis",
    "SQL",
    "C++ 20",
    "Who does what, and when",
    "`rm -rf build/`",
    "x = y ** 2 + 1",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "12 passed",
    "Duran Duran",
    "Nein, erst im Oktober.",
    "Evet, 35 gün saklanır.",
    "保留三十五天。",
    "はい、三十五日間です。",
    "Да, тридцать пять дней.",
    "नहीं, केवल अक्टूबर में",
    "เก็บไว้สามสิบห้าวัน",
    "Yes: the alarm goes to the shift that is on call.",
    "No. The page says that only owners may delete it.",
    "a && (b || c)",
    "The same as in 2019, because nobody changed it.",
]


@pytest.mark.parametrize("text", HONEST)
def test_short_texts_numbers_code_tables_and_every_script_say_something(text: str) -> None:
    assert emptiness(text, name="summary", told=TOLD) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("...", "no word"),
        ("🙂", "no word"),
        ("x", "is only 'x'"),
        ("ok", "is only 'ok'"),
        ("Yes.", "is only 'Yes.'"),
        ("So it is.", "is only"),
        ("Evet.", "is only"),
        ("是。", "is only"),
        ("n/a", "is only"),
        ("TODO", "is only"),
        ("done done done", "over and over|is only"),
        ("blah blah blah blah", "over and over"),
        ("aaaaaaaaaa", "over and over"),
        ("The backup is kept. " * 8, "over and over"),
        ("Lorem ipsum dolor sit amet, consectetur adipiscing elit", "placeholder"),
        ("summary", "name of its field"),
        ("two to five sentences that go beyond any single answer", "copied from the instructions"),
        ("Write one insight for each category", "copied from the instructions"),
    ],
)
def test_fillers_repetitions_placeholders_and_copies_say_nothing(text: str, why: str) -> None:
    """Issue 25.3: `Yes.`, `x`, `ok`, lorem ipsum, the prompt copied."""
    found = emptiness(text, name="summary", told=TOLD)
    assert any(part in found for part in why.split("|")), found


@pytest.mark.parametrize(
    ("answer", "question", "quote"),
    [
        ("About 15 kilograms.", "How much honey do bees eat in winter?", STORED),
        ("15", "How many kilograms do they eat?", STORED),
        ("A cluster", "What do bees form in winter?", STORED),
        ("Yes: they eat stored honey.", "Do bees eat in winter?", STORED),
        ("Winter food is honey.", "Winter food?", STORED),
        (
            "Der Bestand wird im Winterlager geprüft.",
            "Wo wird der Bestand geprüft?",
            "Das Lager prüft im Winter den Bestand.",
        ),
        (
            "Yedekler otuz beş gün saklanır.",
            "Yedekler kaç gün saklanır?",
            "Yedeklerin saklanma süresi otuz beş gündür.",
        ),
        ("保留三十五天。", "备份保留多久？", "备份会保留三十五天，然后自动删除。"),
        ("vier", "Wie viele Bälle fing er ab?", "Er fing vier Bälle ab."),
        # A question may be asked and answered in another language than that of the page.
        ("Они едят мёд, и это всё, что у них есть.", "Что едят пчёлы зимой?", STORED),
        ("Sie fressen eingelagerten Honig, wie der Text sagt.", "Was fressen die Bienen im Winter?", STORED),
    ],
)
def test_an_honest_answer_says_what_its_quote_says(answer: str, question: str, quote: str) -> None:
    assert idle_answer(answer, [quote], question=question, around=quote) == ""


@pytest.mark.parametrize(
    ("answer", "question", "quotes", "why"),
    [
        ("Yes.", "Do bees eat in winter?", [STORED], "is only 'Yes.'"),
        ("How much honey do bees eat in winter?", "How much honey do bees eat in winter?", [STORED], "only repeats the question"),
        ("How much do bees eat in winter is in the quote.", "How much do bees eat in winter?", [STORED], "no word in common"),
        ("The mayor decides about the budget.", "Who decides about the budget?", [STORED], "no word in common"),
        ("They eat 15 kilograms.", "How much do they eat?", [STORED, "The garden lies behind the old brewery."], "quote number 2"),
        ("A cluster of stored honey.", "Which port does the server use?", [STORED], "no word of its question"),
    ],
)  # fmt: skip
def test_an_idle_answer_is_named_with_what_would_do(answer: str, question: str, quotes: list[str], why: str) -> None:
    assert why in idle_answer(answer, quotes, question=question, around="\n".join(quotes))


def test_words_are_the_same_with_another_ending_or_inside_a_compound_but_numbers_are_not() -> None:
    assert in_common(telling("Winterfutter"), telling("das Futter"))
    assert in_common(telling("arıların"), telling("arılar"))
    assert in_common(telling("kilo"), telling("kilograms"))
    assert not in_common(telling("15"), telling("150"))
    assert not in_common(telling("bees"), telling("beer tax"))


def test_texts_with_the_same_words_say_the_same_in_whatever_order() -> None:
    assert same_words("Use Redis.", "REDIS use")
    assert not same_words("Keep 7 days", "Keep 14 days")
    assert not same_words("Use Go", "Use C")


def test_equal_answers_to_different_questions_need_a_reason() -> None:
    other = "The varroa mite is the main cause of winter losses."
    same = [("q1", "15 kilograms of honey", [STORED]), ("q2", "Honey, 15 kilograms of", [other])]
    assert "q2 has the same answer as q1" in next(repetitions(same))
    named = [same[0], ("q2", "15 kilograms of honey, as in q1: both ask for the stores.", [STORED])]
    assert list(repetitions(named)) == []


def test_one_quote_may_answer_two_questions_if_each_takes_something_else_from_it() -> None:
    assert list(repetitions([("q1", "About 15 kilograms.", [STORED]), ("q2", "A cluster.", [STORED])])) == []
    idle = [("q1", "They have honey then.", [STORED]), ("q2", "It is honey of course.", [STORED])]
    assert "same words of the same quotes" in next(repetitions(idle))
