"""Recognises pages that are logs, and strips date headings and date prefixes from incoming text. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import NamedTuple

from knowledge.merge.claims.lexicon import MONTHS, WEEKDAYS
from knowledge.merge.document.units import BOM, cut, split_lines, units
from knowledge.merge.model import CutDocument, DocumentPiece
from knowledge.pages.markdown.inline import plain

ENTRIES = 2
"""Dated headings, or dated items, from which a page counts as a log even if its front matter does not say so."""

_MONTHS = "|".join(sorted(map(re.escape, MONTHS), key=len, reverse=True))
_WEEKDAYS = "|".join(
    (
        *map(re.escape, WEEKDAYS),
        "mon|tues?|wed|thu(?:rs?)?|fri|sat|sun|mo|di|mi|do|fr|sa|so",
        "lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche",
        "lunes|martes|mi\u00e9rcoles|jueves|viernes|s\u00e1bado|domingo",
    )
)
_DATE = (
    rf"(?:(?:{_WEEKDAYS})\b[.,]?[ \t]+)?"
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{4}\u5e74\d{1,2}\u6708\d{1,2}\u65e5|\d{1,2}[/.]\d{1,2}[/.]\d{4}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er|\.)?\s+(?:de\s+)?(?:{_MONTHS})\b\.?,?\s+(?:de\s+)?\d{{4}}"
    rf"|(?:{_MONTHS})\b\.?\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{4}})"
    r"(?:[T ,]+\d{1,2}:\d{2}(?::\d{2})?(?:\s?(?:Z|UTC))?)?"
)
_LABEL = (
    r"(?:updates?|updated|edit(?:ed)?|notes?|news|log|entry|added|status|meeting|weekly|daily|standup|sync|new information|addendum|"
    r"nachtrag|aktualisierung|aktualisiert|neu|stand|notiz(?:en)?|protokoll)"
)
_WRAPPER = re.compile(
    rf"(?P<label>(?:{_LABEL}\b[\s:,\u2013-]*(?:(?:of|from|on|as of|vom|am|per|for)\b\s*)?)*)[(\[]?(?P<date>{_DATE})[)\]]?"
    r"[\s:,.\u2013\u2014-]*(?P<rest>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_UNDATED = re.compile(
    r"(?:updates?|changelog|change log|new information|addendum|nachtrag|aktualisierung(?:en)?)\s*:?$", re.IGNORECASE
)
_SAID_AT = re.compile(
    rf"(?P<marker>[ \t]*(?:[-+*]|\d{{1,9}}[.)])[ \t]+|[ \t]*)(?P<mark>[*_]{{0,2}})(?:{_LABEL}\b[\s:]*)?[(\[]?(?P<date>{_DATE})[)\]]?"
    r"(?:[*_]{0,2}[ \t]*[:\u2013\u2014]|[ \t]+-|(?<=\])|:[*_]{1,2})[*_]{0,2}[ \t]+(?=\S)",
    re.IGNORECASE,
)
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
_ISO = re.compile(r"(\d{4})[-/.\u5e74](\d{1,2})[-/.\u6708](\d{1,2})")


class Unwrapped(NamedTuple):
    """Content without its date headings and prefixes.

    `dates` are the dropped dates, and `hint` holds the other words of dropped headings.
    """

    content: CutDocument
    hint: str = ""
    dates: tuple[str, ...] = ()


def dated_heading(text: str) -> str | None:
    """Return the date of a log entry's heading, such as `Update 2026-11-21`; None for any other heading."""
    found = _WRAPPER.match(_words(text))
    return found["date"] if found else None


def same_date(one: str, other: str) -> bool:
    """Return whether two headings name the same day, each in its own way."""
    dates = [date and _key(date) for date in map(dated_heading, (one, other))]
    return dates[0] is not None and dates[0] == dates[1]


def dated_item(text: str) -> str | None:
    """Return the date at the start of a paragraph or item, as log entries have it; None without one."""
    found = _SAID_AT.match(text)
    return found["date"] if found else None


def is_log(page: CutDocument) -> bool:
    """Return whether a page reads as a log: most of its sections, or of its items, are dated."""
    headings = [piece for piece in page.pieces if piece.kind == "heading"]
    dated = sum(dated_heading(piece.text) is not None for piece in headings)
    # The title of the page is a heading without a date.
    if dated >= ENTRIES and dated * 2 >= len(headings) - 1:
        return True
    said = [unit for unit in units(page) if unit.kind in ("item", "paragraph")]
    items = sum(dated_item(unit.text) is not None for unit in said)
    return items >= ENTRIES and items * 2 >= len(said)


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
    dates = [date for piece in page.pieces if piece.kind == "heading" and (date := dated_heading(piece.text))]
    dates = dates or [date for unit in units(page) if (date := dated_item(unit.text))]
    keys = [_key(date) for date in dates]
    # Counted, not only the first two: people correct old entries and add late ones.
    down = sum(first > second for first, second in pairwise(keys) if first and second)
    up = sum(first < second for first, second in pairwise(keys) if first and second)
    return down > up


def without_dates(content: CutDocument, *, known: Sequence[str] = ()) -> Unwrapped:
    """Return `content` without dated headings and without `Update 2026-11-21:` before its text.

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
        elif piece.kind in ("paragraph", "list"):
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
    if found := _ISO.search(date):
        return int(found[1]), int(found[2]), int(found[3])
    if found := re.search(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", date):
        return int(found[3]), int(found[2]), int(found[1])
    day, year = re.search(r"\b(\d{1,2})(?=\D|$)", date), re.search(r"\d{4}", date)
    month = next((MONTHS[word] for word in re.findall(r"[^\W\d_]+", date.casefold()) if word in MONTHS), 0)
    return (int(year[0]), month, int(day[1])) if day and year and month else None
