"""Which questions say nothing but the name of a page or folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search.query.only_names import asks_what_exists, said_names


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("what's in the decisions folder", "decisions"),
        ("was ist im Ordner Entscheidungen", "Entscheidungen"),
        ("contents of guides/security", "guides/security"),
        ("the page about travel expenses", "travel expenses"),
        ("open the architecture overview", "architecture overview"),
        ("qué hay en la carpeta de seguridad", "seguridad"),
        ("go to the page called What we do", "What we do"),
        ("show me the file ./ui/editor.md", "ui/editor.md"),
        ("设置页面在哪里", "设置"),
        ("設定ページを開いて", "設定"),
    ],
)
def test_the_words_of_a_question_that_may_be_a_name_are_found(query: str, name: str) -> None:
    assert name in [said.name for said in said_names(query)]


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("guides", "any"),
        ("what's in guides", "any"),
        ("show the guides folder", "directory"),
        ("list guides", "directory"),
        ("show all guides", "directory"),
        ("which pages are in guides", "directory"),
        ("show the guides page", "document"),
        ("list the sections of the guides page", "document"),
    ],
)
def test_a_question_says_whether_it_is_for_a_page_or_a_folder(query: str, kind: str) -> None:
    assert {said.name: said.kind for said in said_names(query)}["guides"] == kind


@pytest.mark.parametrize(
    "query", ["list all pages", "show me everything", "what is in here", "welche Seiten gibt es?", "列出所有页面"]
)
def test_a_question_without_a_name_may_ask_for_all_there_is(query: str) -> None:
    assert asks_what_exists(query)


@pytest.mark.parametrize(
    "query", ["list files of a folder", "show files in list view", "index of a list", "list projects", ""]
)
def test_a_question_about_any_folder_or_list_does_not_ask_for_all_there_is(query: str) -> None:
    assert not asks_what_exists(query)


@given(st.text(max_size=200))
def test_any_text_may_be_asked(query: str) -> None:
    """Queries come from models and people: nothing they send may raise."""
    assert all(said.name for said in said_names(query, ["sv"]))
    asks_what_exists(query)
