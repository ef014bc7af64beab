"""Weighing code, quotes and HTML, which are compared by their words and lines. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice, product

from knowledge.merge.claims.comparison import StatementRelation
from knowledge.merge.claims.contradiction import compare
from knowledge.merge.evidence.weigh.page_index import block_lines, ordered_lines, tokens_of
from knowledge.merge.evidence.weighing_state import Dispute, NewText, Weighing
from knowledge.merge.model import Unit

MOST_OF_A_BLOCK = 0.6
"""Likeness from which a block that is a part of one of the page is said already. A line of a long script may stand for itself."""
SAME_BLOCK = 0.7
"""Likeness from which a block may be another version of one in the section that it names: other examples are less alike."""
SURE_BLOCK = 0.9
"""The same for a block without a section, which may belong to any of the page's."""
MOST_COMPARED = 400
"""The most pairs of lines of two blocks that are compared for contradictions."""
MOST_SHOWN = 5
"""The most lines of each block that the host is asked about."""


def weigh_block(w: Weighing, number: int, unit: Unit) -> None:
    """Decide on a block that is not prose."""
    target = w.target(unit.section)
    if (same := w.index.equal(unit, lambda at: w.comparable(at, target, alone=True))) is not None:
        w.unchanged(number, same)
        return
    tokens = tokens_of(unit)
    near = sorted(
        (
            (_likeness(tokens, w.index.tokens(at)), at)
            for at in w.index.blocks_like(unit, target.path if target is not None else ())
            if at not in w.replaced_units and at not in w.confirmed_by and w.comparable(at, target, alone=False)
        ),
        reverse=True,
    )
    part_of = next((at for likeness, at in near if likeness >= MOST_OF_A_BLOCK and _is_part(unit, w.units[at])), None)
    if part_of is not None:
        w.unchanged(number, part_of)
        return
    least = SURE_BLOCK if target is None else SAME_BLOCK
    version_of = next((at for likeness, at in near if likeness >= least and w.in_same_section(unit, at)), None)
    if version_of is not None and not _is_introduced(w, number):
        _weigh_similar_block(w, number, unit, version_of)
    else:
        w.new_texts.append(NewText(w.verdict("integrate", unit.section, ""), unit, None, whole=True))


def _is_introduced(w: Weighing, number: int) -> bool:
    """Return whether a paragraph right before the block, of which the page says nothing, presents it as another example."""
    before = w.findings.get(number - 1)
    if before is None or before.unit.kind != "paragraph" or before.unit.section != w.incoming[number].section:
        return False
    return len(before.new) == len(before.own)


def _is_part(unit: Unit, there: Unit) -> bool:
    """Return whether the lines of a block are one run of the lines of another."""
    said, known = ordered_lines(unit), ordered_lines(there)
    return any(known[begin : begin + len(said)] == said for begin in range(len(known) - len(said) + 1))


def _weigh_similar_block(w: Weighing, number: int, unit: Unit, at: int) -> None:
    dismissal = w.dismissal(w.units[at].text, unit.text)
    both_hold = dismissal is not None and dismissal.ruling == "both"
    contradiction = None if both_hold else _contradiction(unit, w.units[at])
    if contradiction is not None and not w.corrects(unit, at) and not w.is_elsewhere(unit, at):
        w.flag(unit, [Dispute(unit.text, at, w.units[at].text, contradiction)])
        return
    decision = w.replacing(unit, at, covers=_covers(unit, w.units[at]))
    if decision == "allowed":
        w.update_unit(number, unit, at)
    elif decision == "differs":
        # Lines of the old block would be lost.
        if both_hold or w.is_elsewhere(unit, at):
            _keep_both(w, unit, at)
        else:
            _ask_about(w, number, unit, at)
    else:
        w.retain(unit, at, decision)


def _covers(unit: Unit, there: Unit) -> bool:
    """Return whether a block has each line of another, as often and in the same order, and code the same language."""
    if unit.kind == "fence" and _language(unit) != _language(there):
        return False
    rest = iter(ordered_lines(unit))
    return all(line in rest for line in ordered_lines(there))


def _language(fence: Unit) -> str:
    return fence.text.lstrip().partition("\n")[0].strip("`~ \t\r")


def _contradiction(unit: Unit, there: Unit) -> StatementRelation | None:
    """Return the first contradiction between the lines that only one of two blocks has."""
    new, old = block_lines(unit.text), block_lines(there.text)
    had, has = set(old), set(new)
    only_new, only_old = [line for line in new if line not in had], [line for line in old if line not in has]
    compared = (compare(a, b) for a, b in islice(product(only_old, only_new), MOST_COMPARED))
    return next((one for one in compared if one.relation == "contradict"), None)


def _ask_about(w: Weighing, number: int, unit: Unit, at: int) -> None:
    """Settle a block by the host's answer, or ask whether it is another version of block `at` or another example."""
    old = w.units[at]
    existing, new = _first_difference(ordered_lines(old), ordered_lines(unit))
    match w.answer(existing, new):
        case None:
            w.ask(unit, [(new, existing, at)])
        case "both":
            _keep_both(w, unit, at)
        case "same":
            w.unchanged(number, at)
        case _:
            w.flag(unit, [Dispute(unit.text, at, old.text, w.judged_contradiction(at))])


def _keep_both(w: Weighing, unit: Unit, at: int) -> None:
    w.new_texts.append(NewText(w.verdict("integrate", unit.section, "", at), unit, at, whole=True))


def _first_difference(old: Sequence[str], new: Sequence[str]) -> tuple[str, str]:
    """Return the first lines in which two blocks differ, (old, new); if one block lacks them, with a line that both have."""
    shorter = min(len(old), len(new))
    begin = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    same = next((at for at in range(shorter - begin) if old[-1 - at] != new[-1 - at]), shorter - begin)
    before = after = 0
    if begin + same == shorter:
        # Before the first line of a block there is none: the line behind shows the place.
        before, after = (1, 0) if begin else (0, 1)
    lines = (one[begin - before : len(one) - same + after] for one in (old, new))
    existing, said = ("\n".join(some[:MOST_SHOWN]) for some in lines)
    return existing, said


def _likeness(new: Counter[str], old: Counter[str]) -> float:
    """Return the share of the two blocks' words and signs that both have (Dice), 0..1; 0 if their lengths are too different."""
    shorter, total = min(new.total(), old.total()), new.total() + old.total()
    return 2 * (new & old).total() / total if 2 * shorter >= MOST_OF_A_BLOCK * total > 0 else 0.0
