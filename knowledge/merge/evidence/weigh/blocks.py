"""Weighing code, quotes and HTML, which are compared by their lines. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import islice, product

from knowledge.merge.claims.contradiction import compare
from knowledge.merge.document.page_index import block_lines as _lines
from knowledge.merge.evidence.context import New, Weighing
from knowledge.merge.model import (
    Unit,
)

SAME_CODE = 0.6
MOST_COMPARED = 400
"""Pairs of lines of two blocks that are looked at for contradictions."""


def weigh_block(w: Weighing, number: int, unit: Unit) -> None:
    """Decide what becomes of a block that is no prose."""
    target = w.target(unit.section)
    if (same := w.index.equal(unit, lambda at: w.comparable(at, target, alone=True))) is not None:
        w.unchanged(number, same)
        return
    lines = _lines(unit.text)
    counted = Counter(lines)
    near = [
        (_shared(counted, Counter(_lines(w.ground.units[at].text))), at)
        for at in w.index.with_lines(unit.kind, lines)
        if w.comparable(at, target, alone=False) and at not in w.replaced_units and at not in w.confirmed_by
    ]
    likeness, at = max(near, default=(0.0, -1))
    if likeness < SAME_CODE:
        w.news.append(New(w.verdict("integrate", unit.section, ""), unit, None, whole=True))
        return
    _weigh_similar_block(w, number, unit, at)


def _weigh_similar_block(w: Weighing, number: int, unit: Unit, at: int) -> None:
    new, old = _lines(unit.text), _lines(w.ground.units[at].text)
    had, has = set(old), set(new)
    only_new, only_old = [line for line in new if line not in had], [line for line in old if line not in has]
    if not only_new:
        w.unchanged(number, at)
        return
    pairs = islice(product(only_old, only_new), MOST_COMPARED)
    held = next((one for a, b in pairs if (one := compare(a, b)).relation == "contradict"), None)
    if w.same_voice(at):
        if w.is_later(at):
            w.update_unit(number, unit, at)
        else:
            w.retain(unit, at, "of an earlier time than")
    elif held is not None:
        w.flag_units(unit, at, held)
    elif w.weight.confidence < w.confidence(at).confidence:
        w.retain(unit, at, "is less than")
    elif not only_old:
        w.update_unit(number, unit, at)
    else:
        w.news.append(New(w.verdict("integrate", unit.section, "", at), unit, at, whole=True))


def _shared(one: Counter[str], other: Counter[str]) -> float:
    """Return how many lines of both are in both, 0..1."""
    both, lines = (one & other).total(), one.total() + other.total()
    return 2 * both / lines if lines else 0.0
