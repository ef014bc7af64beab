"""Chooses the page of a directory that a snippet belongs to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from knowledge.merge.claims.statements import stemming_language
from knowledge.merge.evidence.place.placement import (
    LONGEST_COMPARED,
    MEANING,
    OWN_HEADING,
    Similarity,
    from_meaning,
    least_likeness,
)
from knowledge.merge.evidence.place.vectors import TermVectors, count_terms, times


class PageSketch(NamedTuple):
    """What is known about a page without reading it completely."""

    path: str
    title: str
    headings: Sequence[str] = ()
    summary: str = ""
    lead: str = ""


class PageChoice(NamedTuple):
    """The page of a directory that a snippet belongs to, or None if none is similar; and the compared scores."""

    path: str | None
    score: float
    runner_up: tuple[str, float] | None


def best_page(snippet: str, pages: Sequence[PageSketch], similarity: Similarity | None = None) -> PageChoice:
    """Return the page that `snippet` belongs to; its title and headings count more than its lead."""
    if not pages:
        return PageChoice(None, 0.0, None)
    language = stemming_language(snippet)
    described = [
        times(count_terms(page.title[:LONGEST_COMPARED], language), OWN_HEADING)
        + times(count_terms(" ".join(page.headings)[:LONGEST_COMPARED], language), OWN_HEADING - 1)
        + count_terms(f"{page.summary} {page.lead}"[:LONGEST_COMPARED], language)
        for page in pages
    ]
    cosines = TermVectors(described).cosines(count_terms(snippet[:LONGEST_COMPARED], language))
    scores = [cosines.get(number, 0.0) for number in range(len(pages))]
    if similarity is not None:
        texts = [f"{page.title}. {page.summary} {' '.join(page.headings)} {page.lead}" for page in pages]
        meant = similarity([snippet[:LONGEST_COMPARED]], [text[:LONGEST_COMPARED] for text in texts])[0]
        scores = [(1 - MEANING) * word + MEANING * from_meaning(mean) for word, mean in zip(scores, meant, strict=True)]
    order = sorted(range(len(pages)), key=lambda index: -scores[index])
    runner_up = (pages[order[1]].path, round(scores[order[1]], 4)) if len(order) > 1 else None
    best = round(scores[order[0]], 4)
    return PageChoice(pages[order[0]].path if best >= least_likeness(similarity) else None, best, runner_up)
