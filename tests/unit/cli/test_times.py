"""Times as people type them in a terminal."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta

import pytest

from mcp_server.cli.terminal import times

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_day_is_its_beginning_as_a_start_and_its_end_as_an_end() -> None:
    assert times.since("2026-03-01") == DAY
    assert times.until("2026-03-01") == DAY + timedelta(days=1)


@pytest.mark.parametrize("text", ["2026-03-01T14:30", "2026-03-01 14:30", "2026-03-01T15:30+01:00"])
def test_a_time_is_the_same_as_a_start_and_as_an_end(text: str) -> None:
    assert times.since(text) == times.until(text) == DAY + timedelta(hours=14, minutes=30)


def test_words_name_whole_days() -> None:
    before = datetime.now(UTC).date()
    today, end = times.since("today"), times.until("today")
    assert before <= today.date() <= datetime.now(UTC).date()
    assert today.time() == end.time() == DAY.time()
    assert times.since("yesterday") < end


@pytest.mark.parametrize(("text", "ago"), [("30m", {"minutes": 30}), ("2h", {"hours": 2}), ("3d ago", {"days": 3})])
def test_a_number_with_a_unit_is_that_long_ago(text: str, ago: dict[str, int]) -> None:
    before = datetime.now(UTC)
    found = times.since(text)
    assert before <= found + timedelta(**ago) <= datetime.now(UTC)


@pytest.mark.parametrize("text", ["", "noon", "5", "h", "-2h", "2 weeks", "2026-13-01", "todayish", "99999d"])
def test_anything_else_is_refused_with_the_forms_that_are_known(text: str) -> None:
    for read in (times.since, times.until):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a time: write today, yesterday, 30m"):
            read(text)


def test_a_time_is_shown_to_the_minute_in_utc() -> None:
    assert times.shown(datetime.fromisoformat("2026-03-01T15:30:59+01:00")) == "2026-03-01 14:30"
