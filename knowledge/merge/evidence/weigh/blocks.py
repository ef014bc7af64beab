"""Weighing code, quotes and HTML, which are compared by their lines. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import islice, product

from knowledge.merge.claims.contradiction import compare
from knowledge.merge.evidence.weigh.page_index import block_lines, ordered_lines
from knowledge.merge.evidence.weighing_state import Dispute, NewText, Weighing
from knowledge.merge.model import Unit

SAME_BLOCK = 0.6
"""Share of their lines that two blocks must have in common to be two versions of one."""
MOST_COMPARED = 400
"""The most pairs of lines of two blocks that are compared for contradictions."""


def weigh_block(w: Weighing, number: int, unit: Unit) -> None:
    """Decide on a block that is not prose."""
    target = w.target(unit.section)
    if (same := w.index.equal(unit, lambda at: w.comparable(at, target, alone=True))) is not None:
        w.unchanged(number, same)
        return
    lines = block_lines(unit.text)
    near = [
        (_likeness(lines, block_lines(w.units[at].text)), at)
        for at in w.index.with_lines(unit.kind, lines)
        if w.comparable(at, target, alone=False) and at not in w.replaced_units and at not in w.confirmed_by
    ]
    likeness, at = max(near, default=(0.0, -1))
    if likeness < SAME_BLOCK:
        w.new_texts.append(NewText(w.verdict("integrate", unit.section, ""), unit, None, whole=True))
    else:
        _weigh_similar_block(w, number, unit, at)


def _weigh_similar_block(w: Weighing, number: int, unit: Unit, at: int) -> None:
    new, old = block_lines(unit.text), block_lines(w.units[at].text)
    had, has = set(old), set(new)
    only_new, only_old = [line for line in new if line not in had], [line for line in old if line not in has]
    said, known = ordered_lines(unit), ordered_lines(w.units[at])
    if any(known[begin : begin + len(said)] == said for begin in range(len(known) - len(said) + 1)):
        w.unchanged(number, at)
        return
    compared = (compare(a, b) for a, b in islice(product(only_old, only_new), MOST_COMPARED))
    contradiction = next((one for one in compared if one.relation == "contradict"), None)
    dismissal = w.dismissal(w.units[at].text, unit.text)
    if dismissal is not None and dismissal.ruling == "both":
        contradiction = None
    if contradiction is not None and not w.corrects(unit, at) and not w.is_elsewhere(unit, at):
        w.flag(unit, [Dispute(unit.text, at, w.units[at].text, contradiction)])
        return
    # Each line of the old block, as often and in the same order.
    rest = iter(said)
    decision = w.replacing(unit, at, covers=all(line in rest for line in known))
    if decision == "differs" and w.is_weaker(at):
        decision = "weaker"
    if decision == "allowed":
        w.update_unit(number, unit, at)
    elif decision == "differs":
        # Lines of the old block would be lost: both stay.
        w.new_texts.append(NewText(w.verdict("integrate", unit.section, "", at), unit, at, whole=True))
    else:
        w.retain(unit, at, decision)


def _likeness(new: list[str], old: list[str]) -> float:
    """Return the share of the two blocks' lines that both have, 0..1."""
    one, other = Counter(new), Counter(old)
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0
