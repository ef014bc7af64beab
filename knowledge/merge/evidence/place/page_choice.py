"""Which pages and sections of a directory a text could go into. Pure.

A choice among pages is never sure enough to write to one, so the caller chooses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from knowledge.merge.document.units import cut, heading_level, units
from knowledge.merge.evidence.place.page_signs import PageSigns, signs_of_pages
from knowledge.merge.evidence.place.parent_signs import ParentCandidate, ParentSigns, signs_of_parents
from knowledge.merge.evidence.place.place_signs import PlaceCandidate, PlaceSigns, signs_of_places
from knowledge.merge.evidence.place.place_trees import PARENT_TREES, PLACE_TREES, corrected, stored_trees
from knowledge.merge.evidence.place.placement import (
    LONGEST_COMPARED,
    MOST_OFFERED,
    PageSection,
    Placer,
    Similarity,
    begins_with_link,
    offered_place,
)
from knowledge.merge.evidence.place.sister_pages import CandidatePage
from knowledge.merge.evidence.place.text_form import form_fits
from knowledge.merge.model import OfferedPlace

MOST_OPENED, MOST_OPENED_FOR_SECTION = 10, 15
"""Sections are compared on this many of the likeliest pages; the second for a text that begins with a heading."""
OF_TEXT = PageSigns(
    rank=1.3,
    words=17.5,
    names=2.5,
    relative=3.1,
    labels=2.8,
    definitions=10.8,
    said=-6.0,
    twin=6.8,
    has_heading=0.0,
    sister=0.0,
)
"""The weights for a text without a heading. They were fitted by a softmax over the sections of the pages that search
finds, on pieces of public documentation (kb/decisions/0086)."""
OF_SECTION = PageSigns(
    rank=1.0,
    words=12.5,
    names=7.9,
    relative=4.0,
    labels=2.5,
    definitions=5.0,
    said=-6.0,
    twin=6.6,
    has_heading=-3.0,
    sister=8.0,
)
"""The weights for a text that begins with a heading; such a text shares more words with the title of its page."""
FORM = 0.6
"""Weight of how well a text's form fits the texts of a section."""
LIST = 1.2
"""Weight of a list in the section, for an item."""
LEAST_SHARE = 0.00005
"""The share that a section counts as having if its rounded share is 0."""


@dataclass(frozen=True, slots=True)
class UnplacedText:
    """A text for a directory, and the `pages` of the directory that search finds for it.

    `pages` are best first, with sister pages of those found at the end. `found` are the sections that search finds, as
    path and section, best first.
    """

    content: str
    pages: Sequence[CandidatePage]
    similarity: Similarity | None = None
    found: Sequence[tuple[str, tuple[str, ...]]] = ()


def begins_with_heading(content: str) -> bool:
    """Return whether a text is a section with its heading."""
    first = next((piece for piece in cut(content).pieces if piece.kind not in ("blank", "front")), None)
    return first is not None and first.kind == "heading"


class _ScoredPlace(NamedTuple):
    """A place, and the logarithm of its likelihood; without `section` it is the page.

    `score` is comparable between places only: one unknown constant may be added to all of them.
    """

    path: str
    placer: Placer
    section: PageSection | None
    score: float

    def offered(self, fit: float) -> OfferedPlace:
        """Return the place for the caller to choose."""
        if self.section is None:
            return offered_place(self.path, (), fit, "")
        return offered_place(self.path, self.section.path, fit, self.placer.name_of(self.section))


def places_among_pages(unplaced: UnplacedText) -> tuple[OfferedPlace, ...]:
    """Return the three likeliest places."""
    content = unplaced.content[:LONGEST_COMPARED]
    if begins_with_heading(content):
        parents = candidate_parents(unplaced)
        rows = np.array(signs_of_parents(content, parents, unplaced.found), dtype=np.float64)
        scores = corrected(rows, stored_trees(PARENT_TREES, ParentSigns._fields))
        found = [
            # The page alone, where the text's own heading says the rest.
            _ScoredPlace(
                one.page.path,
                one.placer,
                None if one.whole and (one.named or one.parent == one.placer.title) else one.parent,
                score,
            )
            for one, score in zip(parents, scores, strict=True)
        ]
    else:
        places = candidate_places(unplaced)
        rows = np.array(signs_of_places(content, places, unplaced.found), dtype=np.float64)
        scores = corrected(rows, stored_trees(PLACE_TREES, PlaceSigns._fields))
        found = [
            _ScoredPlace(one.path, one.placer, one.section, score) for one, score in zip(places, scores, strict=True)
        ]
    # Relative to the highest score, because `exp` of a large number overflows; the shares are the same.
    highest = max(place.score for place in found)
    total = math.fsum(math.exp(place.score - highest) for place in found)
    # A page alone may be offered for several of its sections.
    named = {(one.path, one.section): one for one in sorted(found, key=lambda place: place.score)}
    best = sorted(named.values(), key=lambda place: -place.score)[:MOST_OFFERED]
    return tuple(one.offered(math.exp(one.score - highest) / total) for one in best)


