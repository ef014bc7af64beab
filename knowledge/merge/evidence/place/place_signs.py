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
from knowledge.merge.evidence.place.place_words import signs_of_words
from knowledge.merge.evidence.place.placement import PageSection, Placer
from knowledge.merge.evidence.place.section_signs import SectionSigns
from knowledge.merge.evidence.place.text_manner import manner_fits
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

    A rank counts from 0, the highest first. The numbers of texts and of sections are no signs: pieces are cut out of sections with
    several texts, on pages with several sections.
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
    behind: float
    """By how much the search finds it later than the first section of its page (difference of the logarithms)."""
    covered: float
    """Share of the text's words that the section has; words that few of the sections have count for more."""
    covered_rank: float
    likelier: float
    """How much likelier the words of the text are in the section than on all these pages. Words of the rest of its page count
    too, but less."""
    likelier_rank: float
    pairs: float
    """Pairs of successive words of the text that the section has; a pair counts for more if fewer sections have it."""
    rarest_above: float
    """The same for the rarest word that is also in the section's headings."""
    of_heading: float
    """Share of the words of the section's heading that the text has."""
    stop_words: float
    """How much likelier the stop words of the text are in the section than in all sections."""
    page_manner: float
    """How well the manner of the text fits the texts of the page (`manner_fits`)."""
    manner: float
    """How well it fits the texts of the section, among those of its page."""
    both_manners: float
    both_manners_rank: float
    begins_alike: float
    """Share of the section's texts of the same kind that begin with the same stop word, or with a word of the same ending."""


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
    numbers = {path: number for number, path in enumerate(dict.fromkeys(one.path for one in places))}
    pages = [numbers[one.path] for one in places]
    words = signs_of_words(content, language, [(one.placer, one.section) for one in places], pages)
    likes = [
        [unit for unit in one.placer.units_in(one.section) if text is not None and unit.kind == text.kind]
        for one in places
    ]
    manners = manner_fits(text.text if text else "", [[unit.text for unit in like] for like in likes], pages)
    both_manners = [one.page + one.section for one in manners]
    covered_ranks, likelier_ranks = ranks_of([one.covered for one in words]), ranks_of([one.likelier for one in words])
    manner_ranks = ranks_of(both_manners)
    found_at = [math.log1p(ranks.get((one.path, one.section.path), NOT_FOUND)) for one in places]
    first_found: dict[str, float] = {}
    for one, at_rank in zip(places, found_at, strict=True):
        first_found[one.path] = min(at_rank, first_found.get(one.path, at_rank))
    at_section = {(one.path, one.section): at for at, one in enumerate(places)}
    highest = max(one.score for one in places)
    highest_page = max(one.page_score for one in places)
    on_page: dict[str, Counter[str]] = {}
    rows: list[PlaceSigns] = []
    for at, one in enumerate(places):
        if one.path not in on_page:
            on_page[one.path] = Counter[str]()
            for other in one.placer.sections:
                on_page[one.path].update(one.placer.words_in(other))
        there, like = one.placer.units_in(one.section), likes[at]
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
                found=found_at[at],
                page_rank=float(one.page_rank),
                page_score=one.page_score - highest_page,
                page_words=one.page.words,
                page_names=one.page.names,
                page_twin=one.page.twin - one.page.said,
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
                of_kind=len(like) / (len(there) or 1),
                cosine=cosines.get(at, 0.0),
                cosine_rank=cosine_ranks[at],
                bm25=bm25[at],
                bm25_rank=bm25_ranks[at],
                says=max((dice(asked, count_terms(unit.text, language)) for unit in like), default=0.0),
                own_words=likelier_words(asked, counts[at], on_page[one.path], SMOOTHED),
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
                behind=found_at[at] - first_found[one.path],
                covered=words[at].covered,
                covered_rank=covered_ranks[at],
                likelier=words[at].likelier,
                likelier_rank=likelier_ranks[at],
                pairs=words[at].pairs,
                rarest_above=words[at].rarest_above,
                of_heading=words[at].of_heading,
                stop_words=words[at].stop_words,
                page_manner=manners[at].page,
                manner=manners[at].section,
                both_manners=both_manners[at],
                both_manners_rank=manner_ranks[at],
                begins_alike=_begins_alike(text, like),
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


def _begins_alike(text: Unit | None, like: Sequence[Unit]) -> float:
    """Return the sign `begins_alike`; a section without such texts has a little more than one without the beginning."""
    beginning = _beginning(_first(text.text)) if text is not None else ""
    return (sum(_beginning(_first(unit.text)) == beginning for unit in like) + 0.2) / (len(like) + 1)


def _beginning(word: str) -> str:
    if is_stop_word(word):
        return word
    return next((f"-{ending}" for ending in ("ing", "ed", "s") if word.endswith(ending)), "-")


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
