"""The stored form of times: always with a zone, always in UTC. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST, LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
"""Stored times outside these limits are read as the nearer limit. Another program can write times that no `datetime` can represent,
such as `infinity`; the limits leave room to add a time span without an overflow."""


def aware(at: datetime) -> datetime:
    """Return `at`, which must have a zone.

    Raises:
        ValueError: it has none, which is a bug in the caller.
    """
    if at.tzinfo is None:
        raise ValueError("a time without its zone")
    return at


def beginning_of(text: str) -> datetime:
    """Return the time that a person wrote, or the beginning of the date, in UTC unless it names a zone.

    Raises:
        ValueError: it is neither a time nor a date in the form of ISO 8601.
    """
    at = datetime.fromisoformat(text)
    return within_reach(at if at.tzinfo else at.replace(tzinfo=UTC))


def end_of(text: str) -> datetime:
    """Return the time that a person wrote as an end: a date names its whole day, so its end is the beginning of the next.

    Raises:
        ValueError: it is neither a time nor a date in the form of ISO 8601.
    """
    at = beginning_of(text)
    try:
        date.fromisoformat(text)
    except ValueError:
        return at
    return at + timedelta(days=1)


@lru_cache(maxsize=4_096)
def utc_text(at: datetime) -> str:
    """Return the time in UTC as ISO 8601 with six decimals, so that texts sort as times do."""
    return aware(at).astimezone(UTC).isoformat(timespec="microseconds")


def micros(at: datetime) -> int:
    """Return microseconds since the epoch."""
    return (aware(at) - EPOCH) // timedelta(microseconds=1)


def moment(kept: int | datetime) -> datetime:
    """Return a time as read from a database, in UTC: SQLite keeps microseconds since the epoch, PostgreSQL times."""
    if isinstance(kept, datetime):
        return kept
    try:
        return within_reach(EPOCH + timedelta(microseconds=kept))
    except OverflowError:
        return LATEST if kept > 0 else EARLIEST


def moment_if_any(kept: int | datetime | None) -> datetime | None:
    """Return `moment(kept)`, or None for None."""
    return None if kept is None else moment(kept)


def with_moments(row: Sequence[Any], *columns: int) -> Sequence[Any]:
    """Return the row of a database with `moment_if_any` of these columns."""
    read = list(row)
    for column in columns:
        read[column] = moment_if_any(read[column])
    return read


def within_reach(at: datetime) -> datetime:
    """Return the time, limited to `EARLIEST` and `LATEST`."""
    return min(max(at, EARLIEST), LATEST)
