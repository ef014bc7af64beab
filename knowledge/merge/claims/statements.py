"""The statements of a text, and how two compare: the same, less, more, or in other words. Pure.

`implies` decides whether a statement is a duplicate, `is_paraphrase` whether it goes beside the old text, and `covers`
whether it may replace it. In doubt all three say no, because evidence must not remove words on a guess. Contradictions
are found in `contradiction`; these functions ask it, and two statements that contradict each other are never duplicate,
paraphrase or replacement.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from textwrap import dedent
from typing import NamedTuple

from knowledge.merge.claims.claim import claim, most_likely_language
from knowledge.merge.claims.contradiction import compare
from knowledge.merge.claims.lexicon import (
    ARTICLES,
    AT_LEAST,
    AT_MOST,
    COVERED_IN_FULL,
    DECIDING,
    GENERIC,
    MONTHS,
    NARROWING,
    NEGATIONS,
    NUMBER_WORDS,
    TURNING,
    UNITS,
    WEEKDAYS,
)
from knowledge.merge.claims.polarity import axis_of, names_case
from knowledge.merge.model import Unit
from knowledge.pages.markdown.inline import code_spans, plain
from knowledge.pages.markdown.language import detect
from knowledge.search.query.analysis import analyzer, is_stop_word, stem, words

REMEMBERED = 8192
"""Sentences whose reading is cached."""
LOOKED_AT = 4000
"""Characters of a statement that are compared; a longer one is data."""
MOST_ORDERED = 300
"""Terms of a statement whose order is compared."""
LEAST_ORDER = 0.5
"""Share of a statement's terms that a paraphrase must have in the same order."""
PARAPHRASE = 0.6
WORDS_OF_A_KEY_LINE = 6
LONGEST_INTRODUCTION = 10
"""Words of a statement that only introduces what follows; a longer one that ends in a colon says something itself."""

