"""Conflicts that Git leaves in a text."""

from __future__ import annotations

import pytest

from knowledge.pages.document import parse
from knowledge.pages.markdown.conflict_markers import conflicts_in

CONFLICT = "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> work\n"
DIFF3 = "<<<<<<< ours\nours\n||||||| 1234567\nbase\n=======\ntheirs\n>>>>>>> theirs\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"# Page\n\n{CONFLICT}", [(3, 7)]),
        (f"# Page\n\n{CONFLICT}\ntext\n\n{CONFLICT}", [(3, 7), (11, 15)]),
        (DIFF3, [(1, 7)]),
        (CONFLICT.replace("\n", "\r\n"), [(1, 5)]),
        ("<<<<<<<\nours\n=======\n>>>>>>>\n", [(1, 4)]),
        # The conflict itself may open a fence that never closes.
        ("<<<<<<< HEAD\n```\n=======\n~~~\n>>>>>>> work\n", [(1, 5)]),
        ("---\ntitle: A\n<<<<<<< HEAD\ntags: [a]\n=======\ntags: [b]\n>>>>>>> work\n---\n# A\n", [(3, 7)]),
    ],
)
def test_conflicts_are_found_with_their_lines(text: str, found: list[tuple[int, int]]) -> None:
    assert list(conflicts_in(text)) == found
    (first, last), *_ = found
    assert f"lines {first} to {last} are a conflict that Git left" in parse("a.md", text.encode()).problems


@pytest.mark.parametrize(
    "text",
    [
        f"# Git\n\n```\n{CONFLICT}```\n",
        f"# Git\n\n~~~text\n{DIFF3}~~~\n",
        "Heading\n=======\n",
        ">>>>>>> a quote in quotes\n",
        "<<<<<<< HEAD\n\nan opening mark alone\n",
        ">>>>>>> work\n=======\n<<<<<<< HEAD\n",
        "<<<<<<<<<<<<< arrows\n=============\n>>>>>>>>>>>>>\n",
        "    <<<<<<< HEAD\n    =======\n    >>>>>>> work\n",
    ],
)
def test_what_only_looks_like_one_is_none(text: str) -> None:
    assert conflicts_in(text) == ()
    assert parse("a.md", text.encode()).problems == ()
