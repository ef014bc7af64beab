"""The signs that a section of one of several pages is the place of a text without a heading. Pure.

Most of them compare the section with all others that could be meant, on whichever page they are.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from knowledge.merge.claims.statements import stemming_language
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.place.page_signs import PageSigns
from knowledge.merge.evidence.place.placement import PageSection, Placer
from knowledge.merge.evidence.place.section_signs import SectionSigns
from knowledge.merge.evidence.place.vectors import TermVectors, bm25_scores, count_terms, dice, likelier_words, ranks_of
from knowledge.merge.model import Unit
from knowledge.search.query.analysis import is_stop_word

NOT_FOUND = 200
"""The rank of a section that search did not find."""
SMOOTHED = 60
"""This many words, distributed as on the whole page, are added to the words of a section: a short section says little
about which words are likely in it."""

_NUMBER = re.compile(r"\s*(\d{1,9})[.)]\s")
_WORD = re.compile(r"[^\W\d_]+")
_LEADS_IN = re.compile(r":[*_`\s]*\Z")


class PlaceSigns(NamedTuple):
    """The signs that one of several sections is the place of a text.

    A rank counts from 0, the highest first.
    """

    score: float
    """Logarithm of its likelihood by the signs of page, section and form, relative to the highest."""
    found: float
    """Logarithm of one plus its rank in the search."""
    page_rank: float
    page_score: float
    """The same as `score` by the signs of the page alone."""
    page_words: float
    page_names: float
    page_twin: float
    sections: float
    """Logarithm of the number of sections of its page."""
    share: float
    """Logarithm of its share of the likelihood of all sections of its page."""
    words: float
    heading: float
    meaning: float
    blocks: float
    length: float
    has_list: float
    form: float
    """How well the form of the text fits the section's texts of the same kind (`form_fits`)."""
    texts: float
    """Logarithm of one plus the number of texts in the section."""
    of_kind: float
    """Share of the section's texts that are of the same kind as the text."""
    cosine: float
    """Cosine of the words of text and section; words that few of the sections have count for more."""
    cosine_rank: float
    bm25: float
    bm25_rank: float
    says: float
    """Likeness of the text to the most similar text of its kind in the section (Dice coefficient)."""
    own_words: float
    """How much likelier the words of the text are in the section than on its whole page (sum of the logarithms,
    divided by the square root of the number of words)."""
    before: float
    """The sign `cosine` of the section before it."""
    after: float
    begins: float
    """Share of the section's texts of the same kind that begin with the same word as the text."""
    begins_so: float
    """Share of the section's texts of the same kind that begin with the same kind of word as the text."""
    size: float
    """Minus the difference between the logarithms of the text's length and of the usual length of the section's
    texts of its kind."""
    leads_in: float
    """For a text that ends with a colon: share of the section's paragraphs that end with one."""
    led_to: float
    """For a text that ends with a colon: 1 if the section has a list, code or a table."""
    numbered: float
    """For a numbered step: 0 if the section has no numbered steps, 2 if the number of this step continues theirs or
    is among them, else 1."""
    is_item: float
    terms: float
    """Logarithm of one plus the number of different words of the text."""


class PlaceCandidate(NamedTuple):
    """A section that a text could go into, with the signs of the section and of its page."""

    path: str
    placer: Placer
    section: PageSection
    score: float
    page_score: float
    page_rank: int
    page: PageSigns
    share: float
    signs: SectionSigns | None
    form: float


