"""The links that a rename changes are listed only if nothing else changes."""

from __future__ import annotations

import pytest

from knowledge.merge.unified_diff import unified_diff
from mcp_server.presenters.diffs import parsed
from mcp_server.web.proposals.changed_links import ChangedLink, changed_links


def links(old: str, new: str) -> list[ChangedLink]:
    return list(changed_links(parsed(unified_diff(old, new, "a.md"))))


def test_every_changed_link_is_listed_with_its_line_and_both_targets() -> None:
    old = "# A\n\nSee [B](b.md) and [[b]], not [C](c.md).\n"
    new = "# A\n\nSee [B](../n/d.md) and [[d]], not [C](c.md).\n"
    assert links(old, new) == [ChangedLink(3, "b.md", "../n/d.md"), ChangedLink(3, "b", "d")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("See [B](b.md).\n", "Do see [B](d.md).\n"),
        ("See [B](b.md).\n", "See [the B](d.md).\n"),
        ("See [B](b.md).\n", "See [B](d.md).\nAnd more.\n"),
        ("See [B](b.md).\n\nIt is forty.\n", "See [B](d.md).\n\nIt is sixty.\n"),
        ("`[B](b.md)`\n", "`[B](d.md)`\n"),
        ("See [B](b.md).\n", "See [B](d.md).\u202e\n"),
    ],
)
def test_a_change_of_anything_else_is_shown_as_a_diff(old: str, new: str) -> None:
    assert links(old, new) == []
