"""The dates in a question. Pages of a day have it in their path or title as `2026-11-29`, and people write it in many ways. Pure.

The merge reads dates where an entry of a log begins, by patterns that take a third of a second to load, so only its names of months
are used here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

_HAS_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_MAY_HAVE_DAY = re.compile(
    r"(?<![\w.])\d{1,2}(?:st|nd|rd|th|er|\.)?\s+(?:of\s+|de\s+)?[^\W\d_]{3}|[^\W\d_]{3}\.?\s+\d{1,2}(?:st|nd|rd|th)?\b(?![.,]\d)"
)
"""A day beside what may be a month."""
_YEAR_FIRST = re.compile(
    r"(?<![\w.])(\d{4})(?:([/.])(\d{1,2})\2(\d{1,2})(?!\w)|[年년]\s?(\d{1,2})[月월]\s?(\d{1,2})[日일])"
)
_ISO = re.compile(r"(?<!\d)(\d{4})-(\d\d)(?:-(\d\d))?(?!\d)")
_YEAR_LAST = re.compile(r"(?<![\w.])(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?!\w)")
_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_BETWEEN = frozenset({"of", "the", "de", "del", "d", "st", "nd", "rd", "th", "er"})
"""Words and endings between the parts of a date: `18th of March`, `5 de mayo de 2026`."""
DAYS = range(1, 32)
YEARS = range(2000, 2050)
"""The years that a day without one may be of. In pages of past centuries it is only searched as it is written."""
_MONTH_BEGINNINGS = frozenset((
    "jan", "feb", "fév", "fev", "mar", "mär", "mrt", "avr", "apr", "abr", "mai", "maj", "may", "jun", "jui", "jul", "lug",
    "aug", "aoû", "ago", "sep", "set", "sie", "oct", "okt", "out", "ott", "paź", "nov", "lis", "déc", "dec", "dez", "dic",
))  # fmt: skip
"""The first letters of months in common languages: for other words the table of months is not loaded."""
SHORTEST_MONTH = 3
_CLEAR = frozenset((
    "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "mai", "mei", "maj",
))  # fmt: skip
"""Names of months of three letters that are hardly another word, beside a day."""
_ORDINAL = re.compile(r"(?:st|nd|rd|th|er)\b")
_ENDS_DATE = re.compile(r"[ \t]*(?:$|[|?!.;,)\n]|:(?!\d))")
"""What may stand behind two figures that are a year: `1 nov 26` has one, `1 nov 26 guests` and `1 nov 18:30` have none."""


def days_in(query: str) -> dict[str, Sequence[str]]:
    """Return the dates in `query`, as they are written there, each with the days that it may be: `2026-11-29`.

    3/4/2026 may be two days, a month is all of its days, and a day without a year that day of each year. A date that is written like
    that already is not among them.
    """
    if not _HAS_YEAR.search(query):
        return dict(_in_words(query)) if _MAY_HAVE_DAY.search(query) else {}
    found: dict[str, Sequence[str]] = {}
    for said in _YEAR_FIRST.finditer(query):
        found[said[0]] = _days(said[1], said[3] or said[5], said[4] or said[6])
    for said in _YEAR_LAST.finditer(query):
        first, second = said[1], said[3]
        # Only with slashes the month may come first.
        either = _days(said[4], first, second) if said[2] == "/" else []
        found[said[0]] = list(dict.fromkeys([*either, *_days(said[4], second, first)]))
    found |= dict(_in_words(query))
    return {said: days for said, days in found.items() if days}


def days_shown_in(texts: Iterable[str]) -> frozenset[str]:
    """Return the days with a year in the texts of a page, however they are written; a month is all of its days."""
    found: set[str] = set()
    for text in texts:
        found |= {day for days in days_in(text).values() if not is_of_any_year(days) for day in days}
        for year, month, day in _ISO.findall(text):
            found |= {f"{year}-{month}-{day}"} if day else {f"{year}-{month}-{one:02}" for one in DAYS}
    return frozenset(found)


def is_month(days: Sequence[str]) -> bool:
    """Return whether the days of a date are those of a month."""
    return len(days) > 1 and days[0][: len("2026-11")] == days[-1][: len("2026-11")]


def is_of_any_year(days: Sequence[str]) -> bool:
    """Return whether the days of a date are the same day of many years, because it has none."""
    return len(days) > 1 and days[0][: len("2026")] != days[-1][: len("2026")]


def other_names_of_month(word: str) -> Sequence[str]:
    """Return the names of the month that begin `word` or that `word` begins: `oct` for `october`, and the other way round."""
    if word[:SHORTEST_MONTH] not in _MONTH_BEGINNINGS:
        return ()
    from knowledge.merge.claims.lexicon import MONTHS_IN_DATES

    month = MONTHS_IN_DATES.get(word)
    others = (other for other, its in MONTHS_IN_DATES.items() if its == month) if month else ()
    return [
        other
        for other in others
        if other != word and len(other) >= SHORTEST_MONTH and (other.startswith(word) or word.startswith(other))
    ]


def _in_words(query: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the dates with the name of a month."""
    from knowledge.merge.claims.lexicon import MONTHS_IN_DATES  # loads its table, which few questions need

    tokens = [token for token in _TOKEN.finditer(query) if token[0].casefold() not in _BETWEEN]
    texts = ["", "", *(token[0] for token in tokens), "", ""]
    used = -1
    for at, token in enumerate(tokens):
        month = MONTHS_IN_DATES.get(token[0].casefold())
        if month is None:
            continue
        is_clear = _is_clear_month(token[0])
        before, after, then = texts[at + 1] if at - 1 > used else "", texts[at + 3], texts[at + 4]
        first, last, days = at, at + 1, list[str]()
        if _is_day(before) and _is_year(after):
            first, days = at - 1, _days(after, month, before)
        elif _is_day(after) and _is_year(then):
            last, days = at + 2, _days(then, month, after)
        elif _is_year(before) and _is_day(after):
            first, last, days = at - 1, at + 1, _days(before, month, after)
        elif (
            (is_clear or token[0] == "may")
            and _is_day(before)
            and _is_short_year(query, token, tokens[at + 1 : at + 2])
        ):
            first, days = at - 1, _days(f"20{after}", month, before)
        elif is_clear and (_is_day(before) or _is_day(after)):
            first, last = (at - 1, at) if _is_day(before) else (at, at + 1)
            days = list(_days_of_any_year(month, int(before if _is_day(before) else after)))
        elif _is_year(after):
            days = [f"{after}-{month:02}-{day:02}" for day in DAYS]
        if days:
            used, end = last, tokens[last].end()
            ordinal = _ORDINAL.match(query, end)
            yield query[tokens[first].start() : ordinal.end() if ordinal else end], days


