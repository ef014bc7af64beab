"""The plan that results from a weighing: the changes that can be written, and where each unit then comes from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import independent
from knowledge.merge.evidence.weighing_state import TO_A_PERSON, PageChange, Weighing
from knowledge.merge.model import BlockVerdict, Form, MergePlan, Origin, Unit, unit_digest
from knowledge.merge.splice import Spliced

MOST_QUESTIONS = 15
"""Questions per reply; the rest are asked at the next call."""
MOST_VERDICTS = 80
"""Verdicts listed one by one; if there are more, those that change nothing are only counted."""


def plan_of(w: Weighing, form: Form) -> MergePlan:
    """Return the plan with every change that can be carried out.

    A change is not written if it would change how the text around it reads; its verdict then says so.
    """
    spliced = _written(w, w.changes)
    # Code with an unclosed fence, a row under a paragraph: such a text turns what is around it into something else.
    if spliced is None:
        kept: list[PageChange] = []
        _accept(w, w.changes, kept)
        written = {id(change) for change in kept}
        for change in w.changes:
            if id(change) not in written:
                why = f"not written, because it would change how the text around it reads; {TO_A_PERSON}"
                for number in change.verdicts:
                    w.verdicts[number] = replace(w.verdicts[number], verdict="retain", reason=f"{w.weight}; {why}")
        w.changes = kept
        spliced = _written(w, kept) or Spliced(w.page.text, {unit.line: n for n, unit in enumerate(w.units)})
    touched = {change.touched: change for change in w.changes if change.touched is not None}
    return MergePlan(
        text=spliced.text,
        form=form,
        verdicts=_summarised(w.verdicts),
        contradictions=tuple(w.contradictions),
        origins=[_origin_after(w, unit, spliced, touched) for unit in units(cut(spliced.text))],
        places=w.places,
        questions=w.questions[:MOST_QUESTIONS],
        note=w.note,
    )


def _accept(w: Weighing, changes: Sequence[PageChange], kept: list[PageChange]) -> None:
    """Add to `kept` the changes that can be written together with it, by bisection: usually only one of many can't."""
    if not changes:
        return
    if _written(w, [*kept, *changes]) is not None:
        kept.extend(changes)
    elif len(changes) > 1:
        middle = len(changes) // 2
        _accept(w, changes[:middle], kept)
        _accept(w, changes[middle:], kept)


def _written(w: Weighing, changes: Sequence[PageChange]) -> Spliced | None:
    """Return the page with these changes; None if anything on it would read differently than intended."""
    spliced = w.splicer.written(
        [change.insertion for change in changes if change.insertion is not None],
        [change.replacement for change in changes if change.replacement is not None],
    )
    touched = frozenset(change.touched for change in changes if change.touched is not None)
    expected = [unit for change in changes for unit in change.expected]
    return spliced if w.splicer.is_kept(spliced, touched, expected) else None


def _origin_after(w: Weighing, unit: Unit, spliced: Spliced, touched: dict[int, PageChange]) -> Origin:
    """Return the origin that a unit of the page has once the changes are written."""
    number = spliced.unit_of.get(unit.line)
    if number is None or (number in touched and not touched[number].keeps_origin):
        origin = Origin(
            b"",
            (),
            w.evidence.source,
            w.weight.authority,
            w.evidence.observed_at,
            "",
            corroborated_by=independent(w.evidence.source, w.verified),
        )
    else:
        origin = w.supported_origin(number) if number in w.supported else w.origins[number]
    return replace(origin, digest=unit_digest(unit.text), section=unit.section)


def _summarised(verdicts: Sequence[BlockVerdict]) -> list[BlockVerdict]:
    if len(verdicts) <= MOST_VERDICTS:
        return list(verdicts)
    telling = [verdict for verdict in verdicts if verdict.verdict != "unchanged"]
    same = len(verdicts) - len(telling)
    if not same:
        return telling
    return [*telling, BlockVerdict("", "unchanged", f"{same} blocks are on the page already")]
