"""Recognises pages that are logs, and strips date headings and date prefixes from incoming text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from knowledge.merge.claims.lexicon import MONTHS_IN_DATES, MONTHS_WITHOUT_YEAR, WEEKDAYS_IN_DATES
from knowledge.merge.document.units import BOM, cut, heading_level, split_lines, units
from knowledge.merge.model import CutDocument, DocumentPiece
from knowledge.pages.markdown.inline import plain

ENTRIES = 2
"""Dated headings, or dated items, from which a page counts as a log even if its front matter does not say so."""
LONGEST_LEAD = 200
"""The most characters before the first figure of a date: an indent, a marker, a label and a weekday."""
NEAREST = 3
"""So many of the headings above a text are compared with those above another; on a page of ever deeper headings, all take too long."""
REMEMBERED = 4_096
"""Headings whose dates are kept, because each is read many times."""


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_DAY_OF_WEEK = rf"(?:(?:{_any(WEEKDAYS_IN_DATES)})\b[.,]?[ \t]+(?:(?:den|the|le|el)[ \t]+)?)?"
_DAY = r"\d{1,2}(?:st|nd|rd|th|er|\.|\u00ba)?"
_OF = r"(?:\s+|-)(?:(?:de|of)\s+|d['\u2019])?"
_MONTH = rf"(?:{_any(MONTHS_IN_DATES)})\b\.?"
_DATE = (
    rf"{_DAY_OF_WEEK}"
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{4}\.[ ]\d{1,2}\.[ ]\d{1,2}\b\.?|\d{4}\u5e74\d{1,2}\u6708\d{1,2}\u65e5"
    r"|\d{4}\ub144\s?\d{1,2}\uc6d4\s?\d{1,2}\uc77c|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{1,2}\.[ ]\d{1,2}\.[ ]\d{4}"
    rf"|{_DAY}{_OF}{_MONTH},?(?:\s+|-)(?:del?\s+)?\d{{4}}(?:\s?[\u0433\u0440r]\b\.?)?"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{4}}|\d{{4}}\.?\s+{_MONTH}\s+\d{{1,2}}\b\.?)"
    r"(?:[T ,]+\d{1,2}:\d{2}(?::\d{2})?(?:\s?(?:Z|UTC))?)?"
)
_MONTH_ALONE = rf"(?:{_any(MONTHS_WITHOUT_YEAR)})\b\.?"
_SHORT_DATE = (
    rf"{_DAY_OF_WEEK}(?:(?:[0-3]\d\.[01]\d|[0-3]?\d/[0-3]?\d)[./]\d\d\b(?![./]\d)"
    rf"|{_DAY}{_OF}{_MONTH_ALONE}|{_MONTH_ALONE}\s+\d{{1,2}}(?:st|nd|rd|th)?)(?=\s*(?:$|[)\]:,*_\u2013\u2014]|-\s))"
)
"""A date with a short year or none: enough to tell two entries apart, but never left out of a text."""
_LABEL = (
    r"(?:updates?|updated|edit(?:ed)?|notes?|news|log|entry|added|status|meeting|weekly|daily|standup|sync|new information|addendum|"
    r"nachtrag|aktualisierung|aktualisiert|neu|stand|notiz(?:en)?|protokoll)"
)


def _wrapper(date: str) -> re.Pattern[str]:
    """Return the pattern of a log entry's heading."""
    return re.compile(
        rf"(?P<label>(?:{_LABEL}\b[\s:,\u2013-]*(?:(?:of|from|on|as of|vom|am|per|for)\b\s*)?)*)[(\[]?(?P<date>{date})[)\]]?"
        r"[\s:,.\u2013\u2014-]*(?P<rest>.*)$",
        re.IGNORECASE | re.DOTALL,
    )


def _said_at(date: str) -> re.Pattern[str]:
    """Return the pattern of the beginning of a log entry that is a paragraph or an item."""
    return re.compile(
        r"(?P<marker>[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]+|[ \t]*)(?P<mark>[*_]{0,2})"
        rf"(?:{_LABEL}\b[\s:]*)?[(\[]?(?P<date>{date})[)\]]?"
        r"(?:[*_]{0,2}[ \t]*[:\u2013\u2014]|[ \t]+-|(?<=\])|:[*_]{1,2})[*_]{0,2}[ \t]+(?=\S)",
        re.IGNORECASE,
    )


