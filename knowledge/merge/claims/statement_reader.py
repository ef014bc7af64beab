"""Reading one statement from left to right: its terms, figures, denials and conditions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from knowledge.merge.claims.polarity import CONDITIONS, NEGATIONS, axis, canonical, stands_anywhere
from knowledge.merge.claims.quantities import (
    CASED_UNITS,
    MONTHS,
    NUMBER_WORDS,
    PERIODS,
    SCALES,
    UNCLEAR,
    UNITS,
    WEEKDAYS,
    Bound,
    Value,
    readings,
)
from knowledge.merge.claims.words import (
    ABOUT,
    BETWEEN,
    BOUND_BEGINS,
    BOUND_ENDS,
    CURRENCIES,
    DATE_BEFORE,
    EMPTY,
    FIGURES,
    GUARDS,
    LABELS,
    LEAST_AFTER,
    LEAST_BEFORE,
    MAYBE_FIGURES,
    MOST_AFTER,
    MOST_BEFORE,
    PER,
    RANGE,
    SCOPE_BEFORE,
    SCOPE_STATES,
    SEPARATE_UNITS,
    SPARING,
    TIME_OF,
    UNIT_ARTICLES,
    VERSIONED,
)
from knowledge.pages.markdown.language import STOP_WORDS

REMEMBERED = 16_384
"""Statements that are kept: those of several long pages, so that what did not change is not read again."""

_TOKEN = re.compile(
    r"""
      (?P<iso>(?<![\w.-])\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?(?![\w-]))
    | (?P<dmy>(?<![\w.])\d{1,2}\.\d{1,2}\.\d{4}(?!\w))
    | (?P<slash>(?<![\w/])\d{1,2}/\d{1,2}/\d{4}(?![\w/]))
    | (?P<clock>(?<![\w:.])\d{1,2}:\d{2}(?!:?\d)(?:\s?[ap]\.?m\b\.?)?)
    | (?P<lapse>(?<![\w.])(?:\d+[dhms]){2,4}(?!\w))
    | (?P<grouped>(?<![\w.,])[-+\u2212]?\d{1,3}(?:(?P<mark>[.,'\u2019_\u00a0\u202f ])\d{3}(?!\d))(?:(?P=mark)\d{3}(?!\d))*(?:[.,]\d+)?
        (?![\w.]*\d)(?P<gunit>[A-Za-z\u00b5\u03bc]{1,5}\b)?)
    | (?P<version>(?<![\w.])(?:[vV]\d+(?:\.\d+)*(?:\.x)?(?:-[A-Za-z][\w.]*)?
        |\d+\.\d+\.(?:\d+|x)(?:[-.+]?[A-Za-z\d][\w.]*)?|\d+\.x)(?![\w]))
    | (?P<number>(?<![\w.,])[-+\u2212]?\d+(?:[.,]\d+(?![.,]\d))?(?:[eE][+-]?\d+(?!\w))?
        (?P<unit>[A-Za-z\u00b5\u03bc]{1,7}(?![\w-]))?(?!\w))
    | (?P<word>[^\W\d](?:[\w\u0300-\u036f\u0900-\u0dff]|['\u2019](?=[^\W\d]{1,2}\b)|[-.](?=\w))*(?:\+\+|\#(?!\w))?)
    | (?P<mixed>\d\w*(?:[.-]\w+)*)
    | (?P<sign>[^\w\s])
    """,
    re.VERBOSE,
)
_FAMILY = re.compile(r"(aes|sha|rsa|utf|md|crc|ddr|usb|base|hmac-sha|pbkdf|http|tls)-?(\d{1,5})")
"""Names of which the number is a choice: `AES-128` or `AES-256`."""
_ENGLISH = STOP_WORDS["en"]


class Token(NamedTuple):
    """A word, figure or sign; `folded` is case-folded."""

    kind: str
    text: str
    folded: str
    start: int


class Polar(NamedTuple):
    """A word of a pair of opposites, and at which end the statement stands: the other one if the word is negated."""

    axis: str
    sign: int
    word: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement. `terms` say what it is about, in order, `words` are the same as written; `names` name one thing alone.

    `key` are the terms before the colon of a `key: value` line, `answer` what comes after it. `denied` are the terms that a
    negation stands before, `poles` the words that have an opposite. `conditions` are what differs when a statement holds in
    another case. `row` are the cells of a table row.
    """

    text: str
    language: str
    terms: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    bag: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    values: tuple[Value, ...] = ()
    denied: tuple[str, ...] = ()
    poles: tuple[Polar, ...] = ()
    conditions: frozenset[str] = frozenset()
    key: tuple[str, ...] = ()
    key_text: str = ""
    answer: str = ""
    row: tuple[str, ...] = ()


def read(statement: str, language: str) -> Claim:
    """Return what a statement without markup says, without regard to keys and cells."""
    return _StatementReader(statement, language).read()


@lru_cache(REMEMBERED)
def _tokens_of(text: str) -> tuple[Token, ...]:
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "sign"
        whole = match[0]
        kind = "number" if kind in ("unit", "gunit", "grouped") else kind
        found.append(Token(kind, whole, whole.casefold(), match.start()))
    return tuple(found)


class _StatementReader:
    """Reads one statement from left to right."""

    def __init__(self, text: str, language: str) -> None:
        self.text, self.language = text, language
        self.tokens = _tokens_of(text)
        self.folded = [token.folded for token in self.tokens]
        self.terms: list[str] = []
        self.words: list[str] = []
        self.names: set[str] = set()
        self.values: list[Value] = []
        self.poles: list[Polar] = []
        self.denied: list[str] = []
        self.conditions: set[str] = set()
        self.in_condition = False
        self.ends_denied = language in ("de", "nl", "sv", "da")
        self.pending: list[int] = []
        """Where negations stood that have not met their word yet, by the number of terms before them."""
        self.spent: set[int] = set()
        self.stops = STOP_WORDS.get(language, frozenset())
        # "Per" in German, the name of a plan in English.
        self.joining = EMPTY - {"pro"} if language == "en" else EMPTY
        joined = " ".join(self.folded)
        self.spared = SPARING.search(joined) is not None

    def read(self) -> Claim:
        at = 0
        self._mark_bounds()
        while at < len(self.tokens):
            at = self._token(at)
        self._deny_last()
        return Claim(
            self.text,
            self.language,
            tuple(self.terms),
            tuple(self.words),
            frozenset(self.terms),
            frozenset(self.names),
            tuple(self._with_nouns()),
            tuple(self.denied),
            tuple(self.poles),
            frozenset(self.conditions),
        )

    def _token(self, at: int) -> int:
        token = self.tokens[at]
        if token.kind == "word" and not _FAMILY.fullmatch(token.folded):
            return self._word(at, token)
        if token.kind == "sign":
            if token.text in ",;:)":
                self.in_condition = False
            return at + 1
        if (family := _FAMILY.fullmatch(token.folded)) is not None:
            self._value(Value(family[1], token.text, (float(family[2]),), (float(family[2]),), figure=family[2]))
            self._term(family[1], name=True)
            return at + 1
        if token.kind == "mixed":
            self._term(token.folded, name=True)
            return at + 1
        return self._figure(at, token)

    # Words

    def _word(self, at: int, token: Token) -> int:
        word = token.folded.replace("\u2019", "'")
        if word in MAYBE_FIGURES and ((after := self._date_in_words(at)) or (after := self._number_word(at, word))):
            return after
        if at not in self.spent and not self._turns(at, token, word):
            self._names(at, token, word)
        return at + 1

    def _turns(self, at: int, token: Token, word: str) -> bool:
        """Take up a word that says when or whether something holds, and return whether it is one."""
        if word in PERIODS:
            self._value(Value("time", token.text, (PERIODS[word],), (PERIODS[word],), unit="period"))
            return True
        if word in WEEKDAYS:
            self._value(Value("weekday", token.text, parts=((WEEKDAYS[word],),)))
            return True
        if len(self.tokens) == 1 and (pole := axis(word, self.language)) is not None:
            # "No" is an answer when it stands alone.
            self._pole(token.text, *pole)
            return True
        if word == "on" and self._is_switch(at):
            self._pole(token.text, "state", 1)
            return True
        if word in NEGATIONS or word.endswith("n't"):
            if not self._is_spared(at):
                self.pending.append(len(self.terms))
            return True
        if word in ("possible", "möglich", "possibly"):
            self.ends_denied |= bool(self.pending)
            return True
        if word in CONDITIONS:
            self.in_condition |= CONDITIONS[word] != "other"
            self.conditions.update(filter(None, (CONDITIONS[word],)))
        pole = axis(word, self.language)
        if pole is not None:
            self._pole(token.text, *pole)
        return pole is not None

    def _is_switch(self, at: int) -> bool:
        """Return whether `on` is the opposite of `off`: alone, or `is on by default`, `turned on`."""
        before, after = self._text(at - 1), self._text(at + 1)
        return (
            before in ("turned", "switched", "=", ":")
            or (before in ("is", "are", "be", "to", "") and after in ("", ".", ",", ";", "(", ")", "by"))
            or (self._text(at + 1) == "by" and self._text(at + 2) == "default")
        )

    def _names(self, at: int, token: Token, word: str) -> None:
        """Take up a word that says what is talked of; words that only join are left out."""
        if token.text in ("US", "IT"):
            self._term("#" + word, name=True)
            return
        if at and len(word) == 1 and token.text.isupper() and word != "i":
            self._term("#" + word, name=True)
            return
        bare = word.removesuffix("'s").removesuffix("s'") if "'" in word else word
        if bare not in self.stops and bare not in self.joining and bare not in _ENGLISH:
            self._term(bare, name=self._is_name(at, token))

    def _is_spared(self, at: int) -> bool:
        if not self.spared:
            return False
        return SPARING.search(" ".join(self.folded[max(0, at - 2) : at + 4])) is not None

    def _pole(self, word: str, name: str, sign: int) -> None:
        negated = bool(self.pending) and not stands_anywhere(name)
        if negated:
            self.pending.pop()
        if self.in_condition:
            self.conditions.add(f"{name}:{-sign if negated else sign}")
        else:
            self.poles.append(Polar(name, -sign if negated else sign, word, negated))

    def _term(self, word: str, *, name: bool) -> None:
        term = canonical(word, self.language)
        while self.pending:
            self.pending.pop()
            if self.in_condition:
                self.conditions.add(f"not:{term}")
            else:
                self.denied.append(term)
        self.terms.append(term)
        self.words.append(word)
        if name:
            self.names.add(term)

    def _deny_last(self) -> None:
        """Let a negation that ends the statement deny its last word, in the languages that put it there."""
        for _ in self.pending if self.ends_denied else ():
            term = self.terms[-1] if self.terms else ""
            if self.in_condition:
                self.conditions.add(f"not:{term}")
            else:
                self.denied.append(term)

    def _is_name(self, at: int, token: Token) -> bool:
        text = token.text
        if text.islower() and text.isalpha():
            return False
        if "_" in text or any(character.isdigit() for character in text) or not (text[1:].islower() or len(text) == 1):
            return any(character.isupper() or character in "_.0123456789" for character in text)
        return text[0].isupper() and at > 0 and self.language != "de" and self.tokens[at - 1].text not in ".:!?\"('"

    # Figures

    def _figure(self, at: int, token: Token) -> int:
        if token.kind == "iso":
            year, month, day = (int(part) for part in token.text[:10].split("-"))
            return self._dated(at, at + 1, token.text, ((year, month, day),))
        if token.kind == "dmy":
            day, month, year = (int(part) for part in token.text.split("."))
            return self._dated(at, at + 1, token.text, ((year, month, day),))
        if token.kind == "slash":
            first, second, year = (int(part) for part in token.text.split("/"))
            both = tuple((year, m, d) for m, d in ((first, second), (second, first)) if m <= 12 and d <= 31)
            return self._dated(at, at + 1, token.text, both or ((year, None, None),))
        if token.kind == "clock":
            return self._clock(at, token)
        if token.kind == "lapse":
            seconds = sum(float(n) * TIME_OF[u] for n, u in re.findall(r"(\d+)([dhms])", token.text))
            self._value(self._bounded(at, at + 1, Value("time", token.text, (seconds,), (seconds,), unit="lapse")))
            return at + 1
        if token.kind == "version":
            return self._version(at, token)
        return self._number(at, token)

    def _clock(self, at: int, token: Token) -> int:
        hours, minutes = (int(part) for part in re.findall(r"\d+", token.text)[:2])
        if "p" in token.folded and hours < 12:
            hours += 12
        self._value(self._bounded(at, at + 1, Value("clock", token.text, parts=((hours, minutes),))))
        return at + 1

    def _dated(self, at: int, after: int, text: str, parts: tuple[tuple[int | None, ...], ...]) -> int:
        if "(" in (self._text(at - 1), self._text(at - 2)) and self.values and self.values[-1].dimension == "version":
            # "Rust 1.92.0 (released 2025-12-11)": the date only says more of the version.
            return after
        # A day is mostly what is stated; a year, or what a sentence opens with, says when the rest held.
        opens = at <= 3 or all(day is None for _, _, day in parts)
        value = Value("date", text, parts=parts, scope=opens and self._is_scope(at))
        self._value(self._bounded(at, after, value))
        return after

    def _date_in_words(self, at: int) -> int:
        """Read `March 2026`, `March 1st, 2026` or a month alone after `in`; return where it ends, 0 if there is none."""
        token = self.tokens[at]
        month = MONTHS.get(token.folded)
        if month is None or (token.text[0].islower() and self.language in ("en", "de")):
            return 0
        day, year, after = None, None, at + 1
        if self._text(after) == ".":
            after += 1
        if (number := self._small(after, 31)) and self._text(after + 1) != "%":
            day, after = number, after + 1
            if self._text(after) == "," and self._year(after + 1):
                after += 1
        if found := self._year(after):
            year, after = found, after + 1
        if day is None and year is None and self._text(at - 1) not in DATE_BEFORE:
            return 0
        return self._dated(at, after, self._span(at, after), ((year, month, day),))

    def _small(self, at: int, most: int) -> int:
        text = self._text(at)
        found = re.fullmatch(r"(\d{1,2})(?:st|nd|rd|th)?", text)
        return int(found[1]) if found and 1 <= int(found[1]) <= most else 0

    def _year(self, at: int) -> int:
        text = self._text(at)
        return int(text) if re.fullmatch(r"(?:19|20|21)\d\d", text) else 0

    def _version(self, at: int, token: Token) -> int:
        if re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", token.text):
            # An address of the internet is what is talked of.
            self._term(token.folded, name=True)
            return at + 1
        found = re.match(r"[vV]?([\d.]+)(.*)$", token.text)
        digits, suffix = (found[1], found[2]) if found else (token.text, "")
        parts = tuple(int(part) for part in digits.strip(".").split(".") if part.isdigit())
        value = Value("version", token.text, parts=(parts,), suffix=suffix.strip("-.x+"), scope=self._is_scope(at))
        self._value(self._bounded(at, at + 1, value))
        return at + 1

    def _is_scope(self, at: int) -> bool:
        """Return whether the date or version at `at` says when the rest holds."""
        before = at - 1
        for _ in range(3):
            if before >= 0 and (
                self._text(before) in VERSIONED or self._text(before) in ("the", "der", "dem", "(", "version")
            ):
                before -= 1
        if before >= 0 and self._text(before) == "of" and self._text(before - 1) == "as":
            # "As of version 5" says since when; "as of March" says when somebody looked.
            return self.tokens[at].kind not in ("version", "number")
        bounded = self._bound_before(at)[0] or self._bound_after(at + 1)[0]
        if before < 0:
            return at > 0 and not bounded and not self._states_it()
        if bounded and before > 1:
            return False
        return self._text(before) in SCOPE_BEFORE and not self._states_it()

    def _states_it(self) -> bool:
        return any(word in SCOPE_STATES for word in self.folded)

    def _number_word(self, at: int, word: str) -> int:
        """Read a number in words, or `an hour`; return where it ends, 0 if there is none."""
        following = self._text(at + 1)
        if word in UNIT_ARTICLES:
            unit = UNITS.get(following)
            if (
                unit
                and unit[0] == "time"
                and len(following) > 2
                and at + 1 not in self.spent
                and not self._after_figure(at)
            ):
                return self._quantity(at, at + 1, "1", (1.0,))
            return 0
        number = NUMBER_WORDS.get(word)
        if number is None or (word == "one" and not self._counts_one(at)):
            return 0
        if word in ("hundred", "thousand", "tausend", "hundert", "dozen") and self._after_figure(at):
            return 0
        return self._quantity(at, at + 1, word, (number,))

    def _after_figure(self, at: int) -> bool:
        return at > 0 and (
            self.tokens[at - 1].kind == "number" or self._text(at - 1) in NUMBER_WORDS or self._text(at - 1) in UNITS
        )

    def _counts_one(self, at: int) -> bool:
        """Return whether `one` is a number here, and not `one of`, `the one`, `one can`."""
        following = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        if following is None or following.kind != "word" or following.folded in _ENGLISH:
            return False
        return self._text(at - 1) not in ("the", "this", "that", "another", "no", "any", "another", "which")

    def _number(self, at: int, token: Token) -> int:
        before = self._text(at - 1)
        if before == "." and at > 1:
            before = self._text(at - 2)
        found = re.match(r"([-+\u2212]?\d[\d.,'\u2019_\u00a0\u202f ]*(?:[eE][+-]?\d+)?)(.*)$", token.text)
        figure, attached = (found[1], found[2]) if found else (token.text, "")
        if attached and attached not in CASED_UNITS and attached.casefold() not in UNITS:
            if attached in ("st", "nd", "rd", "th") and (
                after := self._day_and_month(at, at + 1, int(re.sub(r"\D", "", figure) or 0))
            ):
                return after
            if attached in ("st", "nd", "rd", "th") and figure.isdigit():
                self._value(Value("ordinal", token.text, (float(figure),), (float(figure),)))
                return at + 1
            self._term(token.folded, name=True)
            return at + 1
        if not attached and before in LABELS:
            self._term(f"{before}#{figure}", name=True)
            return at + 1
        if not attached and figure.isdigit() and (after := self._calendar(at, figure)):
            return after
        if not attached and (after := self._bare_version(at, figure)):
            return after
        return self._quantity(at, at + 1, figure, _figures(figure, self.language), attached)

    def _calendar(self, at: int, figure: str) -> int:
        """Read `1 March 2026`, `1. März`, or a year after `in`; return where it ends, 0 if there is none."""
        if len(figure) <= 2 and (after := self._day_and_month(at, at + 1, int(figure))):
            return after
        if not self._year(at):
            return 0
        following = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        counted = following is not None and following.kind == "word" and following.folded in UNITS
        if counted or (
            self._text(at - 1) not in DATE_BEFORE and self._text(at - 1) not in ("\u00a9", "copyright", "(")
        ):
            return 0
        return self._dated(at, at + 1, figure, ((int(figure), None, None),))

    def _day_and_month(self, at: int, after: int, day: int) -> int:
        if self._text(after) in (".", "of"):
            after += 1
        month_token = self.tokens[after] if after < len(self.tokens) else None
        if month_token is None or not 1 <= day <= 31:
            return 0
        month = MONTHS.get(month_token.folded)
        if month is None or (month_token.text[0].islower() and self.language in ("en", "de")):
            return 0
        after += 1
        if self._text(after) == ".":
            after += 1
        if self._text(after) == "," and self._year(after + 1):
            after += 1
        year = self._year(after) or None
        after += 1 if year else 0
        return self._dated(at, after, self._span(at, after), ((year, month, day),))

    def _bare_version(self, at: int, figure: str) -> int:
        """Read `Redis 7.0`, `version 5`, `since 2.6`; return where it ends, 0 if it is another number."""
        if not re.fullmatch(r"\d{1,4}(?:\.\d{1,3})?", figure):
            return 0
        before = self.tokens[at - 1] if at else None
        following = self._text(at + 1)
        if before is None or following in UNITS or following in ("%", "\u20ac", "$"):
            return 0
        product = before.folded in VERSIONED or following in ("release", "releases", "branch", "series")
        if "." in figure and not product:
            product = any(word in VERSIONED for word in self.folded[max(0, at - 4) : at])
        named = (
            "." in figure
            and before.kind == "word"
            and ((before.text[0].isupper() and at > 1) or before.folded in ("since", "seit", "ab", "as"))
        )
        if not product and not named:
            return 0
        parts = tuple(int(part) for part in figure.split("."))
        value = Value("version", figure, parts=(parts,), figure=figure, scope=self._is_scope(at))
        self._value(self._bounded(at, at + 1, value))
        return at + 1

    def _quantity(self, at: int, after: int, figure: str, low: tuple[float, ...], attached: str = "") -> int:
        """Take up a number with its unit, a range, what it is per, and what bounds it; return where it ends."""
        high, begin = low, at
        if not attached and (step := self._second_of_range(after, figure)):
            second, attached, after = step
            high = _figures(second, self.language)
        scale = SCALES.get(self._text(after)) if not attached else None
        if scale:
            low, high, after = tuple(n * scale for n in low), tuple(n * scale for n in high), after + 1
        dimension, factors, unit, after = self._unit(at, after, attached)
        if self._text(after) in RANGE and high == low and (second_end := self._with_unit_again(after, dimension)):
            low = _times(low, factors)
            high, after = second_end
        else:
            low, high = _times(low, factors), _times(high, factors)
        if dimension == "time" and low == high:
            low, after = self._more_time(low, unit, after)
            high = low
        dimension, low, high, after = self._per(dimension, low, high, after)
        value = Value(
            dimension, self._span(begin, after), low, high, unit=unit, figure=figure, guard=self._guards(begin)
        )
        if low != high:
            value = replace(value, bound="range")
        self._value(self._bounded(at, after, value))
        return after

    def _second_of_range(self, after: int, figure: str) -> tuple[str, str, int] | None:
        between = self._text(after)
        open_range = between in RANGE or (
            between in ("and", "und") and self._text(after - 2) in ("between", "zwischen")
        )
        token = self.tokens[after + 1] if after + 1 < len(self.tokens) else None
        if not open_range or token is None or token.kind != "number" or not figure[0].isdigit():
            return None
        found = re.match(r"([\d.,]+)(.*)$", token.text)
        if not found or (found[2] and found[2] not in CASED_UNITS and found[2].casefold() not in UNITS):
            return None
        return found[1].rstrip(".,"), found[2], after + 2

    def _with_unit_again(self, after: int, dimension: str) -> tuple[tuple[float, ...], int] | None:
        """Read the end of `10 ms to 20 ms`."""
        token = self.tokens[after + 1] if after + 1 < len(self.tokens) else None
        if token is None or token.kind != "number" or not dimension:
            return None
        found = re.match(r"([\d.,]+)(.*)$", token.text)
        if not found:
            return None
        again, factors, _, end = self._unit(after + 1, after + 2, found[2])
        return (_times(_figures(found[1], self.language), factors), end) if again == dimension else None

    def _unit(self, at: int, after: int, attached: str) -> tuple[str, tuple[float, ...], str, int]:
        """Return dimension and factors of the unit at `after` (or attached to the number, or before it), and where it ends."""
        if attached:
            found = CASED_UNITS.get(attached) or UNITS[attached.casefold()]
            return *found, attached.casefold(), after
        following = self.tokens[after] if after < len(self.tokens) else None
        if following is not None:
            hyphen = following.text in ("-", "+") and after + 1 < len(self.tokens)
            place = after + 1 if hyphen else after
            token = self.tokens[place]
            single = len(token.text) == 1 and token.kind == "word" and token.text not in SEPARATE_UNITS
            if token.text == "\u00b0" and self._text(place + 1) in ("c", "f"):
                name = "\u00b0" + self._text(place + 1)
                return *UNITS[name], name, place + 2
            found_unit = None if single else CASED_UNITS.get(token.text) or UNITS.get(token.folded)
            if found_unit and not (token.kind == "word" and token.folded in ("may", "in", "times") and hyphen):
                return *found_unit, token.folded, place + 1
        before = self._text(at - 1)
        if before in CURRENCIES and before in UNITS:
            return *UNITS[before], before, after
        return "", (1.0,), "", after

    def _more_time(self, low: tuple[float, ...], unit: str, after: int) -> tuple[tuple[float, ...], int]:
        """Add the minutes of `1 hour 30 minutes`."""
        place = after + 1 if self._text(after) in ("and", "und") else after
        token = self.tokens[place] if place < len(self.tokens) else None
        if token is None or token.kind != "number" or unit.startswith("m"):
            return low, after
        found = re.match(r"([\d.,]+)(.*)$", token.text)
        if found is None or (found[2] and found[2].casefold() not in UNITS):
            return low, after
        dimension, factors, _, end = self._unit(place, place + 1, found[2])
        smaller = _times(_figures(found[1], self.language), factors)
        if dimension != "time" or smaller[0] >= low[0]:
            return low, after
        return tuple(number + smaller[0] for number in low), end

    def _per(
        self, dimension: str, low: tuple[float, ...], high: tuple[float, ...], after: int
    ) -> tuple[str, tuple[float, ...], tuple[float, ...], int]:
        """Divide by the time that it is per: `100 MB/s`, `$5 per month`, `10 requests per minute`."""
        for skipped in range(3):
            place = after + skipped
            if self._text(place) in PER and place + 1 < len(self.tokens):
                unit = UNITS.get(self._text(place + 1))
                if unit and unit[0] == "time" and dimension != "time":
                    if dimension in UNCLEAR:
                        factors = UNCLEAR[dimension][""]
                        dimension, low, high = "", _times(low, factors), _times(high, factors)
                    seconds = unit[1][0]
                    self.spent.update((place, place + 1))
                    return (
                        f"{dimension}/time",
                        tuple(number / seconds for number in low),
                        tuple(number / seconds for number in high),
                        after if skipped else place + 2,
                    )
                return dimension, low, high, after
            if place >= len(self.tokens) or self.tokens[place].kind != "word":
                break
        return dimension, low, high, after

    def _mark_bounds(self) -> None:
        """Take the words that bound figures out of the antonyms: `more than 5` is not the opposite of `less`."""
        for at, token in enumerate(self.tokens):
            if token.kind in FIGURES or token.folded in NUMBER_WORDS:
                _, used = self._bound_before(at)
                self.spent.update(range(at - used, at))
                for after in range(at + 1, at + 4):
                    _, used = self._bound_after(after)
                    self.spent.update(range(after, after + used))

    def _bound_before(self, at: int) -> tuple[Bound, int]:
        """Return what the words before a figure bound it to, and how many tokens they take."""
        end = at
        while end > 0 and at - end < 3 and (self._text(end - 1) in BETWEEN or self._text(end - 1) in ABOUT):
            end -= 1
        for stop in (at, end) if end < at else (at,):
            if self._text(stop - 1) in BOUND_ENDS:
                for length in (3, 2, 1):
                    phrase = " ".join(self.folded[max(0, stop - length) : stop])
                    if phrase in MOST_BEFORE:
                        return "most", at - stop + length
                    if phrase in LEAST_BEFORE:
                        return "least", at - stop + length
        return "", 0

    def _bound_after(self, at: int) -> tuple[Bound, int]:
        """Return what the words from `at` on bound the figure before them to, and how many tokens they take."""
        if self._text(at) not in BOUND_BEGINS:
            return "", 0
        phrase = " ".join(self.folded[at : at + 2])
        if phrase in LEAST_AFTER or phrase in MOST_AFTER:
            return ("least" if phrase in LEAST_AFTER else "most"), 2
        if self._text(at) in LEAST_AFTER:
            return "least", 1
        return ("most", 1) if self._text(at) in MOST_AFTER else ("", 0)

    def _bounded(self, at: int, after: int, value: Value) -> Value:
        bound, _ = self._bound_before(at)
        for place in (after, after + 1, at + 1):
            bound = bound or self._bound_after(place)[0]
        about = self._text(at - 1) in ABOUT or self._text(at - 2) in ABOUT
        return replace(value, bound=bound or value.bound, about=about) if bound or about else value

    def _guards(self, at: int) -> bool:
        """Return whether the words before a figure say that the rest holds for it: `with`, `at`, `for`."""
        before = at - 1
        while before >= 0 and (before in self.spent or self._text(before) in BETWEEN or self._text(before) in ABOUT):
            before -= 1
        return self._text(before) in GUARDS

    def _value(self, value: Value) -> None:
        self.values.append(replace(value, position=len(self.terms)))

    def _with_nouns(self) -> Iterator[Value]:
        """Yield the values, each with the term that follows it."""
        for value in self.values:
            yield replace(value, noun=self.terms[value.position]) if value.position < len(self.terms) else value

    def _text(self, at: int) -> str:
        return self.folded[at] if 0 <= at < len(self.folded) else ""

    def _span(self, begin: int, after: int) -> str:
        last = self.tokens[min(after, len(self.tokens)) - 1]
        start = self.tokens[begin].start
        if begin and self.tokens[begin - 1].text in ("$", "\u20ac", "\u00a3", "\u00a5"):
            start = self.tokens[begin - 1].start
        return self.text[start : last.start + len(last.text)]


def _figures(figure: str, language: str) -> tuple[float, ...]:
    if "e" in figure.casefold():
        return (float(figure.replace(",", ".")),)
    return readings(figure.rstrip(".,"), language) or (0.0,)


def _times(numbers: Sequence[float], factors: Sequence[float]) -> tuple[float, ...]:
    return tuple(number * factor for number in numbers for factor in factors)