# The box of an open task belongs to the marker; that of a finished one says something.
_MARKER = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])(?:[ \t]+(?:\[ \][ \t]+)?|$)")
_QUOTE_MARK = re.compile(r"^ {0,3}> ?", re.MULTILINE)
LEADS_IN = re.compile(r"[:\uff1a][*_\s]*$")
"""The end of a text that introduces what follows it."""
INNER_ITEM = re.compile(r"\n[ \t]*(?=(?:[-+*]|\d{1,9}[.)])[ \t])")
# A full stop with closing quotes, brackets and footnote marks after it; the full stops of Chinese and Japanese; a hard line break; a
# blank line.
_SENTENCE_END = re.compile(
    r"[.!?][\"')\]*_\u201d\u00bb]*(?:\[\^[^\]\s]{1,40}\])*(?=\s)|[\u3002\uff01\uff1f]|(?:(?<! ) {2,}+|\\)(?=\n)|\n[ \t]*\n"
)
_NO_END = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|etc|nos|fig|approx|ca|dr|mr|mrs|ms|st|prof|inc|z\.\s?b|d\.\s?h|u\.\s?a|bzw|nr|abb|vgl|"
    r"ggf|evtl|max|min|jan|feb|m[a\u00e4]r|mrz|apr|jun|jul|aug|sept?|oct|okt|nov|dec|dez|[a-z])\.$",
    re.IGNORECASE,
)
_NO = re.compile(r"(?:^|[\s(])no\.$", re.IGNORECASE)
_GERMAN_DAY = re.compile(r"\s+(?:Jan|Feb|M\u00e4r|Mrz|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)")
_KEY_LINE = re.compile(r"[ \t]*[*_`]{0,2}[^\W\d_][\w ./()-]{0,60}?[*_`]{0,2}[ \t]*[:=][*_]{0,2}[ \t]+\S")
_VALUE = re.compile(r"[<>\u2264\u2265~\u00b1+-]?\d[\d.,:/\u2013-]*[^\W\d_%]*%?")
_SIGNS = "<>+-~\u00b1\u2264\u2265"
# In the first place, a tag of a site generator that gives the target: `[setup]({{< ref "setup.md" >}})`.
_TARGET = re.compile(
    r"\]\(\s*(\{[{%][^{}\n]*[}%]\})|\]\(\s*<?([^\s<>()]+)|\[\[([^\[\]|\n]+)|(https?://[^\s<>()\]]+)|\]\[([^\[\]\n]+)\]"
)
_ATTRIBUTES = re.compile(r"<[A-Za-z][\w-]*\s[^<>\n]*=[^<>\n]*>")
_STRUCK = re.compile(r"~~([^~\n]+)~~|<(?:del|s|strike)>([^<>\n]+)</")
_ASKS = re.compile(r"[?\uff1f\u061f][\s\"')\]*_\u201d\u00bb]*$")
_NAME = re.compile(r"(?<=[\w,;)] )[^\W\d_a-z][\w.-]*[^\W_]|\b\w*[a-z][A-Z]\w*\b|\b[A-Z]{2,}\b")
_NAMED = re.compile(r"\b(?:[A-Z]\b|[^\W\d_]*\d\w*|[A-Z]\w+)")
_QUOTES = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\u00a0": " "}
)
_MIXED = re.compile(r"(?=\w*\d)(?=\w*[^\W\d])\w+")
# The words of "can't" are "can" and "t": nothing would be left of the negation.
_SHORT_NOT = re.compile(r"(?:(?<=\bca)(n)|(?<=\bwo)n|n)'t\b", re.IGNORECASE)
_FINAL = " .;:!,"
_AROUND = ".,;:!?()[]{}\"'`_"
_PLAIN_TOKEN = re.compile(r"[^\W\d][\w'-]*|\d+(?:[.,]\d+)*%?[^\W\d]*|[-*]")
_SLASHED_DATE = re.compile(r"(\d{4})/(\d{2})/(\d{2})")
_OTHER_SCRIPT = re.compile(r"[\u0370-\u1dff\u2c00-\ufdff\U00020000-\U0003ffff]")
"""A letter of another script than the Latin."""
_CODE = frozenset({"fence", "code", "html", "comment"})
# Words that make a plan, or something past, of what is.
_OF_TIME = frozenset(("will", "was", "were", "had", "did", "been", "going"))
# Kinds whose exact wording matters: if they were reworded, they would say something else.
_VERBATIM = _CODE | {"front", "row"}


class Span(NamedTuple):
    """The place of a statement in the text of its unit."""

    start: int
    end: int


