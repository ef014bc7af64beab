"""Long proposals in pieces: nothing is lost, nothing is shown twice, and no piece is large."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from knowledge.merge.unified_diff import unified_diff
from mcp_server.web.proposals import passages
from mcp_server.web.proposals.passages import PIECE, DiffPosition, PassagePiece, pieces_of, shown
from mcp_server.web.text.sanitize import sanitize

ANY = 10**9
TEXTS = st.text(alphabet="ab \n<&\u200b\u202e", max_size=60)


@given(TEXTS, st.integers(1, 200))
def test_the_pieces_are_the_text(text: str, times: int) -> None:
    pieces = list(pieces_of(text * times * 20))
    assert "".join(pieces) == text * times * 20
    assert all(0 < len(piece) <= PIECE for piece in pieces)


def test_a_piece_ends_with_a_line_or_else_between_words() -> None:
    assert all(piece.endswith("\n") for piece in pieces_of("a line of it\n" * 20_000))
    assert all(piece.endswith(" ") for piece in list(pieces_of("word " * 50_000))[:-1])


@given(TEXTS, TEXTS, st.integers(1, 40))
def test_a_diff_in_pieces_of_any_size_has_the_same_rows(old: str, new: str, size: int) -> None:
    diff = unified_diff(old, new, "p.md", context=2, most_characters=ANY, longest_line=ANY)
    lines, place, html = diff.splitlines(keepends=True) or [""], DiffPosition(), ""
    for start in range(0, len(lines), size):
        piece = shown(PassagePiece("".join(lines[start : start + size]), place))
        assert piece.place is not None
        place, html = piece.place, html + piece.html
    assert html == shown(PassagePiece(diff, DiffPosition())).html


def test_a_line_that_is_cut_continues_in_rows_of_its_kind_without_a_number() -> None:
    diff = f"--- p\n+++ p\n@@ -1 +1 @@\n-old\n+{'x' * (3 * passages.PIECE)}\n"
    place, html = DiffPosition(), ""
    for text in pieces_of(diff):
        piece = shown(PassagePiece(text, place))
        assert piece.place is not None
        place, html = piece.place, html + piece.html
    rows = re.findall(
        r'<div class="row (\w+)" role="row"><span class="no" role="cell">(\d*)</span><span [^>]*>(\d*)<', html
    )
    assert rows[:2] == [("removed", "1", ""), ("added", "", "1")]
    assert set(rows[2:]) == {("added", "", "")}
    assert html.count("x") == 3 * passages.PIECE


def test_marked_text_is_reported() -> None:
    assert shown(PassagePiece("a\u202eb", None)) == passages.ShownPiece(sanitize("a\u202eb"), None, marked=True)
    assert not shown(PassagePiece('<i class="hidden-char">', None)).marked
