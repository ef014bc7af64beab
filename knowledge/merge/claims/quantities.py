"""Reads numbers, units, dates and versions, and decides whether two of them agree. Pure.

A figure that can be read in two ways (`1.000`, `3/4/2026`) keeps both readings, and differs from another only if neither agrees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Literal

from knowledge.merge.claims.lexicon import UNCLEAR, UNITS

Relation = Literal["same", "compatible", "differs", "incomparable"]
Bound = Literal["", "least", "most", "range"]

APPROXIMATE = 0.10
"""Two figures, one of them approximate, agree when they differ by at most this share: "about 3 MB", "roughly 3.1 MB"."""
CONVERTED = 0.016
"""The loss allowed in a conversion: a month is 30 days to most people, and 30.44 on average."""
REMEMBERED = 8_192
"""Figures whose readings are cached."""

_BY_PARTS = frozenset(("date", "version", "weekday", "clock"))
"""Dimensions whose values are compared part by part; they have no magnitude."""
_GROUPED = re.compile(r"\d{1,3}(?:([.,'\u2019_\u00a0\u202f ])\d{3})(?:\1\d{3})*(?:[.,]\d+)?$")


@dataclass(frozen=True, slots=True)
class Value:
    """A figure in a statement.

    `dimension` is what it measures (`time`, `bytes`, `ratio`, `date`, `version`, `money:eur`, ..., "" for a bare
    number). `low` and `high` hold its possible readings in the dimension's base unit; only in a range do the two
    differ. `parts` are the parts of a date or a version. `position` is the number of terms before the figure in the
    statement, and `noun` is the term after it.
    """

    dimension: str
    text: str
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    parts: tuple[tuple[int | None, ...], ...] = ()
    suffix: str = ""
    unit: str = ""
    figure: str = ""
    bound: Bound = ""
    about: bool = False
    position: int = 0
    noun: str = ""
    scope: bool = False
    """Whether it says when or where the statement holds (`in v2`, `as of 2024`), not what it states."""
    guard: bool = False
    """Whether it may be the condition of another value in the statement (`with 5 years of service`, `at 3,000 m`)."""


@lru_cache(REMEMBERED)
def readings(figure: str, language: str = "") -> tuple[float, ...]:
    """Return the possible values of the digits: `1,000` is a thousand or one, `1.000,5` is unambiguous."""
    sign = -1.0 if figure[0] in "-\N{MINUS SIGN}" else 1.0
    bare = figure.lstrip("+-\N{MINUS SIGN}")
    found: list[float] = []
    if grouped := _GROUPED.match(bare):
        mark = grouped[1]
        head, *rest = re.split(rf"(?<=\d{{3}})(?!{re.escape(mark)})[.,]", bare, maxsplit=1)
        # "0.500" groups nothing: it is a half.
        if not head.endswith(mark) and (bare.count(mark) > 1 or mark not in ".," or rest or head != "0"):
            digits = head.replace(mark, "")
            found.append(float(f"{digits}.{rest[0]}" if rest else digits))
    if not found or (bare.count(".") + bare.count(",") == 1 and not found[0] % 1):
        plain = bare.replace(",", ".")
        if plain.count(".") <= 1 and plain.replace(".", "").isdigit():
            decimal_mark = "," if language == "de" else "."
            # The reading usual in the language comes first: conversions are shown by it.
            found.insert(0 if decimal_mark in bare or not found else len(found), float(plain))
    return tuple(sign * number for number in dict.fromkeys(found))


def compare_values(ours: Value, theirs: Value) -> Relation:
    """Return whether two values of one subject are the same, can both be true, differ, or measure different things."""
    if _BY_PARTS.isdisjoint((ours.dimension, theirs.dimension)):
        pair = _in_one_dimension(ours, theirs)
        return "incomparable" if pair is None else _compare_magnitudes(*pair)
    if ours.dimension != theirs.dimension:
        return _compare_version_with_number(ours, theirs)
    if ours.dimension == "version":
        return _compare_versions(ours, theirs)
    best: Relation = "differs"
    for left in ours.parts:
        for right in theirs.parts:
            known = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
            if not known:
                return "incomparable"
            if left == right:
                return "same"
            # "March 2026" and "1 March 2026" can both be true.
            if all(a == b for a, b in known):
                best = "compatible"
    # "Until March" and "in February" can both be true; "until" does not say from when.
    if best == "differs" and (ours.bound in ("least", "most")) != (theirs.bound in ("least", "most")):
        return "compatible"
    return best


def _compare_version_with_number(ours: Value, theirs: Value) -> Relation:
    """Compare a version with a bare number, which the other side may have written for it: `Redis 7.0` and `7.0`."""
    version, number = (ours, theirs) if ours.dimension == "version" else (theirs, ours)
    digits = number.figure.split(".")
    if version.dimension != "version" or number.dimension or not all(part.isdigit() for part in digits):
        return "incomparable"
    read = Value("version", number.text, parts=(tuple(map(int, digits)),), bound=number.bound)
    found = _compare_versions(version, read)
    # A whole number that is not that version most likely counts something.
    return "incomparable" if found == "differs" and len(digits) == 1 else found


def _compare_versions(ours: Value, theirs: Value) -> Relation:
    left, right = ours.parts[0], theirs.parts[0]
    shorter = min(len(left), len(right))
    if left[:shorter] != right[:shorter]:
        return "differs"
    # 2.0-beta and 2.0-rc1 differ; 2.0 alone leaves open which it is.
    if ours.suffix != theirs.suffix and len(left) == len(right):
        return "differs" if ours.suffix and theirs.suffix else "compatible"
    # 3.11 and 3.11.0 are the same, 3.11 and 3.11.4 can both be true.
    return "compatible" if any(left[shorter:] + right[shorter:]) else "same"


def _in_one_dimension(ours: Value, theirs: Value) -> tuple[Value, Value] | None:
    """Return both values in base units of one dimension, or None if they measure different things."""
    a, b = ours.dimension, theirs.dimension
    if a == b:
        return ours, theirs
    if b in UNCLEAR.get(a, ()):
        return _scaled(ours, UNCLEAR[a][b], b), theirs
    if a in UNCLEAR.get(b, ()):
        return ours, _scaled(theirs, UNCLEAR[b][a], a)
    if {a, b} == {"temperature", "fahrenheit"}:
        return _celsius(ours), _celsius(theirs)
    if (a, b) == ("bytes", "bits"):
        return _scaled(ours, (8.0,), "bits"), theirs
    if (a, b) == ("bits", "bytes"):
        return ours, _scaled(theirs, (8.0,), "bits")
    # A figure without a unit may have any: the two differ only if no unit of the other side's dimension makes them the same.
    if not a:
        return _scaled(ours, _factors(b), b), theirs
    return None if b else (ours, _scaled(theirs, _factors(a), a))


@cache
def _factors(dimension: str) -> tuple[float, ...]:
    if dimension == "ratio":
        return 1.0, 0.01
    known = {factor for measured, factors in UNITS.values() if measured == dimension for factor in factors}
    return tuple(sorted(known | {1.0}))


def _scaled(value: Value, factors: tuple[float, ...], dimension: str) -> Value:
    low, high = (tuple(number * factor for number in side for factor in factors) for side in (value.low, value.high))
    return replace(value, dimension=dimension, low=low, high=high)


def _celsius(value: Value) -> Value:
    if value.dimension == "temperature":
        return value
    low, high = (tuple((number - 32) * 5 / 9 for number in side) for side in (value.low, value.high))
    return replace(value, dimension="temperature", low=low, high=high)


def _compare_magnitudes(ours: Value, theirs: Value) -> Relation:
    slack = APPROXIMATE if ours.about or theirs.about else 0.0 if ours.unit == theirs.unit else CONVERTED
    if _near(ours.low, theirs.low, slack) and _near(ours.high, theirs.high, slack):
        # "at least 5" and "5" are compatible, and so are "5" and "up to 5".
        return "same" if ours.bound == theirs.bound else "compatible"
    if ours.bound == theirs.bound:
        return "differs"
    if {ours.bound, theirs.bound} == {"least", "most"}:
        # "Fewer than 50 employees" and "more than 50 employees" are two groups, not two figures for one.
        return "incomparable"
    for low, high in _spans(ours):
        for other_low, other_high in _spans(theirs):
            if low * (1 - slack) <= other_high and other_low * (1 - slack) <= high:
                return "compatible"
    return "differs"


def _near(ours: tuple[float, ...], theirs: tuple[float, ...], slack: float) -> bool:
    # The last summand allows for rounding errors of conversions where no slack is due.
    return any(abs(a - b) <= slack * max(abs(a), abs(b)) + 1e-9 * abs(a) for a in ours for b in theirs)


def _spans(value: Value) -> list[tuple[float, float]]:
    """Return the interval that the value may lie in, for each of its readings."""
    pairs = list(zip(value.low, value.high, strict=False))
    if value.bound == "least":
        return [(low, float("inf")) for low, _ in pairs]
    if value.bound == "most":
        return [(float("-inf"), high) for _, high in pairs]
    return pairs
