"""Which words of the question a chunk contains, and that ranking uses this."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from knowledge.index.ports import QueryTerm
from knowledge.pages.markdown.language import STOP_WORDS
from knowledge.search.query.analysis import beginning, stem, toned
from knowledge.search.query.question import SearchQuestion
from knowledge.search.query.term_match import KEEPS_FRONTS, TermMatcher, first_letter
from knowledge.search.ranking.ranker import Ranking, boost_coverage
from knowledge.search.ranking.weights import RankingWeights
from knowledge.state.ports import ChunkRow

TERMS = (
    QueryTerm("rotating", (("rotat", 1.0),)),
    QueryTerm("secrets", (("secret", 1.0),)),
    QueryTerm("valt", (("valt", 1.0), ("vault", 0.9))),
)

PAIRS = (("rotating", "secrets"), ("secrets", "valt"))


def row(seq: int, text: str, *section: str, title: str = "", language: str = "en") -> ChunkRow:
    return ChunkRow(
        seq, seq, 0, section, 1, 1, text, f"{seq}.md", title, "r", "", untrusted=False, language=language, modified_ns=0
    )


def test_words_are_found_by_their_stems_in_text_headings_and_title_with_the_weight_of_the_form() -> None:
    said = TermMatcher(TERMS).match(row(1, "We rotate them.", "The vault", title="Secrets"))
    assert said.words == {"rotating": 1.0, "secrets": 1.0, "valt": 0.9}
    assert TermMatcher(TERMS).match(row(1, "A secretary, rotors and avault.")).words == {}


def test_a_word_with_another_tone_counts_less_than_the_word() -> None:
    asked = [QueryTerm("tướng", ((toned("tướng", "vi"), 1.0), ("tuong", 0.4)))]
    assert TermMatcher(asked).match(row(1, "Thủ tướng", language="vi")).words == {"tướng": 1.0}
    assert TermMatcher(asked).match(row(1, "Tương lai", language="vi")).words == {"tướng": 0.4}
    assert TermMatcher(asked).match(row(1, "Thu tuong", language="vi")).words == {"tướng": 0.4}


def test_of_chunks_that_are_nearly_as_good_the_one_that_says_more_comes_first() -> None:
    rows = {1: row(1, "Secrets."), 2: row(2, "Rotating secrets in the vault."), 3: row(3, "Named.")}
    scores = {1: 0.99, 2: 0.9, 3: 1.0}
    question = SearchQuestion(("rotating", "secrets", "valt"), TERMS, "", None)
    found = boost_coverage(Ranking((3, 1, 2), rows, scores, (), (), frozenset({3}), ()), question, best=(3, 1, 2))
    assert found.ranked == (3, 2, 1)
    assert found.scores[3] == 1.0 > found.scores[2] == 0.99 > found.scores[1] > 0


def test_what_is_far_better_stays_first() -> None:
    rows = {1: row(1, "Nothing."), 2: row(2, "Rotating secrets in the vault.")}
    question = SearchQuestion(("rotating", "secrets", "valt"), TERMS, "", None)
    found = boost_coverage(Ranking((1, 2), rows, {1: 0.99, 2: 0.5}, (), (), frozenset(), ()), question, best=(1, 2))
    assert found.ranked == (1, 2)


def test_the_weights_decide_how_far_words_and_neighbours_move_a_chunk() -> None:
    rows = {
        1: row(1, "Nothing."),
        2: row(2, "The vault is rotating old secrets."),
        3: row(3, "Rotating the secrets."),
    }
    question = SearchQuestion(("rotating", "secrets", "valt"), TERMS, "", None, PAIRS)
    before = Ranking((1, 2, 3), rows, {1: 0.99, 2: 0.9, 3: 0.7}, (), (), frozenset(), ())

    def order(*, coverage: float, pairs: float) -> Sequence[int]:
        weights = RankingWeights(coverage=coverage, pairs=pairs)
        return boost_coverage(before, question, weights, best=(1, 2, 3)).ranked

    assert order(coverage=0.0, pairs=0.0) == (1, 2, 3)
    assert order(coverage=0.2, pairs=0.0) == (2, 1, 3)
    assert order(coverage=0.0, pairs=0.8) == (3, 1, 2)


@pytest.mark.parametrize(
    ("text", "language", "share"),
    [
        ("Rotate secrets of a vault.", "en", 1.0),
        ("Rotate: secrets/vault.", "en", 1.0),
        ("The rotating of the secrets", "en", 0.5),
        ("Secrets rotate, vaults do not.", "en", 0.0),
        ("Rotate old secrets.", "en", 0.0),
        ("Rotate old secrets.", "", 0.0),
        # A letter outside ASCII: the text is taken apart into words.
        ("Rotate the secrets, naïvely.", "en", 0.5),
        ("Rotate naïve secrets.", "en", 0.0),
        ("", "en", 0.0),
    ],
)
def test_neighbours_in_the_question_are_found_beside_each_other_but_for_stop_words(
    text: str, language: str, share: float
) -> None:
    assert TermMatcher(TERMS, PAIRS).match(row(1, text, language=language)).pairs == share


def test_a_question_without_pairs_has_no_share_of_them() -> None:
    assert TermMatcher(TERMS).match(row(1, "Rotate secrets.")).pairs == 0.0


def test_a_passage_with_another_form_of_a_word_has_it_but_less() -> None:
    begun = beginning("verschlüsselung", "de")
    asked = [QueryTerm("verschlüsselung", (("verschlussel", 1.0), (begun, 0.6)))]
    assert TermMatcher(asked).match(row(1, "Alles wird verschlüsselt.", language="de")).words == {
        "verschlüsselung": 0.6
    }
    assert TermMatcher(asked).match(row(1, "Die Verschlüsselung.", language="de")).words == {"verschlüsselung": 1.0}
    # In a text of plain letters, too.
    asked = [QueryTerm("einstellung", (("einstell", 1.0), (beginning("einstellung", "de"), 0.6)))]
    assert TermMatcher(asked).match(row(1, "Das ist einstellbar.", language="de")).words == {"einstellung": 0.6}
    assert TermMatcher(asked).match(row(1, "Das steht fest.", language="de")).words == {}


@pytest.mark.parametrize(
    ("text", "language", "share"),
    [
        ("La mise à jour du serveur", "fr", 1.0),
        ("La mise très tardive à jour", "fr", 0.0),
        ("Обновление и настройка", "ru", 1.0),
    ],
)
def test_stop_words_with_letters_outside_ascii_stand_between_neighbours_too(
    text: str, language: str, share: float
) -> None:
    asked = {
        "fr": [QueryTerm("mise", (("mis", 1.0),)), QueryTerm("jour", (("jour", 1.0),))],
        "ru": [QueryTerm("обновление", (("обновлен", 1.0),)), QueryTerm("настройка", (("настройк", 1.0),))],
    }[language]
    pairs = [(asked[0].word, asked[1].word)]
    assert TermMatcher(asked, pairs).match(row(1, text, language=language)).pairs == share


@pytest.mark.parametrize(
    ("text", "language", "found"),
    [
        ("東京都の設定ファイル", "ja", {"東京", "設定"}),
        ("設‍定", "ja", {"設定"}),
        ("東に京", "ja", set()),
        ("The page is called 設定.", "en", {"設定"}),
        ("设置文件", "zh", set()),
    ],
)
def test_letters_in_a_row_are_found_in_texts_without_spaces(text: str, language: str, found: set[str]) -> None:
    asked = [QueryTerm(word, ((word, 1.0),)) for word in ("東京", "設定")]
    assert TermMatcher(asked).match(row(1, text, language=language)).words.keys() == found


def test_words_are_found_between_letters_of_a_script_without_spaces() -> None:
    asked = [QueryTerm("settings", (("set", 1.0),)), QueryTerm("設定", (("設定", 1.0),))]
    asked.append(QueryTerm("vault", (("vault", 1.0),)))
    found = TermMatcher(asked, [("settings", "vault")]).match(row(1, "設定(Settings)を開く vault", language="en"))
    assert found.words == {"settings": 1.0, "設定": 1.0, "vault": 1.0}
    assert found.pairs == 0.0, "the run between the two is a word"


def test_a_sign_that_belongs_to_the_letter_before_makes_another_word() -> None:
    """A Thai vowel sign may follow two letters; then they are a part of another word."""
    asked = [QueryTerm("กา", (("กา", 1.0),))]
    assert TermMatcher(asked).match(row(1, "กา", language="th")).words == {"กา": 1.0}
    asked = [QueryTerm("กน", (("กน", 1.0),))]
    assert TermMatcher(asked).match(row(1, "กนิ", language="th")).words == {}


def test_a_word_is_found_although_its_stem_begins_in_another_way() -> None:
    arabic = stem("كتاب", "ar")
    asked = [QueryTerm("كتاب", ((arabic, 1.0),))]
    assert stem("الكتاب", "ar") == arabic
    assert TermMatcher(asked).match(row(1, "هذا الكتاب", language="ar")).words == {"كتاب": 1.0}


@pytest.mark.parametrize("language", sorted(KEEPS_FRONTS - {""}))
def test_in_most_languages_stems_begin_as_the_words_do(language: str) -> None:
    """By its first letter `TermMatcher` leaves out most words of a text in these languages."""
    for word in STOP_WORDS[language]:
        assert stem(word, language)[:1] in {first_letter(word[:1]), ""}, word


def test_the_parts_of_an_identifier_are_found_as_by_the_search() -> None:
    words = ("uniquefunction", "unique", "function", "silver", "quefunc")
    asked = [QueryTerm(word, ((stem(word, "en"), 1.0),)) for word in words]
    matcher = TermMatcher(asked)
    said = matcher.match(row(1, "Call `veryUniqueFunction_silver` or uniqueFunction.", language=""))
    assert said.words == {"uniquefunction": 1.0, "unique": 1.0, "function": 1.0, "silver": 1.0}
    assert matcher.match(row(1, "Oblique functionary", language="")).words == {}


@pytest.mark.parametrize(
    ("asked", "text"), [("favourites", "my favorite"), ("color", "In colours."), ("center", "centred")]
)
def test_a_word_is_found_in_its_other_spelling(asked: str, text: str) -> None:
    term = QueryTerm(asked, ((stem(asked, "en"), 1.0),))
    assert TermMatcher([term]).match(row(1, text)).words == {asked: 1.0}
