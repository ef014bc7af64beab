"""Which pages and sections of a directory a text could go into. Pure.

A choice among pages is never sure enough to write to one, so the caller chooses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.merge.document.units import cut, heading_level
from knowledge.merge.evidence.place.page_signs import CandidatePage, PageSigns, signs_of_pages
from knowledge.merge.evidence.place.placement import LONGEST_COMPARED, MOST_OFFERED, Placer, Similarity, offered_place
from knowledge.merge.model import OfferedPlace

MOST_OPENED = 6
"""The likeliest pages, whose sections are compared."""
PAGE_WEIGHTS = PageSigns(
    rank=1.3, words=15.7, names=2.9, relative=6.7, labels=2.1, definitions=5.2, said=-3.8, twin=5.8
)
"""Fitted by a softmax over the pages that search finds, on pieces cut out of public documentation (kb/decisions/0053)."""


@dataclass(frozen=True, slots=True)
class UnplacedText:
    """A text for a directory, and the pages there that search finds for it, best first."""

    content: str
    pages: Sequence[CandidatePage]
    similarity: Similarity | None = None


def places_among_pages(unplaced: UnplacedText) -> tuple[OfferedPlace, ...]:
    """Return the three likeliest places: those with the highest product of the page's share and the section's share on it."""
    content, pages = unplaced.content[:LONGEST_COMPARED], unplaced.pages
    scores = [
        math.fsum(weight * sign for weight, sign in zip(PAGE_WEIGHTS, signs, strict=True))
        for signs in signs_of_pages(content, pages)
    ]
    # Relative to the highest score, because `exp` of a large number overflows; the shares are the same.
    likelihoods = [math.exp(score - max(scores)) for score in scores]
    total = math.fsum(likelihoods)
    likeliest = sorted(range(len(pages)), key=lambda number: (-likelihoods[number], number))[:MOST_OPENED]
    found = [
        place
        for number in likeliest
        for place in _places_in_page(content, pages[number], likelihoods[number] / total, unplaced.similarity)
    ]
    return tuple(sorted(found, key=lambda place: -place.fit)[:MOST_OFFERED])


def _places_in_page(
    content: str, page: CandidatePage, share: float, similarity: Similarity | None
) -> Sequence[OfferedPlace]:
    pieces = [piece for piece in cut(content).pieces if piece.kind not in ("blank", "front")]
    placer = Placer(cut(page.text), similarity)
    if not pieces or pieces[0].kind != "heading":
        found = placer.choices(content, is_item=bool(pieces) and pieces[0].kind == "list")
        # The text before the first heading has no name to ask for it by, unless it is all of the page.
        choices = [choice for choice in found if choice.section.path][:MOST_OFFERED] or found[:1]
    else:
        body = "".join(piece.text for piece in pieces[1:])
        placement = placer.place(body, path=pieces[0].section, level=heading_level(pieces[0]))
        if placement.how != "unsure":
            # The text's own heading names the section or makes a new one, so only the page is offered: with `section`, the text
            # would replace the whole section.
            return [offered_place(page.path, (), share)]
        choices = list(placement.choices[:MOST_OFFERED])
    return [offered_place(page.path, choice.section.path, share * choice.share) for choice in choices]
