"""Repairs of pages: only what has exactly one reading is changed, and nothing else of the page."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from knowledge.pages.links import LinkTargets
from knowledge.pages.own_pages import OwnPages
from mcp_server.cli.doctor.page_repairs import FormerPaths, LostPageNames, broken_links, quoted, relinked

ALIASES = {
    "new/rollback.md": (),
    "a/plan.md": (),
    "b/plan.md": (),
    "renamed.md": ("deployment",),
    "guides/README.md": (),
}
PAGES: dict[str, tuple[Sequence[str], str]] = {path: (aliases, f"text of {path}") for path, aliases in ALIASES.items()}
NAMES = LostPageNames(PAGES)


def exists(path: str) -> bool:
    return path in PAGES or any(page.startswith(f"{path}/") for page in PAGES)


def repaired(text: str, page: str = "start.md") -> str:
    return relinked(page, text, broken_links(page, text, LinkTargets(exists), NAMES), exists)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[how](old/rollback.md#steps)", "[how](new/rollback.md#steps)"),
        ("![[old/rollback|how]]", "![[new/rollback|how]]"),
        ("[how](</old/rollback.md> 'title')", "[how](</new/rollback.md> 'title')"),
        ("[it](deployment.md)", "[it](renamed.md)"),  # the page kept its old name as an alias
        ("[r]: old/rollback\n\nsee [r]", "[r]: new/rollback\n\nsee [r]"),
    ],
)
def test_a_link_whose_page_is_elsewhere_under_that_name_leads_there(before: str, after: str) -> None:
    assert repaired(before) == after


def test_a_relative_link_stays_relative() -> None:
    assert repaired("[how](../old/rollback.md)", page="guides/x.md") == "[how](../new/rollback.md)"


@pytest.mark.parametrize(
    "text",
    [
        "[plan](old/plan.md)",  # two pages have this name
        "[guide](old/README.md)",  # many folders have one
        "[gone](gone.md)",
        "[[To be written]]",
        "[out](../../src/main.py)",
        "![shot](shot.png)",  # editors find it anywhere
        "[web](https://example.org/rollback.md)",
        "`[how](old/rollback.md)`",
    ],
)
def test_a_link_that_could_mean_several_pages_or_none_stays(text: str) -> None:
    assert repaired(text) == text


def test_each_broken_link_names_the_pages_that_it_may_mean() -> None:
    (broken,) = broken_links("start.md", "[plan](old/plan.md) and [again](old/plan.md)", LinkTargets(exists), NAMES)
    assert (broken.written, broken.candidates) == ("old/plan.md", ["a/plan.md", "b/plan.md"])


def test_a_value_with_a_colon_is_quoted_and_every_other_line_stays() -> None:
    before = '---\ntitle: Plan: the "second"\ntags: [a, b]\nsummary: fine\n---\n# Plan\n\nA: b: c\n'
    assert quoted(before) == before.replace('Plan: the "second"', r'"Plan: the \"second\""')
    windows = before.replace("\n", "\r\n")
    assert quoted(windows) == quoted(before).replace("\n", "\r\n")


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: fine\n---\n",
        "---\ntitle: [a: b\n---\n",  # a list that is never closed
        "---\ntitle: a: b\n  more: c\n bad\n---\n",
        "---\ntitle: a: b\nnever closed\n",
        "title: a: b\n",
    ],
)
def test_front_matter_that_is_sound_or_broken_in_another_way_stays(text: str) -> None:
    assert quoted(text) == text


def test_own_pages_are_without_templates_and_without_what_is_excluded() -> None:
    own = OwnPages([("", ("archive", "drafts/*.tmp.md")), ("team", ("minutes",))])
    assert "notes.md" in own
    assert "archive.md" in own
    assert "minutes/a.md" in own
    for path in ("_templates/a.md", "x/_templates/a.md", "archive/deep/a.md", "drafts/a.tmp.md", "team/minutes/a.md"):
        assert path not in own


def test_a_wiki_link_by_the_name_that_a_page_had_before_it_was_renamed_is_repaired_if_no_page_has_the_name() -> None:
    former = FormerPaths(moves={"old/brewing.md": "new/rollback.md"}, states={"wiki/notes.md": "text of renamed.md"})

    def mended(text: str, *titles: str) -> str:
        names = LostPageNames(PAGES, former, titles)
        return relinked("start.md", text, broken_links("start.md", text, LinkTargets(exists), names), exists, called)

    def called(name: str) -> Sequence[str]:
        return [path for path in PAGES if path.rpartition("/")[2] == f"{name}.md"]

    assert mended("[[brewing]] ![[Brewing#steps|how]] [[notes]]") == "[[rollback]] ![[rollback#steps|how]] [[renamed]]"
    assert mended("[[brewing]]", "Brewing") == "[[brewing]]", "a page has that title"
    assert mended("[[still to be written]] [[plan]]") == "[[still to be written]] [[plan]]"
    # `plan` names two pages, so that the new link is a path.
    to_plan = LostPageNames(PAGES, FormerPaths(moves={"aims.md": "b/plan.md"}))
    text = "[[aims]]"
    assert (
        relinked("start.md", text, broken_links("start.md", text, LinkTargets(exists), to_plan), exists, called)
        == "[[b/plan]]"
    )


def test_a_page_that_the_history_saw_renamed_is_the_one_that_is_meant() -> None:
    """A former path counts before a name: `old/plan.md` would else be one of two pages."""
    moved = FormerPaths(
        moves={"old/plan.md": "then/plan.md", "then/plan.md": "b/plan.md", "x.md": "y.md", "y.md": "x.md"}
    )
    assert LostPageNames(PAGES, moved).meant("old/plan") == ["b/plan.md"]
    assert LostPageNames(PAGES, moved).meant("x.md") == []
    same_text = FormerPaths(states={"rolling-back.md": "text of new/rollback.md", "gone.md": "another text"})
    assert LostPageNames(PAGES, same_text).meant("rolling-back.md") == ["new/rollback.md"]
    assert LostPageNames(PAGES, same_text).meant("gone.md") == []
