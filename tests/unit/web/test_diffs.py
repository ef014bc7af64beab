"""Diffs on the review page: rows, pairs, and the words that differ."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from knowledge.merge.unified_diff import unified_diff
from mcp_server.presenters.diffs import EFFORT, Effort, beginning, differing, parsed
from mcp_server.web.text.diffs import (
    DiffRow,
    one_below_the_other,
    side_by_side,
)

ANY = 10**9
LINES = st.lists(st.text(alphabet="ab -+@\\\r\u2028", max_size=6), max_size=8)


def diff(before: str, after: str) -> str:
    return unified_diff(before, after, "p.md", context=3, most_characters=ANY, longest_line=ANY)


def rows(before: str, after: str) -> list[DiffRow]:
    return [row for hunk in parsed(diff(before, after)) for row in side_by_side(hunk)]


def test_a_changed_line_is_beside_its_replacement_with_the_words_marked() -> None:
    (head, blank, changed) = rows("# T\n\nIt takes forty seconds.\n", "# T\n\nIt takes sixty seconds.\n")
    assert (head.kind, blank.kind) == ("same", "same")
    assert changed.kind == "changed"
    assert changed.old == "It takes <del>forty</del> seconds."
    assert changed.new == "It takes <ins>sixty</ins> seconds."
    assert (changed.old_number, changed.new_number) == (3, 3)


def test_lines_that_look_like_headers_are_content() -> None:
    shown = rows("-- a\n@@ -1 +1 @@\nx\n", "++ b\n@@ -1 +1 @@\n")
    assert [str(row.old) for row in shown] == ["-- a", "@@ -1 +1 @@", "x"]
    assert str(shown[0].new) == "++ b"


def test_a_line_that_came_in_between_does_not_push_the_others_out_of_their_pairs() -> None:
    shown = rows("alpha one two\nbeta one two\n", "alpha one three\nwholly new words\nbeta one three\n")
    assert [row.kind for row in shown] == ["changed", "added", "changed"]


def test_lines_with_little_in_common_have_no_word_marked() -> None:
    assert differing("the vault rotates weekly", "nobody knows why") == ([], [])


def test_a_missing_end_of_the_last_line_is_said_beside_it() -> None:
    (row,) = rows("x", "x\n")
    assert "No newline at end of file" in row.old
    assert row.new == "x"


def test_lines_that_the_diff_says_were_cut_are_shown() -> None:
    before, after = "".join(f"{i}\n" for i in range(900)), "".join(f"{i}\n" for i in range(900, 1800))
    hunks = parsed(unified_diff(before, after, "p.md", most_characters=200))
    assert hunks[-1].note


def test_the_unified_view_has_removals_above_additions() -> None:
    (hunk,) = parsed(diff("a b c d\nsame\n", "a b c e\nsame\n"))
    assert [row.kind for row in one_below_the_other(hunk)] == ["removed", "added", "same"]


def test_a_line_of_a_million_characters_is_compared_immediately() -> None:
    (row,) = rows("a " * 500_000 + "\n", "a " * 499_999 + "b\n")
    assert row.new.endswith("<ins>b</ins>")


def test_lines_that_are_made_to_be_compared_for_minutes_are_not() -> None:
    """400 such lines, 200 kB, took 70 s of a thread each time that someone looked."""
    old, new = "a b " * 125, "b c a " * 83
    head = "--- p.md\n+++ p.md\n@@ -1,400 +1,400 @@\n"
    (hunk,) = parsed(head + f"-{old}\n" * 400 + f"+{new}\n" * 400)
    began, effort = time.process_time(), Effort()
    shown = list(side_by_side(hunk, effort=effort))
    assert len(shown) == 400
    assert 0 <= effort.left < EFFORT
    assert time.process_time() - began < 15


def test_the_common_parts_of_two_very_long_lines_are_found_at_both_ends() -> None:
    before, after = "x" * 80_000 + "old" + "y" * 80_000, "x" * 80_000 + "newer" + "y" * 80_000
    assert differing(before, after) == ([(80_000, 80_003)], [(80_000, 80_005)])
    assert differing(before, before + "!") == ([], [(len(before), len(before) + 1)])
    assert differing("x" * 80_000, "y" * 80_000) == ([], [])


@given(LINES, LINES)
def test_the_rows_hold_every_changed_line_of_both_sides(before: list[str], after: list[str]) -> None:
    one, other = "\n".join(before), "\n".join(after)
    old = [text.removesuffix("\n").removesuffix("\r") for text in one.split("\n")]
    new = [text.removesuffix("\n").removesuffix("\r") for text in other.split("\n")]
    for hunk in parsed(diff(one, other)):
        for change in hunk.changes:
            for lines, page in ((change.old, old), (change.new, new)):
                for line in lines:
                    assert line.text.removesuffix(" (CR LF)") == page[line.number - 1]


@given(st.text(alphabet="ab ,.", max_size=30), st.text(alphabet="ab ,.", max_size=30))
def test_unmarked_text_is_the_same_on_both_sides(before: str, after: str) -> None:
    gone, come = differing(before, after)
    if gone or come or before == after:
        assert _without(before, gone) == _without(after, come)


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    for start, end in reversed(spans):
        text = text[:start] + text[end:]
    return text


@given(LINES, LINES, st.integers(1, 6))
def test_a_long_diffs_beginning_fills_its_rows_counts_all_lines_and_reports_the_rest(
    old: list[str], new: list[str], most: int
) -> None:
    whole = diff("\n".join(old), "\n".join(new))
    short = beginning(whole, most)
    assert whole.startswith(short.diff[: len(short.diff) // 2]) or short.left_out
    changes = [change for hunk in parsed(whole) for change in hunk.changes if not change.same]
    assert short.added == sum(len(change.new) for change in changes)
    assert short.removed == sum(len(change.old) for change in changes)
    every = [row for hunk in parsed(whole) for row in side_by_side(hunk)]
    shown = [row for hunk in parsed(short.diff) for row in side_by_side(hunk)]
    assert len(shown) >= min(most, len(every))
    assert bool(short.left_out) == (short.diff != whole)


def test_a_diff_of_a_million_lines_is_not_taken_apart() -> None:
    """Its page took 15 s and 550 MB before, and showed 400 rows."""
    head = "--- p.md\n+++ p.md\n@@ -1,1000000 +1,1000000 @@\n"
    short = beginning(head + "-x\n" * 1_000_000 + "+y\n" * 1_000_000, 400)
    assert (short.added, short.removed) == (1_000_000, 1_000_000)
    assert short.left_out == 2_000_000 - 800
    (hunk,) = parsed(short.diff)
    assert [len(change.old) for change in hunk.changes] == [400]
    assert [len(change.new) for change in hunk.changes] == [400]
