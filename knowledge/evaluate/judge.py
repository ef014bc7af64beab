"""Matches hits with judged places, and texts with the answers in them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from knowledge.evaluate.metrics import ndcg, recall, reciprocal_rank
from knowledge.evaluate.queries import LabelledQuery, Relevant
from knowledge.pages.markdown.inline import without_attributes
from knowledge.pages.paths import HEADING_SEPARATOR, without_suffix

# The depth at which BEIR's tables report nDCG.
DEPTH_NDCG = 10
DEPTH_RECALL = 20


class Placed(Protocol):
    """Something that was found: a page, and its section as `A > B`."""

    @property
    def path(self) -> str:
        """The page."""
        ...

    @property
    def section(self) -> str:
        """The heading path, empty before the first heading."""
        ...


@dataclass(frozen=True, slots=True)
class Quality:
    """The measures of a ranking, each 0..1."""

    ndcg: float
    recall: float
    reciprocal_rank: float


def quality(query: LabelledQuery, found: Sequence[Placed]) -> Quality:
    """Return nDCG@10, recall@20 and reciprocal rank of `found`.

    A judged place counts once, however many of its chunks were found. Irrelevant hits count once per page if whole
    pages are judged, otherwise once per section.
    """
    grades: dict[tuple[str, str], float] = {}
    for place in query.relevant:
        key = _name(place.path, place.section)
        grades[key] = max(place.grade, grades.get(key, 0.0))
    by_section = any(section for _, section in grades)
    ranked = []
    for hit in found:
        judged = judged_as(query, hit)
        if judged is not None:
            ranked.append(_name(judged.path, judged.section))
        else:
            # With the prefix, the name can't be that of a judged place.
            ranked.append(_name(hit.path, f"not judged: {hit.section}" if by_section else "not judged"))
    return Quality(
        ndcg(ranked, grades, DEPTH_NDCG), recall(ranked, grades, DEPTH_RECALL), reciprocal_rank(ranked, grades)
    )


def judged_as(query: LabelledQuery, hit: Placed) -> Relevant | None:
    """Return the best judged place that contains `hit`, None if none does."""
    places = [place for place in query.relevant if lies_in(hit, place)]
    return max(places, key=lambda place: place.grade, default=None)


def lies_in(hit: Placed, place: Relevant) -> bool:
    """Return whether `hit` is in that page and that section or one below it. A section is named by heading, or as `A > B`."""
    if without_suffix(hit.path) != without_suffix(place.path):
        return False
    headings, part = _headings(hit.section), _headings(place.section)
    return any(headings[at : at + len(part)] == part for at in range(len(headings) - len(part) + 1))


def holds_answer(query: LabelledQuery, hit: Placed, text: str) -> bool:
    """Return whether `text`, shown for `hit`, contains a judged quote of that page; without quotes, whether `hit` is relevant."""
    places = [place for place in query.relevant if without_suffix(place.path) == without_suffix(hit.path)]
    quotes = [place.quote for place in places if place.quote]
    if quotes:
        seen = plain(text)
        return any(plain(quote) in seen for quote in quotes)
    return any(lies_in(hit, place) for place in places)


def plain(text: str) -> str:
    """Return `text` case-folded, with one space for each run of white space, because a quote may be broken over lines."""
    return " ".join(text.casefold().split())


def _name(path: str, section: str) -> tuple[str, str]:
    # A judgement may leave out the suffix of a page.
    return without_suffix(path), HEADING_SEPARATOR.join(_headings(section))


def _headings(section: str) -> list[str]:
    return [plain(without_attributes(part)) for part in section.split(HEADING_SEPARATOR)] if section else []
