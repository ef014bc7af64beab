"""Durations, read from text and written as text. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MINUTE, _HOUR, _DAY, _WEEK = 60, 3_600, 86_400, 604_800
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), _MINUTE),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), _HOUR),
    **dict.fromkeys(("d", "day", "days"), _DAY),
    **dict.fromkeys(("w", "week", "weeks"), _WEEK),
}
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_THOUSANDS = r"[1-9]\d{0,2}(?:,\d{3})+"
# `1.500 h` means one and a half hours in English and fifteen hundred in German, so it is not read as a duration.
_NUMBER = rf"(?<!\d[.,])(?:{_THOUSANDS}|0[.,]\d{{1,3}}|\d{{1,9}}(?:[.,]\d{{1,2}})?)|an?|{'|'.join(_NUMBERS)}"
_ONE = re.compile(rf"\b({_NUMBER})[\s-]*({'|'.join(sorted(_UNITS, key=len, reverse=True))})\b", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s,]*(?:and\s+)?")
_LIMIT = re.compile(
    r"\b(?:within|at most|no more than|not more than|no longer than|not longer than|less than|under|up to|"
    r"a maximum of|a limit of|in only)\s+(?:the next\s+|about\s+)?",
    re.IGNORECASE,
)
UNITS = "s, min, h, days or weeks"
"""The units, for messages."""


@dataclass(frozen=True, slots=True)
class StatedDuration:
    """A duration as a text states it."""

    words: str
    seconds: float


def seconds_of(text: str) -> float | None:
    """Return the seconds of a text that is only a duration, such as `90 min` or `1 h 30 min`; None if it is not.

    A day has 24 hours, a week seven days.
    """
    found = _said_at(text.strip(), 0)
    return found.seconds if found and len(found.words) == len(text.strip()) else None


def _said_at(text: str, at: int) -> StatedDuration | None:
    """Return the duration that begins at that place, with all its parts."""
    total, end = 0.0, at
    while part := _ONE.match(text, _BETWEEN.match(text, end).end() if end > at else end):  # type: ignore[union-attr]  # it also matches ""
        total += _number(part.group(1)) * _UNITS[part.group(2).lower()]
        end = part.end()
    return StatedDuration(text[at:end], total) if end > at else None


def _number(text: str) -> float:
    word = text.lower()
    if word in ("a", "an"):
        return 1
    if word in _NUMBERS:
        return _NUMBERS.index(word) + 1
    return float(word.replace(",", "" if re.fullmatch(_THOUSANDS, word) else "."))


def durations_in(text: str) -> Sequence[StatedDuration]:
    """Return the durations in a text, in order."""
    found, at = list[StatedDuration](), 0
    while part := _ONE.search(text, at):
        said = _said_at(text, part.start())
        if said is None:
            break
        found.append(said)
        at = part.start() + len(said.words)
    return found


def limits_in(text: str) -> Sequence[StatedDuration]:
    """Return the durations that a text names as limits (`within two days`), each with the words that make it a limit."""
    found = []
    for opening in _LIMIT.finditer(text):
        said = _said_at(text, opening.end())
        if said is not None:
            found.append(StatedDuration(text[opening.start() : opening.end()] + said.words, said.seconds))
    return found


def in_words(seconds: float) -> str:
    """Return the duration in its largest units: `1 h 30 min`."""
    left, told = round(seconds), list[str]()
    for size, unit in ((_DAY, "days"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            told.append(f"{count} {unit.removesuffix('s') if unit == 'days' and count == 1 else unit}")
    return " ".join(told) or "0 s"
