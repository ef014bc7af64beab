from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.pages.markdown.language import STOP_WORDS
from knowledge.search.query import analysis
from knowledge.search.query.analysis import (
    Analyzer,
    beginning,
    folded_in_place,
    forget_words,
    is_stop_word,
    remember_words,
    remembered_words,
    stem,
    toned,
    words,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The Quick, brown fox!", ["the", "quick", "brown", "fox"]),
        ("foo_bar foo-bar", ["foo_bar", "foo", "bar", "foo-bar", "foo", "bar"]),
        (
            "v1.2 camelCase HTMLParser",
            ["v1.2", "v1", "2", "camelcase", "camel", "case", "htmlparser", "html", "parser"],
        ),
        ("CSVs dumpURLs IDs", ["csvs", "csv", "dumpurls", "dump", "url", "ids", "id"]),
        ("URLsToText macOS boss", ["urlstotext", "url", "to", "text", "macos", "mac", "os", "boss"]),
        ("getIDsOf DNSsec", ["getidsof", "get", "id", "of", "dnssec", "dn", "ssec"]),
        ("__init__ _x_ _ **b**", ["init", "x", "b"]),
        ("C++ and C#; page#top", ["c++", "c", "and", "c#", "c", "page", "top"]),
        ("don't l'été", ["don", "t", "l", "été"]),
        ("\uff21\uff22\uff23 ﬁne Straße İx", ["abc", "fine", "strasse", "ix"]),
        ("知識ベ", ["知", "知識", "識", "識ベ", "ベ"]),
        ("v2知識 ok", ["v2", "知", "知識", "識", "ok"]),
        ("हिन्दी", ["हिन्दी"]),
        ("x" * 65 + " " + "y" * 64, ["y" * 64]),
        ("", []),
    ],
)
def test_words(text: str, found: list[str]) -> None:
    assert words(text) == found


@given(st.text(max_size=200))
def test_words_are_folded_short_and_found_again_by_themselves(text: str) -> None:
    for word in words(text):
        assert 0 < len(word) <= 64
        assert not any(c.isspace() for c in word)
        assert word == word.casefold() or not word.isascii()
        assert word in words(word)


def test_the_same_text_in_other_forms_gives_the_same_words() -> None:
    assert words("Cafe\u0301") == words("caf\u00e9") == words("CAFÉ")


def test_terms_are_stems_without_stop_words_and_accents() -> None:
    assert Analyzer("en").terms("The searched searches of cafés") == ["search", "search", "cafe"]
    assert stem("cafés", "fr") == stem("cafe", "fr")
    assert stem("häuser", "de") == stem("haus", "de")


@pytest.mark.parametrize("language", sorted(STOP_WORDS))
def test_no_word_has_an_empty_stem(language: str) -> None:
    """A search for one would never end: `API'leri` is `api` and `leri`, of which the Turkish stemmer leaves nothing."""
    short = {
        *"aeinrst",
        "leri",
        "lar\u0131",
        "ler",
        "lar",
        "s",
        "es",
        "en",
        "ing",
        "ed",
        "sch",
        "nin",
        *STOP_WORDS[language],
    }
    assert [word for word in short if not stem(word, language)] == []


def test_an_unknown_language_keeps_words_as_they_are() -> None:
    assert Analyzer("").terms("the searches") == ["the", "searches"]
    assert Analyzer("xx").terms("été") == ["ete"]


@given(st.sampled_from([*STOP_WORDS, "", "xx"]), st.text(max_size=100))
def test_a_question_stems_as_its_answer(language: str, text: str) -> None:
    analyzer = Analyzer(language)
    expected = [stem(word, language) for word in words(text) if not is_stop_word(word, [language])]
    assert analyzer.terms(text) == expected
    assert all(expected)


