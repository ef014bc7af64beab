"""Pages made after one template, for a text that begins with a heading: pages that have this heading, and pages that lack it. Pure.

Where every command page has "Exit status" but one, that one is the place of a section "Exit status".
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from knowledge.merge.document.units import cut
from knowledge.merge.evidence.place.placement import folded_heading

FEWEST_SISTERS = 2
"""Pages that must have a heading for it to count as part of a template."""
LEAST_ALIKE = 0.2
"""Share of common headings (Jaccard) from which a page without the heading may be made after the same template."""
MOST_SISTERS = 20
REMEMBERED = 512

# A regular expression, because up to a few hundred pages are looked at. It also takes comments in code for headings, which two pages
# rarely share.
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(\S[^\n]*)$", re.MULTILINE)


class CandidatePage(NamedTuple):
    """A page that a text could go into."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class SisterSearch:
    """A text, the pages that search found for it, and the other pages in their folders."""

    content: str
    found: Sequence[CandidatePage]
    others: Sequence[CandidatePage] = ()


class SisterSigns(NamedTuple):
    """The signs of a page for a text whose heading two or more pages have; zeros for any other text."""

    has_heading: float
    """1 if the page has the heading already."""
    sister: float
    """The highest likeness of its headings to those of a page that has the heading (Jaccard), 0..1; 0 if it has the
    heading itself."""


@lru_cache(REMEMBERED)
def headings_in(text: str) -> frozenset[str]:
    """Return the folded headings of a page."""
    return frozenset(folded_heading(found.rstrip(" \t\r#")) for found in _HEADING.findall(text))


def sister_signs(content: str, texts: Sequence[str]) -> Sequence[SisterSigns]:
    """Return the signs of each page for a text that begins with a heading."""
    heading, known = _own_heading(content), [headings_in(text) for text in texts]
    having = [headings for headings in known if heading in headings]
    if not heading or len(having) < FEWEST_SISTERS:
        return [SisterSigns(0.0, 0.0)] * len(texts)
    return [
        SisterSigns(1.0, 0.0) if heading in headings else SisterSigns(0.0, _likest(headings, having))
        for headings in known
    ]


def folders_of_sisters(search: SisterSearch) -> Sequence[str]:
    """Return the folders in which two or more of the found pages have the heading of the text, those with the most first."""
    heading = _own_heading(search.content)
    if not heading:
        return ()
    folders = Counter(posixpath.dirname(page.path) for page in search.found if heading in headings_in(page.text))
    return [folder for folder, count in folders.most_common() if count >= FEWEST_SISTERS]


def sisters_among(search: SisterSearch) -> Sequence[CandidatePage]:
    """Return the pages of `others` that lack the heading of the text and resemble the found ones that have it, likest first."""
    heading = _own_heading(search.content)
    having = [there for page in search.found if heading in (there := headings_in(page.text))]
    lacking = [(page, there) for page in search.others if heading not in (there := headings_in(page.text))]
    alike = [(likeness, page) for page, there in lacking if (likeness := _likest(there, having)) >= LEAST_ALIKE]
    return [page for _, page in sorted(alike, key=lambda one: (-one[0], one[1].path))[:MOST_SISTERS]]


def _own_heading(content: str) -> str:
    """Return the folded heading that the text begins with, or ""."""
    first = next((piece for piece in cut(content).pieces if piece.kind not in ("blank", "front")), None)
    return folded_heading(" ".join(first.section[-1:])) if first is not None and first.kind == "heading" else ""


def _likest(headings: frozenset[str], others: Sequence[frozenset[str]]) -> float:
    return max((len(headings & other) / len(headings | other) for other in others), default=0.0)
