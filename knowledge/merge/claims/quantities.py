"""Numbers, units, dates and versions: how they are written, and when two of them say the same. Pure.

English and German are read; figures and the usual signs of units are the same in most languages. A figure that can be read in
two ways (`1.000`, `3/4/2026`) keeps both, and differs from another only if no reading of it agrees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

Relation = Literal["same", "compatible", "differs", "incomparable"]
Bound = Literal["", "least", "most", "range"]

ABOUT = 0.10
"""Approximate figures agree when they differ by no more than this share."""
CONVERTED = 0.016
"""What conversion may lose: a month is 30 days to most people, and 30.44 on average."""

SECOND, MINUTE, HOUR, DAY = 1.0, 60.0, 3600.0, 86400.0
YEAR = 365.25 * DAY
MONTH = YEAR / 12


@dataclass(frozen=True, slots=True)
class Value:
    """A figure in a statement.

    `dimension` is what it measures (`time`, `bytes`, `ratio`, `date`, `version`, `money:eur`, ..., "" for a bare number).
    `low` and `high` are its readings in the dimension's base unit; they differ in a range. `parts` are those of a date or a
    version. `position` counts the terms of the statement that stand before it.
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
    """It says when or where the statement holds (`in v2`, `as of 2024`), and not what it states."""
    guard: bool = False
    """It may say for what the statement holds (`with 5 years of service`, `at 3,000 m`), when another value is stated too."""


def _units(*rows: tuple[str, float, str]) -> Iterable[tuple[str, tuple[str, tuple[float, ...]]]]:
    for dimension, factor, words in rows:
        for word in words.split():
            yield word, (dimension, (factor,))


def _byte_units() -> Iterable[tuple[str, tuple[str, tuple[float, ...]]]]:
    for power, letter, name in (
        (1, "k", "kilo"),
        (2, "m", "mega"),
        (3, "g", "giga"),
        (4, "t", "tera"),
        (5, "p", "peta"),
    ):
        both = (1000.0**power, 1024.0**power)
        for word in (f"{letter}b", f"{name}byte", f"{name}bytes"):
            yield word, ("bytes", both)
        binary = {"k": "kibi", "m": "mebi", "g": "gibi", "t": "tebi", "p": "pebi"}[letter]
        for word in (f"{letter}ib", f"{letter}i", f"{binary}byte", f"{binary}bytes"):
            yield word, ("bytes", (both[1],))
        for word in (f"{letter}bit", f"{letter}bits", f"{letter}bps", f"{name}bit", f"{name}bits"):
            yield word, ("bits/time" if word.endswith("bps") else "bits", (both[0],))