_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class StatementReading:
    """The content of a statement, independent of its place on a page."""

    text: str
    kind: str
    language: str

    @cached_property
    def plain(self) -> str:
        """The text as it reads, without markup."""
        text = self.text[:LOOKED_AT]
        return plain(_QUOTE_MARK.sub("", text)) if self.kind == "quote" else plain(text)

    @cached_property
    def folded(self) -> str:
        """The text without markup, case, quote style and final punctuation, and then its `marks`.

        Code keeps all of that; only its white space is folded.
        """
        if self.kind in _CODE or len(self.text) > LOOKED_AT:
            return " ".join(self.text.split())
        bare = self.text.rstrip(_FINAL)
        # The full stop of a sentence does not count, that of the path `.` does.
        text = plain(bare) if bare.endswith("`") else self.plain.rstrip(_FINAL)
        text = text.translate(_QUOTES).casefold()
        return "\0".join((text, *self.marks)) if self.marks else text

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """What it says beside its words: where its links lead, what is struck out, that it asks, how names are written."""
        spelled = sorted(self.spelled.elements())
        return (*sorted(self.targets), *self.struck, *spelled, *self.code_blocks, *("?" * self.asks))

    @cached_property
    def targets(self) -> frozenset[str]:
        """The targets of its links and images, and HTML tags with attributes."""
        text = self.text[:LOOKED_AT]
        found = (target for targets in _TARGET.findall(text) for target in targets if target)
        return frozenset((*found, *_ATTRIBUTES.findall(text)))

    @cached_property
    def struck(self) -> tuple[str, ...]:
        """Its texts that are struck out."""
        return tuple("".join(found) for found in _STRUCK.findall(self.text[:LOOKED_AT]))

    @cached_property
    def asks(self) -> bool:
        """Whether it is a question."""
        return _ASKS.search(self.plain) is not None

    @property
    def introduces(self) -> bool:
        """Whether it ends in a colon, because it introduces what follows."""
        return LEADS_IN.search(self.text) is not None

    @cached_property
    def code_blocks(self) -> tuple[str, ...]:
        """The fenced blocks in it, line for line, without the indent that all of their lines have."""
        blocks = (code.partition("\n")[2] for code in self._code if "\n" in code)
        return tuple(dedent(block).rstrip() for block in blocks)

    @cached_property
    def code_signs(self) -> tuple[str, ...]:
        """The tokens of its code with a sign around them, in order: `[]`, `..`, `.5`. In prose, that is punctuation."""
        return tuple(token for code in self._code for token in code.split() if token != token.strip(_AROUND))

    @cached_property
    def _code(self) -> tuple[str, ...]:
        text = self.text[:LOOKED_AT]
        return tuple(text[start + ticks : end - ticks] for start, end, ticks in code_spans(text))

    @cached_property
    def written(self) -> Counter[str]:
        """Its words as they are written, only the first with a small letter."""
        tokens = [token.strip(_AROUND) for token in self.plain.translate(_QUOTES).split()]
        return Counter([token[:1].lower() + token[1:] for token in tokens[:1]] + tokens[1:])

    @cached_property
    def spelled(self) -> Counter[str]:
        """Those with a capital letter: `MAX_SIZE` is not `max_size`, and `-F` is not `-f`."""
        return Counter({token: count for token, count in self.written.items() if token != token.lower()})

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Its words in order, case-folded, "can't" as "can not"."""
        text = _SLASHED_DATE.sub(r"\1-\2-\3", self.plain.translate(_QUOTES))
        return tuple(words(_SHORT_NOT.sub(r"\1 not", text) if "'" in text else text))

    @cached_property
    def wording(self) -> tuple[str, ...]:
        """Its words in order. In English, without articles, and as stems if they decide nothing and are no stop words.

        "They applied" is not "they apply", although both have one stem. In other languages an ending or an article may
        say who does what to whom.
        """
        if not self.is_english:
            return self.words
        kept = (word for word in self.words if word not in ARTICLES)
        return tuple(
            word if word in self.deciding or is_stop_word(word, ("en",)) else _of_its_time(word) for word in kept
        )

    @cached_property
    def is_english(self) -> bool:
        """Whether it is in English, as far as its words tell."""
        return most_likely_language(self.plain) == "en" and _OTHER_SCRIPT.search(self.plain) is None

    @cached_property
    def is_covered(self) -> bool:
        """Whether it is in a language of which the tables know the words that decide and narrow."""
        return self.is_english or (
            most_likely_language(self.plain) in COVERED_IN_FULL and _OTHER_SCRIPT.search(self.plain) is None
        )

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The stems of its words, without stop words, in order."""
        return tuple(analyzer(self.language).terms(self.plain))

    @cached_property
    def subject(self) -> frozenset[str]:
        """Its terms once each, without numbers and their units."""
        numbers, units = _number_and_unit_stems(self.language)
        counts = any(map(str.isdigit, self.plain)) or not numbers.isdisjoint(self.terms)
        dropped = numbers | units if counts else numbers
        return frozenset(term for term in self.terms if term not in dropped and not any(map(str.isdigit, term)))

    @cached_property
    def ordered_subject(self) -> tuple[str, ...]:
        """The terms of its subject, in order."""
        return tuple(term for term in self.terms if term in self.subject)

    @cached_property
    def is_clear_alone(self) -> bool:
        """Whether its subject is clear without its heading.

        The subject of a sentence is; that of `timeout: 30` is not.
        """
        short = len(self.plain.split()) <= WORDS_OF_A_KEY_LINE and _KEY_LINE.match(self.text) is not None
        return len(self.subject) > 1 and not short

    @cached_property
    def limits(self) -> frozenset[str]:
        """The words that negate or limit it (not, unless, only, before). A bound is included as `least` or `most`."""
        said = frozenset(self.words)
        least, most = not said.isdisjoint(AT_LEAST), not said.isdisjoint(AT_MOST)
        # "More than 5 and less than 9" has both, and a text with "from 5 to 9" says the same with neither.
        bound = () if least == most else ("least" if least else "most",)
        return (said & TURNING).union(bound)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names in it, in order: `A calls B` is not `B calls A`."""
        return tuple(_NAMED.findall(self.plain))

    @cached_property
    def values(self) -> frozenset[str]:
        """The parts that another wording must keep: numbers, code, names, link targets."""
        code = [code.strip() for code in self._code]
        numbers = [value.rstrip(".,:/-\u2013").casefold() for value in _VALUE.findall(self.plain)]
        names = [folded for name in _NAME.findall(self.plain) if (folded := name.casefold()) not in UNITS]
        number_words = [word for word in words(self.plain) if word in NUMBER_WORDS]
        return frozenset((*numbers, *number_words, *names, *code, *self.targets))

    @cached_property
    def content(self) -> tuple[str, ...]:
        """Its words in order, without stop words. Words in `deciding` are as written; the others are stems."""
        return tuple(
            word if word in self.deciding else stem(word, self.language)
            for word in self.words
            if word in self.deciding or not is_stop_word(word, (self.language,))
        )

    @cached_property
    def deciding(self) -> Counter[str]:
        """Its words that change what it says but not its subject: modals, quantifiers, negations, opposites, `2xx`, `v2`."""
        return Counter(
            word
            for word in self.words
            if word in DECIDING or axis_of(word, self.language) is not None or _MIXED.fullmatch(word)
        )

    @cached_property
    def figures(self) -> Counter[str]:
        """Its numbers, with their units, and the names of days and months."""
        found = Counter(
            word
            for word in self.words
            if word in NUMBER_WORDS or word in MONTHS or word in WEEKDAYS or any(map(str.isdigit, word))
        )
        return found + Counter(word for word in self.words if word in UNITS and word not in found) if found else found

    @cached_property
    def essentials(self) -> Counter[str]:
        """Its words that a shorter text may not leave out: those that decide or narrow what is said, figures, names, code."""
        # Any first word has a capital: it counts as a name unless it is known as an ordinary word.
        named = frozenset(words(" ".join((*self.names, *self._code))))
        kept = Counter(
            word
            for word in self.words
            if word in NARROWING
            or word in AT_LEAST
            or word in AT_MOST
            or names_case((word,), self.language)
            or (word in named and word not in GENERIC and not is_stop_word(word, (self.language,)))
        )
        return kept | self.deciding | self.figures

    @cached_property
    def signs(self) -> Counter[str]:
        """Its tokens that are neither words nor plain numbers (`^`, `1-2`, `localhost:8090/metrics`); dates in one form."""
        return Counter(token for token in self._tokens if not _PLAIN_TOKEN.fullmatch(token))

    @cached_property
    def figured(self) -> tuple[str, ...]:
        """Its numbers and `signs` in order: "from -5 to 5" is not "from 5 to -5"."""
        return tuple(token for token in self._tokens if token in self.signs or any(map(str.isdigit, token)))

    @cached_property
    def _tokens(self) -> tuple[str, ...]:
        """What blanks separate in it, without the punctuation around it."""
        text = _SLASHED_DATE.sub(r"\1-\2-\3", self.plain.translate(_QUOTES).casefold())
        return tuple(filter(None, (token.strip(_AROUND) for token in text.split())))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Those of its values that are numbers."""
        return frozenset(one for one in self.values if one in NUMBER_WORDS or one.lstrip(_SIGNS)[:1].isdigit())


