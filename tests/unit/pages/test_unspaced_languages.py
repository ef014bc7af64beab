from __future__ import annotations

from pathlib import Path

import pytest

from knowledge.pages.markdown.language import detect
from tests.benchmarks.unspaced import LANGUAGES, code_points, load, long, ours, short
from tests.unit.search.test_finder import Base

FLOORS = {"zh": 0.97, "ja": 0.94, "ko": 0.91, "th": 0.98}


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_in_scripts_without_blanks_are_found_by_their_words(language: str) -> None:
    """kb/decisions/0015."""
    assert short(language, ours(language)) >= FLOORS[language]


def test_thai_cut_by_letters_with_their_marks_is_found_better_than_cut_by_characters() -> None:
    assert short("th", ours("th")) > short("th", code_points)
    assert long("th", ours("th")) > long("th", code_points)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_judged_question_names_a_page_of_its_language(language: str) -> None:
    pages, asked = load(language)
    assert len(asked) >= 15
    assert set(asked.values()) <= pages.keys()
    assert {detect(text) for text in pages.values()} == {language}


async def test_a_thai_question_is_answered_and_its_letters_are_not_taken_for_typos(tmp_path: Path) -> None:
    pages, _ = load("th")
    for number, text in enumerate(pages.values()):
        (tmp_path / f"{number}.md").write_text(f"{text}\n", encoding="utf-8")
    base = Base(tmp_path)
    await base.index_all()
    answer = await base.finder.search("ที่จอดรถใต้ดิก")
    assert answer.corrected is None
    # The plain embedder of this base knows no Thai but also influences the ranking.
    assert f"{list(pages).index('ที่จอดรถ')}.md" in [hit.path for hit in answer.hits[:3]]
