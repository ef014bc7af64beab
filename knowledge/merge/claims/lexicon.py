"""The words by which statements are read and compared, from `lexicon.toml`. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import TypeVar

T = TypeVar("T")

Unit = tuple[str, tuple[float, ...]]
"""A unit: its dimension, and its size in base units for each way in which it can be read."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _phrases(text: str) -> frozenset[str]:
    return frozenset(" ".join(phrase.split()) for phrase in text.split(";"))


def _by_word(rows: Iterable[tuple[T, str]]) -> Mapping[str, T]:
    return {word: meaning for meaning, words in rows for word in words.split()}


def _units(table: Mapping[str, Iterable[tuple[Iterable[float], str]]]) -> Mapping[str, Unit]:
    return _by_word(
        ((dimension, tuple(map(float, factors))), words) for dimension, rows in table.items() for factors, words in rows
    )


_TABLES = tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text(encoding="utf-8"))
_TERMS, _FIGURES, _LIMITS, _CALENDAR = (_TABLES[name] for name in ("terms", "figures", "limits", "calendar"))

NEGATIONS = _words(_TABLES["negations"])
NOT_NEGATING = re.compile(rf"\b(?:{'|'.join(_phrases(_TABLES['not_negating']))})\b")
OPPOSITES: Mapping[str, tuple[str, str]] = _TABLES["opposites"]
SORTS: tuple[str, ...] = (*_TABLES["sorts"]["qualifying"], *_TABLES["sorts"]["other"])
QUALIFYING: int = len(_TABLES["sorts"]["qualifying"])
"""This many entries at the beginning of `SORTS` set two statements apart even if only one of the two uses a word of
the entry."""
SYNONYMS = _by_word((group.split()[0], group) for group in _TERMS["synonyms"])
GENERIC = _words(_TERMS["generic"])
JOINING = _words(_TERMS["joining"])
CONDITIONS = _by_word(_TABLES["conditions"].items())
TURNING = NEGATIONS | frozenset(CONDITIONS) | _words(_LIMITS["turning"])
DECIDING = TURNING | _words(_LIMITS["deciding"])
"""Words that change what a statement says but not its subject."""
NARROWING = TURNING | _words(_LIMITS["narrowing"])
"""Words that a shorter text may not leave out."""
AT_LEAST, AT_MOST = _words(_LIMITS["at_least"]), _words(_LIMITS["at_most"])

UNITS = _units(_TABLES["units"])
CASED_UNITS = _units(_TABLES["cased_units"])
UNCLEAR: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    letter: {dimension: tuple(map(float, factors)) for dimension, factors in meanings.items()}
    for letter, meanings in _TABLES["unclear"].items()
}
MONTHS = _by_word(enumerate(_CALENDAR["months"], 1))
MONTHS_IN_DATES: Mapping[str, int] = {**_by_word(enumerate(_CALENDAR["months_in_dates"], 1)), **MONTHS}
"""All names of months, also those that are other words outside of dates."""
MONTHS_WITHOUT_YEAR = MONTHS_IN_DATES.keys() - _words(_CALENDAR["months_with_year"])
WEEKDAYS = _by_word(enumerate(_CALENDAR["weekdays"]))
WEEKDAYS_IN_DATES = WEEKDAYS.keys() | _words(_CALENDAR["weekdays_in_dates"])
NUMBER_WORDS = _by_word((float(number), words) for number, words in _TABLES["numbers"].items())
SCALES = _by_word((float(factor), words) for factor, words in _TABLES["scales"].items())
PERIODS = _by_word((float(seconds), words) for seconds, words in _TABLES["periods"].items())

LEAST_BEFORE, MOST_BEFORE = _phrases(_FIGURES["least_before"]), _phrases(_FIGURES["most_before"])
LEAST_AFTER, MOST_AFTER = _phrases(_FIGURES["least_after"]), _phrases(_FIGURES["most_after"])
BOUND_ENDS = frozenset(phrase.split()[-1] for phrase in LEAST_BEFORE | MOST_BEFORE)
BOUND_BEGINS = frozenset(phrase.split()[0] for phrase in LEAST_AFTER | MOST_AFTER)
ABOUT = _words(_FIGURES["about"])
BETWEEN = _words(_FIGURES["between"])
RANGE = _words(_FIGURES["range"])
PER = _words(_FIGURES["per"])
UNIT_ARTICLES = _words(_FIGURES["unit_articles"])
ARTICLES = (BETWEEN | UNIT_ARTICLES) - DECIDING
"""Words that may be left out or replaced by each other without changing what a statement says."""
COVERED_IN_FULL = frozenset({"en", "de"})
"""Languages of which the tables hold all words that matter; they hold only common ones of others."""
MAYBE_FIGURES = frozenset(MONTHS) | frozenset(NUMBER_WORDS) | UNIT_ARTICLES
CURRENCIES = _words(_FIGURES["currencies"])
SEPARATE_UNITS = _words(_FIGURES["separate_units"])
GUARDS = _words(_FIGURES["guards"])
LABELS = _words(_FIGURES["labels"])
DATE_BEFORE = _words(_FIGURES["date_before"])
VERSIONED = _words(_FIGURES["versioned"])
SCOPE_BEFORE = _words(_FIGURES["scope_before"])
SCOPE_STATES = _words(_FIGURES["scope_states"])
NO_KEYS = _words(_FIGURES["no_keys"])
