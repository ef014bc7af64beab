"""Days, weeks, months and quarters that texts write with numbers, and quarters in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from functools import lru_cache, partial
from typing import NamedTuple

from knowledge.search.times.days import YEARS
from knowledge.state.ports import Period

YEAR = r"((?:19|20)\d\d)"
A_YEAR = re.compile(YEAR)
_OF_YEAR = rf"(?:[\s,/-]*(?:(?:of|in|von|de|del)\s+)?{YEAR}(?!\d))?"
_DAY = re.compile(rf"(?<!\d){YEAR}([-_./]?)(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])(?!\d)")
"""`2026-11-29`, but also Logseq's `2026_11_29`, `20261129`, and folders such as `2026/11/29.md`."""
_MONTH = re.compile(rf"(?<!\d){YEAR}[-_./](0[1-9]|1[0-2])(?![-_./]?\d)")
_WEEK_WORDS = "week|wk|kw|kalenderwoche|woche|semaine|semana|settimana|vecka|uge|uke|viikko|tydzień|неделя"
_WEEK = re.compile(
    rf"(?<![^\W_])(?:{YEAR}[-_\s/]*(?:w|{_WEEK_WORDS})[-_\s]*(\d\d?)|"
    rf"(?:(?:{_WEEK_WORDS})[-_\s.]*(?:n[or]\.?\s)?\s*|w(?=\d\d))(\d\d?){_OF_YEAR})(?![\w.-]*\d)",
    re.IGNORECASE,
)
"""`2026-W47`, *week 47 of 2026*, *KW 47*, `W47`."""
_QUARTER = re.compile(
    rf"(?<![^\W_])(?:{YEAR}[-_\s/]*q([1-4])|q([1-4]){_OF_YEAR}|([1-4])\.\s?quartal{_OF_YEAR})(?![\w.-]*\d)",
    re.IGNORECASE,
)
ORDINALS = tuple(
    words.split()
    for words in (
        "first 1st erste erster erstes ersten premier première 1er 1ère primer primera primo prima",
        "second 2nd zweite zweiter zweites zweiten deuxième 2e segundo segunda secondo seconda",
        "third 3rd dritte dritter drittes dritten troisième 3e tercer tercera terzo terza",
        "fourth 4th vierte vierter viertes vierten quatrième 4e cuarto cuarta quarto quarta",
    )
)
"""The words for the first four ordinal numbers, the English one first."""
AN_ORDINAL = "|".join(f"({'|'.join(words)})" for words in ORDINALS)
"""A pattern with a group for each of them."""
_NAMED_QUARTER = re.compile(rf"\b(?:{AN_ORDINAL})\s+(?:quarter|quartal|trimestre){_OF_YEAR}(?!\w)", re.IGNORECASE)
_LATEST_FIRST = YEARS[::-1]


class NamedTime(NamedTuple):
    """A time as a text writes it: where it begins and ends (exclusive), and the periods that it may be."""

    start: int
    end: int
    periods: Sequence[Period]


def days_by_number(text: str) -> Iterator[NamedTime]:
    """Yield the days written in figures with the year first."""
    for found in _DAY.finditer(text):
        day = f"{found[1]}-{found[3]}-{found[4]}"
        yield NamedTime(found.start(), found.end(), [Period(day, day)])


def months_by_number(text: str) -> Iterator[NamedTime]:
    """Yield the months written in figures with the year first."""
    for found in _MONTH.finditer(text):
        yield NamedTime(found.start(), found.end(), [month(int(found[1]), int(found[2]))])


def weeks_and_quarters(text: str) -> Iterator[NamedTime]:
    """Yield the calendar weeks (ISO 8601) and quarters; those without a year with a period for each year, the latest first."""
    for found in _WEEK.finditer(text):
        year, number = found[1] or found[4], int(found[2] or found[3])
        if periods := of_years(year, partial(_week, number=number)):
            yield NamedTime(found.start(), found.end(), periods)
    for found in _QUARTER.finditer(text):
        year, number = found[1] or found[4] or found[6], int(found[2] or found[3] or found[5])
        yield NamedTime(found.start(), found.end(), of_years(year, partial(quarter, number=number)))
    for found in _NAMED_QUARTER.finditer(text):
        number = next(at for at, _ in enumerate(ORDINALS, 1) if found[at])
        yield NamedTime(found.start(), found.end(), of_years(found[5], partial(quarter, number=number)))


def of_years(year: str | None, period: Callable[[int], Period | None]) -> list[Period]:
    """Return the period in `year`, or without a year the one in each of `YEARS`, the latest first."""
    return [one for each in ([int(year)] if year else _LATEST_FIRST) if (one := period(each))]


@lru_cache(maxsize=1_024)
def month(year: int, number: int) -> Period:
    """Return the month with that number."""
    following = date(year + number // 12, number % 12 + 1, 1)
    return between(date(year, number, 1), following - timedelta(1))


def quarter(year: int, number: int) -> Period:
    """Return the quarter with that number."""
    return Period(month(year, 3 * number - 2).first, month(year, 3 * number).last)


def between(first: date, last: date) -> Period:
    """Return the time from one day to another."""
    return Period(first.isoformat(), last.isoformat())


def _week(year: int, number: int) -> Period | None:
    try:
        monday = date.fromisocalendar(year, number, 1)
    except ValueError:  # not every year has a week 53
        return None
    return between(monday, monday + timedelta(6))
