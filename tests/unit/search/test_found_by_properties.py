"""Pages are found by what their front matter says about them, below those whose text says it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from knowledge.search.answers import SearchAnswer
from knowledge.search.finder import Finder
from knowledge.search.ranking.by_properties import MOST_FOUND
from knowledge.search.ranking.ranker import Engines
from knowledge.state.ports import PropertyLines
from tests.support.knowledge_bases.folders import write
from tests.unit.search.test_finder import Base, correct

DAILY = "---\npeople: [[Jonas Keller]]\nmood: tired\n---\n# Day {n}\n\nCoffee, a walk and {n} letters.\n"
PAGES = {
    **{f"daily/{n:02}.md": DAILY.format(n=n) for n in range(30)},
    "team.md": "# Team\n\nJonas Keller leads the workshop. Mira Costa keeps the books.\n",
    "books/piranesi.md": "---\nauthor: Susanna Clarke\nrating: 5\n---\n# Piranesi\n\nA house with endless halls.\n",
    "books/flights.md": "---\nauthor: Olga Tokarczuk\nrating: 4\n---\n# Flights\n\nTravellers and anatomists.\n",
    "people/ingrid.md": "---\nreferred_by: Bjarne Moe\nemail: ingrid@mail.example\n---\n# Ingrid\n\nShe mends clocks.\n",
    "ops/backup.md": "---\nowner: Kim Lee\ntags: [night]\n---\n# Backups\n\nBackups are kept for thirty days.\n",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return Base(write(tmp_path_factory.mktemp("properties"), PAGES))


async def searched(base: Base, query: str, **how: Any) -> SearchAnswer:
    await base.index_all()
    return await base.finder.search(query, **how)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("Olga Tokarczuk", "books/flights.md"),
        ("Susanna Clarke", "books/piranesi.md"),
        ("Piranesi rating", "books/piranesi.md"),
        ("owner of the backups", "ops/backup.md"),
    ],
)
async def test_a_page_is_found_by_its_properties_and_shows_them(base: Base, query: str, path: str) -> None:
    first = (await searched(base, query)).hits[0]
    assert first.path == path
    assert ": " in first.snippet.rpartition("\n\n")[2]
    assert first.line_start == 2


async def test_a_page_that_says_it_in_its_text_comes_before_pages_with_such_a_property(base: Base) -> None:
    answer = await searched(base, "Jonas Keller")
    assert (answer.hits[0].path, answer.scent.level) == ("team.md", "sufficient")


async def test_only_the_best_pages_are_found_by_a_property_that_many_have(base: Base) -> None:
    hits = (await searched(base, "mood tired")).hits
    assert sum("mood: tired" in hit.snippet for hit in hits) == MOST_FOUND


async def test_a_match_in_properties_about_somebody_else_is_never_sufficient(base: Base) -> None:
    answer = await searched(base, "Bjarne Moe email")
    assert (answer.hits[0].path, answer.scent.level) == ("people/ingrid.md", "partial")
    assert "some of the match is only in the page's front matter" in answer.scent.reason


async def test_an_explanation_says_what_the_front_matter_adds(base: Base) -> None:
    answer = await searched(base, "Olga Tokarczuk", explain=True)
    assert answer.explanation is not None
    parts = cast("Any", answer.explanation)["hits"][0]["parts"]
    assert parts["properties"] > parts.get("passage", 0.0)


async def test_filters_apply_to_pages_found_by_properties(base: Base) -> None:
    answer = await searched(base, "Susanna Clarke", path="daily")
    assert all(hit.path.startswith("daily/") for hit in answer.hits)


async def test_a_changed_property_is_found_and_the_old_one_is_not(tmp_path: Path) -> None:
    base = Base(write(tmp_path, PAGES))
    await base.index_all()
    write(tmp_path, {"ops/backup.md": PAGES["ops/backup.md"].replace("Kim Lee", "Nadia Farouk")})
    assert (await searched(base, "Nadia Farouk")).hits[0].path == "ops/backup.md"
    assert (await searched(base, "Kim Lee")).scent.level == "lost"


async def test_properties_count_beside_a_server_that_ranks_only_if_it_finds_nothing(tmp_path: Path) -> None:
    base = Base(write(tmp_path, PAGES))
    await base.index_all()
    own = await base.engines()

    async def engines() -> Engines:
        return replace(own, ours=False)

    finder = Finder(base.index, engines, correct, answer_tokens=1_500)
    answer = await finder.search("Olga Tokarczuk")
    assert answer.hits[0].path == "books/flights.md"
    assert "author: Olga Tokarczuk" in answer.hits[0].snippet
    assert all("people:" not in hit.snippet for hit in (await finder.search("Jonas Keller")).hits)


async def test_a_continued_answer_does_not_repeat_a_page_that_other_properties_have_overtaken(tmp_path: Path) -> None:
    base = Base(write(tmp_path, PAGES))
    await base.index_all()
    first = await base.finder.search("Bjarne Moe uncle", limit=1)
    assert "referred_by" in first.hits[0].snippet
    more = {
        f"people/{n}.md": f"---\nfriend: Bjarne Moe\nuncle: Bjarne\n---\n# Person {n}\n\nText {n}.\n" for n in range(5)
    }
    write(tmp_path, more)
    await base.index_all()
    rest = await base.finder.search("Bjarne Moe uncle", limit=20, cursor=first.next_cursor)
    assert "people/ingrid.md" not in [hit.path for hit in rest.hits]


async def test_a_page_that_loses_its_properties_during_a_search_is_shown_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Base(write(tmp_path, PAGES))
    await base.index_all()

    async def none(_: Collection[int]) -> Mapping[int, PropertyLines]:
        return {}

    monkeypatch.setattr(base.index, "properties", none)
    hit = (await base.finder.search("Olga Tokarczuk")).hits[0]
    assert (hit.path, hit.snippet) == ("books/flights.md", "Travellers and anatomists.")
