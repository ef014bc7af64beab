"""How a text is written: with a bold name, as a question, in a line. Texts of one section are written alike. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

SMOOTHED = 2
"""This many average texts are added to those of each section, because a single text proves little about how the
section is written."""
REMEMBERED = 4096
_BEGIN = r"\A\s*(?:(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?)?"
FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\A\s*\d{1,9}[.)]\s",  # a numbered step
        r"\A\s*\S+\s+\[[ xX]\]\s",  # a check box
        _BEGIN + r"(?:\*\*|__)",
        _BEGIN + r"`",
        _BEGIN + r"\[",
        _BEGIN + r"[^.\n]{1,60}:\s",
        r"[.!?]\s*\Z",
        r"\?\s*\Z",
        r"\]\(",
        r"@\w",
        r"\b(?:19|20)\d\d\b",
        _BEGIN + r"[\s\S]{0,119}\Z",  # short
        r"\A[\s\S]{400}",  # long
    )
)
"""Forms that a text has or lacks. Bullets and line lengths are not among them: a host writes its own kind, whatever
the page has."""


@lru_cache(REMEMBERED)
def form_of(text: str) -> tuple[bool, ...]:
    """Return which of the `FORMS` a paragraph or an item has."""
    return tuple(form.search(text) is not None for form in FORMS)


def form_fits(text: str, sections: Sequence[Sequence[str]]) -> Sequence[float]:
    """Return, for each section, how well the form of `text` fits the section's texts; 0 for a section without texts.

    It is the logarithm of how much likelier the forms of `text` are in this section than in all sections together. Each
    form is taken by itself (naive Bayes).
    """
    asked = form_of(text)
    known = [[form_of(other) for other in section] for section in sections]
    count = sum(map(len, known))
    having = [[sum(form[at] for form in forms) for at in range(len(FORMS))] for forms in known]
    usual = [(sum(counts[at] for counts in having) + 0.5) / (count + 1) for at in range(len(FORMS))]
    return [
        math.fsum(
            math.log(rate / overall) if has else math.log((1 - rate) / (1 - overall))
            for has, overall, rate in zip(
                asked,
                usual,
                ((c + SMOOTHED * u) / (len(forms) + SMOOTHED) for c, u in zip(counts, usual, strict=True)),
                strict=True,
            )
        )
        for forms, counts in zip(known, having, strict=True)
    ]
