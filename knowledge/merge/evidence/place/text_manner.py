"""The manner of a text: whom it speaks to, how it begins and ends, what it marks. Texts of one page are written alike. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

OF_ALL, OF_PAGE = 3, 2
"""So many average texts of all pages are added to those of a page, and of the page to those of a section: few texts prove
little about how the others are written."""
REMEMBERED = 4096

_BEGIN = r"\A\s*(?:(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?)?"
MANNERS = tuple(
    re.compile(pattern, flags)
    for flags, patterns in (
        (
            re.NOFLAG,
            (
                _BEGIN
                + r"(?:\*\*|__)[^*\n]+(?::(?:\*\*|__)|(?:\*\*|__)\s*[:\-\u2013\u2014])",  # a bold name, then what it is
                _BEGIN + r"(?:\*\*|__)",
                _BEGIN + r"`",
                _BEGIN + r"\[",
                _BEGIN + r"[^.\n]{1,60}:\s",
                _BEGIN + r"[a-z]",
                _BEGIN + r"(?:This|These|It|They|That|Those)\b",
                _BEGIN + r"(?:The|A|An)\b",
                r"\A\s*\d{1,9}[.)]\s",  # a numbered step
                r"\A\s*\S+\s+\[[ xX]\]\s",  # a check box
                r"[.!?]\s*\Z",
                r"\?\s*\Z",
                r":\s*\Z",
                r"[.!?]\s+[A-Z]",  # two sentences
                r"\n\s*(?:[-*+]|\d+[.)])\s",  # items inside
                r"\]\(",
                r"https?://",
                r"`",
                r"\*\*|__",
                r"@\w",
                r"\(",
                r" [-\u2013\u2014] ",
                r"\d",
                r"\b(?:19|20)\d\d\b",
                r"#\d+|\bv?\d+\.\d+",
                r"[A-Za-z]\w*[._/]\w+|[a-z]+[A-Z]\w*",  # an identifier
                r"\b(?:I|my|me)\b",
                r"\A[\s\S]{0,119}\Z",
                r"\A[\s\S]{250}",
                r"\A[\s\S]{500}",
            ),
        ),
        (
            re.IGNORECASE,
            (
                r"\b(?:you|your)\b",
                r"\b(?:we|our|us)\b",
                r"\b(?:they|their|them|she|he|his|her)\b",
                r"\b(?:must|should|shall|need to|have to)\b",
                r"\bwill\b",
                r"\b(?:can|may|might|could)\b",
                r"\b(?:not|no|never|cannot)\b|n't",
                r"\b(?:was|were|had)\b|\w{3,}ed\b",
                r"\b(?:if|when|whether)\b",
                r"\bfor example|e\.g\.|such as|like\b",
            ),
        ),
    )
    for pattern in patterns
)
"""What a text does or does not. A host keeps to some of it, and to none of the page's bullets and line lengths."""


class MannerFit(NamedTuple):
    """How well a text is written as those of a page, and as those of a section among the texts of its page.

    Each is the logarithm of how much likelier its manners are there.
    """

    page: float
    section: float


@lru_cache(REMEMBERED)
def manner_of(text: str) -> NDArray[np.float64]:
    """Return 1 for each of the `MANNERS` that a text has, else 0. The result is cached and shared: don't modify it."""
    return np.array([manner.search(text) is not None for manner in MANNERS], dtype=np.float64)


def manner_fits(text: str, sections: Sequence[Sequence[str]], pages: Sequence[int]) -> Sequence[MannerFit]:
    """Return how well the manner of `text` fits each section's texts; `pages` has the number of each section's page.

    Each manner is taken by itself (naive Bayes).
    """
    asked, of_page = manner_of(text) > 0, np.array(pages)
    having = np.array(
        [np.sum([manner_of(other) for other in one], axis=0) + np.zeros(len(MANNERS)) for one in sections]
    )
    counts = np.array([float(len(one)) for one in sections])
    usual = (having.sum(axis=0) + 0.5) / (counts.sum() + 1)
    on_page, on_pages = np.zeros((of_page.max() + 1, len(MANNERS))), np.zeros(of_page.max() + 1)
    np.add.at(on_page, of_page, having)
    np.add.at(on_pages, of_page, counts)
    page_rates = ((on_page + OF_ALL * usual) / (on_pages + OF_ALL)[:, None])[of_page]
    rates = (having + OF_PAGE * page_rates) / (counts + OF_PAGE)[:, None]
    fits_page, fits = _likelier(asked, page_rates, usual), _likelier(asked, rates, page_rates)
    return [MannerFit(float(one), float(other)) for one, other in zip(fits_page, fits, strict=True)]


def _likelier(asked: NDArray[np.bool_], rates: NDArray[np.float64], usual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of how much likelier the asked manners are at each row of `rates` than at `usual`."""
    found: NDArray[np.float64] = np.log(np.where(asked, rates / usual, (1 - rates) / (1 - usual))).sum(axis=1)
    return found
