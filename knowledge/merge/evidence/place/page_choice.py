"""Which pages and sections of a directory a text could go into. Pure.

The right page is among the first three for two texts of three, so no page is chosen here: the caller chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from knowledge.merge.claims.statements import stemming_language
from knowledge.merge.document.units import cut, heading_level
from knowledge.merge.evidence.place.placement import LONGEST_COMPARED, MOST_OFFERED, Placer, Similarity, offered_place
from knowledge.merge.evidence.place.vectors import TermVectors, count_terms
from knowledge.merge.model import OfferedPlace

SHARPENED = 3
"""Power of a page's likeness: it weighs more than the section's (kb/decisions/0053)."""
RANK_POWER = 0.5
"""How much the search's order counts: the page at place n weighs 1 / n to this power."""


class CandidatePage(NamedTuple):
    """A page that a text could go into."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class UnplacedText:
    """A text for a directory, and the pages there that search finds for it, best first."""

    content: str
    pages: Sequence[CandidatePage]
    similarity: Similarity | None = None


def places_among_pages(unplaced: UnplacedText) -> tuple[OfferedPlace, ...]:
    """Return the best three places of these pages, likeliest first."""
    content = unplaced.content[:LONGEST_COMPARED]
    language = stemming_language(content)
    pages = [count_terms(page.text, language) for page in unplaced.pages]
    likenesses = TermVectors(pages).cosines(count_terms(content, language))
    weights = [likenesses.get(number, 0.0) ** SHARPENED / (1 + number) ** RANK_POWER for number in range(len(pages))]
    total = sum(weights) or 1.0
    found = [
        place
        for page, weight in zip(unplaced.pages, weights, strict=True)
        for place in _places_in_page(content, page, weight / total, unplaced.similarity)
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
            # Named, or a new section: the page alone says where. With `section` the text would be a new version of all of it.
            return [offered_place(page.path, (), share)]
        choices = list(placement.choices[:MOST_OFFERED])
    return [offered_place(page.path, choice.section.path, share * choice.share) for choice in choices]
