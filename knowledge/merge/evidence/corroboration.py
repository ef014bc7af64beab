"""Whether a page says what a statement says, so that it may count as another source for it. Pure.

Strict: a page that only speaks of the same thing, says part of it, or says otherwise somewhere else, corroborates nothing.
"""

from __future__ import annotations

from knowledge.merge.claims.contradiction import compare
from knowledge.merge.claims.statements import StatementReading, implies, likeness, statements_of, stemming_language
from knowledge.merge.document.units import cut, units
from knowledge.merge.model import CutDocument

COMPARED = 12
"""Readings of a page that are looked at closely: those that have most in common with what is asked."""


def says(page: CutDocument, statement: str) -> bool:
    """Return whether `page` says all that `statement` says, in these or other words, and nowhere says otherwise."""
    asked = cut(statement)
    wanted = [unit for unit in units(asked) if unit.kind not in ("heading", "front")]
    if not wanted:
        return False
    language = stemming_language(page.text)
    said = [one.reading for one in statements_of([unit for unit in units(page) if unit.kind != "front"], language)]
    return all(_is_said(one.reading, said) for one in statements_of(wanted, language))


def _is_said(new: StatementReading, said: list[StatementReading]) -> bool:
    """Return whether one of these says `new`, and none that is about the same says otherwise."""
    equal = [one for one in said if one.folded == new.folded]
    near = sorted((one for one in said if one.subject & new.subject), key=lambda one: -likeness(one, new))[:COMPARED]
    if not equal and not any(implies(one, new) for one in near):
        return False
    return not any(compare(one.plain, new.plain).relation == "contradict" for one in near)