UNITS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    **dict(
        _units(
            ("time", 1e-9, "ns nanosecond nanoseconds nanosekunde nanosekunden"),
            ("time", 1e-6, "us µs μs usec microsecond microseconds mikrosekunde mikrosekunden"),
            ("time", 1e-3, "ms msec msecs millisecond milliseconds millisekunde millisekunden millis"),
            (
                "time",
                SECOND,
                "s sec secs second seconds sekunde sekunden sek segundo segundos seconde secondes секунд секунды",
            ),
            ("time", MINUTE, "min mins minute minutes minuten minuto minutos minuti минут минуты"),
            ("time", HOUR, "h hr hrs hour hours stunde stunden std hora horas heure heures uur часов часа"),
            ("time", DAY, "d day days tag tage tagen tages día días dia dias jour jours dag dagen дней дня"),
            ("time", 7 * DAY, "w week weeks woche wochen semana semanas semaine semaines weken недель"),
            ("time", MONTH, "month months monat monate monaten monats mes meses mois maand maanden месяцев"),
            ("time", 3 * MONTH, "quarter quarters quartal quartale"),
            ("time", YEAR, "y yr yrs year years jahr jahre jahren jahres año años ans année années jaar лет"),
            ("bytes", 1.0, "b byte bytes octets"),
            ("bits", 1.0, "bit bits"),
            ("bits/time", 1.0, "bps"),
            ("ratio", 0.01, "% percent pct prozent porcento procent"),
            ("length", 1e-9, "nm nanometer nanometers nanometre nanometres"),
            ("length", 1e-6, "µm μm micrometer micrometers micron microns mikrometer"),
            ("length", 1e-3, "mm millimeter millimeters millimetre millimetres millimetern"),
            ("length", 1e-2, "cm centimeter centimeters centimetre centimetres zentimeter zentimetern"),
            ("length", 1.0, "meter meters metre metres metern"),
            ("length", 1e3, "km kilometer kilometers kilometre kilometres kilometern"),
            ("length", 0.0254, "inch inches zoll"),
            ("length", 0.3048, "ft foot feet fuß"),
            ("length", 1609.344, "mile miles meile meilen mi"),
            ("mass", 1e-9, "µg μg mcg microgram micrograms mikrogramm"),
            ("mass", 1e-6, "mg milligram milligrams milligramm"),
            ("mass", 1e-3, "gram grams gramm gramme grammes"),
            ("mass", 1.0, "kg kilogram kilograms kilo kilos kilogramm"),
            ("mass", 1e3, "tonne tonnes tonnen"),
            ("mass", 0.45359237, "lb lbs pound pounds"),
            ("mass", 0.028349523125, "oz ounce ounces"),
            ("volume", 1e-3, "ml milliliter milliliters millilitre millilitres millilitern"),
            ("volume", 1.0, "l liter liters litre litres litern"),
            ("frequency", 1.0, "hz hertz"),
            ("frequency", 1e3, "khz"),
            ("frequency", 1e6, "mhz"),
            ("frequency", 1e9, "ghz"),
            ("power", 1.0, "watt watts"),
            ("power", 1e3, "kw kilowatt kilowatts"),
            ("power", 1e6, "mw megawatt"),
            ("energy", 1.0, "wh"),
            ("energy", 1e3, "kwh kilowattstunden kilowattstunde"),
            ("voltage", 1.0, "v volt volts"),
            ("current", 1.0, "ampere amperes amp amps"),
            ("current", 1e-3, "ma"),
            ("temperature", 1.0, "°c celsius"),
            ("fahrenheit", 1.0, "°f fahrenheit"),
            ("pixels", 1.0, "px pixel pixels pixeln"),
            ("money:usd", 1.0, "$ usd us$ dollar dollars"),
            ("money:eur", 1.0, "€ eur euro euros"),
            ("money:gbp", 1.0, "£ gbp"),
            ("money:chf", 1.0, "chf franken"),
            ("money:yen", 1.0, "¥ jpy yen"),
            ("times", 1.0, "x times"),
        )
    ),
    **dict(_byte_units()),
}
"""The dimension of each unit and how many base units it is; decimal and binary readings of kB, MB, ... both."""

CASED_UNITS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "Gb": ("bits", (1e9,)),
    "Mb": ("bytes", (1e6, 2.0**20)),
    "W": ("power", (1.0,)),
    "A": ("current", (1.0,)),
    "MW": ("power", (1e6,)),
    "K": ("k?", (1.0,)),
    "M": ("m?", (1.0,)),
    "G": ("g?", (1.0,)),
    "k": ("k?", (1.0,)),
    "m": ("m?", (1.0,)),
    "g": ("g?", (1.0,)),
}
"""Where upper and lower case tell units apart, and single letters that mean what stands on the other side."""

UNCLEAR: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "k?": {"": (1e3, 1024.0), "bytes": (1e3, 1024.0), "temperature": (1.0,), "mass": (1.0,)},
    "m?": {"": (1e6,), "bytes": (1e6, 2.0**20), "time": (MINUTE,), "length": (1.0,)},
    "g?": {"": (1e9,), "bytes": (1e9, 2.0**30), "mass": (1e-3,)},
}

MONTHS: Mapping[str, int] = {
    word: number
    for number, listed in enumerate(
        (
            "january jan januar jänner enero janvier",
            "february feb februar febrero février",
            "march mar märz maerz mrz marzo mars",
            "april apr abril avril",
            "may mai mayo",
            "june jun juni junio juin",
            "july jul juli julio juillet",
            "august aug agosto août",
            "september sep sept septiembre septembre",
            "october oct oktober okt octubre octobre",
            "november nov noviembre novembre",
            "december dec dezember dez diciembre décembre",
        ),
        1,
    )
    for word in listed.split()
}

WEEKDAYS: Mapping[str, int] = {
    word: number
    for number, listed in enumerate(
        (
            "monday mondays montag montags",
            "tuesday tuesdays dienstag dienstags",
            "wednesday wednesdays mittwoch mittwochs",
            "thursday thursdays donnerstag donnerstags",
            "friday fridays freitag freitags",
            "saturday saturdays samstag samstags sonnabend",
            "sunday sundays sonntag sonntags",
        )
    )
    for word in listed.split()
}

