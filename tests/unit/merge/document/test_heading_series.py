"""Headings that count: where one more goes."""

from __future__ import annotations

import pytest

from knowledge.merge.document.heading_series import place_in_series
from tests.unit.merge.evidence.weighed_plans import weighed, words


@pytest.mark.parametrize(
    ("heading", "siblings", "at"),
    [
        ("1.3.0", ["1.2.0", "1.1.0"], 0),
        ("[1.3.0] - 2026-12-01", ["[1.2.0] - 2026-11-01", "[1.1.0] - 2026-10-01"], 0),
        ("1.1.5", ["1.2.0", "1.1.0"], 1),
        ("v1.10", ["v1.9", "v1.8"], 0),
        ("1.3.0-rc.1", ["1.3.0", "1.2.0"], 1),
        ("Version 3.0", ["About", "Version 1.0", "Version 2.0", "Licence"], 3),
        ("1.3.0", ["Unreleased", "1.2.0"], 1),
        ("Unreleased", ["1.2.0", "1.1.0"], 0),
        ("[Unreleased]", ["About", "[1.2.0]"], 1),
        ("Unreleased", ["1.1.0", "1.2.0", "Licence"], 2),
        ("Week 48", ["Week 46", "Week 47", "Notes"], 2),
        ("Week 45", ["Week 46", "Week 47"], 0),
        ("Q1 2027", ["Q3 2026", "Q4 2026"], 2),
        ("3. Accounts", ["1. Mirrors", "2. Registries", "4. Names"], 2),
        ("Sprint 10", ["Sprint 9", "Sprint 8"], 0),
    ],
)
def test_it_goes_where_the_order_of_the_others_says(heading: str, siblings: list[str], at: int) -> None:
    assert place_in_series(heading, siblings) == at


@pytest.mark.parametrize(
    ("heading", "siblings"),
    [
        ("1.3.0", ["1.2.0"]),
        ("1.3.0", ["1.2.0", "1.4.0", "1.1.0"]),
        ("1.2.0", ["1.2.0", "1.1.0"]),
        ("Week 48", ["Sprint 46", "Sprint 47"]),
        ("Restore", ["1. Mirrors", "2. Registries"]),
        ("Unreleased", ["Overview", "Licence"]),
        ("2026-11-28", ["2026-11-26", "2026-11-27"]),
    ],
)
def test_without_a_series_or_with_no_clear_order_it_is_no_place(heading: str, siblings: list[str]) -> None:
    assert place_in_series(heading, siblings) is None


@pytest.mark.parametrize("title", ["# Changelog\n\n", ""])
def test_what_is_not_released_yet_goes_before_the_newest_version_and_not_between_two(title: str) -> None:
    page = f"{title}## 1.2.0\n\n- A new importer.\n\n## 1.1.0\n\n- The login page is faster.\n\n[1.2.0]: https://x.example\n"
    plan = weighed("## Unreleased\n\n- The login page is faster again.\n", page=page)
    assert words(plan) == ["integrate"]
    assert plan.text == page.replace("## 1.2.0", "## Unreleased\n\n- The login page is faster again.\n\n## 1.2.0")


def test_a_new_version_goes_before_the_link_definitions_behind_the_last_one() -> None:
    page = "# Changes\n\n## 1.1.0\n\n- One.\n\n## 1.2.0\n\n- Two.\n\n[1.2.0]: https://x.example\n"
    plan = weighed("## 1.3.0\n\n- Three.\n", page=page)
    assert plan.text == page.replace("- Two.\n", "- Two.\n\n## 1.3.0\n\n- Three.\n")
