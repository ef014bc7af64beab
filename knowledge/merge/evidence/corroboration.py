"""Decides whether a page says the same as a statement, so that it counts as another source for it. Pure.

Strict: a page that only has the same subject, says part of it, or contradicts it somewhere else, corroborates nothing.
"""

from __future__ import annotations

from knowledge.merge.claims.contradiction import compare
from knowledge.merge.claims.statements import StatementReading, implies, likeness, statements_of, stemming_language
from knowledge.merge.document.units import cut, units
from knowledge.merge.model import CutDocument

COMPARED = 12
"""Statements of a page that are compared closely: those that share the most with the new statement."""


def corroborates(page: CutDocument, statement: str) -> bool:
    """Return whether `page` says all that `statement` says, in these or other words, and contradicts it nowhere."""
    wanted = [unit for unit in units(cut(statement)) if unit.kind not in ("heading", "front")]
    language = stemming_language(page.text)
    said = [one.reading for one in statements_of([unit for unit in units(page) if unit.kind != "front"], language)]
    return bool(wanted) and all(_is_said(one.reading, said) for one in statements_of(wanted, language))


def _is_said(new: StatementReading, said: list[StatementReading]) -> bool:
    near = sorted((one for one in said if one.subject & new.subject), key=lambda one: -likeness(one, new))[:COMPARED]
    if not any(one.folded == new.folded for one in said) and not any(implies(one, new) for one in near):
        return False
    return not any(compare(one.plain, new.plain).relation == "contradict" for one in near)
