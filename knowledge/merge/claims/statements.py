"""What the units of a text say, statement by statement, in a form that can be compared. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

from knowledge.merge.claims.contradiction import compare
from knowledge.merge.claims.polarity import CONDITIONS, NEGATIONS
from knowledge.merge.claims.quantities import NUMBER_WORDS, UNITS
from knowledge.merge.model import Unit
from knowledge.pages.markdown.inline import code_spans, plain
from knowledge.pages.markdown.language import detect
from knowledge.search.query.analysis import analyzer, stem, words

REMEMBERED = 8192
"""Sentences that are kept read."""
LOOKED_AT = 4000
"""Characters of a statement that are compared; a longer one is no sentence but data."""
MOST_ORDERED = 300
"""Terms of a statement whose order is compared."""
LEAST_ORDER = 0.5
"""The same where both have all words in common."""
SAME_ORDER = 0.6
"""How much of a statement's terms the other has in the same order: `A calls B` is not `B calls A`."""
ALL_IN_ORDER = 0.75
SAME_WORDS = 0.9
WORDS_OF_A_KEY_LINE = 6
ALIKE = 0.6
MAY_BE_REWORDED = 0.25
"""How much of an old statement's words another wording may leave out; values never."""

_MARKER = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])(?:[ \t]+(?:\[[ xX]\][ \t]+)?|$)")
_QUOTE_MARK = re.compile(r"^ {0,3}> ?", re.MULTILINE)
_INNER_ITEM = re.compile(r"\n[ \t]*(?=(?:[-+*]|\d{1,9}[.)])[ \t])")
_SENTENCE_END = re.compile(
    r"[.!?][\"')\]*_\u201d\u00bb]*(?=\s)|[\u3002\uff01\uff1f]|(?:(?<! ) {2,}+|\\)(?=\n)|\n[ \t]*\n"
)
_NO_END = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|etc|no|nos|fig|approx|ca|dr|mr|mrs|ms|st|prof|inc|z\.\s?b|d\.\s?h|u\.\s?a|bzw|nr|abb|vgl|"
    r"ggf|evtl|max|min|[a-z])\.$",
    re.IGNORECASE,
)
_GERMAN_DAY = re.compile(r"\s+(?:Jan|Feb|M\u00e4r|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)")
_KEY_LINE = re.compile(r"[ \t]*[*_`]{0,2}[^\W\d_][\w ./()-]{0,60}?[*_`]{0,2}[ \t]*[:=][*_]{0,2}[ \t]+\S")
_VALUE = re.compile(r"[<>\u2264\u2265~\u00b1+-]?\d[\d.,:/\u2013-]*[^\W\d_%]*%?")
_TARGET = re.compile(r"\]\(\s*<?([^\s<>()]+)|\[\[([^\[\]|\n]+)|(https?://[^\s<>()\]]+)")
_NAME = re.compile(r"(?<=[\w,;)] )[^\W\d_a-z][\w.-]*[^\W_]|\b\w*[a-z][A-Z]\w*\b|\b[A-Z]{2,}\b")
_SIGNS = "<>+-~\u00b1\u2264\u2265"
_QUOTES = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\u00a0": " "}
)

_NAMED = re.compile(r"\b(?:[A-Z]\b|[^\W\d_]*\d\w*|[A-Z]\w+)")
_TURNING = (
    NEGATIONS
    | frozenset(CONDITIONS)
    | frozenset({"only", "except", "before", "after", "always", "never", "until", "since"})
    | frozenset({"nur", "außer", "vor", "nach", "immer", "bis", "seit", "seulement", "sauf", "avant", "après"})
)
_AT_LEAST = frozenset({"least", "minimum", "min", "more", "over", "above", "mindestens", "wenigstens", "mehr", "über"})
_AT_MOST = frozenset(
    {"most", "maximum", "max", "less", "under", "below", "up", "within", "höchstens", "maximal", "unter"}
)


class Span(NamedTuple):
    """Where a statement stands in the text of its unit."""

    start: int
    end: int


def spans(unit: Unit) -> tuple[Span, ...]:
    """Return where the statements of `unit` stand in its text, in order: sentences of prose, otherwise the whole."""
    if unit.kind not in ("paragraph", "item"):
        stripped = _stripped(unit.text, Span(0, len(unit.text)))
        return (stripped,) if stripped.end > stripped.start else ()
    return sentences(unit.text)


@lru_cache(REMEMBERED)
def sentences(text: str) -> tuple[Span, ...]:
    """Return where the sentences of `text` stand, list markers and white space around them left out."""
    hidden = code_spans(text) if "`" in text else ()
    ends = [found.end() for found in _SENTENCE_END.finditer(text) if _ends(text, found, hidden)]
    ends += [found.start() + 1 for found in _INNER_ITEM.finditer(text)]
    lines = [found.start() + 1 for found in re.finditer("\n", text.rstrip())]
    if lines and all(_KEY_LINE.match(text, at) for at in (0, *lines)):
        ends += lines
    found: list[Span] = []
    start = 0
    for end in sorted({*ends, len(text)}):
        span = _stripped(text, Span(start, end))
        if span.end > span.start:
            found.append(span)
        start = end
    return tuple(found)


