"""Values on the review page: long ones folded, edited without loss, times in readable form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.web.text.sanitize import has_hidden
from mcp_server.web.text.values import entry_of, fields_of, folded, moment, value_of

NOW = datetime(2026, 3, 31, 12, 0, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(JSON | st.text(alphabet="a\n\r\t\u202e\ud800 ", max_size=8))
def test_untouched_fields_stay_unchanged(value: object) -> None:
    """A browser sends line ends as CR LF, and would not show hidden characters."""
    entry = entry_of("content", value)
    assert not has_hidden(entry.value)
    assert value_of(entry.form, entry.value.replace("\n", "\r\n")) == value


def test_a_value_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        value_of("json", "much")


def test_folded_text_says_how_much_there_is() -> None:
    text = folded("x" * 5_000 + "<end>", 4_000)
    assert (len(text.html), text.left_out) == (4_000, 1_005)
    assert folded("<b>").left_out == 0


def test_values_are_in_the_order_of_their_names_with_their_kinds() -> None:
    found = fields_of({"path": "a.md", "dry_run": False, "authority": None, "corroboration": [], "n": 3})
    assert [(field.name, field.kind, field.value.html) for field in found] == [
        ("authority", "nothing", "null"),
        ("corroboration", "list", "[]"),
        ("dry_run", "yes or no", "false"),
        ("n", "number", "3"),
        ("path", "text, 4 characters", "a.md"),
    ]


@pytest.mark.parametrize(
    ("away", "told"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(hours=26), "1 day ago"),
        (-timedelta(days=7), "in 7 days"),
        (-timedelta(seconds=5), "in less than a minute"),
    ],
)
def test_times_are_written_as_people_write_them(away: timedelta, told: str) -> None:
    found = moment(NOW - away, NOW)
    assert found.ago == told
    assert found.iso == (NOW - away).isoformat()
