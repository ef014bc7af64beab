"""Links lead where Obsidian follows them: by name, by the end of a path, ignoring case, notes before other files."""

from __future__ import annotations

import pytest

from knowledge.pages.document import parse
from knowledge.pages.links import resolve_path
from knowledge.pages.paths import PageLink
from tests.support.knowledge_bases.link_targets import link_targets

PAGES = {
    "Home.md": ["Start"],
    "Logic/Logic.md": [],
    "Logic/01 Logic.md": ["Logic"],
    "Maths/Logic/Sets.md": [],
    "Maths/Sets.md": [],
    "Areas/Work/Plan.md": [],
    "Work/Plan.md": [],
    "Deep/er/Work/Other.md": [],
    "v1.2.md": [],
    "Café.md": [],
    "Pictures/map.png.md": [],
}
FILES = ["Attachments/map.png", "Attachments/Board.canvas", "Pictures/map.png", "Maths/Board.canvas"]


@pytest.mark.parametrize(
    ("page", "link", "leads"),
    [
        # The file name beats a title or an alias, wherever both are.
        ("Home.md", "Logic", "Logic/Logic.md"),
        ("Logic/01 Logic.md", "Logic", "Logic/Logic.md"),
        ("Home.md", "Start", "Home.md"),
        # The page's own folder first, then the shortest path.
        ("Home.md", "Sets", "Maths/Sets.md"),
        ("Maths/Logic/x.md", "Sets", "Maths/Logic/Sets.md"),
        # The end of a path; from the root it means that very page.
        ("Home.md", "Work/Other", "Deep/er/Work/Other.md"),
        ("Areas/x.md", "Work/Plan", "Work/Plan.md"),
        ("Home.md", "Logic/Sets", "Maths/Logic/Sets.md"),
        # Case, Unicode form, suffix.
        ("Home.md", "logic/LOGIC", "Logic/Logic.md"),
        ("Home.md", "LOGIC.md", "Logic/Logic.md"),
        ("Home.md", "Cafe\u0301", "Café.md"),
        ("Home.md", "V1.2", "v1.2.md"),
        # Relative and rooted paths mean nothing else, but ignore case.
        ("Maths/x.md", "./sets", "Maths/Sets.md"),
        ("Maths/Logic/x.md", "../sets", "Maths/Sets.md"),
        ("Maths/x.md", "/home", "Home.md"),
        ("Maths/x.md", "/Work/Other", None),
        ("Maths/x.md", "./Plan", None),
        ("Maths/x.md", "../../x", None),
        # Other files by their full name; a note comes first.
        ("Home.md", "board.canvas", "Maths/Board.canvas"),
        ("Attachments/x.md", "Board.canvas", "Attachments/Board.canvas"),
        ("Home.md", "Attachments/board.canvas", "Attachments/Board.canvas"),
        ("Home.md", "Board", None),
        ("Home.md", "map.png", "Pictures/map.png.md"),
        ("Home.md", "Nowhere", None),
        ("Home.md", "Nowhere/Logic", None),
    ],
)
def test_a_wiki_link_leads_where_obsidian_follows_it(page: str, link: str, leads: str | None) -> None:
    assert resolve_path(page, link, link_targets(PAGES, FILES), wiki=True) == leads


@pytest.mark.parametrize(
    ("link", "in_a_vault", "elsewhere"),
    [
        ("Plan.md", "Work/Plan.md", None),
        ("Sets.md", "Maths/Sets.md", "Maths/Sets.md"),
        ("Board.canvas", "Maths/Board.canvas", "Maths/Board.canvas"),
        ("../Home", "Home.md", "Home.md"),
        ("work/plan.md", "Work/Plan.md", None),
        ("https-is-no-page", None, None),
    ],
)
def test_an_ordinary_link_is_found_by_name_only_in_a_vault(
    link: str, in_a_vault: str | None, elsewhere: str | None
) -> None:
    for by_name, leads in ((True, in_a_vault), (False, elsewhere)):
        names = link_targets(PAGES, FILES, by_name=by_name)
        assert resolve_path("Maths/x.md", link, names, wiki=False) == leads


PAGE = """---
tags: [one, "#two/three"]
up: "[[Home]]"
related:
  - "[[Logic/Sets|sets]]"
---

# Page

See ![[Embedded#^block]] and [[Shown|words]]. %% not [[Hidden]], nor #hidden %% `[[Code]]` `#code`

#a/b #\U0001f680launch #⭐ #標籤。#x #हिन्दी #2024 #y2024, #don't (#no)
"""


def test_links_in_properties_count_and_those_in_comments_do_not() -> None:
    assert parse("x.md", PAGE.encode()).page_links == (
        PageLink("Home", wiki=True),
        PageLink("Logic/Sets", wiki=True),
        PageLink("Embedded", wiki=True),
        PageLink("Shown", wiki=True),
    )


def test_tags_have_letters_of_every_script_and_emoji_but_no_punctuation() -> None:
    tags = ("one", "two/three", "a/b", "\U0001f680launch", "⭐", "標籤", "हिन्दी", "y2024", "don")
    assert parse("x.md", PAGE.encode()).tags == tags


def test_a_percent_sign_pair_without_a_partner_hides_nothing() -> None:
    page = parse("x.md", b"# X\n\n50%% [[A]]\n\n%%b%% [[B]] 20%% [[C]]\n")
    assert [link.path for link in page.page_links] == ["A", "B", "C"]
