"""Reads one statement from left to right: its terms, figures, denials and conditions. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from knowledge.merge.claims import lexicon
from knowledge.merge.claims.polarity import CLOSE_ONLY, axis_of, canonical
from knowledge.merge.claims.quantities import Bound, Value, readings
from knowledge.pages.markdown.language import STOP_WORDS

REMEMBERED = 16_384
"""Cached statements: enough for several long pages, so that unchanged statements are not parsed again."""

# The order decides: a date is not a subtraction, a clock time not a ratio, `1.2.3` not a decimal.
_TOKEN = re.compile(
    r"""
      (?P<iso>(?<![\w./-])\d{4}(?:-\d{2}-|/\d{2}/)\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?(?![\w/-]))
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
"""Names whose number is a choice (`AES-128` or `AES-256`), written with a hyphen or without (`SHA256`)."""
_SIGNED_FIGURE = re.compile(r"([-+\u2212]?\d[\d.,'\u2019_\u00a0\u202f ]*(?:[eE][+-]?\d+)?)(.*)$")
_FIGURE = re.compile(r"([\d.,]+)(.*)$")
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")
_YEAR = re.compile(r"(?:19|20|21)\d\d")
_FIGURES = frozenset(("number", "version", "iso", "dmy"))
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_ENGLISH = STOP_WORDS["en"]


class Token(NamedTuple):
    """A word, figure or sign; `folded` is case-folded."""

    kind: str
    text: str
    folded: str
    start: int


_OUTSIDE = Token("", "", "", 0)


class Polar(NamedTuple):
    """A word that has an opposite.

    `axis` joins the two opposites. `sign` is the end of the axis that the statement asserts: the word's own end, or the
    other one if the word is negated.
    """

    axis: str
    sign: int
    word: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement.

    `terms` are the stems of its content words, in order, and `words` are the same words as written. `names` are those
    terms that name one particular thing. Of a `key: value` line, `key` holds the terms before the colon and `answer`
    the text after it. `denied` are the terms after a negation, and `poles` the words that have an opposite.
    `conditions` say in which case the statement holds. `row` holds the cells of a table row.
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
    """Return the claim of a statement without markup, ignoring keys and cells."""
    return _StatementReader(statement, language).read()


@lru_cache(REMEMBERED)
def _tokens_of(text: str) -> tuple[Token, ...]:
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "sign"
        kind = "number" if kind in ("unit", "gunit", "grouped") else kind
        found.append(Token(kind, match[0], match[0].casefold(), match.start()))
    return tuple(found)