class Statement(NamedTuple):
    """One statement of a text. `unit` is the index of its unit, and `span` its place in the text of that unit."""

    reading: StatementReading
    unit: int
    span: Span
    section: tuple[str, ...]


@cache
def _number_and_unit_stems(language: str) -> tuple[frozenset[str], frozenset[str]]:
    numbers, units = (frozenset(stem(word, language) for word in table) for table in (NUMBER_WORDS, UNITS))
    return numbers, units


@lru_cache(REMEMBERED)
def read_statement(text: str, language: str, kind: str = "paragraph") -> StatementReading:
    """Return the reading of a statement; cached, because most of a page is unchanged since it was last read."""
    return StatementReading(text, kind, language)


def statements_of(units: Sequence[Unit], language: str) -> list[Statement]:
    """Return the statements of `units`, headings left out: sentences of prose, and every other unit as a whole."""
    found = []
    for number, unit in enumerate(units):
        if unit.kind == "heading":
            continue
        is_prose = unit.kind in ("paragraph", "item")
        for span in sentences(unit.text) if is_prose else (_stripped(unit.text, 0, len(unit.text)),):
            if span.end > span.start:
                reading = read_statement(unit.text[span.start : span.end], language, unit.kind)
                found.append(Statement(reading, number, span, unit.section))
    return found


