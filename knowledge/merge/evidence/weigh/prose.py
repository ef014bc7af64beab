"""Weighing sentences: said already, said otherwise, in other words, or new. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from knowledge.merge.claims.comparison import StatementRelation
from knowledge.merge.claims.contradiction import compare, contradictions
from knowledge.merge.claims.statements import (
    Statement,
    StatementReading,
    covers,
    implies,
    is_paraphrase,
    likeness,
    lost_words,
    read_statement,
    statements_of,
)
from knowledge.merge.document.units import cut
from knowledge.merge.evidence.context import FoundStatements, New, Op, Weighing
from knowledge.merge.evidence.placement import PageSection
from knowledge.merge.evidence.rephrase import bare_text
from knowledge.merge.model import Doubt, Unit
from knowledge.merge.splice import Replacement

MOST_PAIRS = 20_000
"""Pairs of units that are all looked at for contradictions."""

MODEL = "model"
"""The kind of a contradiction that only a language model found."""

_PROSE = ("paragraph", "item")


def find_stands(w: Weighing) -> None:
    """Find out how all prose stands to the page before anything is decided: what it confirms, it does not correct."""
    known = {number: same for number, unit in enumerate(w.incoming) if (same := _equal(w, unit)) is not None}
    disputes = _disputes(w, [n for n, unit in enumerate(w.incoming) if n not in known and unit.kind in _PROSE])
    for number, unit in enumerate(w.incoming):
        if (same := known.get(number)) is not None:
            w.repeated.update((old.unit, old.span) for old in w.index.of_unit(same))
            w.confirmed_by[same].add(number)
            continue
        if (elsewhere := w.index.equal(unit, lambda _: True)) is not None:
            w.confirmed_by[elsewhere].add(number)
        if unit.kind in _PROSE:
            found = FoundStatements()
            for statement in statements_of([unit], w.language):
                _stand(w, statement, w.target(unit.section), disputes.get(number, ()), found)
            w.stands[number] = found
            w.repeated.update((old.unit, old.span) for old in found.said)
            for old in found.said:
                w.confirmed_by[old.unit].add(number)


def _equal(w: Weighing, unit: Unit) -> int | None:
    """Return the unit of the page that is the same, where the content says that it is."""
    target = w.target(unit.section)
    return w.index.equal(unit, lambda at: w.lies_within(at, target))


def _disputes(w: Weighing, numbers: Sequence[int]) -> dict[int, list[int]]:
    """Return, by incoming unit, the units of the page that it contradicts, surest first.

    Of very much at once only what has terms in common is compared, which `_stand` does.
    """
    found: dict[int, list[int]] = defaultdict(list)
    if len(numbers) * len(w.ground.units) <= MOST_PAIRS:
        for one in contradictions(w.ground.units, [w.incoming[number] for number in numbers]):
            found[numbers[one.new]].append(one.existing)
    return found


def weigh_prose(w: Weighing, number: int, unit: Unit) -> None:
    """Decide what becomes of a paragraph or an item."""
    if (same := _equal(w, unit)) is not None:
        w.unchanged(number, same)
        return
    own = statements_of([unit], w.language)
    found = w.stands[number]
    wordless = not any(one.reading.subject for one in own) or unit.text.lstrip().startswith("%%")
    if wordless and (same := w.index.equal(unit, lambda _: True)) is not None:
        w.unchanged(number, same)
        return
    if found.disputed:
        _flag(w, unit, found.disputed)
    elif found.doubted:
        _hold_back(w, number, unit, own, found)
    else:
        _settle_prose(w, number, unit, own, found)


def _stand(
    w: Weighing, new: Statement, target: PageSection | None, disputed: Sequence[int], found: FoundStatements
) -> None:
    """Find out how one new statement stands to the page: to the section that it names, then to the others."""
    near = [
        one
        for one in w.index.near(new)
        if w.comparable(one.statement.unit, target, alone=new.reading.is_clear_alone)
        and one.statement.reading.kind != "row"
    ]
    for here in (True, False):
        there = [one for one in near if w.lies_within(one.statement.unit, target) == here]
        if (said := next((one.statement for one in there if _says(w, one.statement, new)), None)) is not None:
            found.said.append(said)
            return
        among = [at for at in disputed if w.lies_within(at, target) == here]
        if (against := _against(w, new, target, [*among, *(one.statement.unit for one in there)])) is not None:
            _stands_against(w, new, *against, found)
            return
    for old, comparison in _doubts(w, new, target):
        if w.given_up(old.unit):
            _stands_against(w, new, old, comparison, found)
            return
        if not w.same_voice(old.unit):
            found.doubted.append((new, old, comparison))
    alike_most = next((one.statement for one in near if is_paraphrase(one.statement.reading, new.reading)), None)
    if alike_most is not None:
        found.reworded.append((new, alike_most))
    else:
        found.fresh.append(new)


def _says(w: Weighing, old: Statement, new: Statement) -> bool:
    return any(implies(said, new.reading) for said in _readings(w, old, new))


def _stands_against(
    w: Weighing, new: Statement, old: Statement, comparison: StatementRelation, found: FoundStatements
) -> None:
    if not w.same_voice(old.unit):
        found.disputed.append((new, old, comparison))
    elif w.is_later(old.unit):
        found.corrected.append((new, old))
    else:
        found.outdated.append((new, old))


def _against(
    w: Weighing, new: Statement, target: PageSection | None, among: Iterable[int]
) -> tuple[Statement, StatementRelation] | None:
    """Return the statement of these units that says most clearly otherwise; of a row, which has a head, nothing."""
    best: tuple[Statement, StatementRelation] | None = None
    for number in dict.fromkeys(among):
        if w.ground.units[number].kind not in ("paragraph", "item", "quote") or not w.comparable(
            number, target, alone=new.reading.is_clear_alone
        ):
            continue
        for old in w.index.of_unit(number):
            if new.reading.subject and old.reading.subject.isdisjoint(new.reading.subject):
                continue
            for said in _readings(w, old, new):
                held = compare(said.plain, new.reading.plain, existing_section=old.section, new_section=new.section)
                if held.relation == "contradict" and (best is None or held.strength > best[1].strength):
                    best = (old, held)
    return best


def _doubts(w: Weighing, new: Statement, target: PageSection | None) -> Iterator[tuple[Statement, StatementRelation]]:
    """Yield the statements of the page that a model holds to contradict this one, where the rules do not."""
    for doubt in w.evidence.doubts:
        if doubt.new == new.reading.text:
            for old in page_statements(w):
                if old.reading.text == doubt.existing and may_doubt(w, old, new, target):
                    yield old, _as_comparison(doubt, old)


def page_statements(w: Weighing) -> Iterator[Statement]:
    """Yield what the prose of the page says."""
    for number, unit in enumerate(w.ground.units):
        if unit.kind in (*_PROSE, "quote"):
            yield from w.index.of_unit(number)


def may_doubt(w: Weighing, old: Statement, new: Statement, target: PageSection | None) -> bool:
    """Return whether a model may say that both contradict each other: no rule says so, nor that they are about different things."""
    if not w.comparable(old.unit, target, alone=new.reading.is_clear_alone):
        return False
    return all(compare(said.plain, new.reading.plain).relation != "contradict" for said in _readings(w, old, new))


def _as_comparison(doubt: Doubt, old: Statement) -> StatementRelation:
    reason = f"{doubt.by} holds that both cannot be true, they differ in {doubt.about} ({doubt.sure:.2f} sure)"
    return StatementRelation("contradict", MODEL, old.section[-1] if old.section else "", reason, doubt.sure)


def _readings(w: Weighing, old: Statement, new: Statement) -> list[StatementReading]:
    """Return what an old statement says, and what it says with the heading above it, where that is its subject."""
    if not old.section or w.ground.units[old.unit].kind not in ("paragraph", "item"):
        return [old.reading]
    heading = read_statement(old.section[-1], w.language)
    named = (
        heading.subject and heading.subject <= new.reading.subject and heading.subject.isdisjoint(old.reading.subject)
    )
    # Under "Recency" it says "Halves every 180 days".
    return (
        [old.reading, read_statement(f"{old.section[-1]} {old.reading.text}", w.language)] if named else [old.reading]
    )


def _settle_prose(w: Weighing, number: int, unit: Unit, own: Sequence[Statement], found: FoundStatements) -> None:
    both = _both_ways(w, unit, found)
    replaced = _replace_whole(w, number, unit, own, found)
    fresh = list(found.fresh)
    for new, old in found.reworded:
        if old.unit in replaced:
            continue
        if w.weight.confidence < w.confidence(old.unit).confidence and not w.same_voice(old.unit):
            w.retain(unit, old.unit, "is less than", new)
        else:
            fresh.append(new)
    for new, old in found.outdated:
        w.retain(unit, old.unit, "of an earlier time than", new)
    for new, old in found.corrected:
        if old.unit not in replaced:
            _correct(w, number, new, old)
    if fresh:
        _fresh(w, number, unit, own, fresh=fresh, found=found)
    elif not (both or replaced or found.corrected or found.outdated or found.reworded) and found.said:
        w.unchanged(number, *dict.fromkeys(old.unit for old in found.said))
    elif found.said and number not in w.matched:
        w.matched[number] = found.said[0].unit


def _hold_back(w: Weighing, number: int, unit: Unit, own: Sequence[Statement], found: FoundStatements) -> None:
    """Flag a unit for what a model holds of it.

    It is weighed as it would be without the model, and then not written: so the model adds nothing to what is written, and
    what becomes of the other units is what the rules say.
    """
    before = len(w.verdicts), len(w.ops), len(w.news), set(w.supported)
    _settle_prose(w, number, unit, own, found)
    del w.verdicts[before[0] :], w.ops[before[1] :], w.news[before[2] :]
    w.supported.intersection_update(before[3])
    _flag(w, unit, found.doubted)


def _both_ways(w: Weighing, unit: Unit, found: FoundStatements) -> bool:
    """Retain what corrects a statement that the content repeats elsewhere; tell whether there was any."""
    both = [(new, old) for new, old in found.corrected if (old.unit, old.span) in w.repeated]
    found.corrected = [pair for pair in found.corrected if pair not in both]
    for new, old in both:
        w.retain(unit, old.unit, "came with text that says what stands there:", new)
    return bool(both)


def _replace_whole(w: Weighing, number: int, unit: Unit, own: Sequence[Statement], found: FoundStatements) -> set[int]:
    """Replace the unit of the page whose every statement the new one says too, if it may; return which."""
    related = dict.fromkeys(old.unit for _, old in (*found.corrected, *found.reworded))
    others = {old.unit for old in found.said} | {old.unit for _, old in (*found.reworded, *found.outdated)}
    for old_number in related:
        if others <= {old_number} and _may_replace(w, number, old_number) and _covered(w, old_number, own, found):
            gone = [
                word
                for old in w.index.of_unit(old_number)
                for word in lost_words(
                    max((one.reading for one in own), key=partial(likeness, old.reading)), old.reading
                )
            ]
            w.update_unit(number, unit, old_number, gone)
            found.fresh.clear()
            return {old_number}
    return set()


def _may_replace(w: Weighing, number: int, there: int) -> bool:
    """Return whether a new unit weighs enough for the place of this one, which nothing else of the content repeats."""
    old, new = w.ground.units[there], w.incoming[number]
    if old.kind not in ("paragraph", "item") or there in w.replaced_units:
        return False
    if old.kind == "paragraph" and [piece.kind for piece in cut(bare_text(new)).pieces] != ["paragraph"]:
        return False
    if w.confirmed_by.get(there, set()) - {number}:
        return False
    if w.same_voice(there):
        return w.is_later(there)
    return w.weight.confidence >= w.confidence(there).confidence


def _covered(w: Weighing, there: int, own: Sequence[Statement], found: FoundStatements) -> bool:
    """Return whether each statement of a unit of the page is corrected, said or said and more by the new one."""
    corrected = {(old.unit, old.span) for _, old in found.corrected}
    return all(
        (old.unit, old.span) in corrected
        or any(implies(new.reading, old.reading) or covers(new.reading, old.reading) for new in own)
        for old in w.index.of_unit(there)
    )


def _correct(w: Weighing, number: int, new: Statement, old: Statement) -> None:
    """Replace one statement in a unit that says more, which its own source has corrected."""
    if old.unit in w.replaced_units:
        w.retain(w.incoming[number], old.unit, "would change again what this call has changed:", new)
        return
    begin = w.ground.span(old.unit)[0]
    # Without its full stop the sentence would run into the next one.
    was, said = old.reading.text, new.reading.text
    stop = was[-1] if was[-1:] in ".!?" and said[-1:].isalnum() else ""
    text = w.ground.with_ends((said if "\n" in was else " ".join(said.split("\n"))) + stop)
    order = w.verdict("update", old.section, w.update_reason(old.unit, lost_words(new.reading, old.reading)), old.unit)
    replaced = Replacement(begin + old.span.start, begin + old.span.end, text)
    unit = w.ground.units[old.unit]
    after = unit._replace(text=unit.text[: old.span.start] + text + unit.text[old.span.end :])
    w.ops.append(Op([order], replaced=replaced, touched=old.unit, expected=(after,)))
    w.replaced_units.add(old.unit)
    w.matched[number] = old.unit


def _fresh(
    w: Weighing,
    number: int,
    unit: Unit,
    own: Sequence[Statement],
    *,
    fresh: Sequence[Statement],
    found: FoundStatements,
) -> None:
    """Keep what is new of a unit to be placed: all of it, or the statements that the page does not have."""
    related = [old.unit for _, old in found.reworded] + [old.unit for old in found.said]
    related += [old.unit for _, old in found.corrected]
    beside = related[0] if related else None
    whole = len(fresh) == len(own)
    if not whole:
        inner = sorted(fresh, key=lambda one: one.span.start)
        text = " ".join(one.reading.text for one in inner)
        unit = unit._replace(text=text if unit.kind == "paragraph" else f"- {text}")
        for old in found.said:
            w.supported.add(old.unit)
    order = w.verdict("integrate", unit.section, "", beside)
    w.news.append(New(order, unit, beside, whole))
    if beside is not None:
        w.matched.setdefault(number, beside)


def _flag(w: Weighing, unit: Unit, disputed: Sequence[tuple[Statement, Statement, StatementRelation]]) -> None:
    for new, old, comparison in disputed:
        w.contradiction(unit, new.reading.text, old.unit, old.reading.text, comparison)
    _, old, comparison = disputed[0]
    w.flag_verdict(unit, old.unit, comparison)