def signs_of_places(
    content: str, places: Sequence[PlaceCandidate], found: Sequence[tuple[str, tuple[str, ...]]]
) -> Sequence[PlaceSigns]:
    """Return the signs of each place; `found` are the sections that search finds for the text, as path and section, best first."""
    language = stemming_language(content)
    asked = count_terms(content, language)
    text = next((unit for unit in units(cut(content)) if unit.kind in ("paragraph", "item")), None)
    counts = [one.placer.words_in(one.section) for one in places]
    cosines = TermVectors(counts).cosines(asked)
    bm25 = bm25_scores(asked, counts)
    cosine_ranks, bm25_ranks = ranks_of([cosines.get(at, 0.0) for at in range(len(places))]), ranks_of(bm25)
    ranks: dict[tuple[str, tuple[str, ...]], int] = {}
    for rank, place in enumerate(found):
        ranks.setdefault(place, rank)
    at_section = {(one.path, one.section): at for at, one in enumerate(places)}
    highest = max(one.score for one in places)
    highest_page = max(one.page_score for one in places)
    pages: dict[str, Counter[str]] = {}
    rows: list[PlaceSigns] = []
    for at, one in enumerate(places):
        if one.path not in pages:
            pages[one.path] = Counter[str]()
            for other in one.placer.sections:
                pages[one.path].update(one.placer.words_in(other))
        there = one.placer.units_in(one.section)
        like = [unit for unit in there if text is not None and unit.kind == text.kind]
        order = one.placer.sections.index(one.section)
        beside = [
            cosines.get(at_section.get((one.path, one.placer.sections[other]), -1), 0.0)
            if 0 <= other < len(one.placer.sections)
            else 0.0
            for other in (order - 1, order + 1)
        ]
        signs = one.signs
        begins, begins_so, size = _manner(text, like)
        leads_in, led_to, numbered = _structure(content, there)
        rows.append(
            PlaceSigns(
                score=one.score - highest,
                found=math.log1p(ranks.get((one.path, one.section.path), NOT_FOUND)),
                page_rank=float(one.page_rank),
                page_score=one.page_score - highest_page,
                page_words=one.page.words,
                page_names=one.page.names,
                page_twin=one.page.twin - one.page.said,
                sections=math.log(len(one.placer.sections)),
                share=math.log(one.share),
                words=signs.words if signs else 1.0,
                heading=signs.heading if signs else 0.0,
                meaning=signs.meaning if signs else 0.0,
                blocks=signs.blocks if signs else 0.0,
                length=math.log1p(counts[at].total()),
                has_list=0.0
                if text is None or text.kind != "item"
                else 1.0
                if one.placer.lists_in(one.section)
                else -1.0,
                form=one.form,
                texts=math.log1p(len(there)),
                of_kind=len(like) / (len(there) or 1),
                cosine=cosines.get(at, 0.0),
                cosine_rank=cosine_ranks[at],
                bm25=bm25[at],
                bm25_rank=bm25_ranks[at],
                says=max((dice(asked, count_terms(unit.text, language)) for unit in like), default=0.0),
                own_words=likelier_words(asked, counts[at], pages[one.path], SMOOTHED),
                before=beside[0],
                after=beside[1],
                begins=begins,
                begins_so=begins_so,
                size=size,
                leads_in=leads_in,
                led_to=led_to,
                numbered=numbered,
                is_item=float(text is not None and text.kind == "item"),
                terms=math.log1p(len(asked)),
            )
        )
    return rows


def _manner(text: Unit | None, like: Sequence[Unit]) -> tuple[float, float, float]:
    """Return the signs `begins`, `begins_so` and `size`."""
    if text is None or not like:
        return 0.0, 0.0, -2.0
    first, firsts = _first(text.text), [_first(unit.text) for unit in like]
    kind = _kind(first)
    size = math.fsum(math.log1p(len(unit.text)) for unit in like) / len(like)
    return (
        firsts.count(first) / len(like),
        sum(_kind(other) == kind for other in firsts) / len(like),
        -abs(math.log1p(len(text.text)) - size),
    )


def _first(text: str) -> str:
    found = _WORD.search(text)
    return found[0].casefold() if found else ""


def _kind(word: str) -> str:
    return (
        "stop"
        if is_stop_word(word)
        else word[-3:]
        if word.endswith("ing")
        else word[-2:]
        if word.endswith("ed")
        else ""
    )


def _structure(content: str, there: Sequence[Unit]) -> tuple[float, float, float]:
    """Return the signs `leads_in`, `led_to` and `numbered`."""
    leads_in = led_to = numbered = 0.0
    if _LEADS_IN.search(content):
        paragraphs = [unit for unit in there if unit.kind == "paragraph"]
        leads_in = (sum(_LEADS_IN.search(unit.text) is not None for unit in paragraphs) + 0.3) / (len(paragraphs) + 1)
        led_to = float(any(unit.kind not in ("paragraph", "heading") for unit in there))
    if own := _NUMBER.match(content):
        numbers = [int(found[1]) for unit in there if unit.kind == "item" and (found := _NUMBER.match(unit.text))]
        numbered = float(bool(numbers)) + float(bool(numbers) and 1 < int(own[1]) <= max(numbers) + 1)
    return leads_in, led_to, numbered
