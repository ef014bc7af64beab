"""What becomes of a page of an act, by what the repository and the working tree have."""

from __future__ import annotations

import pytest

from knowledge.git.checkout import UNKNOWN, FateFacts, fate_of

States = tuple[str | None, str | None, str | None, str | None]
"""The page in the newest commit, before the act, after it, and on disk."""


@pytest.mark.parametrize(
    ("states", "facts", "fate"),
    [
        (("a", "a", "b", "b"), {"by_act"}, "commit"),
        ((None, None, "b", "b"), {"by_act"}, "commit"),
        (("a", "a", None, None), {"by_act"}, "commit"),
        (("a", UNKNOWN, "b", "b"), {"by_act"}, "commit"),
        # An editor saved the page after the act.
        (("a", "a", "b", "c"), set(), "commit"),
        # Edits that nobody committed came before the act.
        (("a", "b", "c", "c"), {"by_act"}, "after outside"),
        ((None, "b", "c", "c"), {"by_act"}, "after outside"),
        # The person committed the act's text, or a later one.
        (("b", "a", "b", "b"), {"by_act"}, "there"),
        (("c", "a", "b", "c"), {"later"}, "overtaken"),
        (("c", "a", "b", "d"), {"later"}, "overtaken"),
        # A stash or a checkout took it away.
        (("a", "a", "b", "a"), set(), "overtaken"),
        (("x", "a", "b", "x"), set(), "overtaken"),
        # An editor saved the page after that.
        (("a", "a", "b", "c"), {"replaced"}, "overtaken"),
        (("a", "z", "b", "c"), {"replaced"}, "overtaken"),
        # Another act took it back: both are committed.
        (("a", "a", "b", "a"), {"by_act", "later"}, "commit"),
    ],
)
def test_fate_of_a_page(states: States, facts: set[str], fate: str) -> None:
    assert fate_of(*states, FateFacts(**dict.fromkeys(facts, True))) == fate