def stemming_language(text: str) -> str:
    """Return the language whose stemmer is used to compare `text`."""
    return detect(text[:LOOKED_AT])


def keys_in(text: str) -> tuple[str, ...]:
    """Return the folded keys of the `key: value` lines of `text`."""
    found = (_KEY_LINE.match(line) for line in text.split("\n"))
    return tuple(match[0].partition(":")[0].partition("=")[0].strip(" *_`\t").casefold() for match in found if match)


# Sentences


@lru_cache(REMEMBERED)
def sentences(text: str) -> tuple[Span, ...]:
    """Return the places of the sentences of `text`, without list markers and surrounding white space."""
    hidden = code_spans(text) if "`" in text else ()
    ends = [found.end() for found in _SENTENCE_END.finditer(text) if _ends(text, found, hidden)]
    ends += [found.start() + 1 for found in INNER_ITEM.finditer(text) if not _in_code(found.start(), text, hidden)]
    lines = [found.start() + 1 for found in re.finditer("\n", text.rstrip())]
    if lines and all(_KEY_LINE.match(text, at) for at in (0, *lines)):
        ends += lines
    found = []
    start = 0
    for end in sorted({*ends, len(text)}):
        span = _stripped(text, start, end)
        if span.end > span.start:
            found.append(span)
        start = end
    return tuple(found)


def _ends(text: str, found: re.Match[str], hidden: Sequence[tuple[int, int, int]]) -> bool:
    """Return whether a sentence ends here: not in code, not after an abbreviation, not before a small letter."""
    at = found.start()
    if _in_code(at, text, hidden):
        return False
    if text[at] not in ".!?":
        return True
    if text[found.end() : found.end() + 80].lstrip()[:1].islower():
        return False
    if text[at] != ".":
        return True
    # "Am 3. Mai"
    if text[at - 1 : at].isdigit() and _GERMAN_DAY.match(text, found.end()):
        return False
    # "No. 5" is a number, "No. Ask first." is an answer.
    if _NO.search(text, max(0, at - 12), at + 1) and text[found.end() : found.end() + 80].lstrip()[:1].isdigit():
        return False
    return not _NO_END.search(text, max(0, at - 12), at + 1)


def _in_code(at: int, text: str, hidden: Sequence[tuple[int, int, int]]) -> bool:
    nearest = bisect_right(hidden, (at, len(text), 0)) - 1
    return nearest >= 0 and at < hidden[nearest][1]


def _stripped(text: str, start: int, end: int) -> Span:
    if (marker := _MARKER.match(text, start, end)) and (start == 0 or text[start - 1] == "\n"):
        start = marker.end()
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Span(start, end)


# Comparing


def likeness(one: StatementReading, other: StatementReading) -> float:
    """Return how similar their subjects are, 0..1: the share of common terms (Dice), without numbers."""
    total = len(one.subject) + len(other.subject)
    return 2 * len(one.subject & other.subject) / total if total else 0.0


