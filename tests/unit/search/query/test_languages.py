"""When a question is in another language than the pages, and when that is not certain enough to say so."""

from __future__ import annotations

import pytest

from knowledge.pages.markdown.language import QUESTION_WORDS, STOP_WORDS
from knowledge.search.query.analysis import beginning, toned, words
from knowledge.search.query.languages import (
    BY_BEGINNING,
    WITHOUT_TONE,
    LanguageGap,
    language_gap,
    may_be_foreign,
    question_languages,
)

ENGLISH = {"en": 100}
KNOWN = frozenset({"the", "of", "a", "is", "in", "payment", "service", "deploy", "queue", "linux", "kernel", "die"})


def gap(query: str, documents: dict[str, int], known: frozenset[str] = KNOWN) -> LanguageGap | None:
    asked = list(dict.fromkeys(words(query)))
    if not may_be_foreign(query, documents):
        return None
    return language_gap(query, documents, asked, known=known.intersection(asked))


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("Wie setze ich den Zahlungsdienst nach einem Fehler zurück?", "de"),
        ("¿Cómo se despliega el servicio de pagos?", "es"),
        ("как развернуть службу платежей на сервере", ""),
        ("Сервер сохраняет копию, и она хранится на диске", "ru"),
        ("支付服务如何部署", "zh"),
        ("كيف يتم نشر خدمة الدفع", "ar"),
        ("Wie starte ich den Linux Kernel neu?", "de"),
    ],
)
def test_a_question_in_a_language_of_no_page_is_foreign(query: str, language: str) -> None:
    assert gap(query, ENGLISH) == LanguageGap(language, ("en",))


@pytest.mark.parametrize("query", ["one-to-one observation, who approves it", "one to one", "one day to go"])
def test_english_words_that_are_polish_ones_too_show_nothing_if_pages_have_them(query: str) -> None:
    assert gap(query, ENGLISH, known=frozenset(words(query))) is None


@pytest.mark.parametrize(
    "query",
    [
        "How is the payment service deployed?",
        "payment service",
        "kubectl --namespace=default rollout",
        "Las Palmas",
        "Anna Kowalska",
        "ERR_CONNECTION_RESET 0x80070005",
        "die in the queue of a service",
        "",
        "42",
    ],
)
def test_english_names_and_identifiers_are_not_foreign_to_english_pages(query: str) -> None:
    assert gap(query, ENGLISH) is None


@pytest.mark.parametrize(
    "documents",
    [
        {"en": 90, "de": 10},  # some pages are in it
        {"": 100},  # nothing is known of the pages
        {"en": 20, "": 80},
        {},
    ],
)
def test_a_question_is_foreign_only_to_pages_whose_languages_are_known_and_others(documents: dict[str, int]) -> None:
    assert gap("Wie setze ich den Zahlungsdienst nach einem Fehler zurück?", documents) is None


def test_chinese_characters_may_be_japanese_if_some_pages_are() -> None:
    assert gap("銀行口座", {"ja": 90, "en": 10}) is None
    found = gap("銀行の口座を開く", {"zh": 90, "en": 10})
    assert found is not None
    assert found.asked == "ja"


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("¿Cómo puedo configurar CORS?", "es"),
        ("Comment déployer sur Netlify ?", "fr"),
        ("Comment utiliser Netlify avec le kernel ?", "fr"),
    ],
)
def test_words_that_only_ask_show_the_language_of_a_short_question(query: str, language: str) -> None:
    found = gap(query, ENGLISH, KNOWN | {"netlify", "cors"})
    assert found is not None
    assert found.asked == language


def test_an_english_question_is_foreign_to_pages_in_another_script_although_these_have_its_words() -> None:
    every = frozenset(words("how do i upload a file to the service"))
    found = gap("How do I upload a file to the service?", {"ja": 100}, every)
    assert found is not None
    assert found.asked == "en"


def test_a_few_misdetected_pages_are_not_pages_in_a_language() -> None:
    found = gap("Wie setze ich den Zahlungsdienst nach einem Fehler zurück?", {"en": 995, "de": 5})
    assert found == LanguageGap("de", ("en",))


def test_a_question_whose_words_the_pages_have_is_not_foreign_whatever_its_language_seems_to_be() -> None:
    """Short questions are often taken for a related language: 9 of 400 French ones for Catalan or Romanian."""
    query = "Qui a inscrit les buts de la rencontre Inter - Genoa ?"
    assert gap(query, {"fr": 50}, known=frozenset(words(query))) is None


def test_characters_that_two_languages_share_do_not_tell_them_apart() -> None:
    assert gap("東京大学", {"ja": 50}, known=frozenset()) is None


def test_a_vietnamese_word_is_searched_with_its_tone_and_less_without() -> None:
    stems = question_languages("Thủ tướng thăm Hà Nội vào ngày nào", {"vi": 9}).stems
    assert stems("tướng") == {toned("tướng", "vi"): 1.0, "tuong": WITHOUT_TONE}
    assert stems("tuong") == {"tuong": 1.0}
    # Pages of other languages have the word without its tone only.
    assert question_languages("How is a café opened?", {"en": 9, "vi": 1}).stems("café")["cafe"] == 1.0


def test_a_word_with_endings_is_searched_by_its_beginning_too_and_less() -> None:
    stems = question_languages("Wie wird die Verschlüsselung der Daten eingeschaltet?", {"de": 9}).stems(
        "verschlüsselung"
    )
    assert stems == {"verschlussel": 1.0, beginning("verschlüsselung", "de"): BY_BEGINNING}
    assert "verschlusselt" not in stems
    assert beginning("verschlüsselt", "de") in stems
    assert question_languages("How is encryption enabled?", {"en": 9}).stems("encryption") == {"encrypt": 1.0}


@pytest.mark.parametrize(
    ("query", "language", "left"),
    [
        ("Combien de copies de la base sont gardées ?", "fr", ["copies", "base", "gardées"]),
        ("Welche Sicherung wird wann gelöscht?", "de", ["sicherung", "gelöscht"]),
        ("Jakie kopie są usuwane i dlaczego?", "pl", ["kopie", "usuwane"]),
        ("Какие копии удаляет сервер?", "ru", ["копии", "удаляет", "сервер"]),
        ("Hangi yedek silinir?", "tr", ["yedek", "silinir"]),
    ],
)
def test_words_that_only_ask_are_left_out_of_a_question(query: str, language: str, left: list[str]) -> None:
    read = question_languages(query, {language: 100})
    assert [word for word in words(query) if not read.is_stop_word(word) and len(word) > 1] == left


def test_a_question_word_counts_where_the_question_may_be_in_another_language() -> None:
    both = {"en": 60, "fr": 40}
    assert not question_languages("comment moderation", both).is_stop_word("comment")
    assert question_languages("Comment est-ce que l'on modère dans le forum ?", both).is_stop_word("comment")
    assert not question_languages("How is a comment moderated in the forum?", both).is_stop_word("comment")


def test_no_question_word_is_a_stop_word_too() -> None:
    assert not [word for language, asking in QUESTION_WORDS.items() for word in asking & STOP_WORDS[language]]


def test_each_question_word_is_one_word_of_a_question() -> None:
    """A word in another form than `words` returns would never be met."""
    assert [word for asking in QUESTION_WORDS.values() for word in asking if words(word) != [word]] == []
