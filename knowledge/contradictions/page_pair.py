"""Finds the statements of two pages that contradict each other. Pure: another process may run it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from knowledge.history.ports import Tracked
from knowledge.merge.claims.claim import claims_of, most_likely_language, plain_text, unread_statements
from knowledge.merge.claims.contradiction import SAMPLE, STATING, FoundContradiction, contradictions
from knowledge.merge.claims.statements import StatementReading, likeness, read_statement, sentences
from knowledge.merge.document.dated_log import dated_item, day_of, is_dated_name, is_log
from knowledge.merge.document.unit_origins import PageFacts, presumed_origin, trace_origins
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import USER, confidence_in
from knowledge.merge.model import Contradiction, Side, Unit, cut_short, section_name, unit_digest
from knowledge.offload import comparison_size
from knowledge.pages.paths import without_suffix
from knowledge.writing.related.target_page import Surroundings, front_matter_of

LEAST_SHARED, SAME_SUBJECT = 3, 0.75
"""Statements on two pages count as being about the same thing from this many shared words and this likeness of
subjects."""
NEARLY_EQUAL = 0.95
"""The likeness required if a figure differs and the statements share one word less than `LEAST_SHARED`: "the cache
holds 5 GB", "the cache holds 6 GB"."""
SAME_NAMES = 0.8
"""The required likeness of the page names and headings around two short lines. Pages from one template share most of them."""
PARALLEL = 2
"""Keys that two pages must share to count as parallel: the same facts about different subjects."""
LEAST_SURE = 0.5
"""How sure a contradiction between pages must be to be reported. A list that is mostly wrong is not read."""
COPIED, COPIED_WORDS = 2, 8
"""Two pages count as copies of each other or of a template if they share this many statements of at least this many
words.
"""
OF_A_COPY, OF_SAMPLES, SWAPPED, REPEATED = 0.6, 0.5, 0.8, 0.8
"""Factors that lower the certainty of a contradiction. `OF_A_COPY`: the pages are copies. `OF_SAMPLES`: a statement is
a sample, or follows from an example. `SWAPPED`: each statement has a word that the other lacks. `REPEATED`: one of the
statements is already in a more certain contradiction. The factors only move a contradiction down the list."""
_WORD = re.compile(r"[^\s\u3002\uff01\uff1f]+[\u3002\uff01\uff1f]*|[\u3002\uff01\uff1f]+")
"""A word with its markup. Chinese and Japanese sentences end without a blank."""
_ONLY_A_LINK = re.compile(r"\[[^\[\]]*\]\([^()\s]*\)\.?")
_FOLLOWS = re.compile(
    r"(?:therefore|thus|hence|for example|for instance|e\.g\.|in this (?:case|example)|daher|zum beispiel)\b",
    re.IGNORECASE,
)
_SAMPLES = frozenset(
    (
        "yes",
        "no",
        "do",
        "don't",
        "dos",
        "don'ts",
        "good",
        "bad",
        "right",
        "wrong",
        "correct",
        "incorrect",
        "example",
        "examples",
    )
)
"""Headings over sample sentences, which a page shows without claiming them."""
_FIGURES = ("number", "unit", "date", "version")
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_UNVERSIONED = re.compile(r"[-_. ]*v?\d+(?:[-_.]\d+)*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RecordedPage:
    """A page and its recorded origins. `tracked_text` is the text that `tracked` belongs to."""

    path: str
    text: str
    revision: str
    tracked: Tracked | None
    tracked_text: str | None
    modified: datetime
    around: Surroundings


@dataclass(frozen=True, slots=True)
class PagePair:
    """Two pages that are compared. With `only`, just those units of `other` are compared that have these digests."""

    page: RecordedPage
    other: RecordedPage
    now: datetime
    only: frozenset[bytes] | None = None

    @property
    def size(self) -> int:
        """The amount of work to compare them, which decides whether another process does it."""
        one, other = len(self.page.text), len(self.other.text)
        tracked = sum(len(page.tracked_text or "") for page in (self.page, self.other))
        return comparison_size(one, other, read=one + other + tracked)


def pair_contradictions(pair: PagePair) -> list[Contradiction]:
    """Return the contradictions between the two pages, surest first; the side with the higher confidence is `existing`.

    Two statements that are both dated, by their page, their section or their own text, do not contradict each other:
    each describes its own time. Statements about two different years don't either.
    """
    if _UNVERSIONED.sub("", pair.page.path) == _UNVERSIONED.sub("", pair.other.path):
        return []  # `spec.md` and `spec-2.0.md` describe two versions
    here, there = (_ComparedPage(page, pair.now) for page in (pair.page, pair.other))
    pairs = contradictions(here.units, there.units)
    # Two pages that share several keys (of lines or rows) describe two subjects alike, such as `timeout: 30` for two services.
    short = {one for one in pairs if not _is_clear_alone(one)}
    parallel = len({one.comparison.subject for one in short}) >= PARALLEL
    copies = _are_copies(pair, here.units, there.units)
    told: set[str] = set()
    found = []
    for one in pairs:
        unit, other = here.units[one.existing], there.units[one.new]
        if pair.only is not None and unit_digest(other.text) not in pair.only:
            continue
        if here.dates(unit) and there.dates(other):
            continue
        years, other_years = here.years(unit), there.years(other)
        if years and other_years and years.isdisjoint(other_years):
            continue
        around = [(_name(pair.page.path), *unit.section), (_name(pair.other.path), *other.section)]
        if (parallel and one in short) or not _share_a_subject(one, around):
            continue
        said, comparison = one.said, one.comparison
        sides = [
            (here.side(one.existing, said[0]), comparison.values[0]),
            (there.side(one.new, said[1]), comparison.values[1]),
        ]
        # The sort is stable: if both sides have the same confidence, the first page's stays first.
        (existing, value), (new, other_value) = sorted(sides, key=lambda side: -(side[0].confidence or 0.0))
        about = f"About {comparison.subject!r}, " if comparison.subject else ""
        reason = f"{about}{existing.path} says {value}, {new.path} says {other_value}."
        sure = comparison.strength
        for doubted, factor in (
            (copies, OF_A_COPY),
            (any(map(_is_sample, (unit, other), said)), OF_SAMPLES),
            (_are_swapped(one), SWAPPED),
            (not told.isdisjoint(said), REPEATED),
        ):
            sure *= factor if doubted else 1
        told.update(said)
        # Lowered sureness changes the order but hides nothing.
        sure = max(sure, min(comparison.strength, LEAST_SURE))
        found.append(Contradiction(comparison.kind, comparison.subject, reason, existing, new, sure))
    return sorted(found, key=lambda one: -one.sure)


def _are_copies(pair: PagePair, here: Sequence[Unit], there: Sequence[Unit]) -> bool:
    """Return whether the pages have the same name in two folders, or share several statements and differ in a word of the path.

    A different figure is then probably another team's, or about another kind of leave, and not a mistake.
    """
    paths = (pair.page.path, pair.other.path)
    ours, theirs = (frozenset(_words(path).casefold().split()) for path in paths)
    if not ours - theirs or not theirs - ours:
        return False
    if len({_UNVERSIONED.sub("", path.rpartition("/")[2]) for path in paths}) == 1:
        return True
    said, other = (
        {text.casefold() for unit in units if unit.kind in STATING for text in map(plain_text, _sentences_of(unit))}
        for units in (here, there)
    )
    return sum(len(text.split()) >= COPIED_WORDS for text in said & other) >= COPIED


def _sentences_of(unit: Unit) -> list[str]:
    return [unit.text[span.start : span.end] for span in sentences(unit.text)]


def _are_swapped(found: FoundContradiction) -> bool:
    ours, theirs = (_reading(said, found).subject for said in found.said)
    return bool(ours - theirs and theirs - ours)


def _is_sample(unit: Unit, said: str) -> bool:
    return (
        _ONLY_A_LINK.fullmatch(_as_written(said, unit.text)) is not None
        or _FOLLOWS.match(said) is not None
        # Headings such as "Don't" are also written with a typographic apostrophe.
        or any(name.casefold().strip(" *_:.!").replace("\u2019", "'") in _SAMPLES for name in unit.section)
    )


class _ComparedPage:
    """The units of a page with their origins, presumed ones where none is recorded."""

    def __init__(self, page: RecordedPage, now: datetime) -> None:
        self._page, self._now = page, now
        document, front = cut(page.text), front_matter_of(page.text)
        self.units = units(document)
        facts = PageFacts(page.path, str(front.get("source") or USER), page.modified, tracked=page.tracked is not None)
        then = None if page.tracked_text is None else units(cut(page.tracked_text))
        traced = trace_origins(self.units, page.tracked.origins if page.tracked else (), then)
        self._origins = [
            origin or presumed_origin(unit, facts, page.around.rules)
            for unit, origin in zip(self.units, traced, strict=True)
        ]
        self._is_dated = is_dated_name(page.path) or page.around.appends(front) or is_log(document)

    def dates(self, unit: Unit) -> bool:
        """Return whether the unit is dated: by its page, by a heading above it, or by its own beginning."""
        return self._is_dated or any(map(day_of, unit.section)) or dated_item(unit.text) is not None

    def years(self, unit: Unit) -> frozenset[str]:
        """Return the years in the names of its page and headings, such as that of an annual report."""
        return frozenset(_YEAR.findall(" ".join((self._page.path, *unit.section))))

    def side(self, number: int, said: str) -> Side:
        """Return a statement of a unit as one side of a contradiction."""
        unit, origin = self.units[number], self._origins[number]
        weight = confidence_in(origin, now=self._now, rules=self._page.around.rules)
        return Side(
            path=self._page.path,
            section=section_name(unit.section),
            text=cut_short(_as_written(said, unit.text)),
            source=origin.source,
            authority=weight.authority,
            observed_at=origin.observed_at,
            confidence=weight.confidence,
            revision=self._page.revision,
        )


def decidable_texts(text: str) -> list[str]:
    """Return the texts of a page that could contradict another: with a figure, a key, a cell, or a word that has an opposite."""
    here = [unit for unit in units(cut(text)) if unit.kind in STATING]
    language = most_likely_language(" ".join(unit.text for unit in here[:SAMPLE]))
    return [
        unit.text
        for unit in here
        if any(one.values or one.key or one.row or one.denied or one.poles for one in claims_of(unit.text, language))
    ]


def _words(path: str) -> str:
    """Return the words of a path."""
    return re.sub(r"[-_./]", " ", without_suffix(path))


def _name(path: str) -> str:
    """Return the words of a page's file name."""
    return _words(path.rpartition("/")[2])


def _as_written(said: str, text: str) -> str:
    """Return a statement as its unit writes it, with markup, so that the recorded text can be found in the page again."""
    written = (text[span.start : span.end] for span in sentences(text))
    sentence = next((one for one in written if said in plain_text(one)), "")
    if sentence and len(unread_statements(sentence)) == 1:
        return sentence
    # Two ways of splitting sentences differ here, so the statement's own words are looked for: where they first end, and the last
    # start before that.
    parts = list(_WORD.finditer(text))
    end = bisect_left(parts, 1, key=lambda part: said in plain_text(text[: part.end()]))
    if end == len(parts):
        return said
    stop = parts[end].end()
    start = bisect_left(parts, 1, hi=end, key=lambda part: said not in plain_text(text[part.end() : stop]))
    return text[parts[start].start() : stop]


def _is_clear_alone(found: FoundContradiction) -> bool:
    """Return whether both statements name their subject. A table row, `Version: 2` and "click Validate" do not."""
    return all(not said.startswith("|") and _reading(said, found).is_clear_alone for said in found.said)


def _reading(text: str, found: FoundContradiction) -> StatementReading:
    return read_statement(text, most_likely_language(" ".join(found.said)))


def _share_a_subject(found: FoundContradiction, around: Sequence[Sequence[str]]) -> bool:
    """Return whether two statements of different pages are about the same thing, and not merely worded alike.

    Statements of one page share its subject. Statements of two pages must name their subject themselves, or the names of their pages
    and headings (`around`) must.
    """
    if not _is_clear_alone(found):
        headings = [_reading(" ".join(above[1:]), found).subject for above in around]
        # "SIG Docs > Contact" and "SIG Storage > Contact", made from one template, each name another channel.
        if headings[0] - headings[1] and headings[1] - headings[0]:
            return False
        names = [said.strip("| ").split(":")[0].split("|")[0] for said in found.said]
        ours, theirs = (_reading(" ".join((*above, name)), found) for above, name in zip(around, names, strict=True))
        return len(ours.subject & theirs.subject) >= LEAST_SHARED and likeness(ours, theirs) >= SAME_NAMES
    if any(said.rstrip(" *_").endswith((":", "?")) for said in found.said):
        return False  # it only introduces the next text, or asks
    ours, theirs = (_reading(said, found) for said in found.said)
    shared, alike = len(ours.subject & theirs.subject), likeness(ours, theirs)
    if shared == LEAST_SHARED - 1 and found.comparison.kind in _FIGURES:
        return alike >= NEARLY_EQUAL
    return shared >= LEAST_SHARED and alike >= SAME_SUBJECT