_WRAPPER, _ANY_WRAPPER = _wrapper(_DATE), _wrapper(f"(?:{_DATE}|{_SHORT_DATE})")
_UNDATED = re.compile(
    r"(?:updates?|changelog|change log|new information|addendum|nachtrag|aktualisierung(?:en)?)\s*:?$", re.IGNORECASE
)
_SAID_AT, _ANY_SAID_AT = _said_at(_DATE), _said_at(f"(?:{_DATE}|{_SHORT_DATE})")
_DATED_NAME = re.compile(r"(?<!\d)(?:19|20)\d\d(?:[-_./]?(?:0[1-9]|1[0-2])(?:[-_./]?[0-3]\d)?|[-_.]?[Ww][0-5]\d)(?!\d)")
_LOG_NAME = re.compile(
    r"(?:(?:change|dev|lab|ops|work)?[-_ ]?logs?|logbook|changes|history|news|release[-_ ]?notes|releases|journal|diary"
    r"|standups?|logbuch|tagebuch)$",
    re.IGNORECASE,
)
_LOG_FOLDER = re.compile(
    r"journals?|diary|diar(?:io|ies)|tagebuch|dail(?:y|ies)(?:[-_ ]notes?)?|weekl(?:y|ies)(?:[-_ ]notes?)?|logs|standups?",
    re.IGNORECASE,
)
_ISO = re.compile(r"(\d{4})[-/.\u5e74\ub144]\s?(\d{1,2})[-/.\u6708\uc6d4]\s?(\d{1,2})")
_NUMBERS = re.compile(r"(?<!\d)(\d{1,2})([-/.])\s?(\d{1,2})[-/.]\s?(\d{4}|\d{2})(?!\d)")
_FIGURE = re.compile(rf"\D{{0,{LONGEST_LEAD}}}\d")
_DATE_INSIDE = re.compile(rf"(?<![\w./-])(?:{_DATE})(?![\w/-])", re.IGNORECASE)
_FIGURES = re.compile(r"\d+(?:\.\d+)*")
_SECTION_NUMBER = re.compile(r"\d+(?:\.\d+)*[.)]\s+(?=\D)")
_LETTERS = re.compile(r"[^\W\d_]+")


class Unwrapped(NamedTuple):
    """Content without its date headings and prefixes.

    `dates` are the dropped dates, and `hint` holds the other words of dropped headings.
    """

    content: CutDocument
    hint: str = ""
    dates: tuple[str, ...] = ()


@lru_cache(REMEMBERED)
def dated_heading(text: str) -> str | None:
    """Return the date of a log entry's heading, such as `Update 2026-11-21`; None for any other heading."""
    found = _ANY_WRAPPER.match(_words(text))
    return found["date"] if found else None


def same_date(one: str, other: str) -> bool:
    """Return whether two headings name the same day, each in its own way."""
    dates = [date and _key(date) for date in map(dated_heading, (one, other))]
    return dates[0] is not None and dates[0] == dates[1]


@lru_cache(REMEMBERED)
def day_of(heading: str) -> str | None:
    """Return the date in a heading, also if it says more, such as `[1.2.0] - 2026-11-21`; None without one."""
    if (date := dated_heading(heading)) is not None:
        return date
    found = _DATE_INSIDE.search(_words(heading))
    return found[0] if found else None


