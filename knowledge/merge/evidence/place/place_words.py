"""The signs by the words of a text that a section is its place: which it has, in which order, and how likely they are there. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from knowledge.merge.evidence.place.page_signs import LONGEST_PAGE
from knowledge.merge.evidence.place.placement import PageSection, Placer
from knowledge.merge.evidence.place.vectors import (
    count_pairs,
    count_stop_words,
    count_terms,
    rarities,
    shared,
)

OF_ALL, OF_PAGE = 100, 60
"""This many words, distributed as on all pages, are added to those of a page, and of the page to those of a section."""
STOP_WORDS_OF_ALL = 20
"""This many stop words, distributed as in all sections, are added to those of a section."""


class WordSigns(NamedTuple):
    """Signs of `PlaceSigns`, which explains them."""

    covered: float
    likelier: float
    pairs: float
    rarest_above: float
    of_heading: float
    stop_words: float


def signs_of_words(
    content: str, language: str, places: Sequence[tuple[Placer, PageSection]], pages: Sequence[int]
) -> Sequence[WordSigns]:
    """Return the signs of each section; `pages` has the number of its page."""
    asked, pairs, stops = count_terms(content, language), count_pairs(content, language), count_stop_words(content)
    words = [placer.words_in(section) for placer, section in places]
    texts = [placer.text_of(section) for placer, section in places]
    # Every word counts a little, also one that all sections have.
    weights = {term: math.log1p(math.exp(rarity)) for term, rarity in rarities(asked, words).items()}
    likelier = _likelier(asked, language, places, pages)
    pairs_there = [count_pairs(text, language) for text in texts]
    rare_pairs = rarities(pairs, pairs_there)
    stops_there = [count_stop_words(text) for text in texts]
    all_stops = Counter[str]()
    for one in stops_there:
        all_stops.update(one)
    found: list[WordSigns] = []
    for at, (_, section) in enumerate(places):
        above = count_terms(" ".join(section.path), language)
        heading = count_terms(" ".join(section.path[-1:]), language)
        found.append(
            WordSigns(
                covered=shared(asked, weights, words[at]) / (math.fsum(weights.values()) or 1),
                likelier=likelier[at],
                pairs=shared(pairs, rare_pairs, pairs_there[at]) / math.sqrt(1 + len(pairs)),
                rarest_above=max((weights[term] for term in asked.keys() & above.keys()), default=0.0),
                of_heading=sum(term in asked for term in heading) / (len(heading) or 1),
                stop_words=_likelier_stop_words(stops, stops_there[at], all_stops),
            )
        )
    return found


def _likelier_stop_words(asked: Counter[str], own: Counter[str], everywhere: Counter[str]) -> float:
    size, own_size, logs = everywhere.total() or 1, own.total(), []
    for word, count in asked.items():
        usual = (everywhere[word] + 0.5) / size
        logs.append(count * math.log((own[word] + STOP_WORDS_OF_ALL * usual) / (own_size + STOP_WORDS_OF_ALL) / usual))
    return math.fsum(logs) / math.sqrt(asked.total() or 1)


def _likelier(
    asked: Counter[str], language: str, places: Sequence[tuple[Placer, PageSection]], pages: Sequence[int]
) -> Sequence[float]:
    on_page: dict[int, Counter[str]] = {}
    everywhere = Counter[str]()
    for (placer, _), page in zip(places, pages, strict=True):
        if page not in on_page:
            on_page[page] = count_terms(placer.page.text[:LONGEST_PAGE], language)
            everywhere.update(on_page[page])
    size = everywhere.total() + 1
    sizes = {page: words.total() for page, words in on_page.items()}
    found: list[float] = []
    for (placer, section), page in zip(places, pages, strict=True):
        own, of_page = placer.words_in(section), on_page[page]
        own_size, logs = own.total(), []
        for term, count in asked.items():
            usual = (everywhere[term] + 0.1) / size
            there = (of_page[term] + OF_ALL * usual) / (sizes[page] + OF_ALL)
            logs.append(count * math.log((own[term] + OF_PAGE * there) / (own_size + OF_PAGE) / usual))
        found.append(math.fsum(logs) / math.sqrt(asked.total() or 1))
    return found
