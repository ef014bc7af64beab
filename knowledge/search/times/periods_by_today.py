"""The times in a question that depend on the day on which it is asked: *yesterday*, *last week*, *three days ago*. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date, timedelta
from itertools import chain

from knowledge.search.times.calendar_periods import NamedTime, between, month, quarter
from knowledge.state.ports import Period

FRENCH = "fr"
LONGEST_DAYS = 366
"""The most days that *the last 90 days* and the like are read as."""
_DAYS_FROM_TODAY: Mapping[str, int] = {
    "today": 0, "yesterday": -1, "tomorrow": 1, "heute": 0, "gestern": -1, "vorgestern": -2, "aujourd'hui": 0, "hier": -1,
    "avant-hier": -2, "hoy": 0, "ayer": -1, "anteayer": -2, "oggi": 0, "ieri": -1, "vandaag": 0, "gisteren": -1, "hoje": 0,
    "ontem": -1, "idag": 0, "igår": -1, "dzisiaj": 0, "wczoraj": -1, "сегодня": 0, "вчера": -1,
}  # fmt: skip
_ONLY_FRENCH = frozenset({"hier"})
"""Words that mean something else in other languages: `hier` is *here* in German and Dutch."""
_UNITS: Mapping[str, str] = {
    word: unit
    for unit, words in {
        "day": "day days tag tage tagen jour jours día días giorno giorni dag dagen",
        "week": "week weeks woche wochen semaine semaines semana semanas settimana settimane weken",
        "month": "month months monat monate monaten mois mes meses mese mesi maand maanden",
        "quarter": "quarter quartal trimestre kwartaal",
        "weekend": "weekend wochenende week-end",
    }.items()
    for word in words.split()
}
_UNIT_DAYS = {"day": 1, "week": 7, "month": 31}
_WEEKDAYS: Mapping[str, int] = {
    word: at
    for at, words in enumerate((
        "monday montag lundi lunes lunedì maandag", "tuesday dienstag mardi martes martedì dinsdag",
        "wednesday mittwoch mercredi miércoles mercoledì woensdag", "thursday donnerstag jeudi jueves giovedì donderdag",
        "friday freitag vendredi viernes venerdì vrijdag", "saturday samstag samedi sábado sabato zaterdag",
        "sunday sonntag dimanche domingo domenica zondag",
    ))
    for word in words.split()
}  # fmt: skip
TIME_WORDS = frozenset({*_DAYS_FROM_TODAY, *_UNITS, *_WEEKDAYS, "aujourd", "avant"})
"""A question without these words, figures and names of months names no time. `aujourd` and `avant` are from *aujourd'hui* and
*avant-hier*."""
_LAST = r"last|past|previous|letzte[nrms]?|vergangene[nrms]?|vorige[nrms]?|afgelopen"
_THIS = r"this|current|diese[nrms]?|cette|ce|esta|este|questa|questo|deze|dit"
_NEXT = r"next|coming|nächste[nrms]?|kommende[nrms]?|volgende|próxim[ao]"
_WORD = r"([^\W\d_]+(?:-end)?)"
_SHIFTED = re.compile(rf"\b(?:({_LAST})|({_THIS})|({_NEXT})|(on|am))\s+{_WORD}\b", re.IGNORECASE)
_SHIFTED_AFTER = re.compile(
    rf"\b{_WORD}\s+(?:(derni[eè]re?|passée?|pasad[ao]|scors[ao])|(prochaine?|prossim[ao]|que viene))\b", re.IGNORECASE
)
_OF_SOMETHING = re.compile(r"\s+(?:of|before|after|des|vor|nach|du|del?|avant|antes)\b", re.IGNORECASE)
"""The *last week of the course* is not last week."""
_NUMBER = r"(\d{1,3}|[^\W\d_]{1,5})"
_AGO = (
    re.compile(rf"\b{_NUMBER}\s+{_WORD}\s+ago\b", re.IGNORECASE),
    re.compile(rf"\b(?:vor|il\s+y\s+a|hace)\s+{_NUMBER}\s+{_WORD}\b", re.IGNORECASE),
)
_MOST_RECENT = (
    re.compile(
        rf"\b(?:last|past|previous|letzten|vergangenen|últim[ao]s|ultim[ie]|laatste|afgelopen)\s+{_NUMBER}\s+{_WORD}\b",
        re.IGNORECASE,
    ),
    re.compile(rf"\b{_NUMBER}\s+derni(?:ers|ères)\s+{_WORD}\b", re.IGNORECASE),
)
_NUMBERS = {
    **dict.fromkeys(("a", "an", "one", "einem", "einer", "un", "une", "una"), 1),
    **dict.fromkeys(("two", "zwei", "deux", "dos", "due", "twee"), 2),
    **dict.fromkeys(("three", "drei", "trois", "tres", "tre", "drie"), 3),
}
_DAY_WORD = re.compile(r"(?<!\w)(?:aujourd['\u2019]hui|avant-hier|[^\W\d_]+)", re.IGNORECASE)


def periods_by_today(query: str, today: date, languages: Collection[str]) -> Iterator[NamedTime]:
    """Yield the times that depend on `today`; `languages` are those that the question may be in, the likeliest first."""
    yield from _counted(query, today)
    for found in _SHIFTED.finditer(query):
        shift = -1 if found[1] else 0 if found[2] else 1 if found[3] else None
        yield from _as_said(found, found[5], shift, today)
    for found in _SHIFTED_AFTER.finditer(query):
        yield from _as_said(found, found[1], -1 if found[2] else 1, today)
    for found in _DAY_WORD.finditer(query):
        word = found[0].casefold().replace("\u2019", "'")
        days_off = None if word in _ONLY_FRENCH and [*languages][:1] != [FRENCH] else _DAYS_FROM_TODAY.get(word)
        if days_off is not None:
            day = today + timedelta(days_off)
            yield NamedTime(found.start(), found.end(), [between(day, day)])


def _counted(query: str, today: date) -> Iterator[NamedTime]:
    """Yield the times that count back from today: *the last 10 days*, *three weeks ago*."""
    for found in chain.from_iterable(pattern.finditer(query) for pattern in _MOST_RECENT):
        days = _number(found[1]) * _UNIT_DAYS.get(_unit(found[2]), 0)
        if 0 < days <= LONGEST_DAYS:
            yield NamedTime(found.start(), found.end(), [between(today - timedelta(days), today)])
    for found in chain.from_iterable(pattern.finditer(query) for pattern in _AGO):
        if (number := _number(found[1])) and (period := _shifted(today, _unit(found[2]), -number)):
            yield NamedTime(found.start(), found.end(), [period])


def _as_said(found: re.Match[str], word: str, shift: int | None, today: date) -> Iterator[NamedTime]:
    """Yield the weekday, week, weekend, month or quarter that is `shift` from that of today (-1: last, 0: this, 1: next).

    Without a shift (*on Monday*), yield the most recent such weekday, which may be today; other units yield nothing.
    """
    weekday, unit = _WEEKDAYS.get(word.casefold()), _unit(word)
    if weekday is not None:
        day = _weekday(today, weekday, shift)
        yield NamedTime(found.start(), found.end(), [between(day, day)])
        return
    is_shifted = shift is not None and unit != "day" and not _OF_SOMETHING.match(found.string, found.end())
    if is_shifted and (period := _shifted(today, unit, shift or 0)):
        yield NamedTime(found.start(), found.end(), [period])


def _unit(word: str) -> str:
    return _UNITS.get(word.casefold(), "")


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else _NUMBERS.get(word.casefold(), 0)


def _weekday(today: date, weekday: int, shift: int | None) -> date:
    since = (today.weekday() - weekday) % 7
    if shift is None:
        return today - timedelta(since)
    if shift < 0:
        return today - timedelta(since or 7)
    return today + timedelta(weekday - today.weekday() if shift == 0 else 7 - since)


def _shifted(today: date, unit: str, shift: int) -> Period | None:
    """Return the day, week, weekend, month or quarter that is `shift` units after that of today; None for an unknown unit."""
    monday = today - timedelta(today.weekday() - 7 * shift)
    match unit:
        case "day":
            return between(today + timedelta(shift), today + timedelta(shift))
        case "week":
            return between(monday, monday + timedelta(6))
        case "weekend":
            return between(monday + timedelta(5), monday + timedelta(6))
        case "month":
            year, at = divmod(today.year * 12 + today.month - 1 + shift, 12)
            return month(year, at + 1)
        case "quarter":
            year, at = divmod(today.year * 4 + (today.month - 1) // 3 + shift, 4)
            return quarter(year, at + 1)
        case _:
            return None
