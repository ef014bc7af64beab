"""The signs that a section of one of several pages is the parent of a new section, a text that begins with a heading. Pure.

Most of them compare the section with all others that could be meant, and the text with the sections below them.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from knowledge.merge.claims.statements import stemming_language
from knowledge.merge.document.units import cut, heading_level
from knowledge.merge.evidence.place.page_signs import PageSigns, name_of
from knowledge.merge.evidence.place.place_signs import NOT_FOUND
from knowledge.merge.evidence.place.placement import PageSection, Placer, folded_heading
from knowledge.merge.evidence.place.sister_pages import CandidatePage
from knowledge.merge.evidence.place.vectors import TermVectors, bm25_scores, count_terms, dice, likelier_words, ranks_of

SMOOTHED = 300
"""Words of all candidate pages that are added to those of a page."""
AVERAGE_HEADINGS = 2
"""So many average headings are added to those of a section, because a single one proves little about how they are written."""
REMEMBERED = 4096
HEADING_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        r"`",
        r"\(",
        r"\?\s*\Z",
        r"\A\W*\d",
        r"\A\W*\w+ing\b",
        r":",
        r"[a-z0-9][A-Z_]|\w\.\w",  # an identifier
        r"\A\W*(?:[Tt]he|[Aa]n?|[Hh]ow|[Ww]hat|[Ww]hy|[Ww]hen)\b",
        r"\A[^A-Z]*\Z",
        r"\b[a-z]{4,}(?: [a-z]+)*\Z",  # sentence case
        r"\A\S+\s[A-Z]\S*(?:\s[A-Z]\S*)*\Z",  # title case
        r"\A\W*v?\d+\.\d",  # a version
        r"\b(?:19|20)\d\d\b",
        r"\A\S+\Z",
        r"\A.{40,}",
    )
)
"""Forms that a heading has or lacks."""


class ParentSigns(NamedTuple):
    """The signs that one of several sections is the parent of a new section.

    A rank counts from 0, the highest first. The subsections of a section are those directly below it, before the new one is added.
    Their number and the length of section and page are no signs: pieces are cut out of pages with several sections only.
    """

    score: float
    """Logarithm of its likelihood by the signs of the page and its share there, relative to the highest."""
    page_rank: float
    page_score: float
    """The same as `score` by the signs of the page alone."""
    page_found: float
    """Logarithm of one plus the rank in the search of the page's first section."""
    page_words: float
    page_names: float
    page_names_rank: float
    page_words_rank: float
    page_relative: float
    page_twin: float
    page_has: float
    page_sister: float
    page_bm25: float
    page_bm25_rank: float
    own_words: float
    """How much likelier the words are on its page than on all these pages, for each word."""
    found_inside: float
    """Logarithm of one plus the rank in the search of the first of the section and those inside it."""
    share: float
    """Logarithm of its share of its page."""
    parents: float
    """Logarithm of one plus the number of sections of its page that were compared with it."""
    whole: float
    """1 if naming the page suffices for the text to go there."""
    named: float
    """1 if the page has a section with the heading of the text."""
    below: float
    """The level of the text's heading minus that of the section."""
    bm25: float
    """Likeness of the words with those of the section and all inside it."""
    bm25_rank: float
    cosine: float
    cosine_rank: float
    says: float
    """Likeness to the subsection that is most like the text (Dice coefficient)."""
    headings: float
    """The same of the headings alone."""
    heading_share: float
    """Share of the subsections whose heading has a word of the text's heading."""
    heading_form: float
    """How well the form of the text's heading fits the headings of the subsections."""
    begins: float
    """Share of these headings that begin with the same word."""
    inner: float
    """How alike the headings inside the text are to those inside a subsection (Jaccard)."""
    blocks_alike: float
    """How alike the kinds of blocks are to those of the subsections: lists, code, tables."""
    path_words: float
    """Likeness of the section's heading to that of the text."""
    names_heading: float
    """Cosine of the text's heading with the page's path and title."""
    having: float
    """Number of these pages that have a section with the heading of the text."""
    level: float
    terms: float
    """Logarithm of one plus the number of different words of the text."""
    subheadings: float
    """Logarithm of one plus the number of headings inside the text."""
    other: float
    """1 if a merge with its page would put the text into another section, or offer others."""
    has: float
    """1 if the section or one directly below it has the heading of the text."""
    beside: float
    """Share of the other sections of its level on the page that have a subsection with the heading of the text."""
    same_language: float
    """1 if the page is in the language of the text."""


