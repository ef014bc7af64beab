"""What the units of a text say, statement by statement, in a form that can be compared. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from knowledge.find.analysis import analyzer
from knowledge.inline import code_spans, plain
from knowledge.language import detect
from knowledge.merge.contradiction import compare
from knowledge.merge.model import Unit

LOOKED_AT = 4000
"""Characters of a statement that are compared; a longer one is no sentence but data."""
SAME_ORDER = 0.6
"""How much of a statement's terms the other has in the same order: `A calls B` is not `B calls A`."""
SAME_WORDS = 0.9
ALIKE = 0.6

_MARKER = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])(?:[ \t]+(?:\[[ xX]\][ \t]+)?|$)")
_QUOTE_MARK = re.compile(r"^ {0,3}> ?", re.MULTILINE)
_INNER_ITEM = re.compile(r"\n[ \t]*(?=(?:[-+*]|\d{1,9}[.)])[ \t])")
_SENTENCE_END = re.compile(r"[.!?][\"')\]*_\u201d\u00bb]*(?=\s)|[\u3002\uff01\uff1f]|(?: {2,}|\\)(?=\n)|\n[ \t]*\n")
_NO_END = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|etc|no|nos|fig|approx|ca|dr|mr|mrs|ms|st|prof|inc|z\.\s?b|d\.\s?h|u\.\s?a|bzw|nr|abb|vgl|"
    r"ggf|evtl|max|min|[a-z]|\d{1,2})\.$",
    re.IGNORECASE,
)
_KEY_LINE = re.compile(r"[ \t]*[*_`]{0,2}[^\W\d_][\w ./()-]{0,60}?[*_`]{0,2}[ \t]*[:=][*_]{0,2}[ \t]+\S")
_VALUE = re.compile(r"[<>\u2264\u2265~\u00b1+-]?\d[\d.,:/\u2013-]*[^\W\d_%]*%?")
_TARGET = re.compile(r"\]\(\s*<?([^\s<>()]+)|\[\[([^\[\]|\n]+)|(https?://[^\s<>()\]]+)")
_NAME = re.compile(r"(?<=[\w,;)] )[^\W\d_a-z][\w.-]*[^\W_]|\b\w*[a-z][A-Z]\w*\b|\b[A-Z]{2,}\b")
_QUOTES = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\u00a0": " "}
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
    if any(start <= at < end for start, end, _ in hidden):
        return False
    if text[at] not in ".!?":
        return True
    following = text[found.end() :].lstrip()[:1]
    if following.islower():
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
class Statement:
    """One thing that a text says. `unit` is the index of its unit, `span` where it stands in that."""

    text: str
    unit: int
    span: Span
    kind: str
    section: tuple[str, ...]
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
        """Its terms once each, without those that hold a number."""
        return frozenset(term for term in self.terms if not any(map(str.isdigit, term)))

    @cached_property
    def values(self) -> frozenset[str]:
        """What must not get lost when it is put in other words: numbers, code, names, where links lead."""
        code = [
            self.text[start + ticks : end - ticks].strip() for start, end, ticks in code_spans(self.text[:LOOKED_AT])
        ]
        links = [one for found in _TARGET.findall(self.text[:LOOKED_AT]) for one in found if one]
        numbers = [value.rstrip(".,:/-\u2013").casefold() for value in _VALUE.findall(self.reads)]
        names = [name.casefold() for name in _NAME.findall(self.reads)]
        return frozenset((*numbers, *names, *code, *links))


def language_of(text: str) -> str:
    """Return the language whose stems a text is compared by."""
    return detect(text[:LOOKED_AT])


def statements(units: Sequence[Unit], language: str) -> list[Statement]:
    """Return everything that `units` say, headings left out."""
    return [
        Statement(unit.text[span.start : span.end], number, span, unit.kind, unit.section, language)
        for number, unit in enumerate(units)
        if unit.kind != "heading"
        for span in spans(unit)
    ]


def alike(one: Statement, other: Statement) -> float:
    """Return how far both are about the same, 0..1: the terms that both have among all (Dice), numbers aside."""
    both = len(one.about & other.about)
    total = len(one.about) + len(other.about)
    return 2 * both / total if total else 0.0


def says(existing: Statement, new: Statement) -> bool:
    """Return whether who has read `existing` learns nothing from `new`: the same, in other words, or less of the same."""
    if existing.folded == new.folded:
        return True
    if existing.kind in _VERBATIM or new.kind in _VERBATIM or not new.about:
        return False
    if not new.about <= existing.about and alike(existing, new) < SAME_WORDS:
        return _agrees_in_other_words(existing, new)
    if _shared_order(existing.terms, new.terms) < SAME_ORDER:
        return False
    relation = compare(existing.reads, new.reads).relation
    if new.values <= existing.values:
        # Words that both have in the same order, with the same values, are the same statement unless something says no.
        return relation == "agree" or (relation == "unrelated" and alike(existing, new) >= SAME_WORDS)
    return relation == "agree" and _counted(new) and new.values - existing.values <= _numbers(new)


def _agrees_in_other_words(existing: Statement, new: Statement) -> bool:
    """Return whether the values agree (5 min, 300 s) and nearly all words but units are the same."""
    if not _counted(new) or not _counted(existing) or alike(existing, new) < ALIKE:
        return False
    unsaid = new.about - existing.about
    if len(unsaid) > 1 or new.values - existing.values - _numbers(new):
        return False
    return compare(existing.reads, new.reads).relation == "agree"


def _numbers(statement: Statement) -> frozenset[str]:
    return frozenset(value for value in statement.values if any(map(str.isdigit, value)))


def _counted(statement: Statement) -> bool:
    return bool(_numbers(statement))


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


_VERBATIM = frozenset({"fence", "code", "html", "comment", "front", "row"})