def test_a_vietnamese_word_is_indexed_with_its_tone_and_without() -> None:
    found = "co so du lieu linux cơ sở dữ liêụ"
    assert analysis.analyzer("vi").indexed_terms("Cơ sở dữ liệu Linux") == found.split()
    assert analysis.analyzer("vi").terms("cơ sở") == ["co", "so"]
    assert {toned(word, "vi") for word in ("hòa", "hoà", "ho\u0300a")} == {"hoà"}
    assert len({toned(word, "vi") for word in ("ma", "má", "mà", "mả", "mã", "mạ", "mâ")}) == 7
    assert {toned("été", language) for language in {*STOP_WORDS, ""} - {"vi"}} == {""}


def test_words_are_also_indexed_by_their_beginning_in_languages_with_endings() -> None:
    mark = beginning("verschlüsselung", "de").removeprefix("versc")
    assert analysis.analyzer("de").indexed_terms("Die Verschlüsselung von 数据 bis 1000000, K8s-Cluster") == [
        *analysis.analyzer("de").terms("Verschlüsselung 数据 bis 1000000 K8s-Cluster"),
        *(f"{word}{mark}" for word in ("versc", "clust")),
    ]
    # A beginning is no word, and is written as people type it.
    assert words(f"versc{mark}") != ["versc"]
    assert beginning("şifreleme", "tr") == beginning("sifrelenir", "tr") != ""
    assert beginning("कार्यक्रम", "hi") != ""
    assert beginning("haus", "de") == beginning("verschlüsselung", "vi") == beginning("verschlüsselung", "") == ""
    text = "été Zürich cơ sở żółć Ελλάδα море قاعدة 数据 the"
    for language in ("", "en", "id", "zh", "ja", "ko", "th", "he"):
        assert analysis.analyzer(language).indexed_terms(text) == analysis.analyzer(language).terms(text)


def test_russian_letters_keep_their_marks() -> None:
    assert "й" in stem("край", "xx")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ที่จอดรถ", ["ที่จ", "ที่จอ", "จอ", "จอด", "อด", "อดร", "ดร", "ดรถ", "รถ"]),
        ("ລົດ ໄຟ", ["ລົດ", "ໄຟ"]),
        ("ទឹក", ["ទឹ", "ទឹក", "ក"]),
        ("ស្ត្រី", ["ស្ត្រី"]),
        ("မြန်မာ", ["မြ", "မြန်", "န်", "န်မာ", "မာ"]),
        ("ก", ["ก"]),
        ("\uff76\uff9e\uff72\uff84\uff9e", ["ガ", "ガイ", "イ", "イド", "ド"]),
        (
            "サーバーserver再起動",
            ["サ", "サー", "ー", "ーバ", "バ", "バー", "ー", "server", "再", "再起", "起", "起動", "動"],
        ),
        ("co\u00adoperate क्\u200dष", ["cooperate", "क्ष"]),
    ],
)
def test_scripts_without_blanks_are_cut_by_letters_with_their_marks(text: str, found: list[str]) -> None:
    """kb/decisions/0015: what found most in the judged sets of tests/benchmarks/languages."""
    assert words(text) == found


