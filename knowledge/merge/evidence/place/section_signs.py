"""The signs that a section is the place of a text, and what each of them weighs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

LEAST_LIKE = 0.15
"""The cosines of the sections are divided by the highest of them, but at least by this: one shared word makes no
section stand out."""
NEAREST = 3
"""The likeness of a section's blocks to a text is the mean of this many of the likest: a single block may be like
the text by chance."""


class SectionSigns(NamedTuple):
    """The signs that a section is the place of a text."""

    words: float
    """Cosine of the words, as a share of the highest of all sections, 0..1."""
    heading: float
    """Cosine with the heading, 0..1."""
    meaning: float
    """Likeness in meaning, 0..1."""
    blocks: float
    """Mean cosine of the most similar blocks, 0..1."""
    length: float
    """Natural logarithm of one plus its number of characters: a text more likely belongs to a long section."""
    list_fits: float
    """For an item 1 if the section has a list, else -1; for other text 0."""
    form: float
    """For an item how well its form fits those of the section (`text_form`); for other text 0."""
    before_headings: float
    """1 for the text before the first heading."""


WEIGHTS = SectionSigns(
    words=2.6, heading=4.0, meaning=1.3, blocks=1.5, length=0.3, list_fits=1.2, form=0.85, before_headings=-2.2
)
"""Fitted by a softmax over the sections of a page, on pieces cut out of public documentation (kb/decisions/0117).

The weights for lists and for the text before the first heading are lower than the fitted ones: hosts also send single facts as
items, and no piece was cut out there.
"""


def shares_of(sections: Sequence[SectionSigns]) -> Sequence[float]:
    """Return each section's share of all sections' likelihood; they add up to 1."""
    scores = [math.fsum(weight * sign for weight, sign in zip(WEIGHTS, signs, strict=True)) for signs in sections]
    # Relative to the highest score, because `exp` of a large number overflows; the shares are the same.
    likelihoods = [math.exp(score - max(scores)) for score in scores]
    total = math.fsum(likelihoods)
    return [round(one / total, 4) for one in likelihoods]
