"""A cursor continues the query that issued it, and no other."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.errors import BadCursor
from knowledge.wire.cursors import question, seal, unseal

KEY = question({"state": "active", "agent": None})
WHOLE = st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1)


@given(st.text(), WHOLE)
def test_a_sealed_cursor_opens_unchanged(text: str, number: int) -> None:
    assert unseal(seal(KEY, (text, number)), KEY, str, int) == [text, number]


@given(st.text(max_size=60))
def test_no_other_text_is_accepted_as_a_cursor(cursor: str) -> None:
    with pytest.raises(BadCursor):
        unseal(cursor, KEY, str)


@pytest.mark.parametrize(
    "told",
    [
        [KEY, 1],
        [KEY, True],
        [KEY, "a", "b"],
        [KEY],
        ["another", "a"],
        {"key": KEY},
        KEY,
        None,
    ],
)
def test_a_cursor_of_another_form_is_none(told: object) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps(told).encode()).decode()
    with pytest.raises(BadCursor):
        unseal(cursor, KEY, str)


def test_a_number_that_no_engine_counts_to_is_none() -> None:
    with pytest.raises(BadCursor):
        unseal(seal(KEY, (2**63,)), KEY, int)
    with pytest.raises(BadCursor):
        unseal(seal(KEY, (-(2**63),)), KEY, int)


def test_a_cursor_that_nests_without_end_is_none() -> None:
    with pytest.raises(BadCursor):
        unseal(base64.urlsafe_b64encode(b"[" * 100_000).decode(), KEY, str)


def test_a_default_argument_makes_no_other_query() -> None:
    assert question({"state": "active"}) == KEY
    assert len({KEY, question({}), question({"agent": "active"}), question({"state": "active", "agent": "x"})}) == 4
