"""Recognises headings that count, such as versions, weeks and numbered steps, and where one more belongs. Pure.

Days are in `dated_log`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from knowledge.merge.document.dated_log import day_of
from knowledge.pages.markdown.inline import plain

_VERSION = re.compile(
    r"(?:(?:version|release)\s+)?\[?v?(?P<figures>\d+(?:\.\d+)+)(?P<before>[-.]?(?:alpha|beta|rc|pre|dev)[\w.]*)?\]?(?=$|[\s:,(])",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?P<figures>\d+(?:\.\d+)*)[.)]\s+\D")
_FIGURES = re.compile(r"\d{1,9}")
_YEARS = range(1900, 2100)
_COMING = frozenset(
    (
        "unreleased",
        "upcoming",
        "next release",
        "next version",
        "unver\u00f6ffentlicht",
        "non publi\u00e9",
        "sin publicar",
    )
)


class _Counted(NamedTuple):
    """What a heading counts: the series that it is of, and its place in it."""

    series: str
    number: tuple[int, ...]


def place_in_series(heading: str, siblings: Sequence[str]) -> int | None:
    """Return the index of the sibling that a new heading comes before; behind the last of its series, the index after it.

    None if the siblings are no series that it continues, or in no order.
    """
    if _name(heading) in _COMING:
        return _place_of_coming(siblings)
    mine = _counted(heading)
    there = [
        (at, one.number)
        for at, name in enumerate(siblings)
        if mine and (one := _counted(name)) and one.series == mine.series
    ]
    if mine is None or not there or mine.number in [number for _, number in there]:
        return None
    order = _order(there, siblings)
    if order == 0:
        return None
    # Behind the last that comes before it: what stands between two of a series belongs to the first.
    before = [at for at, number in there if (number < mine.number) == (order > 0)]
    if not before:
        return there[0][0]
    return next((at for at, _ in there if at > before[-1]), before[-1] + 1)


def _place_of_coming(siblings: Sequence[str]) -> int | None:
    """Return where "Unreleased" goes: before the newest version."""
    there = [
        (at, one.number) for at, name in enumerate(siblings) if (one := _counted(name)) and one.series == "version"
    ]
    if not there:
        return None
    return there[-1][0] + 1 if _order(there, siblings) > 0 else there[0][0]


def _order(there: Sequence[tuple[int, tuple[int, ...]]], siblings: Sequence[str]) -> int:
    """Return 1 if the numbers rise, -1 if they fall, 0 if neither is clear; "Unreleased" counts as the newest."""
    rises = [first < second for (_, first), (_, second) in pairwise(there)]
    coming = next((at for at, name in enumerate(siblings) if _name(name) in _COMING), None)
    if coming is not None:
        rises.append(coming > there[0][0])
    return 0 if len(set(rises)) != 1 else 1 if rises[0] else -1


def _counted(heading: str) -> _Counted | None:
    name = _name(heading)
    if found := _VERSION.match(name):
        # 1.3.0-rc1 comes before 1.3.0, and 1.3 is 1.3.0.
        figures = _numbers(found["figures"])
        return _Counted(
            "version", (*figures, *[0] * (4 - len(figures)), not found["before"], *_numbers(found["before"] or ""))
        )
    if day_of(heading):
        return None
    if found := _NUMBERED.match(name):
        return _Counted("numbered", _numbers(found["figures"]))
    # "Q1 2027" comes after "Q4 2026".
    numbers = tuple(sorted(_numbers(name), key=lambda number: number not in _YEARS))
    return _Counted(_FIGURES.sub("0", name), numbers) if numbers else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, _FIGURES.findall(text)))


def _name(heading: str) -> str:
    return plain(heading).casefold().strip(" :[]")