class _ScoredPage(NamedTuple):
    page: CandidatePage
    placer: Placer
    score: float
    signs: PageSigns


def _likeliest(content: str, unplaced: UnplacedText, weights: PageSigns, most: int) -> Sequence[_ScoredPage]:
    """Return up to `most` of the likeliest pages, best first, with the logarithm of their likelihood."""
    signs = signs_of_pages(content, unplaced.pages)
    scores = [math.fsum(weight * sign for weight, sign in zip(weights, page, strict=True)) for page in signs]
    likeliest = sorted(range(len(scores)), key=lambda number: (-scores[number], number))[:most]
    pages = unplaced.pages
    return [
        _ScoredPage(pages[number], Placer(cut(pages[number].text), unplaced.similarity), scores[number], signs[number])
        for number in likeliest
    ]


def candidate_parents(unplaced: UnplacedText) -> Sequence[ParentCandidate]:
    """Return the sections of the likeliest pages that could hold a text that begins with a heading.

    The likelihood of one is the page's share, times the section's share of the page where more than one could be meant.
    """
    content = unplaced.content[:LONGEST_COMPARED]
    heading, *below = [piece for piece in cut(content).pieces if piece.kind not in ("blank", "front")]
    body, level = "".join(piece.text for piece in below), heading_level(heading)
    found: list[ParentCandidate] = []
    for rank, page in enumerate(_likeliest(content, unplaced, OF_SECTION, MOST_OPENED_FOR_SECTION)):
        placement = page.placer.place(body, path=heading.section, level=level)
        if placement.how == "unsure":
            choices = [(one.section, one.share, False) for one in placement.choices]
        else:
            sure = next(one for one in page.placer.sections if one.path == placement.section)
            choices = [(sure, 1.0, True)]
        known = {one for one, _, _ in choices}
        others = [one for one in page.placer.holders(body, heading.section[-1], level) if one.section not in known]
        counts = len(choices), len(others)
        choices += [(one.section, one.share, False) for one in others]
        named = bool(page.placer.sections_named(heading.section))
        for number, (parent, likelihood, whole) in enumerate(choices):
            other, share = number >= counts[0], max(likelihood, LEAST_SHARE)
            found.append(
                ParentCandidate(
                    page.page,
                    page.placer,
                    parent,
                    whole,
                    named,
                    page.score + math.log(share),
                    page.score,
                    rank,
                    page.signs,
                    share,
                    counts[other],
                    other,
                )
            )
    return found


def candidate_places(unplaced: UnplacedText) -> Sequence[PlaceCandidate]:
    """Return the sections of the likeliest pages, for a text without a heading.

    The likelihood of a section is the page's share, times the section's share of the page, times how well the text's
    form fits there.
    """
    content = unplaced.content[:LONGEST_COMPARED]
    text = next((unit for unit in units(cut(content)) if unit.kind in ("paragraph", "item")), None)
    kind = text.kind if text is not None else None
    found: list[PlaceCandidate] = []
    for rank, page in enumerate(_likeliest(content, unplaced, OF_TEXT, MOST_OPENED)):
        choices = page.placer.choices(
            content, is_item=kind == "item", with_references=begins_with_link(content), with_form=False
        )
        # The text before the first heading has no name to ask for it by, unless it is all of the page.
        for choice in [choice for choice in choices if choice.section.path] or choices[:1]:
            share = max(choice.share, LEAST_SHARE)
            fits = 0.0 if kind != "item" else LIST if page.placer.lists_in(choice.section) else -LIST
            score = page.score + math.log(share) + fits
            found.append(
                PlaceCandidate(
                    page.page.path,
                    page.placer,
                    choice.section,
                    score,
                    page.score,
                    rank,
                    page.signs,
                    share,
                    choice.signs,
                    0.0,
                )
            )
    forms = form_fits(text.text if text is not None else "", [one.placer.texts_in(one.section, kind) for one in found])
    return [one._replace(score=one.score + FORM * form, form=form) for one, form in zip(found, forms, strict=True)]
