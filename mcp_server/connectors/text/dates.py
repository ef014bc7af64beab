"""Moments as people and services write them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def in_utc(text: str) -> datetime:
    """Return an ISO date (its begin) or time as a moment in UTC; one that names no zone is in UTC already.

    Raises:
        ValueError: it is none, or its zone moves it out of the calendar.
    """
    moment = datetime.fromisoformat(text.strip())
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("it is in no year that there is") from error