class _StatementReader:
    """Reads one statement. Methods that consume tokens return the index of the next one, or 0 if they consume none."""

    def __init__(self, text: str, language: str) -> None:
        self.text, self.language = text, language
        self.tokens = _tokens_of(text)
        self.folded = [token.folded for token in self.tokens]
        self.terms: list[str] = []
        self.words: list[str] = []
        self.names: set[str] = set()
        self.values: list[tuple[Value, int]] = []
        """Each value with the number of terms before it."""
        self.poles: list[Polar] = []
        self.denied: list[str] = []
        self.conditions: set[str] = set()
        self.in_condition = False
        self.pending = 0
        """The number of negations whose word has not been reached yet."""
        # "Die App erfasst den Standort nicht": these languages may put the negation behind the word that it denies.
        self.ends_denied = language in ("de", "nl", "sv", "da")
        self.bounds: set[int] = set()
        """Indexes of tokens that only limit or count a figure."""
        self.stops = STOP_WORDS.get(language, frozenset())
        # "Pro" means "per" in German, and is the name of a plan in English.
        self.joining = lexicon.JOINING - {"pro"} if language == "en" else lexicon.JOINING
        # "The HTTP/3 module appeared in version 1.25.0" states the version; it is not the scope of something else.
        self.states_scope = not lexicon.SCOPE_STATES.isdisjoint(self.folded)
        self.has_harmless_negation = lexicon.NOT_NEGATING.search(" ".join(self.folded)) is not None

    def read(self) -> Claim:
        """Return the claim."""
        self._mark_bounds()
        at = 0
        while at < len(self.tokens):
            at = self._take(at, self.tokens[at])
        if self.ends_denied:
            # A negation at the end of the statement denies the last word before it.
            for _ in range(self.pending):
                self._deny(self.terms[-1] if self.terms else "")
        terms = self.terms
        return Claim(
            self.text,
            self.language,
            tuple(terms),
            tuple(self.words),
            frozenset(terms),
            frozenset(self.names),
            tuple(replace(value, position=at, noun="".join(terms[at : at + 1])) for value, at in self.values),
            tuple(self.denied),
            tuple(self.poles),
            frozenset(self.conditions),
        )

    def _take(self, at: int, token: Token) -> int:
        family = _FAMILY.fullmatch(token.folded)
        if token.kind == "word" and family is None:
            return self._word(at, token)
        if token.kind == "sign":
            if token.text in ",;:)":
                # "If disabled, the client speaks plain text": the condition ends with the comma.
                self.in_condition = False
            return at + 1
        if family is not None:
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
        if word in lexicon.MAYBE_FIGURES and (
            (after := self._date_in_words(at)) or (after := self._number_word(at, word))
        ):
            return after
        if at not in self.bounds and not self._takes_turn(at, token, word):
            self._name_subject(at, token, word)
        return at + 1

    def _takes_turn(self, at: int, token: Token, word: str) -> bool:
        """Record a word that says when or whether something holds; return whether `word` is one."""
        if word in lexicon.PERIODS:
            self._value(Value("time", token.text, (lexicon.PERIODS[word],), (lexicon.PERIODS[word],), unit="period"))
            return True
        if word in lexicon.WEEKDAYS:
            self._value(Value("weekday", token.text, parts=((lexicon.WEEKDAYS[word],),)))
            return True
        pole = axis_of(word, self.language)
        if len(self.tokens) == 1 and pole is not None:
            # "No" is an answer when it is alone, and denies what follows it otherwise.
            self._pole(token.text, *pole)
            return True
        if word == "on" and self._is_switch(at):
            self._pole(token.text, "state", 1)
            return True
        if word in lexicon.NEGATIONS or word.endswith("n't"):
            self.pending += not self._is_harmless_negation(at)
            return True
        if word in ("possible", "möglich", "possibly"):
            # "It is not possible": the word is not a subject, so the negation goes to the word before it.
            self.ends_denied |= self.pending > 0
            return True
        if word in lexicon.CONDITIONS:
            self.in_condition |= lexicon.CONDITIONS[word] != "other"
            if lexicon.CONDITIONS[word]:
                self.conditions.add(lexicon.CONDITIONS[word])
        if pole is not None:
            self._pole(token.text, *pole)
        return pole is not None

    def _is_switch(self, at: int) -> bool:
        """Return whether `on` is the opposite of `off` ("is on by default", "turned on") rather than a preposition."""
        before, after = self._text(at - 1), self._text(at + 1)
        return (
            before in ("turned", "switched", "=", ":")
            or (before in ("is", "are", "be", "to", "") and after in ("", ".", ",", ";", "(", ")", "by"))
            or (after == "by" and self._text(at + 2) == "default")
        )

    def _name_subject(self, at: int, token: Token, word: str) -> None:
        """Record a word of the subject; stop words and words that only join others are skipped."""
        # Normally stop words, but names here: the US, "Node A contains hash slots 0 to 5500".
        if token.text in ("US", "IT") or (at and len(word) == 1 and token.text.isupper() and word != "i"):
            self._term("#" + word, name=True)
            return
        bare = word.removesuffix("'s").removesuffix("s'") if "'" in word else word
        if bare not in self.stops and bare not in self.joining and bare not in _ENGLISH:
            self._term(bare, name=self._is_name(at, token.text))

    def _is_harmless_negation(self, at: int) -> bool:
        return (
            self.has_harmless_negation
            and lexicon.NOT_NEGATING.search(" ".join(self.folded[max(0, at - 2) : at + 4])) is not None
        )

    def _pole(self, word: str, axis: str, sign: int) -> None:
        negated = self.pending > 0 and axis not in CLOSE_ONLY
        if negated:
            self.pending -= 1
            sign = -sign
        if self.in_condition:
            self.conditions.add(f"{axis}:{sign}")
        else:
            self.poles.append(Polar(axis, sign, word, negated))

    def _term(self, word: str, *, name: bool) -> None:
        term = canonical(word, self.language)
        for _ in range(self.pending):
            self._deny(term)
        self.pending = 0
        self.terms.append(term)
        self.words.append(word)
        if name:
            self.names.add(term)

    def _deny(self, term: str) -> None:
        if self.in_condition:
            self.conditions.add(f"not:{term}")
        else:
            self.denied.append(term)

    def _is_name(self, at: int, text: str) -> bool:
        if text.islower() and text.isalpha():
            return False
        if "_" in text or any(map(str.isdigit, text)) or not (text[1:].islower() or len(text) == 1):
            return any(character.isupper() or character in "_.0123456789" for character in text)
        # German nouns all begin with a capital, and so does every sentence.
        return text[0].isupper() and at > 0 and self.language != "de" and self.tokens[at - 1].text not in ".:!?\"('"

    # Dates and versions

    def _figure(self, at: int, token: Token) -> int:
        if token.kind == "iso":
            year, month, day = (int(part) for part in token.text[:10].replace("/", "-").split("-"))
            return self._date(at, at + 1, (year, month, day))
        if token.kind == "dmy":
            day, month, year = (int(part) for part in token.text.split("."))
            return self._date(at, at + 1, (year, month, day))
        if token.kind == "slash":
            # 3/4/2026 is in March or in April.
            first, second, year = (int(part) for part in token.text.split("/"))
            both = tuple((year, m, d) for m, d in ((first, second), (second, first)) if m <= 12 and d <= 31)
            return self._date(at, at + 1, *(both or ((year, None, None),)))
        if token.kind == "clock":
            hours, minutes = (int(part) for part in re.findall(r"\d+", token.text)[:2])
            if "p" in token.folded and hours < 12:
                hours += 12
            return self._bounded(at, at + 1, Value("clock", token.text, parts=((hours, minutes),)))
        if token.kind == "lapse":
            seconds = sum(float(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([dhms])", token.text))
            return self._bounded(at, at + 1, Value("time", token.text, (seconds,), (seconds,), unit="lapse"))
        return self._version(at, token) if token.kind == "version" else self._number(at, token)

    def _date(self, at: int, after: int, *parts: tuple[int | None, int | None, int | None]) -> int:
        """Record a date; `parts` are its possible readings as (year, month, day)."""
        if (
            "(" in (self._text(at - 1), self._text(at - 2))
            and self.values
            and self.values[-1][0].dimension == "version"
        ):
            # "Rust 1.92.0 (released 2025-12-11)": the date only says more about the version.
            return after
        # A day is usually the statement itself; a year, or a date that opens the sentence, says when the rest held.
        opens = at <= 3 or all(day is None for _, _, day in parts)
        value = Value("date", self._span(at, after), parts=parts, scope=opens and self._is_scope(at))
        return self._bounded(at, after, value)

    def _date_in_words(self, at: int) -> int:
        """Read `March 2026`, `March 1st, 2026` or a month alone after `in`."""
        month = self._month(at)
        if not month:
            return 0
        day, after = None, at + 1
        if self._text(after) == ".":
            after += 1
        found = _DAY.fullmatch(self._text(after))
        if found and 1 <= int(found[1]) <= 31 and self._text(after + 1) != "%":
            day, after = int(found[1]), self._past_comma(after + 1)
        year = self._year(after)
        if day is None and year is None and self._text(at - 1) not in lexicon.DATE_BEFORE:
            return 0
        return self._date(at, after + (year is not None), (year, month, day))

    def _day_and_month(self, at: int, day: int) -> int:
        """Read the rest of a date that starts with the day at `at`: `1 March 2026`, `1. März`."""
        after = at + 1
        if self._text(after) in (".", "of"):
            after += 1
        month = self._month(after)
        if not month or not 1 <= day <= 31:
            return 0
        after += 1
        if self._text(after) == ".":
            after += 1
        after = self._past_comma(after)
        year = self._year(after)
        return self._date(at, after + (year is not None), (year, month, day))

    def _month(self, at: int) -> int:
        """Return the month that a word names, 0 for none: "may" in English and German is a verb unless it has a capital."""
        token = self._token(at)
        lower = token.text[:1].islower() and self.language in ("en", "de")
        return 0 if lower else lexicon.MONTHS.get(token.folded, 0)

    def _past_comma(self, after: int) -> int:
        return after + 1 if self._text(after) == "," and self._year(after + 1) else after

    def _year(self, at: int) -> int | None:
        return int(self._text(at)) if _YEAR.fullmatch(self._text(at)) else None

    def _version(self, at: int, token: Token) -> int:
        if re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", token.text):
            # An IP address names what the statement is about.
            self._term(token.folded, name=True)
            return at + 1
        found = re.match(r"[vV]?([\d.]+)(.*)$", token.text)
        digits, suffix = (found[1], found[2]) if found else (token.text, "")
        parts = tuple(int(part) for part in digits.strip(".").split(".") if part.isdigit())
        value = Value("version", token.text, parts=(parts,), suffix=suffix.strip("-.x+"), scope=self._is_scope(at))
        return self._bounded(at, at + 1, value)

    def _bare_version(self, at: int, figure: str) -> int:
        """Read `Redis 7.0`, `version 5`, `since 2.6`."""
        before, following = self._token(at - 1), self._text(at + 1)
        if not at or not re.fullmatch(r"\d{1,4}(?:\.\d{1,3})?", figure):
            return 0
        if following in lexicon.UNITS or following in ("%", "\u20ac", "$"):
            return 0
        product = before.folded in lexicon.VERSIONED or following in ("release", "releases", "branch", "series")
        if "." in figure:
            product = (
                product
                or any(word in lexicon.VERSIONED for word in self.folded[max(0, at - 4) : at])
                or (before.kind == "word" and before.text[0].isupper() and at > 1)
                or before.folded in ("since", "seit", "ab", "as")
            )
        if not product:
            return 0
        parts = tuple(int(part) for part in figure.split("."))
        value = Value("version", figure, parts=(parts,), figure=figure, scope=self._is_scope(at))
        return self._bounded(at, at + 1, value)

    def _is_scope(self, at: int) -> bool:
        """Return whether the date or version at `at` says when the rest holds: `in v2`, `as of March 2024`."""
        before = at - 1
        for _ in range(3):
            if before >= 0 and (
                self._text(before) in lexicon.VERSIONED or self._text(before) in ("the", "der", "dem", "(", "version")
            ):
                before -= 1
        if before >= 0 and self._text(before) == "of" and self._text(before - 1) == "as":
            # "As of version 5" says since when; "as of March" says when somebody looked.
            return self.tokens[at].kind not in ("version", "number")
        bounded = self._bound_before(at)[0] or self._bound_after(at + 1)[0]
        if before < 0:
            return at > 0 and not bounded and not self.states_scope
        if bounded and before > 1:
            return False
        return self._text(before) in lexicon.SCOPE_BEFORE and not self.states_scope

    # Numbers

    def _number_word(self, at: int, word: str) -> int:
        """Read a number in words, or `an hour`."""
        following = self._text(at + 1)
        if word in lexicon.UNIT_ARTICLES:
            is_time = following in lexicon.UNITS and lexicon.UNITS[following][0] == "time" and len(following) > 2
            if is_time and at + 1 not in self.bounds and not self._after_figure(at):
                return self._quantity(at, "1", (1.0,))
            return 0
        number = lexicon.NUMBER_WORDS.get(word)
        if number is None or (word == "one" and not self._counts_one(at)):
            return 0
        if word in ("hundred", "thousand", "tausend", "hundert", "dozen") and self._after_figure(at):
            return 0
        return self._quantity(at, word, (number,))

    def _after_figure(self, at: int) -> bool:
        before = self._token(at - 1)
        return before.kind == "number" or before.folded in lexicon.NUMBER_WORDS or before.folded in lexicon.UNITS

    def _counts_one(self, at: int) -> bool:
        """Return whether `one` is a number here, unlike in `one of`, `the one`, `one can`."""
        following = self._token(at + 1)
        if following.kind != "word" or following.folded in _ENGLISH:
            return False
        return self._text(at - 1) not in ("the", "this", "that", "another", "no", "any", "which")

    def _number(self, at: int, token: Token) -> int:
        before = self._text(at - 1)
        if before == "." and at > 1:
            # `Nr. 3`, `Abs. 2`
            before = self._text(at - 2)
        found = _SIGNED_FIGURE.match(token.text)
        figure, attached = (found[1], found[2]) if found else (token.text, "")
        if attached and not _is_unit(attached):
            if attached in ("st", "nd", "rd", "th"):
                if after := self._day_and_month(at, int(re.sub(r"\D", "", figure) or 0)):
                    return after
                if figure.isdigit():
                    self._value(Value("ordinal", token.text, (float(figure),), (float(figure),)))
                    return at + 1
            self._term(token.folded, name=True)
            return at + 1
        if not attached:
            if before in lexicon.LABELS:
                self._term(f"{before}#{figure}", name=True)
                return at + 1
            if figure.isdigit() and (after := self._calendar(at, figure)):
                return after
            if after := self._bare_version(at, figure):
                return after
        return self._quantity(at, figure, _read_figure(figure, self.language), attached)

    def _calendar(self, at: int, figure: str) -> int:
        """Read `1 March 2026`, `1. März`, or a year after `in`."""
        if len(figure) <= 2 and (after := self._day_and_month(at, int(figure))):
            return after
        following = self._token(at + 1)
        counted = following.kind == "word" and following.folded in lexicon.UNITS
        if not _YEAR.fullmatch(self._text(at)) or counted:
            return 0
        if self._text(at - 1) not in lexicon.DATE_BEFORE and self._text(at - 1) not in ("\u00a9", "copyright", "("):
            return 0
        return self._date(at, at + 1, (int(figure), None, None))

    def _quantity(self, at: int, figure: str, low: tuple[float, ...], attached: str = "") -> int:
        """Record a number with its unit, range, rate (`per second`) and bound."""
        high, after = low, at + 1
        if not attached and (step := self._second_of_range(after, figure)):
            second, attached, after = step
            high = _read_figure(second, self.language)
        scale = lexicon.SCALES.get(self._text(after)) if not attached else None
        if scale:
            low, high, after = _times(low, (scale,)), _times(high, (scale,)), after + 1
        dimension, factors, unit, after = self._unit(at, after, attached)
        is_range = self._text(after) in lexicon.RANGE and high == low
        low, high = _times(low, factors), _times(high, factors)
        if is_range and (second_end := self._with_unit_again(after, dimension)):
            high, after = second_end
        if dimension == "time" and low == high:
            low, after = self._more_time(low, unit, after)
            high = low
        dimension, low, high, after = self._per(dimension, low, high, after)
        bound: Bound = "range" if low != high else ""
        guard = self._is_guarded(at)
        value = Value(dimension, self._span(at, after), low, high, unit=unit, figure=figure, bound=bound, guard=guard)
        return self._bounded(at, after, value)

    def _second_of_range(self, after: int, figure: str) -> tuple[str, str, int] | None:
        """Read the end of `10-20 ms` or `between 10 and 20 ms`: its figure, its attached unit, the next token's index."""
        between, found = self._text(after), self._unsigned(after + 1)
        opens = between in lexicon.RANGE or (
            between in ("and", "und") and self._text(after - 2) in ("between", "zwischen")
        )
        if not opens or not found or not figure[0].isdigit() or (found[2] and not _is_unit(found[2])):
            return None
        return found[1].rstrip(".,"), found[2], after + 2

    def _with_unit_again(self, after: int, dimension: str) -> tuple[tuple[float, ...], int] | None:
        """Read the end of `10 ms to 20 ms`."""
        found = self._unsigned(after + 1)
        if not dimension or not found or (found[2] and not _is_unit(found[2])):
            return None
        again, factors, _, end = self._unit(after + 1, after + 2, found[2])
        return (_times(_read_figure(found[1], self.language), factors), end) if again == dimension else None

    def _unsigned(self, at: int) -> re.Match[str] | None:
        """Return the figure and the attached unit of a number without a sign at `at`."""
        token = self._token(at)
        return _FIGURE.match(token.text) if token.kind == "number" else None

    def _unit(self, at: int, after: int, attached: str) -> tuple[str, tuple[float, ...], str, int]:
        """Return the dimension, factors and name of the unit of the number at `at`, and the next token's index."""
        if attached:
            found = lexicon.CASED_UNITS.get(attached) or lexicon.UNITS[attached.casefold()]
            return *found, attached.casefold(), after
        # `30-minute`, `5+ years`
        hyphen = self._text(after) in ("-", "+") and after + 1 < len(self.tokens)
        place = after + 1 if hyphen else after
        token = self._token(place)
        if token.text == "\u00b0" and self._text(place + 1) in ("c", "f"):
            name = "\u00b0" + self._text(place + 1)
            return *lexicon.UNITS[name], name, place + 2
        single = len(token.text) == 1 and token.kind == "word" and token.text not in lexicon.SEPARATE_UNITS
        found_unit = None if single else lexicon.CASED_UNITS.get(token.text) or lexicon.UNITS.get(token.folded)
        # In "5 - in" and "3+ times", the word after the sign is not a unit.
        if found_unit and not (token.kind == "word" and token.folded in ("may", "in", "times") and hyphen):
            return *found_unit, token.folded, place + 1
        before = self._text(at - 1)
        if before in lexicon.CURRENCIES and before in lexicon.UNITS:
            return *lexicon.UNITS[before], before, after
        return "", (1.0,), "", after

    def _more_time(self, low: tuple[float, ...], unit: str, after: int) -> tuple[tuple[float, ...], int]:
        """Add the minutes of `1 hour 30 minutes`."""
        place = after + 1 if self._text(after) in ("and", "und") else after
        found = self._unsigned(place)
        if not found or unit.startswith("m") or (found[2] and found[2].casefold() not in lexicon.UNITS):
            return low, after
        dimension, factors, _, end = self._unit(place, place + 1, found[2])
        smaller = _times(_read_figure(found[1], self.language), factors)
        if dimension != "time" or smaller[0] >= low[0]:
            return low, after
        return tuple(number + smaller[0] for number in low), end

    def _per(
        self, dimension: str, low: tuple[float, ...], high: tuple[float, ...], after: int
    ) -> tuple[str, tuple[float, ...], tuple[float, ...], int]:
        """Divide by the time unit of a rate: `100 MB/s`, `$5 per month`, `10 requests per minute`."""
        for place in range(after, after + 3):
            if self._text(place) in lexicon.PER and place + 1 < len(self.tokens):
                measured, factors = lexicon.UNITS.get(self._text(place + 1), ("", ()))
                if measured != "time" or dimension == "time":
                    break
                if dimension in lexicon.UNCLEAR:
                    low, high = (_times(side, lexicon.UNCLEAR[dimension][""]) for side in (low, high))
                    dimension = ""
                self.bounds.update((place, place + 1))
                # The requests of `10 requests per minute` are still to be read as a term.
                end = place + 2 if place == after else after
                seconds = factors[0]
                return f"{dimension}/time", tuple(n / seconds for n in low), tuple(n / seconds for n in high), end
            if self._token(place).kind != "word":
                break
        return dimension, low, high, after

    # Bounds of a figure

    def _mark_bounds(self) -> None:
        """Mark the words that only bound a figure, so that they are not read as antonyms or negations.

        `more than 5` is not the opposite of `less`, and `not to exceed 240 days` denies nothing.
        """
        for at, token in enumerate(self.tokens):
            if token.kind in _FIGURES or token.folded in lexicon.NUMBER_WORDS:
                self.bounds.update(range(at - self._bound_before(at)[1], at))
                for after in range(at + 1, at + 4):
                    self.bounds.update(range(after, after + self._bound_after(after)[1]))

    def _bound_before(self, at: int) -> tuple[Bound, int]:
        """Return the bound that the words before a figure give it, and how many tokens they take."""
        end = at
        while (
            end > 0
            and at - end < 3
            and (self._text(end - 1) in lexicon.BETWEEN or self._text(end - 1) in lexicon.ABOUT)
        ):
            end -= 1
        for stop in (at, end) if end < at else (at,):
            if self._text(stop - 1) in lexicon.BOUND_ENDS:
                for length in (3, 2, 1):
                    phrase = " ".join(self.folded[max(0, stop - length) : stop])
                    if phrase in lexicon.MOST_BEFORE:
                        return "most", at - stop + length
                    if phrase in lexicon.LEAST_BEFORE:
                        return "least", at - stop + length
        return "", 0

    def _bound_after(self, at: int) -> tuple[Bound, int]:
        """Return the bound that the words at `at` give the figure before them, and how many tokens they take."""
        if self._text(at) in lexicon.BOUND_BEGINS:
            for length in (2, 1):
                phrase = " ".join(self.folded[at : at + length])
                if phrase in lexicon.LEAST_AFTER:
                    return "least", length
                if phrase in lexicon.MOST_AFTER:
                    return "most", length
        return "", 0

    def _bounded(self, at: int, after: int, value: Value) -> int:
        """Record the value of the tokens from `at` up to `after` with its bound; return `after`."""
        bound, _ = self._bound_before(at)
        for place in (after, after + 1, at + 1):
            bound = bound or self._bound_after(place)[0]
        about = self._text(at - 1) in lexicon.ABOUT or self._text(at - 2) in lexicon.ABOUT
        self._value(replace(value, bound=bound or value.bound, about=about) if bound or about else value)
        return after

    def _is_guarded(self, at: int) -> bool:
        """Return whether the word before a figure makes it a condition of the rest: `with`, `at`, `for`."""
        before = at - 1
        while before >= 0 and (
            before in self.bounds or self._text(before) in lexicon.BETWEEN or self._text(before) in lexicon.ABOUT
        ):
            before -= 1
        return self._text(before) in lexicon.GUARDS

    def _value(self, value: Value) -> None:
        self.values.append((value, len(self.terms)))

    # Tokens

    def _token(self, at: int) -> Token:
        return self.tokens[at] if 0 <= at < len(self.tokens) else _OUTSIDE

    def _text(self, at: int) -> str:
        return self.folded[at] if 0 <= at < len(self.folded) else ""

    def _span(self, begin: int, after: int) -> str:
        """Return the text of the tokens from `begin` up to `after`, including a currency sign before them."""
        last = self.tokens[min(after, len(self.tokens)) - 1]
        first = begin - 1 if self._text(begin - 1) in ("$", "\u20ac", "\u00a3", "\u00a5") else begin
        return self.text[self.tokens[first].start : last.start + len(last.text)]


def _is_unit(written: str) -> bool:
    return written in lexicon.CASED_UNITS or written.casefold() in lexicon.UNITS


def _read_figure(figure: str, language: str) -> tuple[float, ...]:
    if "e" in figure.casefold():
        return (float(figure.replace(",", ".")),)
    return readings(figure.rstrip(".,"), language) or (0.0,)


def _times(numbers: Sequence[float], factors: Sequence[float]) -> tuple[float, ...]:
    return tuple(number * factor for number in numbers for factor in factors)
