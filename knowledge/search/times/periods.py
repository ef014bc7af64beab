"""The times that a question names: *9 March*, *week 47*, *October*, *from 3 to 7 March*, *last month*. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from itertools import pairwise

from knowledge.search.times.calendar_periods import (
    AN_ORDINAL,
    ORDINALS,
    YEAR,
    NamedTime,
    between,
    days_by_number,
    month,
    months_by_number,
    of_years,
    weeks_and_quarters,
)
from knowledge.search.times.days import is_month, is_of_any_year
from knowledge.search.times.periods_by_today import TIME_WORDS, periods_by_today
from knowledge.state.ports import Period

_DIGIT = re.compile(r"\d")
_MONTHS = frozenset((
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
    "januar", "jänner", "februar", "märz", "mai", "juni", "juli", "oktober", "dezember",
    "janvier", "février", "mars", "avril", "juin", "juillet", "août", "septembre", "octobre", "novembre", "décembre",
    "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre",
    "gennaio", "febbraio", "aprile", "maggio", "giugno", "luglio", "settembre", "ottobre", "dicembre",
    "januari", "februari", "maart", "mei", "augustus", "augusti",
    "janeiro", "fevereiro", "março", "maio", "junho", "julho", "setembro", "outubro", "novembro", "dezembro",
))  # fmt: skip
"""Names of months that are read without a day and a year."""
_MAY_BE_OTHER_WORDS = frozenset((
    "march", "may", "mai", "mars", "mayo", "mei", "maio", "marzo", "august", "april", "june", "augustus", "julio",
))  # fmt: skip
"""Those that are also names of people or other words: they are read as months only after one of the words in `_BEFORE_MONTH`."""
BEFORE_MONTH = "in|for|of|from|since|until|till|by|during|last|this|next|early|late|mid"
"""English words that may precede a month, as alternatives in a pattern."""
_BEFORE_MONTH = re.compile(
    rf"\b(?:{BEFORE_MONTH}|im|seit|bis|ende|anfang|mitte|en|de|du|d['\u2019]|fin|début|"
    r"del|desde|hasta|di|da|em)[\s-]*$",
    re.IGNORECASE,
)
_WEEK_OF = re.compile(
    rf"\b(?:{AN_ORDINAL}|(last|letzte[nr]?|dernière|última|ultima))\s+(?:week|woche|semaine|semana|settimana)"
    r"\s+(?:of|in|im|des|de|du|di|d['\u2019])\s*$",
    re.IGNORECASE,
)
"""The text before the name of a month if a week of it is meant: *first week of* November."""
_PART_BEFORE = re.compile(
    r"\b(?:(beginning|start|early|anfang|début|principios|inizio)|(middle|mid|mitte|mi|mediados|metà)|(end|late|ende|fin|finales|fine))"
    r"(?:\s+(?:of|de|di|d['\u2019]))?[\s-]*$",
    re.IGNORECASE,
)
"""The text before the name of a month if a third of the month is meant: *end of* October."""
_WORD = re.compile(r"[^\W\d_]{3,}")
_YEAR_BEHIND = re.compile(rf"[\s,]+(?:(?:of|de)\s+)?{YEAR}(?!\d)")
_TO = r"\s*(?:-|\u2013|\b(?:to|until|till|through|bis|au|al|hasta|tot|a)\b)\s*(?:(?:the|zum)\s+)?"
_AND = r"\s+(?:and|und|et|y|e|en)\s+(?:(?:the|dem)\s+)?"
_BETWEEN = r"\b(?:between|zwischen|entre|tra|fra|tussen)\s+(?:(?:the|dem|le|el)\s+)?"
_TO_DATE, _AND_DATE = re.compile(_TO, re.IGNORECASE), re.compile(_AND, re.IGNORECASE)
_BETWEEN_BEFORE = re.compile(rf"{_BETWEEN}$", re.IGNORECASE)
_FROM_BEFORE = re.compile(
    r"\b(?:from|since|von|vom|seit|du|depuis|desde|del|dal|van|vanaf)\s+(?:(?:the|dem|le|el)\s+)?$", re.IGNORECASE
)
_ORDINAL = r"(?:st|nd|rd|th|er|\.)?"
_FROM_DAY = re.compile(rf"(?:(?<![\w./-])(\d\d?){_ORDINAL}{_TO}|{_BETWEEN}(\d\d?){_ORDINAL}{_AND})$", re.IGNORECASE)
"""The text before the last day: *from 3 to* 7 March."""
_TO_DAY = re.compile(
    rf"{_TO}(\d\d?)(?:st|nd|rd|th)?(?![\w./-]|\s*(?:[ap]m\b|o['\u2019]clock|uhr\b|h\b))(?:,?\s+{YEAR}(?!\d))?",
    re.IGNORECASE,
)
"""The text after the first day: March 3 *to 7, 2026*."""


@dataclass(frozen=True, slots=True)
class AskedPeriod:
    """A time as a question writes it, with the periods that it may be; without a year, one for each year, the latest first."""

    written: str
    periods: tuple[Period, ...]
    by_today: bool = False
    """Whether it depends on the day on which the question is asked."""


def periods_in(
    query: str, asked: Collection[str], days: Mapping[str, Sequence[str]], today: date, languages: Collection[str]
) -> Sequence[AskedPeriod]:
    """Return the times that a question names, in its order, without overlaps.

    `asked` are its words, `days` its dates (as `days_in` returns them), and `languages` those that it may be in, the likeliest first.
    """
    if not _DIGIT.search(query) and TIME_WORDS.isdisjoint(asked) and _MONTHS.isdisjoint(asked):
        return ()
    # The reading that is listed first keeps its words: the *last week of October* is not last week, and *9 March* not March.
    dates = _apart(
        [
            *_within_months(query),
            *_dates(query, days),
            *days_by_number(query),
            *months_by_number(query),
            *_months(query),
        ]
    )
    read = _apart([*_ranges(query, dates), *dates, *weeks_and_quarters(query)])
    every = _apart([*read, *periods_by_today(query, today, languages)])
    return [AskedPeriod(query[named.start : named.end], tuple(named.periods), named not in read) for named in every]


def _apart(names: Sequence[NamedTime]) -> list[NamedTime]:
    """Return the names that do not overlap one listed before them, in the order of the question."""
    found: list[NamedTime] = []
    for named in names:
        if all(named.end <= other.start or named.start >= other.end for other in found):
            found.append(named)
    return sorted(found, key=lambda named: named.start)


def _dates(query: str, days: Mapping[str, Sequence[str]]) -> Iterator[NamedTime]:
    for written, said in days.items():
        found = re.search(rf"(?<!\w){re.escape(written)}", query)
        if found is None:
            continue
        start = found.start()
        if is_month(said):
            year, number, _ = map(int, said[0].split("-"))
            periods = [month(year, number)]
        else:
            periods = [Period(day, day) for day in sorted(said, reverse=is_of_any_year(said))]
        yield NamedTime(start, start + len(written), periods)


def _ranges(query: str, dates: Sequence[NamedTime]) -> Iterator[NamedTime]:
    """Yield the ranges from one date or month to the next, and those with a month at one end only: *3 to 7 March*."""
    for first, last in pairwise(dates):
        link = query[first.end : last.start]
        before = _BETWEEN_BEFORE.search(query[: first.start])
        is_range = _TO_DATE.fullmatch(link) or (_AND_DATE.fullmatch(link) and before)
        if is_range and (periods := _joined(first.periods, last.periods)):
            yield NamedTime(before.start() if before else _start_with_from(query, first.start), last.end, periods)
    for named in dates:
        begins_with_day = query[named.start].isdigit()
        if begins_with_day and (before := _FROM_DAY.search(query[: named.start])):
            periods = [Period(_same_month(day, before[1] or before[2]), day) for _, day in named.periods]
            if _in_order(periods):
                yield NamedTime(_start_with_from(query, before.start()), named.end, periods)
        elif not begins_with_day and _is_a_day(named) and (behind := _TO_DAY.match(query, named.end)):
            periods = [Period(day, _same_month(day, behind[1])) for day, _ in named.periods]
            periods = [one for one in periods if one.first.startswith(behind[2] or "")]
            if _in_order(periods):
                yield NamedTime(named.start, behind.end(), periods)


def _is_a_day(named: NamedTime) -> bool:
    return named.periods[0].first == named.periods[0].last


def _start_with_from(query: str, start: int) -> int:
    """Return where the range with its first day at `start` begins, including a *from* before it."""
    before = _FROM_BEFORE.search(query[:start])
    return before.start() if before else start


def _same_month(day: str, number: str) -> str:
    return f"{day[: len('2026-11-')]}{int(number):02}"


def _in_order(periods: Sequence[Period]) -> bool:
    return bool(periods) and periods[0].first <= periods[0].last


def _joined(first: Sequence[Period], last: Sequence[Period]) -> list[Period]:
    """Return the ranges from `first` to `last`; none if the end is before the beginning.

    An end without a year takes that of the other, or the one before or after it if the range spans New Year.
    """
    if len(last) == 1:
        begins = [one.first for one in first if one.first <= last[0].last]
        return [Period(max(begins), last[0].last)] if begins else []
    # Without a year, the latest first.
    ends = {one.first: [its.last for its in last if its.last >= one.first] for one in first}
    return [Period(begin, min(its)) for begin, its in ends.items() if its]


def _months(query: str) -> Iterator[NamedTime]:
    """Yield the months without a day and a year."""
    for found, number in _names_of_months(query):
        if found[0].casefold() not in _MAY_BE_OTHER_WORDS or _BEFORE_MONTH.search(query[: found.start()]):
            yield NamedTime(found.start(), found.end(), of_years(None, partial(month, number=number)))


def _within_months(query: str) -> Iterator[NamedTime]:
    """Yield the weeks and parts of months: the *first week of November*, the *end of October*."""
    for found, number in _names_of_months(query):
        for pattern, period in ((_WEEK_OF, _week_of_month), (_PART_BEFORE, _part_of_month)):
            before = pattern.search(query[: found.start()])
            if before and before.lastindex:
                year = _YEAR_BEHIND.match(query, found.end())
                periods = of_years(year and year[1], partial(period, number=number, which=before.lastindex))
                yield NamedTime(before.start(), year.end() if year else found.end(), periods)


def _names_of_months(query: str) -> Iterator[tuple[re.Match[str], int]]:
    for found in _WORD.finditer(query):
        if found[0].casefold() in _MONTHS:
            from knowledge.merge.claims.lexicon import MONTHS_IN_DATES  # loads its table, which few questions need

            yield found, MONTHS_IN_DATES[found[0].casefold()]


def _week_of_month(year: int, number: int, which: int) -> Period:
    """Return seven days of a month, from its first, eighth, fifteenth or 22nd day; the fifth time its last seven."""
    first, last = map(date.fromisoformat, month(year, number))
    begins = last - timedelta(6) if which > len(ORDINALS) else first + timedelta(7 * (which - 1))
    return between(begins, begins + timedelta(6))


def _part_of_month(year: int, number: int, which: int) -> Period:
    """Return the first ten days of a month, the next ten, or the rest."""
    first, last = map(date.fromisoformat, month(year, number))
    begins = first + timedelta(10 * (which - 1))
    return between(begins, last if which > 2 else begins + timedelta(9))