def implies(existing: StatementReading, new: StatementReading) -> bool:
    """Return whether a reader of `existing` learns nothing from `new`: it repeats `existing` or is a part of it.

    Only these may differ: emphasis, the unit of a figure ("1.5 TB", "1500 GB"), and in English articles, endings, and stop words
    that one of the two has more. Anything else may be what decides, be it a word that no table knows or the order alone ("the
    parent stops the child"). Only a person or a model can tell.
    """
    if existing.folded == new.folded:
        return True
    if max(len(existing.text), len(new.text)) > LOOKED_AT or not _may_say_the_same(existing, new):
        return False
    if (existing.spelled, existing.figured) == (new.spelled, new.figured) and _have_one_wording(existing, new):
        return True
    return _is_converted(existing, new) or _is_plain_part(existing, new)


def _may_say_the_same(existing: StatementReading, new: StatementReading) -> bool:
    """Return whether nothing but the words of two statements can make them differ."""
    if existing.kind in _VERBATIM or new.kind in _VERBATIM or existing.asks != new.asks:
        return False
    if (existing.struck, existing.code_signs, existing.code_blocks) != (new.struck, new.code_signs, new.code_blocks):
        return False
    return new.targets <= existing.targets and new.signs == existing.signs


def _have_one_wording(one: StatementReading, other: StatementReading) -> bool:
    """Return whether two statements have the same words in the same order, but for stop words that one of them has more."""
    if one.wording == other.wording:
        return bool(one.wording)
    less, more = sorted((one, other), key=lambda reading: len(reading.wording))
    if not less.is_english or not more.is_english:
        return False
    rest = iter(less.wording)
    awaited = next(rest, None)
    for word in more.wording:
        if word == awaited:
            awaited = next(rest, None)
        elif word in more.essentials or word in _OF_TIME or not is_stop_word(word, ("en",)):
            return False
    return awaited is None


def _of_its_time(word: str) -> str:
    """Return the stem of an English word, with a sign for the past if it ends so."""
    found = stem(word, "en")
    return f"{found}-ed" if word.endswith("ed") and found != word else found


def _is_plain_part(existing: StatementReading, new: StatementReading) -> bool:
    """Return whether `new` is one run of the words of `existing`, which leaves out nothing but plain words.

    "The office is in Oslo" is no part of "the office is in Berlin and the server in Oslo", and "a file may have 5 MB" is not what
    "on Linux a file may have 5 MB" says.
    """
    if not new.subject or not existing.is_covered or existing.limits != new.limits:
        return False
    if not _is_run(new.wording, existing.wording) or not _is_run(new.figured, existing.figured):
        return False
    if existing.essentials - new.essentials:
        return False
    return not new.written - existing.written and _relation(existing.plain, new.plain) != "contradict"


def curtails(existing: StatementReading, new: StatementReading) -> bool:
    """Return whether `new` is an excerpt of `existing` that leaves out more than plain words."""
    if existing.kind in _VERBATIM or new.kind in _VERBATIM or not new.subject:
        return False
    return _is_run(new.content, existing.content) and not implies(existing, new)


def turns_limit(existing: StatementReading, new: StatementReading) -> bool:
    """Return whether two statements differ only in that a figure is an upper limit in one and a lower limit in the other."""
    if existing.figures != new.figures or not new.figures:
        return False
    ours, theirs = (claim(one.plain, existing.language) for one in (existing, new))
    limits = [[value.bound for value in one.values] for one in (ours, theirs)]
    return ours.bag == theirs.bag and any({*pair} == {"least", "most"} for pair in zip(*limits, strict=False))


def _is_converted(existing: StatementReading, new: StatementReading) -> bool:
    """Return whether two statements differ only in the units of their figures: "1 hour", "60 minutes"."""
    if existing.figures == new.figures or not (existing.figures and new.figures):
        return False
    ours, theirs = _in_base_units(existing), _in_base_units(new)
    return ours.wording == theirs.wording and ours.spelled == theirs.spelled