@pytest.mark.parametrize(
    ("pointed", "plain", "language"),
    [
        ("כָּתַב", "כתב", "he"),
        ("مُحَمَّدٌ", "محمد", "ar"),
        ("كتـــاب", "كتاب", "ar"),
        ("أحمد", "احمد", ""),
        ("کتاب", "كتاب", "fa"),
        ("सड़क", "सडक", "hi"),
        ("café", "cafe", "fr"),
        ("żółć", "zolc", "pl"),
    ],
)
def test_marks_that_few_people_type_make_no_other_term(pointed: str, plain: str, language: str) -> None:
    [written] = words(pointed)
    assert stem(written, language) == stem(plain, language)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("བོད་ཡིག་གི་སྐད་ཡིག་ནི།", ["བོད", "ཡིག", "གི", "སྐད", "ཡིག", "ནི"]),
        ("རྫོང་ཁ ༡༢", ["རྫོང", "ཁ", "༡༢"]),
        ("ދިވެހި ބަސް", ["ދިވެހި", "ބަސް"]),
        ("ܡܶܠܬܳܐ ߞߊ߲", ["ܡܶܠܬܳܐ", "ߞߊ߲"]),
        ("ꦧꦱꦗꦮꦶ ᮘᮞᮥᮔ᮪ᮓ", ["ꦧꦱꦗꦮꦶ", "ᮘᮞᮥᮔ᮪ᮓ"]),
        ("ꯃꯩꯇꯩꯂꯣꯟ 𑄌𑄋𑄴𑄟𑄳𑄦", ["ꯃꯩꯇꯩꯂꯣꯟ", "𑄌𑄋𑄴𑄟𑄳𑄦"]),
        ("ኢትዮጵያ፡በአፍሪካ፡ቀንድ", ["ኢትዮጵያ", "በአፍሪካ", "ቀንድ"]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा"]),
    ],
)
def test_a_word_keeps_its_marks_and_ends_at_the_signs_of_its_script(text: str, found: list[str]) -> None:
    """Tibetan clauses were one word each, and other scripts were cut to single letters."""
    assert words(text) == found


def test_vowel_signs_that_are_letters_stay() -> None:
    assert stem("की", "") != stem("का", "")
    assert stem("ที่", "th") != stem("ที", "th")


def test_stop_words_are_words() -> None:
    for listed in STOP_WORDS.values():
        for word in listed:
            assert words(word) == [word]
    assert is_stop_word("der")
    assert not is_stop_word("die", ["en"])
    assert not is_stop_word("journey")


@given(st.lists(st.text(max_size=30), max_size=8), st.sampled_from([" ", "\n", "\u00a0", "\u3000", "\x1c"]))
def test_no_word_reaches_over_a_blank(parts: list[str], blank: str) -> None:
    assert words(blank.join(parts)) == [word for part in parts for word in words(part)]


def test_a_full_memory_changes_no_words_and_no_stems(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(f"running{n} walks foo_{n}, Words{n % 3}." for n in range(40))
    found, terms = words(text), Analyzer("en").terms(text)
    monkeypatch.setattr("knowledge.search.query.analysis._words_of_runs._most", 8)
    monkeypatch.setattr(analysis._stems("en"), "_most", 8)
    assert words(text) == found
    assert Analyzer("en").terms(text) == terms


def test_kept_words_are_the_words_and_only_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge.search.query.analysis.MOST_REMEMBERED", 20)
    forget_words()
    texts = ["one Two three", "four Five six", "x" * 30]
    assert [list(remember_words(text)) for text in texts] == [words(text) for text in texts]
    kept = remember_words(texts[1])
    assert remembered_words(texts[1]) is kept
    assert remembered_words(texts[0]) is not remembered_words(texts[0])
    forget_words()
    assert remembered_words(texts[1]) is not kept


SIGNS = "a\u0301\u00a0\u2026\uff08\uff09\uff1a\uff01\uff1f\uff0c\uff0e\uff0b\u00ad\u200d"


@given(st.text(st.characters(codec="utf-8") | st.sampled_from(SIGNS), max_size=60))
def test_words_are_those_of_the_normalised_text(text: str) -> None:
    plain = unicodedata.normalize("NFKC", text.replace("\u00ad", "").replace("\u200d", ""))
    assert words(text) == words(plain)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Mise à\u00a0Jour : l\u2019été…", "mise à\u00a0jour : l\u2019été…"),
        ("設定\uff08ファイル\uff09", "設定\uff08ファイル\uff09"),
        ("Straße", None),  # one letter becomes two
        ("Cafe\u0301", None),  # two become one
        ("\uff26ull", None),
        ("auto\u00admatisch", None),
        ("\u1112\u1161\u11ab", None),
    ],
)
def test_a_text_is_folded_in_place_only_if_its_words_stand_in_it(text: str, folded: str | None) -> None:
    assert folded_in_place(text) == folded
