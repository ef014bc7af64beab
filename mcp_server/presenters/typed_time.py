"""Times as people type them, in a terminal and on the page, in UTC. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from knowledge.history.timestamps import beginning_of, end_of

FORMS = "today, yesterday, 30m, 2h or 3d ago (or 2 hours ago), or 2026-03-01 with or without a time (UTC)"
_AGO = re.compile(r"([0-9]{1,4}) ?(m|h|d|minutes?|hours?|days?)(?: ago)?")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def typed_or_picked(fields: Mapping[str, str], name: str) -> str:
    """Return the day that was picked beside a field for a time, or else what was typed there, "" for nothing."""
    return fields.get(f"{name}-day") or fields.get(name, "")


def since_of(text: str, now: datetime) -> datetime:
    """Return the beginning of what a person typed: a day, or a time.

    Raises:
        ValueError: it is no time; the message is for the person.
    """
    return _read(text, now, beginning_of, 0)


def until_of(text: str, now: datetime) -> datetime:
    """Return the end of what a person typed: a day with all of it, or a time.

    Raises:
        ValueError: it is no time; the message is for the person.
    """
    return _read(text, now, end_of, 1)


def _read(text: str, now: datetime, read: Callable[[str], datetime], days: int) -> datetime:
    text = " ".join(text.split())
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if text.lower() in ("today", "yesterday"):
        return today + timedelta(days=days - (text.lower() == "yesterday"))
    if ago := _AGO.fullmatch(text.lower()):
        return now - timedelta(**{_UNITS[ago[2][0]]: int(ago[1])})
    try:
        return read(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time: write {FORMS}") from None
