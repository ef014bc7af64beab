"""Each key's effect while reviewing in a terminal; only what was on the screen can be approved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.cli.review.view import ScreenPage, View, lacking, opened, press, shown
from mcp_server.cli.terminal.keyboard import split

LONG = ScreenPage(count=3, lines=100, height=20, folded=False)
SHORT = ScreenPage(count=3, lines=5, height=20, folded=False)
KEYS = ["up", "down", "space", "b", "g", "G", "o", "enter", "escape", "n", "p", "j", "k", "x", "pagedown", "pageup"]


def after(view: View, page: ScreenPage, *keys: str) -> View:
    """Return the view after these keys, drawn after each."""
    view = shown(view, page)
    for key in keys:
        view = shown(press(view, key, page)[0], page)
    return view


def test_the_list_stops_at_both_ends_and_enter_opens_the_marked_one() -> None:
    assert after(View(), LONG, "up").at == 0
    assert after(View(), LONG, "down", "down", "down", "down").at == 2
    assert after(View(), LONG, "down", "enter") == View(at=1, reading=True, seen=20)


def test_a_short_proposal_may_be_approved_immediately() -> None:
    assert lacking(after(opened(0), SHORT), SHORT) == ""


def test_a_long_one_only_after_its_last_line_was_reached_by_reading() -> None:
    view = after(opened(0), LONG)
    assert "80 lines" in lacking(view, LONG)
    assert "80 lines" in lacking(after(view, LONG, "G"), LONG), "the end alone is not the whole"
    assert lacking(after(view, LONG, *["space"] * 5), LONG) == ""
    assert lacking(after(view, LONG, *["down"] * 80), LONG) == ""


def test_folded_text_must_be_opened_and_read_from_its_beginning() -> None:
    part = ScreenPage(count=1, lines=10, height=20, folded=True)
    view = after(opened(0), part)
    assert "press o" in lacking(view, part)
    whole = after(press(view, "o", part)[0], LONG)
    assert (whole.whole, whole.top, whole.seen) == (True, 0, 20)
    assert lacking(whole, LONG) != ""


def test_another_proposal_begins_unread() -> None:
    read = after(opened(0), LONG, *["space"] * 5)
    assert after(read, LONG, "n") == View(at=1, reading=True, seen=20)
    assert after(read, LONG, "p") == read, "there is none before the first"
    assert after(read, LONG, "escape") == View(at=0)


@pytest.mark.parametrize(("key", "wish"), [("a", "approve"), ("r", "reject"), ("h", "harmful"), ("q", "quit")])
def test_a_word_is_only_said_where_a_proposal_is_open(key: str, wish: str) -> None:
    assert press(opened(0), key, LONG) == (opened(0), wish)
    assert press(View(), key, LONG) == (View(), wish if key == "q" else None)


def test_where_nothing_waits_only_leaving_does_something() -> None:
    nothing = ScreenPage(count=0, lines=0, height=20, folded=False)
    assert [press(View(), key, nothing) for key in ("enter", "a", "down")] == [(View(), None)] * 3
    assert press(View(), "q", nothing)[1] == "quit"


@given(st.lists(st.sampled_from(KEYS), max_size=60), st.integers(1, 60), st.integers(0, 200))
def test_whatever_is_pressed_nothing_counts_as_seen_that_was_not_on_the_screen(
    keys: list[str], height: int, lines: int
) -> None:
    """An oracle notes every line that was drawn."""
    page, view = ScreenPage(3, lines, height, folded=False), View()
    drawn: set[tuple[int, int]] = set()
    for key in keys:
        before = view
        view, _ = press(view, key, page)
        if not view.reading or view.at != before.at or view.whole != before.whole or not before.reading:
            drawn.clear()
        if view.reading:
            drawn |= {(view.at, line) for line in range(view.top, min(lines, view.top + height))}
        view = shown(view, page)
        assert 0 <= view.at < 3
        assert 0 <= view.top <= max(0, lines - height)
        if view.reading and not lacking(view, page):
            assert {line for at, line in drawn if at == view.at} == set(range(lines))


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("ja", ["j", "a"]),
        ("\x1b[A\x1b[B", ["up", "down"]),
        ("\x1b", ["escape"]),
        ("\x1b[5~ \r", ["pageup", "space", "enter"]),
        ("\x1b[1;5Aq", ["q"]),
        ("\x7f\x1bOA", ["backspace", "up"]),
    ],
)
def test_terminal_input_is_split_into_keys(typed: str, keys: list[str]) -> None:
    assert split(typed) == keys
