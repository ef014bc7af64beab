from __future__ import annotations

import pytest

from knowledge.pages.map_view import MapEntry, describe_directory, readable


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("release_check-list.md", "Release check list"),
        ("README.md", "README"),
        ("2024-05-06-stand-up.md", "2024-05-06 stand up"),
        ("0002-dependencies.MD", "0002 dependencies"),
        ("guides", "Guides"),
        ("v1.2 notes.markdown", "V1.2 notes"),
        ("---.md", "---.md"),
        ("🚀 launch.md", "🚀 launch"),
    ],
)
def test_file_names_become_titles(name: str, title: str) -> None:
    assert readable(name) == title


def _entry(title: str, kind: str = "document", count: int = 1) -> MapEntry:
    return MapEntry(title, title, title, "directory" if kind == "directory" else "document", "", count, None)


def test_a_directory_is_described_by_its_first_names() -> None:
    """Without a number: only a few children are looked at, and the entry has the count."""
    assert describe_directory([]) == "Empty."
    assert describe_directory([_entry("A")]) == "A"
    assert describe_directory([_entry("G", "directory", 7), *map(_entry, "ABC")]) == "G, A, B and more"
