"""Times as people type and read them in a terminal, in UTC."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from knowledge.history.timestamps import beginning_of, end_of

FORMS = "today, yesterday, 30m, 2h or 3d ago, or 2026-03-01 with or without a time (UTC)"
_AGO = re.compile(r"(\d{1,4})(m|h|d)(?: ago)?")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def since(text: str) -> datetime:
    """Return the beginning of what a person typed: a day, or a time. Raises: argparse.ArgumentTypeError: it is no time."""
    return _moment(text, beginning_of, 0)


def until(text: str) -> datetime:
    """Return the end of what a person typed: a day with all of it, or a time. Raises: argparse.ArgumentTypeError: it is no time."""
    return _moment(text, end_of, 1)


def _moment(text: str, read: Callable[[str], datetime], days: int) -> datetime:
    now = datetime.now(UTC)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return today + timedelta(days=days - (text == "yesterday"))
    if ago := _AGO.fullmatch(text):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        return read(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write {FORMS}") from None


def shown(at: datetime) -> str:
    """Return the time to the minute."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"
