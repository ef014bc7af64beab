"""How answers are laid out: the shares of snippets, map lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from knowledge.pages.map_view import MapEntry
from knowledge.search.layout import (
    LONGEST_LINE,
    MOST_SNIPPET,
    SHORTEST_SNIPPET,
    TELLING_SNIPPET,
    most_that_fit,
    page_line,
    share,
)


@given(st.integers(1, 50), st.integers(0, 20_000))
def test_the_first_snippets_get_most_and_all_together_no_more_than_there_is(count: int, room: int) -> None:
    left, shares = room, []
    for place in range(count):
        shares.append(share(place, count, left))
        left -= shares[-1]
    assert all(SHORTEST_SNIPPET <= one <= MOST_SNIPPET for one in shares)
    assert shares[0] >= shares[-1]
    assert left >= 0 or shares[-1] == SHORTEST_SNIPPET


@given(st.integers(1, 10), st.integers(0, 5_000), st.integers(SHORTEST_SNIPPET, TELLING_SNIPPET))
def test_each_snippet_gets_the_least_where_there_is_so_much_for_all(count: int, spare: int, least: int) -> None:
    left, shares = count * least + spare, []
    for place in range(count):
        shares.append(share(place, count, left, least=least))
        left -= shares[-1]
    assert min(shares) >= least
    assert left >= 0


def test_as_many_hits_fit_as_there_is_room_for_and_always_one() -> None:
    none = [0] * 8
    assert most_that_fit([300] * 8, none, 8 * (300 + TELLING_SNIPPET), sure=0) == 8
    assert most_that_fit([300] * 8, none, 8 * (300 + TELLING_SNIPPET) - 1, sure=0) == 7
    assert most_that_fit([300] * 8, none, 8 * (300 + SHORTEST_SNIPPET), sure=8) == 8
    assert most_that_fit([300] * 8, none, 0, sure=8) == 1
    assert most_that_fit([], [], 0, sure=0) == 0


def test_a_page_line_counts_with_the_hit_that_brings_it() -> None:
    assert most_that_fit([300] * 3, [100, 0, 100], 2 * (300 + TELLING_SNIPPET) + 100, sure=0) == 2


def test_a_map_line_is_short_and_ends_with_a_word() -> None:
    line = page_line(MapEntry("a.md", "a.md", "Deploying", "document", "word " * 60, 1, None)).line
    assert line.startswith("Deploying: word")
    assert line.endswith("word...")
    assert len(line) <= LONGEST_LINE
    assert page_line(MapEntry("a.md", "a.md", "Deploying", "document", "", 1, None)).line == "Deploying"