@lru_cache(maxsize=366)
def _days_of_any_year(month: int, day: int) -> Sequence[str]:
    return [one for year in YEARS for one in _days(str(year), month, str(day))]


def _is_clear_month(written: str) -> bool:
    """Return whether it is hardly another word: `3 out of 5` has no month, and *step 3 may fail* neither."""
    folded = written.casefold()
    return written == "May" if folded == "may" else len(folded) > SHORTEST_MONTH or folded in _CLEAR


def _is_day(text: str) -> bool:
    return text.isdecimal() and len(text) <= 2 and int(text) in DAYS


def _is_year(text: str) -> bool:
    return _HAS_YEAR.fullmatch(text) is not None


def _is_short_year(query: str, month: re.Match[str], following: Sequence[re.Match[str]]) -> bool:
    """Return whether two figures behind a month are a year."""
    if not following or not (following[0][0].isdecimal() and len(following[0][0]) == 2):
        return False
    between = query[month.end() : following[0].start()]
    return between in (" ", ". ", "-", "/") and _ENDS_DATE.match(query, following[0].end()) is not None


def _days(year: str, month: str | int, day: str) -> list[str]:
    """Return the day, if there is such a month and day."""
    return [f"{year}-{int(month):02}-{int(day):02}"] if 1 <= int(month) <= 12 and int(day) in DAYS else []