NUMBER_WORDS: Mapping[str, float] = {
    word: float(number)
    for number, listed in {
        1: "one einmal",
        2: "two zwei twice zweimal",
        3: "three drei thrice dreimal",
        4: "four vier viermal",
        5: "five fünf",
        6: "six sechs",
        7: "seven sieben",
        8: "eight acht",
        9: "nine neun",
        10: "ten zehn",
        11: "eleven elf",
        12: "twelve zwölf dozen",
        13: "thirteen dreizehn",
        14: "fourteen vierzehn",
        15: "fifteen fünfzehn",
        16: "sixteen sechzehn",
        18: "eighteen achtzehn",
        20: "twenty zwanzig",
        24: "vierundzwanzig",
        30: "thirty dreißig",
        40: "forty vierzig",
        48: "achtundvierzig",
        50: "fifty fünfzig",
        60: "sixty sechzig",
        72: "zweiundsiebzig",
        90: "ninety neunzig",
        100: "hundred hundert",
        1000: "thousand tausend",
    }.items()
    for word in listed.split()
}

PERIODS: Mapping[str, float] = {
    word: seconds
    for seconds, listed in {
        HOUR: "hourly stündlich",
        DAY: "daily nightly täglich",
        7 * DAY: "weekly wöchentlich",
        14 * DAY: "fortnightly biweekly",
        MONTH: "monthly monatlich",
        3 * MONTH: "quarterly vierteljährlich",
        6 * MONTH: "halbjährlich",
        YEAR: "yearly annually jährlich",
    }.items()
    for word in listed.split()
}

SCALES: Mapping[str, float] = {
    "thousand": 1e3,
    "tausend": 1e3,
    "million": 1e6,
    "millions": 1e6,
    "millionen": 1e6,
    "mio": 1e6,
    "billion": 1e9,
    "billions": 1e9,
    "milliarde": 1e9,
    "milliarden": 1e9,
    "mrd": 1e9,
    "bn": 1e9,
    "trillion": 1e12,
}

_GROUPED = re.compile(r"\d{1,3}(?:([.,'\u2019_\u00a0\u202f ])\d{3})(?:\1\d{3})*(?:[.,]\d+)?$")


@cache
def readings(figure: str, language: str = "") -> tuple[float, ...]:
    """Return what the digits may mean: `1,000` is a thousand or one, `1.000,5` is clear."""
    sign = -1.0 if figure[0] in "-\N{MINUS SIGN}" else 1.0
    bare = figure.lstrip("+-\N{MINUS SIGN}")
    found: list[float] = []
    grouped = _GROUPED.match(bare)
    if grouped:
        mark = grouped[1]
        head, *rest = re.split(rf"(?<=\d{{3}})(?!{re.escape(mark)})[.,]", bare, maxsplit=1)
        if not head.endswith(mark) and (bare.count(mark) > 1 or mark not in ".," or rest or head != "0"):
            digits = head.replace(mark, "")
            found.append(float(f"{digits}.{rest[0]}" if rest else digits))
    if not found or (bare.count(".") + bare.count(",") == 1 and not found[0] % 1):
        plain = bare.replace(",", ".")
        if plain.count(".") <= 1 and plain.replace(".", "").isdigit():
            as_decimal = float(plain)
            decimal_mark = "," if language == "de" else "."
            # The reading that the language has comes first, and is the one that conversion shows.
            found.insert(0 if decimal_mark in bare or not found else len(found), as_decimal)
    return tuple(sign * number for number in dict.fromkeys(found))


def relation(ours: Value, theirs: Value) -> Relation:
    """Return how two values of one subject stand to each other."""
    if ours.dimension in ("date", "version", "weekday", "clock") or theirs.dimension in (
        "date",
        "version",
        "weekday",
        "clock",
    ):
        return _of_parts(ours, theirs)
    pair = _in_one_dimension(ours, theirs)
    return "incomparable" if pair is None else _of_magnitudes(*pair)


def _of_parts(ours: Value, theirs: Value) -> Relation:
    if ours.dimension != theirs.dimension:
        return _version_or_number(ours, theirs)
    if ours.dimension == "version":
        return _of_versions(ours, theirs)
    best: Relation = "differs"
    for left in ours.parts:
        for right in theirs.parts:
            known = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
            if not known:
                return "incomparable"
            if all(a == b for a, b in known):
                if left == right:
                    return "same"
                best = "compatible"
    if best == "differs" and _open(ours) != _open(theirs):
        return "compatible"
    return best


def _version_or_number(ours: Value, theirs: Value) -> Relation:
    """A version may be written as a bare number on the other side."""
    version, number = (ours, theirs) if ours.dimension == "version" else (theirs, ours)
    if version.dimension != "version" or number.dimension:
        return "incomparable"
    digits = number.figure.split(".")
    if not all(part.isdigit() for part in digits):
        return "incomparable"
    held = _of_versions(version, Value("version", number.text, parts=(tuple(map(int, digits)),), bound=number.bound))
    return "incomparable" if held == "differs" and len(digits) == 1 else held


