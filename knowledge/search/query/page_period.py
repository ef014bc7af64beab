"""The time that a page is of: the day of a daily note, the week of a review, the date of a meeting. Pure."""

from __future__ import annotations

import re
from datetime import date

from knowledge.pages.paths import without_suffix
from knowledge.search.query.calendar_periods import days_by_number, month, months_by_number, weeks_and_quarters
from knowledge.search.query.days import days_in, is_month, is_of_any_year
from knowledge.state.ports import LONGEST_PERIOD_DAYS, Period

_DIGIT = re.compile(r"\d")


def period_of_page(path: str, title: str, said: object) -> Period | None:
    """Return the time that a page is of by its file name, its title, its folders, or `said`, the `date` of its front matter.

    None if that is no day, week, month or quarter.
    """
    folders, _, name = without_suffix(path).rpartition("/")
    for text in (name, title, f"{folders}/{name}", str(said or "")):
        if _DIGIT.search(text) and (found := _period_in(text)):
            return found
    return None


def _period_in(text: str) -> Period | None:
    """Return the time from the first to the last day in a text, or its week, quarter or month."""
    days = sorted(named.periods[0].first for named in days_by_number(text))
    if days and _are_near(days[0], days[-1]):
        return Period(days[0], days[-1])
    for named in (*weeks_and_quarters(text), *months_by_number(text)):
        if len(named.periods) == 1:
            return named.periods[0]
    for said in days_in(text.replace("_", " ")).values():
        if not is_of_any_year(said):
            return month(*map(int, said[0].split("-")[:2])) if is_month(said) else Period(said[0], said[0])
    return None


def _are_near(first: str, last: str) -> bool:
    try:
        return (date.fromisoformat(last) - date.fromisoformat(first)).days < LONGEST_PERIOD_DAYS
    except ValueError:  # 2026-02-30
        return False
