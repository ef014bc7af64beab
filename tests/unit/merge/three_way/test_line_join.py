"""The line diff is correct, finds the shortest edit if that is near, and stays fast if it is far."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.merge.three_way.line_join import (
    JoinedLines,
    _shortest,
    hunks,
    join_insertions,
    joined_lines,
    matches,
    merge_lines,
)

LINES = st.lists(st.sampled_from("abcd"), max_size=12)


def longest(one: list[str], other: list[str]) -> int:
    """Return the length of the longest common subsequence, by the textbook."""
    rows = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for x, a in enumerate(one):
        for y, b in enumerate(other):
            rows[x + 1][y + 1] = rows[x][y] + 1 if a == b else max(rows[x][y + 1], rows[x + 1][y])
    return rows[-1][-1]


@settings(max_examples=120)
@given(LINES, LINES)
def test_matches_are_equal_and_in_order(one: list[str], other: list[str]) -> None:
    found = matches(one, other)
    assert all(one[x] == other[y] for x, y in found)
    assert found == sorted(set(found))
    assert len({x for x, _ in found}) == len({y for _, y in found}) == len(found)
    assert [y for _, y in found] == sorted(y for _, y in found)


@settings(max_examples=100)
@given(st.lists(st.sampled_from("ab"), max_size=12), st.lists(st.sampled_from("ab"), max_size=12))
def test_without_anchors_the_edit_is_a_shortest_one(one: list[str], other: list[str]) -> None:
    found = _shortest([ord(line) for line in one], [ord(line) for line in other])
    assert found is not None
    assert len(found) == longest(one, other)


@settings(max_examples=120)
@given(LINES, LINES)
def test_hunks_turn_one_into_the_other(one: list[str], other: list[str]) -> None:
    after = list(one)
    for start, end, first, last in reversed(hunks(one, other)):
        after[start:end] = other[first:last]
    assert after == other


@settings(max_examples=120)
@given(LINES, LINES, LINES)
def test_every_line_of_the_joined_sequence_is_accounted_for(
    base: list[str], ours: list[str], theirs: list[str]
) -> None:
    assert joined_lines(merge_lines(base, ours, base)) == ours
    assert joined_lines(merge_lines(base, base, theirs)) == theirs
    assert joined_lines(merge_lines(base, ours, ours)) == ours
    parts = merge_lines(base, ours, theirs)
    # Where they clash, our side is taken.
    joined = [line for part in parts for line in part.lines]
    told = joined + [line for part in parts if part.clash for line in part.theirs]
    kept = {x for x, _ in matches(base, ours)} & {x for x, _ in matches(base, theirs)}
    for line in "abcd":
        assert joined.count(line) >= sum(base[x] == line for x in kept), "what neither side touched stays"
        assert joined.count(line) <= ours.count(line) + theirs.count(line), "nothing is made up"
        if line not in base:
            assert told.count(line) >= max(ours.count(line), theirs.count(line)), "what a side adds is there"


def test_edits_that_touch_join_and_strictly_they_do_not() -> None:
    base, ours, theirs = list("abcd"), list("aBcd"), list("abCd")
    assert joined_lines(merge_lines(base, ours, theirs)) == list("aBCd")
    assert joined_lines(merge_lines(base, ours, theirs, strict=True)) is None
    assert joined_lines(merge_lines(base, list("Abcd"), list("abCd"), strict=True)) == list("AbCd")
    assert joined_lines(merge_lines(base, list("aXbcd"), list("aBcd"))) == list("aXBcd")


def test_the_same_line_changed_twice_clashes_with_all_three_to_see() -> None:
    assert merge_lines(["a", "b", "c"], ["a", "x", "c"], ["a", "y", "c"]) == [
        JoinedLines(["a"]),
        JoinedLines(["x"], clash=True, base=["b"], theirs=["y"]),
        JoinedLines(["c"]),
    ]


def test_two_insertions_at_one_place_both_stay_and_what_is_in_both_once() -> None:
    assert join_insertions(["x", "mine"], ["x", "other"]) == ["x", "mine", "other"]
    assert joined_lines(merge_lines(["a"], ["a", "x", "mine"], ["a", "x", "other"])) == ["a", "x", "mine", "other"]


def test_fifty_thousand_lines_that_look_alike_are_compared_in_steps_that_are_counted() -> None:
    """No time limit: a quadratic search would not return."""
    one, other = [str(at % 2) for at in range(50_000)], [str(at % 3) for at in range(50_000)]
    assert len(matches(one, other)) > 10_000
    assert len(matches(["x"] * 100_000, ["y", *["x"] * 99_000])) == 99_000