class ParentCandidate(NamedTuple):
    """A section that a new section could go into, with what is known about its page and about it.

    With `whole`, a merge with the page puts the text into this section; `named` pages have a section with the text's heading.
    Such a merge would neither choose nor offer an `other` section. `parents` is the number of sections of its page of that kind.
    """

    page: CandidatePage
    placer: Placer
    parent: PageSection
    whole: bool
    named: bool
    score: float
    page_score: float
    page_rank: int
    signs: PageSigns
    share: float
    parents: int
    other: bool


class _NewSection:
    """The text, taken apart."""

    def __init__(self, content: str) -> None:
        heading, *below = [piece for piece in cut(content).pieces if piece.kind not in ("blank", "front")]
        own = " ".join(heading.section[-1:])
        self.language = stemming_language(content)
        self.terms, self.heading = count_terms(content, self.language), count_terms(own, self.language)
        self.folded, self.level = folded_heading(own), heading_level(heading)
        self.form = _form_of(own)
        self.inner = {folded_heading(" ".join(one.section[-1:])) for one in below if one.kind == "heading"}
        self.kinds = {piece.kind for piece in below} - {"blank", "heading"}


class _Outline:
    """The sections of a page, with how many words each has together with those inside it."""

    def __init__(self, placer: Placer) -> None:
        self.placer, self.sections = placer, placer.sections
        self._starts = [-1 if one.heading is None else one.heading for one in self.sections]
        self.words = Counter[str]()
        for one in self.sections:
            own = placer.words_in(one)
            self.words.update(own)

    def _range(self, section: PageSection) -> tuple[int, int]:
        first = 0 if section.heading is None else bisect_left(self._starts, section.heading)
        return first, bisect_left(self._starts, section.last)

    def inside(self, section: PageSection) -> Sequence[PageSection]:
        """Return the section and those inside it."""
        first, end = self._range(section)
        return self.sections[first:end]

    def words_inside(self, section: PageSection) -> Counter[str]:
        """Return how often each word occurs in the section and those inside it."""
        inside = self.inside(section)
        if len(inside) == len(self.sections):
            return self.words
        found = Counter[str]()
        for one in inside:
            found.update(self.placer.words_in(one))
        return found

    def having(self, heading: str) -> frozenset[tuple[str, ...]]:
        """Return the heading paths of the sections with a subsection of this folded heading."""
        return frozenset(one.path[:-1] for one in self.sections if one.path and folded_heading(one.path[-1]) == heading)

    def children(self, section: PageSection) -> Sequence[PageSection]:
        """Return the sections directly below it."""
        return [one for one in self.inside(section) if one != section and one.path[:-1] == section.path]


class _ParentPageFacts(NamedTuple):
    found: float
    names_rank: float
    words_rank: float
    bm25: float
    bm25_rank: float
    own_words: float
    names_heading: float


class _SiblingSigns(NamedTuple):
    """The signs of the same names, from the subsections of a section."""

    says: float
    headings: float
    heading_share: float
    blocks_alike: float


UNKNOWN = _SiblingSigns(0.0, 0.0, 0.0, 0.0)