def _in_base_units(one: StatementReading) -> StatementReading:
    """Return a statement with its figures in base units; one that can be read in two ways (`5 MB`) with both readings."""
    text = one.plain
    for value in claim(one.plain, one.language).values:
        # "A month" and "1 month" are the same, but not so written.
        if value.unit and any(map(str.isdigit, value.text)):
            text = text.replace(value.text, " ".join([value.dimension, *(f"{number:.9g}" for number in value.low)]), 1)
    return read_statement(text, one.language)


def _is_run(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Return whether `part` occurs in `whole` as one uninterrupted run."""
    length = len(part)
    return any(tuple(whole[at : at + length]) == tuple(part) for at in range(len(whole) - length + 1))


def is_paraphrase(existing: StatementReading, new: StatementReading) -> bool:
    """Return whether `new` is another wording of `existing`, or says the same with more or less detail."""
    shared = len(existing.subject & new.subject) + len(existing.values & new.values)
    if shared < 2 or _relation(existing.plain, new.plain) != "agree":
        return False
    alike = likeness(existing, new) >= PARAPHRASE and _shared_order(existing, new) >= LEAST_ORDER
    return alike or covers(new, existing)


def covers(new: StatementReading, old: StatementReading) -> bool:
    """Return whether `new` covers `old` and may replace it: it has every word of `old` as written there, in the same order.

    "The importer reads CSV and JSON from a share" does not cover "reads CSV from the share in Oslo": Oslo would be lost.
    One more negation says something else, and so does "will".
    """
    if (new.limits - old.limits) & NEGATIONS or (frozenset(new.words) - frozenset(old.words)) & _OF_TIME:
        return False
    if not old.values <= new.values or old.limits - new.limits or len(old.subject) + len(old.values) < 2:
        return False
    if len(old.text) > LOOKED_AT or not old.is_covered:
        return False
    if old.written - new.written or (old.asks, old.struck) != (new.asks, new.struck):
        return False
    return (
        _has_in_order(new.words, old.words)
        and _has_in_order(new.figured, old.figured)
        and _has_in_order(new.code_signs, old.code_signs)
        and _relation(old.plain, new.plain) == "agree"
    )


def only_introduces(new: StatementReading, existing: StatementReading) -> bool:
    """Return whether `new` is no version of `existing` because it only introduces what follows: "The proxy records these:".

    It may be one if it is longer, if its subject is the same, or if a figure or a word that decides differs.
    """
    if not new.introduces or len(new.words) > LONGEST_INTRODUCTION:
        return False
    if (existing.subject, existing.names) == (new.subject, new.names):
        return False
    if existing.introduces:
        return new.numbers == existing.numbers and new.deciding == existing.deciding
    return new.numbers <= existing.numbers and new.deciding <= existing.deciding


def _has_in_order(whole: Sequence[str], part: Sequence[str]) -> bool:
    """Return whether `whole` has all of `part` in its order, with anything between."""
    rest = iter(whole)
    return all(one in rest for one in part)


def keeps_words(new: str, old: str) -> bool:
    """Return whether `new` has every word of `old`, as often, ignoring case."""
    return Counter(_WORD.findall(old.casefold())) <= Counter(_WORD.findall(new.casefold()))


def lost_words(new: StatementReading, old: StatementReading) -> tuple[str, ...]:
    """Return the words of `old`, as written, that `new` does not have."""
    gone = old.subject - new.subject
    return tuple(dict.fromkeys(word for word in words(old.plain) if stem(word, old.language) in gone))


@lru_cache(REMEMBERED)
def _relation(existing: str, new: str) -> str:
    return compare(existing, new).relation


def _shared_order(existing: StatementReading, new: StatementReading) -> float:
    """Return the share of the subject of `new` that `existing` has in the same order, 0..1 (longest common subsequence)."""
    mine, other = existing.ordered_subject[:MOST_ORDERED], new.ordered_subject[:MOST_ORDERED]
    if not other:
        return 0.0
    known = Counter(mine)
    row = [0] * (len(mine) + 1)
    for term in other:
        if term not in known:
            continue
        diagonal = 0
        for at, one in enumerate(mine, start=1):
            above = row[at]
            row[at] = diagonal + 1 if term == one else max(above, row[at - 1])
            diagonal = above
    return row[-1] / len(other)