@lru_cache(REMEMBERED)
def are_entries_apart(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two heading paths are of two entries of a series: of two days, versions, weeks or weekdays.

    What one of them says is then neither said already nor contradicted by the other.
    """
    first, second = (next((name for name in reversed(path) if day_of(name)), None) for path in (one, other))
    if first is not None and second is not None:
        return _are_days_apart(day_of(first) or "", day_of(second) or "") or (
            None in (dated_heading(first), dated_heading(second)) and _are_of_one_series(first, second)
        )
    return any(_are_of_one_series(a, b) for a in one[-NEAREST:] for b in other[-NEAREST:])


def _are_of_one_series(one: str, other: str) -> bool:
    """Return whether two headings differ only by their figures (`Week 47`, `Week 48`), or are two days of the week."""
    names = [_SECTION_NUMBER.sub("", _words(name).casefold()) for name in (one, other)]
    if names[0] == names[1]:
        return False
    forms = [_FIGURES.sub("0", name) for name in names]
    return forms[0] == forms[1] or all(name in WEEKDAYS_IN_DATES for name in names)


def _are_days_apart(one: str, other: str) -> bool:
    if one.casefold() == other.casefold():
        return False
    first, second = _readings(one), _readings(other)
    if len(first) == len(second) == 2:
        return first != second  # 3/4/2026 and 4/3/2026 are written in one way
    # `28 Nov` has no year.
    return bool(first and second) and not any(
        a[1:] == b[1:] and (a[0] == b[0] or 0 in (a[0], b[0])) for a in first for b in second
    )


def dated_item(text: str) -> str | None:
    """Return the date at the start of a paragraph or item, as log entries have it; None without one."""
    # Most texts have no figure near their beginning, which is quick to see.
    found = _ANY_SAID_AT.match(text) if _FIGURE.match(text) else None
    return found["date"] if found else None


def is_log(page: CutDocument) -> bool:
    """Return whether a page reads as a log: most of its sections, or of its items, are dated.

    Sections inside the dated ones don't count.
    """
    dated, all_ = dated_sections(page)
    # The title of the page is a heading without a date.
    if len(dated) >= ENTRIES and len(dated) * 2 >= len(all_) - 1:
        return True
    said = [unit for unit in units(page) if unit.kind in ("item", "paragraph")]
    items = sum(dated_item(unit.text) is not None for unit in said)
    return items >= ENTRIES and items * 2 >= len(said)


def dated_sections(page: CutDocument) -> tuple[Sequence[str], Sequence[str]]:
    """Return the headings of a page that are dated, and all of its headings of their level and above."""
    headings = [(heading_level(piece), piece.section[-1]) for piece in page.pieces if piece.kind == "heading"]
    level = min((level for level, name in headings if day_of(name)), default=0)
    above = [name for one, name in headings if one <= level]
    return [name for name in above if day_of(name)], above


def is_dated_name(path: str) -> bool:
    """Return whether a path marks its page as dated or a log.

    It holds a year, month, week or day, a name like `changelog`, or a folder like `journal`.
    """
    name = path.rpartition("/")[2].rpartition(".")[0]
    if _DATED_NAME.search(path) is not None or _LOG_NAME.match(name) is not None:
        return True
    if any(_LOG_FOLDER.fullmatch(folder) for folder in path.split("/")[:-1]):
        return True
    # `28-11-2026`, `28 Nov 2026`, `28-de-noviembre-de-2026`
    return any(dated_heading(re.sub(r"[-_]", mark, name)) is not None for mark in (" ", "."))


def newest_first(page: CutDocument) -> bool:
    """Return whether the newest entry of a log comes first."""
    dates = [date for piece in page.pieces if piece.kind == "heading" and (date := day_of(piece.text))]
    dates = dates or [date for unit in units(page) if (date := dated_item(unit.text))]
    keys = [_key(date) for date in dates]
    # Counted, not only the first two: people correct old entries and add late ones.
    down = sum(first > second for first, second in pairwise(keys) if first and second)
    up = sum(first < second for first, second in pairwise(keys) if first and second)
    return down > up


def without_dates(content: CutDocument, *, known: Sequence[str] = (), only_headings: bool = False) -> Unwrapped:
    """Return `content` without dated headings and, unless `only_headings`, without `Update 2026-11-21:` before its text.

    `known` holds the folded headings of the page; these are kept. If a heading has other words besides its date, and
    the page has a heading of these words, they stay as a heading. Otherwise they go into `hint`.
    """
    parts: list[str] = []
    hints: list[str] = []
    dates: list[str] = []
    folded = frozenset(known)
    for piece in content.pieces:
        if piece.kind == "heading":
            parts.append(_heading(piece, folded, hints, dates))
        elif piece.kind in ("paragraph", "list") and not only_headings:
            for line in split_lines(piece.text):
                said = _SAID_AT.match(line)
                if said is not None:
                    dates.append(said["date"])
                parts.append(line if said is None else said["marker"] + line[said.end() :])
        else:
            parts.append(piece.text)
    if not dates:
        return Unwrapped(content)
    return Unwrapped(cut("".join(parts).lstrip("\r\n")), " ".join(hints), tuple(dict.fromkeys(dates)))


def _heading(piece: DocumentPiece, known: AbstractSet[str], hints: list[str], dates: list[str]) -> str:
    words = _words(piece.text)
    if words.casefold() in known:
        return piece.text
    found = _WRAPPER.match(words)
    if not found and not _UNDATED.match(words):
        return piece.text
    dates.append(found["date"] if found else words)
    rest = found["rest"].strip() if found else ""
    if rest and rest.casefold() in known:
        marks = piece.text[: len(piece.text) - len(piece.text.lstrip("# "))] or "## "
        return f"{marks}{rest}\n"
    if rest:
        hints.append(rest)
    return ""


def _words(heading: str) -> str:
    line = heading.lstrip(f"{BOM} \t").lstrip("#").strip()
    return plain(line.splitlines()[0] if line else "").rstrip("# ").strip()


def _key(date: str) -> tuple[int, int, int] | None:
    """Return the year, month and day of a date as it is written in a page; None if they can't be read from it."""
    found = _readings(date)
    return found[0] if len(found) == 1 else None


def _readings(date: str) -> Sequence[tuple[int, int, int]]:
    """Return the possible years, months and days of a date as it is written in a page; the year is 0 if it has none."""
    if found := _ISO.search(date):
        return [(int(found[1]), int(found[2]), int(found[3]))]
    if found := _NUMBERS.search(date):
        first, second, year = int(found[1]), int(found[3]), int(found[4]) + (2000 if len(found[4]) == 2 else 0)
        if found[2] != "/" or first > 12:
            return [(year, second, first)]
        # In 3/4/2026 either may be the month.
        return (
            [(year, first, second)]
            if second > 12 or first == second
            else [(year, first, second), (year, second, first)]
        )
    month = next((MONTHS_IN_DATES[word] for word in _LETTERS.findall(date.casefold()) if word in MONTHS_IN_DATES), 0)
    day, year_said = re.search(r"(?<!\d)\d{1,2}(?!\d)", date), re.search(r"\d{4}", date)
    return [(int(year_said[0]) if year_said else 0, month, int(day[0]))] if day and month else []