def signs_of_parents(
    content: str, places: Sequence[ParentCandidate], found: Sequence[tuple[str, tuple[str, ...]]]
) -> Sequence[ParentSigns]:
    """Return the signs of each place; `found` are the sections that search finds for the text, as path and section, best first."""
    text = _NewSection(content)
    ranks: dict[tuple[str, tuple[str, ...]], int] = {}
    for rank, place in enumerate(found):
        ranks.setdefault(place, rank)
    outlines = {path: _Outline(placer) for path, placer in {one.page.path: one.placer for one in places}.items()}
    facts = _facts_of_pages(text, places, outlines, found)
    words = [outlines[one.page.path].words_inside(one.parent) for one in places]
    cosine = TermVectors(words).cosines(text.terms)
    cosines, bm25 = [cosine.get(at, 0.0) for at in range(len(places))], bm25_scores(text.terms, words)
    cosine_ranks, bm25_ranks = ranks_of(cosines), ranks_of(bm25)
    children = [outlines[one.page.path].children(one.parent) for one in places]
    forms = _heading_fits(text, children)
    compared = [
        _siblings(text, outlines[one.page.path], below) if below else None
        for one, below in zip(places, children, strict=True)
    ]
    usual = _usual([one for one in compared if one is not None])
    highest, highest_page = max(one.score for one in places), max(one.page_score for one in places)
    having = sum({one.page.path: one.signs.has_heading for one in places}.values())
    rows: list[ParentSigns] = []
    for at, one in enumerate(places):
        page, outline, below = facts[one.page.path], outlines[one.page.path], children[at]
        siblings = compared[at] or usual
        first = text.folded.split(" ")[0]
        rows.append(
            ParentSigns(
                score=one.score - highest,
                page_rank=float(one.page_rank),
                page_score=one.page_score - highest_page,
                page_found=page.found,
                page_words=one.signs.words,
                page_names=one.signs.names,
                page_names_rank=page.names_rank,
                page_words_rank=page.words_rank,
                page_relative=one.signs.relative,
                page_twin=one.signs.twin - one.signs.said,
                page_has=one.signs.has_heading,
                page_sister=one.signs.sister,
                page_bm25=page.bm25,
                page_bm25_rank=page.bm25_rank,
                own_words=page.own_words,
                found_inside=math.log1p(
                    min(ranks.get((one.page.path, other.path), NOT_FOUND) for other in outline.inside(one.parent))
                ),
                share=math.log(one.share),
                parents=math.log1p(one.parents),
                whole=float(one.whole),
                named=float(one.named),
                below=float(text.level - one.parent.level),
                bm25=bm25[at],
                bm25_rank=bm25_ranks[at],
                cosine=cosines[at],
                cosine_rank=cosine_ranks[at],
                says=siblings.says,
                headings=siblings.headings,
                heading_share=siblings.heading_share,
                heading_form=forms[at],
                begins=sum(folded_heading(child.path[-1]).split(" ")[0] == first for child in below)
                / (len(below) or 1),
                inner=_inner(text, outline, below),
                blocks_alike=siblings.blocks_alike,
                path_words=dice(text.heading, count_terms(" ".join(one.parent.path[-1:]), text.language)),
                names_heading=page.names_heading,
                having=having,
                level=float(text.level),
                terms=math.log1p(len(text.terms)),
                subheadings=math.log1p(len(text.inner)),
                other=float(one.other),
                has=float(
                    text.folded
                    in {folded_heading(name) for name in (*one.parent.path[-1:], *(child.path[-1] for child in below))}
                ),
                beside=_beside(text, outline, one.parent),
                same_language=float(text.language == one.placer.language),
            )
        )
    return rows


