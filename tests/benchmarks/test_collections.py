from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.benchmarks.collections import mistyped
from tests.benchmarks.collections_read import UnknownCollection, read
from tests.benchmarks.plain_search import Fts5, plain_words, snowball_words


def test_the_judgements_of_cranfield_count_queries_by_their_place(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "cran"
    folder.mkdir(parents=True)
    (folder / "cran.all.1400").write_text(
        ".I 1\n.T\na wing\n.A\n.B\n.W\nof air\n.I 2\n.T\nheat\n.W\nflow\n", encoding="utf-8"
    )
    (folder / "cran.qry").write_bytes(b".I 001\r\n.W\r\nwhat wing\r\n.I 004\r\n.W\r\nwhat\r\nheat\r\n")
    (folder / "cranqrel").write_text("1 1 2\n2 2 1\n2 1 -1\n", encoding="utf-8")
    found = read(tmp_path)
    assert found.queries == {"1": "what wing", "2": "what heat"}
    assert found.grades == {"1": {"1": 3.0}, "2": {"2": 4.0}}
    assert found.pages["1"].markdown == "# a wing\n\nof air\n"


def test_a_collection_in_the_form_of_beir_is_read(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "title": "", "text": "say"}\n', encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text(
        '{"_id": "q", "text": "ask"}\n{"_id": "r", "text": "no"}\n', encoding="utf-8"
    )
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t2\nr\td\t0\n", encoding="utf-8")
    found = read(tmp_path)
    assert (found.queries, found.grades) == ({"q": "ask"}, {"q": {"d": 2.0}})


def test_a_folder_without_a_collection_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnknownCollection, match=r"corpus\.jsonl"):
        read(tmp_path)


def test_a_typing_error_is_one_edit_in_a_long_word() -> None:
    chance = random.Random(3)
    for _ in range(200):
        wrong = mistyped("a wing of steel", chance)
        assert wrong != "a wing of steel"
        assert abs(len(wrong) - len("a wing of steel")) <= 1
        assert " of " in wrong
    assert mistyped("a b", chance) == "a b"


def test_plain_search_finds_the_text_that_has_more_of_the_words() -> None:
    table = Fts5({"wing": "A wing of steel.", "steel": "Steel, and steel again!", "air": "Only air"}, plain_words)
    assert table.search("steel wing", 10) == ["wing", "steel"]
    assert table.search("nothing", 10) == []


def test_plain_search_finds_other_endings_by_stems_and_no_stop_words() -> None:
    table = Fts5({"one": "Die Flügel brechen.", "other": "Der Wind"}, snowball_words("de"))
    assert table.search("gebrochene oder brechende Flügeln der", 10) == ["one"]
    assert Fts5({"one": "Đường dài"}, snowball_words("vi")).search("đường", 10) == ["one"]


def test_plain_search_finds_pairs_of_characters_in_scripts_without_spaces() -> None:
    table = Fts5({"one": "東京都は首都です。", "other": "京都"}, plain_words)
    assert plain_words("東京都 Tower") == ["東京", "京都", "tower"]
    assert table.search("首都", 10) == ["one"]
