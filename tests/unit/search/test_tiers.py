"""Circle 1 over a real folder: what a map shows, what it derives, and how it keeps to its tokens."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from knowledge.pages.vault import Vault
from knowledge.search.tiers import MOST_CHILDREN, Tiers
from tests.support.knowledge_bases.folders import write
from tests.support.state.memory.index import MemoryIndexStore
from tests.unit.search.test_finder import Base


async def tiers_over(folder: Path, **pages: str) -> tuple[Tiers, MemoryIndexStore]:
    base = Base(write(folder, pages))
    await base.index_all()
    return Tiers(Vault.open(folder), base.index), base.index


def page(title: str, sentence: str) -> str:
    return f"# {title}\n\n{sentence}\n"


async def test_a_directory_that_nobody_described_is_described_by_its_pages_and_says_so(tmp_path: Path) -> None:
    """Title, summary (first sentence that says something), children and counts are derived."""
    pages = {
        "release-notes/a.md": page("Alpha", "See below."),
        "release-notes/b.md": page("Beta", "The second release can be rolled back in a minute."),
        "release-notes/old/c.md": page("Gamma", "The first release had no way back at all."),
    }
    circles, _ = await tiers_over(tmp_path, **pages)
    view = await circles.map("release-notes")
    assert view.derived
    assert view.title == "Release notes"
    assert view.summary.startswith("3 documents in 1 folder: ")
    assert view.summary.endswith("The second release can be rolled back in a minute.")
    assert [(child.name, child.kind, child.count) for child in view.children] == [
        ("old", "directory", 1),
        ("a.md", "document", 1),
        ("b.md", "document", 1),
    ]
    assert view.count == 3


async def test_a_readme_speaks_for_its_directory(tmp_path: Path) -> None:
    pages = {"api/README.md": page("The API", "Calls are signed with a key."), "api/zz.md": page("Z", "Last one here.")}
    circles, _ = await tiers_over(tmp_path, **pages)
    view = await circles.map("api")
    assert (view.title, view.summary, view.derived) == ("The API", "Calls are signed with a key.", True)
    assert (await circles.map("")).children[0].title == "The API"


async def test_an_index_page_is_believed(tmp_path: Path) -> None:
    pages = {
        "a/_index.md": "---\ntitle: Area\nsummary: All about areas.\n---\n",
        "a/README.md": page("Other", "No, no."),
    }
    circles, _ = await tiers_over(tmp_path, **pages)
    view = await circles.map("a")
    assert (view.title, view.summary, view.derived) == ("Area", "All about areas.", False)


async def test_deeper_levels_are_opened_while_the_budget_lasts(tmp_path: Path) -> None:
    small = {f"small/p{i}.md": page(f"Small {i}", "Says a few words about something small.") for i in range(3)}
    large = {f"large/p{i}.md": page(f"Large {i}", "Says a few words about something large.") for i in range(120)}
    circles, _ = await tiers_over(tmp_path, **small, **large)
    view = await circles.map("", depth=2)
    shown = [child.path for child in view.children]
    assert shown == ["large", "small", "small/p0.md", "small/p1.md", "small/p2.md"]
    assert view.truncated
    assert not (await circles.map("small", depth=4)).truncated


@pytest.mark.parametrize(("count", "all_shown"), [(60, True), (MOST_CHILDREN, False)])
async def test_a_long_list_goes_without_summaries_before_names_are_left_out(
    tmp_path: Path, count: int, *, all_shown: bool
) -> None:
    many = {f"p{i:03}.md": page(f"Page {i}", "Some twenty words " * 8 + ".") for i in range(count)}
    circles, _ = await tiers_over(tmp_path, **many)
    view = await circles.map("")
    assert {child.summary for child in view.children} == {""}
    assert (len(view.children) == count) is all_shown
    assert view.truncated is not all_shown
    assert all_shown or f"{len(view.children)} of {count} entries" in (view.note or "")


async def test_a_section_comes_with_the_outline_of_what_lies_in_it(tmp_path: Path) -> None:
    text = "# A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n\n## D\n\nfour\n"
    circles, _ = await tiers_over(tmp_path, **{"a.md": text})
    assert [line.section for line in (await circles.read("a.md", section="B")).outline] == ["A > B", "A > B > C"]
    assert len((await circles.read("a.md")).outline) == 4


@pytest.mark.parametrize("depth", [1, 2, 4])
async def test_a_map_costs_about_what_it_may(tmp_path: Path, depth: int) -> None:
    pages = {
        f"d{i}/e{j}/p{k}.md": page(f"Page {k}", "Says something of some length about a thing.")
        for i in range(6)
        for j in range(5)
        for k in range(4)
    }
    circles, _ = await tiers_over(tmp_path, **pages)
    view = await circles.map("", depth)
    told = json.dumps(asdict(view), ensure_ascii=False, separators=(",", ":"))
    assert len(told) / 4 <= 2000 * 1.1
    assert view.truncated == (depth == 4)