def _facts_of_pages(
    text: _NewSection,
    places: Sequence[ParentCandidate],
    outlines: Mapping[str, _Outline],
    found: Sequence[tuple[str, tuple[str, ...]]],
) -> Mapping[str, _ParentPageFacts]:
    """Return what is the same for all places of a page, by its path."""
    pages = {one.page.path: one for one in places}
    words = [outlines[path].words for path in pages]
    bm25 = bm25_scores(text.terms, words)
    names = TermVectors([count_terms(name_of(one.page), text.language) for one in pages.values()]).cosines(text.heading)
    names_ranks = ranks_of([one.signs.names for one in pages.values()])
    words_ranks, bm25_ranks = ranks_of([one.signs.words for one in pages.values()]), ranks_of(bm25)
    every = Counter[str]()
    for of_page in words:
        every.update(of_page)
    ranks: dict[str, int] = {}
    for rank, (path, _) in enumerate(found):
        ranks.setdefault(path, rank)
    return {
        path: _ParentPageFacts(
            found=math.log1p(ranks.get(path, NOT_FOUND)),
            names_rank=names_ranks[at],
            words_rank=words_ranks[at],
            bm25=bm25[at],
            bm25_rank=bm25_ranks[at],
            own_words=likelier_words(text.terms, words[at], every, SMOOTHED),
            names_heading=names.get(at, 0.0),
        )
        for at, path in enumerate(pages)
    }


@lru_cache(REMEMBERED)
def _form_of(heading: str) -> tuple[bool, ...]:
    return tuple(form.search(heading) is not None for form in HEADING_FORMS)


def _heading_fits(text: _NewSection, children: Sequence[Sequence[PageSection]]) -> Sequence[float]:
    """Return the sign `heading_form` of each place: the forms taken by themselves, relative to all these headings (naive Bayes)."""
    known = [[_form_of(child.path[-1]) for child in below] for below in children]
    count = sum(map(len, known))
    having = [[sum(form[at] for form in forms) for at in range(len(HEADING_FORMS))] for forms in known]
    usual = [(sum(counts[at] for counts in having) + 0.5) / (count + 1) for at in range(len(HEADING_FORMS))]
    fits: list[float] = []
    for forms, counts in zip(known, having, strict=True):
        rates = [
            (number + AVERAGE_HEADINGS * overall) / (len(forms) + AVERAGE_HEADINGS)
            for number, overall in zip(counts, usual, strict=True)
        ]
        fits.append(
            math.fsum(
                math.log(rate / overall) if has else math.log((1 - rate) / (1 - overall))
                for has, rate, overall in zip(text.form, rates, usual, strict=True)
            )
        )
    return fits


def _beside(text: _NewSection, outline: _Outline, parent: PageSection) -> float:
    others = [one for one in outline.sections if one.level == parent.level and one != parent]
    having = outline.having(text.folded)
    return sum(one.path in having for one in others) / (len(others) or 1)


def _inner(text: _NewSection, outline: _Outline, children: Sequence[PageSection]) -> float:
    if not text.inner:
        return 0.0
    inside = [{folded_heading(one.path[-1]) for one in outline.inside(child) if one != child} for child in children]
    return max((len(own & text.inner) / len(own | text.inner) for own in inside), default=0.0)


def _siblings(text: _NewSection, outline: _Outline, children: Sequence[PageSection]) -> _SiblingSigns:
    headings = [count_terms(child.path[-1], text.language) for child in children]
    pieces = outline.placer.page.pieces
    kinds = [{piece.kind for piece in pieces[child.first : child.last]} - {"blank", "heading"} for child in children]
    return _SiblingSigns(
        says=max(dice(text.terms, outline.placer.words_in(child)) for child in children),
        headings=max(dice(text.heading, heading) for heading in headings),
        heading_share=sum(bool(own.keys() & text.heading.keys()) for own in headings) / len(children),
        blocks_alike=math.fsum(len(own & text.kinds) / (len(own | text.kinds) or 1) for own in kinds) / len(children),
    )


def _usual(known: Sequence[_SiblingSigns]) -> _SiblingSigns:
    """Return the means, which a section without subsections counts as having: nothing is known about how they would be."""
    return _SiblingSigns(*(math.fsum(column) / len(known) for column in zip(*known, strict=True))) if known else UNKNOWN
