"""Times as services send them and as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def in_utc(text: str) -> datetime:
    """Return an ISO date (its midnight) or time in UTC. Without a time zone it is in UTC already.

    Raises:
        ValueError: it is neither, or its time zone moves it out of the calendar.
    """
    moment = datetime.fromisoformat(text.strip())
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        # 9999-12-31T23:59-01:00 is a valid ISO time, but in UTC its year is 10000.
        raise ValueError("in UTC its year is out of range") from error


def to_minute(moment: datetime) -> str:
    """Return a UTC time as people read it: `2026-11-20 21:01 UTC`."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"