def _ends(text: str, found: re.Match[str], hidden: Sequence[tuple[int, int, int]]) -> bool:
    """Return whether a sentence ends here: not in code, not after an abbreviation, not before a small letter."""
    at = found.start()
    nearest = bisect_right(hidden, (at, len(text), 0)) - 1
    if nearest >= 0 and at < hidden[nearest][1]:
        return False
    if text[at] not in ".!?":
        return True
    following = text[found.end() : found.end() + 80].lstrip()[:1]
    if following.islower():
        return False
    if text[at] == "." and _GERMAN_DAY.match(text, found.end()) and text[at - 1 : at].isdigit():
        return False
    return text[at] != "." or not _NO_END.search(text, max(0, at - 12), at + 1)


def _stripped(text: str, span: Span) -> Span:
    start, end = span
    if (marker := _MARKER.match(text, start, end)) and (start == 0 or text[start - 1] == "\n"):
        start = marker.end()
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Span(start, end)


@dataclass(frozen=True)
class StatementReading:
    """What a statement says, wherever it stands."""

    text: str
    kind: str
    language: str

    @cached_property
    def reads(self) -> str:
        """The text as it reads, without markup."""
        text = self.text[:LOOKED_AT]
        return plain(_QUOTE_MARK.sub("", text)) if self.kind == "quote" else plain(text)

    @cached_property
    def folded(self) -> str:
        """The same for texts that differ in markup, case, quotes and the full stop only; code as it is but for white space."""
        if self.kind in ("fence", "code", "html", "comment"):
            return " ".join(self.text.split())
        return self.reads.translate(_QUOTES).casefold().rstrip(" .;:!,")

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """What it is about: stems, without stop words, in order."""
        return tuple(analyzer(self.language).terms(self.reads))

    @cached_property
    def about(self) -> frozenset[str]:
        """Its terms once each, without numbers and what these count in."""
        figures = _figures_in(self.language)
        counts = any(map(str.isdigit, self.reads)) or not figures.isdisjoint(self.terms)
        dropped = figures | _counted_in(self.language) if counts else figures
        return frozenset(term for term in self.terms if term not in dropped and not any(map(str.isdigit, term)))

    @cached_property
    def ordered(self) -> tuple[str, ...]:
        """What it is about, in order."""
        return tuple(term for term in self.terms if term in self.about)

    @cached_property
    def stands_alone(self) -> bool:
        """Whether it is plain without its heading what it is about: a sentence is, `timeout: 30` is not."""
        short = len(self.reads.split()) <= WORDS_OF_A_KEY_LINE and _KEY_LINE.match(self.text) is not None
        return len(self.about) > 1 and not short

    @cached_property
    def turns(self) -> frozenset[str]:
        """Words in it that turn or limit what it says: not, unless, only, before; bounds as `least` and `most`."""
        said = frozenset(words(self.reads))
        bounds = ("least" if said & _AT_LEAST else "", "most" if said & _AT_MOST else "")
        return (said & _TURNING) | (frozenset(bounds) - {""} if bool(bounds[0]) != bool(bounds[1]) else frozenset())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What is named in it, in order: `A calls B` is not `B calls A`."""
        return tuple(_NAMED.findall(self.reads))

    @cached_property
    def values(self) -> frozenset[str]:
        """What must not get lost when it is put in other words: numbers, code, names, where links lead."""
        code = [
            self.text[start + ticks : end - ticks].strip() for start, end, ticks in code_spans(self.text[:LOOKED_AT])
        ]
        links = [one for found in _TARGET.findall(self.text[:LOOKED_AT]) for one in found if one]
        numbers = [value.rstrip(".,:/-\u2013").casefold() for value in _VALUE.findall(self.reads)]
        names = [folded for name in _NAME.findall(self.reads) if (folded := name.casefold()) not in UNITS]
        told = [word for word in words(self.reads) if word in NUMBER_WORDS]
        return frozenset((*numbers, *told, *names, *code, *links))


@lru_cache(REMEMBERED)
def _read(text: str, kind: str, language: str) -> StatementReading:
    """Return what a text says; most of a page is what it was when it was last looked at."""
    return StatementReading(text, kind, language)


class Statement(NamedTuple):
    """One thing that a text says. `unit` is the index of its unit, `span` where it stands in that."""

    said: StatementReading
    unit: int
    span: Span
    section: tuple[str, ...]


def keys_in(text: str) -> tuple[str, ...]:
    """Return the keys of the lines of `text` that are `key: value`, folded."""
    found = (_KEY_LINE.match(line) for line in text.split("\n"))
    return tuple(match[0].partition(":")[0].partition("=")[0].strip(" *_`\t").casefold() for match in found if match)


def language_of(text: str) -> str:
    """Return the language whose stems a text is compared by."""
    return detect(text[:LOOKED_AT])


def statements(units: Sequence[Unit], language: str) -> list[Statement]:
    """Return everything that `units` say, headings left out."""
    return [
        Statement(_read(unit.text[span.start : span.end], unit.kind, language), number, span, unit.section)
        for number, unit in enumerate(units)
        if unit.kind != "heading"
        for span in spans(unit)
    ]


def reading(text: str, language: str) -> StatementReading:
    """Return what a sentence says that stands in no unit."""
    return _read(text, "paragraph", language)


def alike(one: StatementReading, other: StatementReading) -> float:
    """Return how far both are about the same, 0..1: the terms that both have among all (Dice), numbers aside."""
    both = len(one.about & other.about)
    total = len(one.about) + len(other.about)
    return 2 * both / total if total else 0.0


def says(existing: StatementReading, new: StatementReading) -> bool:
    """Return whether who has read `existing` learns nothing from `new`: the same, in other words, or less of the same."""
    if existing.folded == new.folded:
        return True
    if existing.kind in _VERBATIM or new.kind in _VERBATIM or not new.about or existing.turns != new.turns:
        return False
    if not new.about <= existing.about or _swaps_names(existing, new):
        return False
    if shared_order(existing, new) < (LEAST_ORDER if new.about == existing.about else SAME_ORDER):
        return False
    figures, known = _numbers(new), _numbers(existing)
    if new.values - existing.values - figures or len(figures) > len(known):
        return False
    relation = _relation(existing.reads, new.reads)
    # In the same words with the same values it is the same, whatever sort of statement it is.
    return relation == "agree" or (relation == "unrelated" and figures <= known and alike(existing, new) >= SAME_WORDS)


def same_subject(existing: StatementReading, new: StatementReading) -> bool:
    """Return whether `new` is another wording of `existing`, or says more or less of the same."""
    shared = len(existing.about & new.about) + len(existing.values & new.values)
    if shared < 2 or _relation(existing.reads, new.reads) != "agree":
        return False
    return (alike(existing, new) >= ALIKE and shared_order(existing, new) >= LEAST_ORDER) or covers(new, existing)


def covers(new: StatementReading, old: StatementReading) -> bool:
    """Return whether `new` says all that `old` does and may stand in its place: its values, its order, nearly all its words."""
    if not old.values <= new.values or old.turns - new.turns or len(old.about) + len(old.values) < 2:
        return False
    if len(lost(new, old)) > int(len(old.about) * MAY_BE_REWORDED) or _swaps_names(old, new):
        return False
    return shared_order(new, old) >= ALL_IN_ORDER and _relation(old.reads, new.reads) == "agree"


def lost(new: StatementReading, old: StatementReading) -> tuple[str, ...]:
    """Return the words of `old`, as written, that `new` has not."""
    gone = old.about - new.about
    found = dict.fromkeys(word for word in words(old.reads) if stem(word, old.language) in gone)
    return tuple(found)


@lru_cache(REMEMBERED)
def _relation(existing: str, new: str) -> str:
    return compare(existing, new).relation


def shared_order(existing: StatementReading, new: StatementReading) -> float:
    """Return how much of what `new` is about stands in `existing` in the same order, 0..1."""
    return _shared_order(existing.ordered[:MOST_ORDERED], new.ordered[:MOST_ORDERED])


def _swaps_names(existing: StatementReading, new: StatementReading) -> bool:
    """Return whether both name the same things in another order."""
    both = set(existing.names) & set(new.names)
    return [name for name in existing.names if name in both] != [name for name in new.names if name in both]


def _numbers(statement: StatementReading) -> frozenset[str]:
    return frozenset(value for value in statement.values if value in NUMBER_WORDS or value.lstrip(_SIGNS)[:1].isdigit())


def _shared_order(existing: Sequence[str], new: Sequence[str]) -> float:
    """Return how much of `new` stands in `existing` in the same order, 0..1 (longest common subsequence)."""
    if not new:
        return 0.0
    known = Counter(existing)
    row = [0] * (len(existing) + 1)
    for term in new:
        if term not in known:
            continue
        diagonal = 0
        for at, other in enumerate(existing, start=1):
            above = row[at]
            row[at] = diagonal + 1 if term == other else max(above, row[at - 1])
            diagonal = above
    return row[-1] / len(new)


@cache
def _counted_in(language: str) -> frozenset[str]:
    """Return the terms of that language that are units."""
    return frozenset(stem(unit.casefold(), language) for unit in UNITS)


@cache
def _figures_in(language: str) -> frozenset[str]:
    """Return the terms of that language that are numbers."""
    return frozenset(stem(word, language) for word in NUMBER_WORDS)


_VERBATIM = frozenset({"fence", "code", "html", "comment", "front", "row"})
