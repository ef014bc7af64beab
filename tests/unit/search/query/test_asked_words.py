"""The words of a question as its reader sees them: compounds, runs without spaces, and what of them is missing."""

from __future__ import annotations

import pytest

from knowledge.search.query.analysis import words
from knowledge.search.query.asked_words import AskedWord, asked_words, share_of


def asked(query: str) -> tuple[AskedWord, ...]:
    return asked_words(query, frozenset(words(query)))


def lacking(query: str, *having: str) -> list[str]:
    there = dict.fromkeys(having, 1.0)
    return [name for word in asked(query) for name in word.lacking(there)]


def test_a_compound_is_one_word_and_it_or_its_parts_suffice() -> None:
    (word,) = asked("GitHub")
    assert word == AskedWord("GitHub", ("github", "git", "hub"))
    assert lacking("GitHub", "github") == []
    assert lacking("GitHub", "git", "hub") == []
    assert lacking("GitHub", "git") == ["GitHub"]
    assert share_of(word.terms, {"git": 1.0}) == 0.5


def test_a_stop_word_and_a_repeated_word_are_left_out() -> None:
    assert [word.written for word in asked_words("the keys of the Keys", {"keys"})] == ["keys"]


@pytest.mark.parametrize(
    ("query", "having", "names"),
    [
        ("給料日", ["給", "給料", "料", "日"], ["給料日"]),
        ("給料日はいつですか", ["日", "いつ"], ["給料日"]),
        ("コンポーザブルとは何ですか", ["コン", "ンポ", "ポー", "何"], ["コンポーザブル"]),
        ("ファイルを送る", ["ファ", "ァイ", "イル", "送", "る"], []),
        ("数据库连接池的大小", ["数", "数据", "据库", "大", "大小"], ["库连接池的大"]),
        ("블로그 목록", ["블로", "로그", "블", "그"], ["목록"]),
        ("鍵", [], ["鍵"]),
    ],
)
def test_what_a_run_lacks_is_named_as_words_and_not_as_its_pieces(
    query: str, having: list[str], names: list[str]
) -> None:
    assert lacking(query, *having) == names


def test_thai_is_named_by_its_pieces() -> None:
    (word,) = asked("กุญแจ")
    assert word.lacking({}) == list(word.terms)


def test_windows_are_what_a_text_with_the_word_has() -> None:
    assert [list(word.windows()) for word in asked("給料日はいつ")] == [["給料日"]]
    assert [list(word.windows()) for word in asked("설정파일을 읽기")] == [["설정파"], []]  # endings change
    assert [list(word.windows()) for word in asked("GitHub keys")] == [[], []]
