"""The time that a page is of: the day of a daily note, the week of a review, the date of a meeting. Pure."""

from __future__ import annotations

import re
from datetime import date

from knowledge.pages.paths import without_suffix
from knowledge.search.times.calendar_periods import (
    A_YEAR,
    days_by_number,
    month,
    months_by_number,
    weeks_and_quarters,
)
from knowledge.search.times.days import days_in, is_month, is_of_any_year
from knowledge.state.ports import LONGEST_PERIOD_DAYS, Period

LONGEST_NAME = 200
"""The most characters of a name or title that are read."""
_UNTIL = re.compile(r"\s*(?:-{1,2}|_|\u2013|to|until|till|through|bis|au|al|a|hasta|tot)\s*", re.IGNORECASE)
"""The text between the first and the last day of a page; *2026-11-23 follow-up to 2026-11-02* is no range."""


def period_of_page(path: str, title: str, said: object) -> Period | None:
    """Return the time that a page is of, by its file name, else its folders, its title, or `said`, the `date` of its front matter.

    A day in any of the first three comes before a longer time in another. None if the page is of no day, week, month or quarter.
    """
    folders, _, name = without_suffix(path).rpartition("/")
    parts = (name[:LONGEST_NAME], f"{folders}/{name}"[-LONGEST_NAME:], title[:LONGEST_NAME])
    texts = [text for text in parts if A_YEAR.search(text)]
    given = str(said or "")[:LONGEST_NAME]
    found = (one for read in (_days_in, _longer_time_in) for text in texts if (one := read(text)))
    return next(found, None) or _days_in(given) or _longer_time_in(given)


def _days_in(text: str) -> Period | None:
    """Return the first day in a text, or the days from it to the second if the text has a short range."""
    named = sorted(days_by_number(text), key=lambda one: one.start)
    if named:
        first = last = named[0].periods[0].first
        if len(named) > 1 and _UNTIL.fullmatch(text[named[0].end : named[1].start]):
            last = named[1].periods[0].first
        last = last if _is_short(first, last) else first
        return Period(first, last) if _is_short(first, last) else None
    for said in days_in(text.replace("_", " ")).values():
        if not is_of_any_year(said) and not is_month(said) and _is_short(said[0], said[0]):
            return Period(said[0], said[0])
    return None


def _longer_time_in(text: str) -> Period | None:
    """Return the week, quarter or month in a text."""
    for named in (*weeks_and_quarters(text), *months_by_number(text)):
        if len(named.periods) == 1:
            return named.periods[0]
    for said in days_in(text.replace("_", " ")).values():
        if is_month(said):
            year, number, _ = map(int, said[0].split("-"))
            return month(year, number)
    return None


def _is_short(first: str, last: str) -> bool:
    try:
        days = (date.fromisoformat(last) - date.fromisoformat(first)).days
    except ValueError:  # 2026-02-30
        return False
    return 0 <= days < LONGEST_PERIOD_DAYS