def _of_versions(ours: Value, theirs: Value) -> Relation:
    left, right = ours.parts[0], theirs.parts[0]
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        if ours.suffix != theirs.suffix and len(left) == len(right):
            return "differs" if ours.suffix and theirs.suffix else "compatible"
        return "same" if not any(left[shorter:] + right[shorter:]) else "compatible"
    return "differs"


def _open(value: Value) -> bool:
    return value.bound in ("least", "most")


def _in_one_dimension(ours: Value, theirs: Value) -> tuple[Value, Value] | None:
    """Return both in base units of one dimension, or None if they measure different things."""
    a, b = ours.dimension, theirs.dimension
    if a == b:
        return ours, theirs
    if a in UNCLEAR and b in UNCLEAR[a]:
        return _scaled(ours, UNCLEAR[a][b], b), theirs
    if b in UNCLEAR and a in UNCLEAR[b]:
        return ours, _scaled(theirs, UNCLEAR[b][a], a)
    if {a, b} == {"temperature", "fahrenheit"}:
        return _celsius(ours), _celsius(theirs)
    if {a, b} == {"bits", "bytes"}:
        return (_scaled(ours, (8.0,), "bits") if a == "bytes" else ours), (
            _scaled(theirs, (8.0,), "bits") if b == "bytes" else theirs
        )
    if not a or not b:
        return _bare(ours, theirs)
    return None


def _bare(ours: Value, theirs: Value) -> tuple[Value, Value] | None:
    """Give a figure without a unit the unit of the other side: the figures are then compared as they are written."""
    bare, full = (ours, theirs) if not ours.dimension else (theirs, ours)
    if full.dimension == "ratio":
        factors: tuple[float, ...] = (1.0, 0.01)
    else:
        known = {factor for dimension, both in UNITS.values() if dimension == full.dimension for factor in both}
        factors = tuple(sorted(known | {1.0}))
    # Without a unit it may be any: they differ only if no unit makes them the same.
    meant = _scaled(bare, factors, full.dimension)
    return (meant, full) if bare is ours else (full, meant)


def _scaled(value: Value, factors: tuple[float, ...], dimension: str) -> Value:
    return Value(
        dimension,
        value.text,
        tuple(number * factor for number in value.low for factor in factors),
        tuple(number * factor for number in value.high for factor in factors),
        unit=value.unit,
        figure=value.figure,
        bound=value.bound,
        about=value.about,
    )


def _celsius(value: Value) -> Value:
    if value.dimension == "temperature":
        return value
    low, high = (tuple((number - 32) * 5 / 9 for number in side) for side in (value.low, value.high))
    return Value("temperature", value.text, low, high, unit=value.unit, bound=value.bound, about=value.about)


def _of_magnitudes(ours: Value, theirs: Value) -> Relation:
    slack = ABOUT if ours.about or theirs.about else 0.0 if ours.unit == theirs.unit else CONVERTED
    if _near(ours.low, theirs.low, slack) and _near(ours.high, theirs.high, slack):
        # "at least 5" and "5" are compatible, and so are "5" and "up to 5".
        return "same" if ours.bound == theirs.bound else "compatible"
    if ours.bound == theirs.bound:
        return "differs"
    if {ours.bound, theirs.bound} == {"least", "most"}:
        # Where one side begins and the other ends they seldom speak of the same.
        return "incomparable"
    inside = any(_meet(a, b, slack) for a in _spans(ours) for b in _spans(theirs))
    return "compatible" if inside else "differs"


def _near(ours: tuple[float, ...], theirs: tuple[float, ...], slack: float) -> bool:
    return any(abs(a - b) <= slack * max(abs(a), abs(b)) + 1e-9 * abs(a) for a in ours for b in theirs)


def _spans(value: Value) -> list[tuple[float, float]]:
    """Return from where to where the value may lie, in each of its readings."""
    pairs = list(zip(value.low, value.high, strict=False))
    if value.bound == "least":
        return [(low, float("inf")) for low, _ in pairs]
    if value.bound == "most":
        return [(float("-inf"), high) for _, high in pairs]
    return pairs


def _meet(ours: tuple[float, float], theirs: tuple[float, float], slack: float) -> bool:
    return ours[0] * (1 - slack) <= theirs[1] and theirs[0] * (1 - slack) <= ours[1]
