"""Parts of a map: what their lengths count."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from knowledge.pages.map_view import MapEntry
from knowledge.search.answers import MapView
from knowledge.search.maps.parts import entry_length, map_length
from knowledge.search.maps.walk import MapPlace, cursor_length, cursor_of, longest_cursor


def entry(name: str, summary: str, modified: str | None) -> MapEntry:
    return MapEntry(name, f"guides/{name}", f'The "{name}"', "document", summary, 1, modified)


def test_lengths_are_those_of_the_json_that_a_caller_gets() -> None:
    children = (
        entry("a.md", "Lines\nand \\ escapes \u0001, Größe, 日本", None),
        entry("b.md", "", "2026-11-27T00:00:00Z"),
    )
    view = MapView("guides", "Guides", "All.", derived=True, children=children, count=2, modified=None, truncated=False)
    written = [json.dumps(asdict(one), ensure_ascii=False, separators=(",", ":")) for one in (view, *children)]
    assert map_length(view) == len(written[0])
    lengths = [entry_length(child, child.summary) for child in children]
    assert lengths == [len(one) + len(",") for one in written[1:]]


@pytest.mark.parametrize("name", ["a", "ab", "abc", "abcd", "größe.md", "日本.md", "a/b c.md", "\udcff.md"])
def test_the_length_of_a_cursor_is_known_before_it_is_made(name: str) -> None:
    for place, root in ((MapPlace("document", f"guides/{name}"), "guides"), (MapPlace("directory", name), "")):
        assert cursor_length(place, root) == len(cursor_of(place, root, 2)) <= longest_cursor(place.path)
