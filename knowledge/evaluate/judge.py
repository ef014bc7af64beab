"""Which of the judged places a hit is, and whether a text holds the answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from knowledge.evaluate.metrics import ndcg, recall, reciprocal_rank
from knowledge.evaluate.queries import LabelledQuery, Relevant
from knowledge.pages.paths import MARKDOWN_SUFFIXES

DEPTH_NDCG = 10
DEPTH_RECALL = 20
_PARTS = " > "


class Placed(Protocol):
    """Something that was found: a page, and the section of it as `A > B`."""

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
    """How good a ranking is, each 0..1."""

    ndcg: float
    recall: float
    reciprocal_rank: float


def quality(query: LabelledQuery, found: Sequence[Placed]) -> Quality:
    """Return nDCG@10, recall@20 and reciprocal rank of `found`.

    Judged places count once, however many of their chunks were found. What is not relevant counts once a page if whole
    pages are judged, once a section otherwise.
    """
    grades: dict[tuple[str, str], float] = {}
    for place in query.relevant:
        key = _name(place.path, place.section)
        grades[key] = max(place.grade, grades.get(key, 0.0))
    by_section = any(section for _, section in grades)
    ranked = [_named(query, hit, by_section=by_section) for hit in found]
    return Quality(
        ndcg(ranked, grades, DEPTH_NDCG), recall(ranked, grades, DEPTH_RECALL), reciprocal_rank(ranked, grades)
    )


def judged_as(query: LabelledQuery, hit: Placed) -> Relevant | None:
    """Return the best judged place that `hit` lies in, None if it lies in none."""
    places = [place for place in query.relevant if lies_in(hit, place)]
    return max(places, key=lambda place: place.grade, default=None)


def lies_in(hit: Placed, place: Relevant) -> bool:
    """Return whether `hit` is that page and that section or one below it. A section is named by heading, or as `A > B`."""
    if _page(hit.path) != _page(place.path):
        return False
    if not place.section:
        return True
    whole, part = _headings(hit.section), _headings(place.section)
    return any(whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1))


def holds_answer(query: LabelledQuery, hit: Placed, text: str) -> bool:
    """Return whether `text`, seen at `hit`, has a quote of that page; without quotes, whether `hit` is a judged place."""
    places = [place for place in query.relevant if _page(place.path) == _page(hit.path)]
    quotes = [place.quote for place in places if place.quote]
    if quotes:
        seen = plain(text)
        return any(plain(quote) in seen for quote in quotes)
    return any(lies_in(hit, place) for place in places)


def plain(text: str) -> str:
    """Return `text` case-folded with every run of white space as one blank: a quote may be broken over lines."""
    return " ".join(text.casefold().split())


def _named(query: LabelledQuery, hit: Placed, *, by_section: bool) -> tuple[str, str]:
    place = judged_as(query, hit)
    if place is not None:
        return _name(place.path, place.section)
    return _name(hit.path, f"not judged: {hit.section}" if by_section else "not judged")


def _name(path: str, section: str) -> tuple[str, str]:
    return _page(path), _PARTS.join(_headings(section))


def _page(path: str) -> str:
    """Return `path` without its suffix, which a judgement may leave out."""
    return next((path[: -len(suffix)] for suffix in MARKDOWN_SUFFIXES if path.lower().endswith(suffix)), path)


def _headings(section: str) -> list[str]:
    return [plain(part) for part in section.split(_PARTS)] if section else []
