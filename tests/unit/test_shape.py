"""How answers are laid out: grouping, the shares of snippets, map lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from knowledge.find.shape import LONGEST_LINE, MOST_SNIPPET, SHORTEST_SNIPPET, grouped, most_that_fit, page_line, share
from knowledge.map import Entry


@given(st.lists(st.tuples(st.integers(0, 4), st.integers())))
def test_grouping_loses_nothing_and_keeps_the_order_of_groups_and_within_them(items: list[tuple[int, int]]) -> None:
    keys = [key for key, _ in items]
    found = grouped(items, keys)
    assert sorted(found) == sorted(items)
    assert list(dict.fromkeys(key for key, _ in found)) == list(dict.fromkeys(keys))
    for key in set(keys):
        assert [item for item in found if item[0] == key] == [item for item in items if item[0] == key]
    if found:
        assert found[0] == items[0]


@given(st.integers(1, 50), st.integers(0, 20_000))
def test_the_first_snippets_get_most_and_all_together_no_more_than_there_is(count: int, room: int) -> None:
    left, shares = room, []
    for place in range(count):
        shares.append(share(place, count, left))
        left -= shares[-1]
    assert all(SHORTEST_SNIPPET <= one <= MOST_SNIPPET for one in shares)
    assert shares[0] >= shares[-1]
    assert left >= 0 or shares[-1] == SHORTEST_SNIPPET


def test_as_many_hits_fit_as_there_is_room_for_and_always_one() -> None:
    assert most_that_fit([300] * 8, 8 * (300 + SHORTEST_SNIPPET)) == 8
    assert most_that_fit([300] * 8, 8 * (300 + SHORTEST_SNIPPET) - 1) == 7
    assert most_that_fit([300] * 8, 0) == 1
    assert most_that_fit([], 0) == 0


def test_a_map_line_is_short_and_ends_with_a_word() -> None:
    line = page_line(Entry("a.md", "a.md", "Deploying", "document", "word " * 60, 1, None)).line
    assert line.startswith("Deploying: word")
    assert line.endswith("word...")
    assert len(line) <= LONGEST_LINE
    assert page_line(Entry("a.md", "a.md", "Deploying", "document", "", 1, None)).line == "Deploying"
