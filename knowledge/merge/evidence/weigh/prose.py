"""Weighing sentences: decides unit by unit what becomes of a text whose statements `prose_comparison` has compared. Pure.

All of the content is compared before the first decision, because a unit must not correct text that another part of the same
content confirms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from knowledge.merge.claims.statements import (
    INNER_ITEM,
    Statement,
    covers,
    implies,
    keeps_words,
    lost_words,
    statements_of,
)
from knowledge.merge.document.units import cut
from knowledge.merge.evidence.place.list_form import bare_text
from knowledge.merge.evidence.weigh.prose_comparison import PROSE, equal_unit
from knowledge.merge.evidence.weighing_state import NewText, UnitFindings, Weighing, dismissed, quoted
from knowledge.merge.model import Unit

_TAG = re.compile(r"\{\{|\{%|^[ \t]*:::", re.MULTILINE)
"""A tag of a site generator: `{{< hint >}}`, `{% callout %}`, `::: warning`."""


def weigh_prose(w: Weighing, number: int, unit: Unit) -> None:
    """Decide on a paragraph or an item."""
    same = equal_unit(w, unit)
    own = statements_of([unit], w.language)
    # A text without words (a rule of dashes, an Obsidian comment) counts as the same wherever it is on the page.
    if same is None and (not any(one.reading.subject for one in own) or unit.text.lstrip().startswith("%%")):
        same = w.index.equal(unit)
    if same is not None:
        w.unchanged(number, same)
        return
    found = w.findings[number]
    if found.disputes:
        w.flag(unit, found.disputes)
    elif found.doubts:
        # Weighed as it would be without the model, and then not written: so a model adds nothing to the page, and
        # the rules alone decide on the other units.
        before = len(w.verdicts), len(w.changes), len(w.new_texts), len(w.questions), set(w.supported)
        _settle(w, number, unit, own, found)
        del w.verdicts[before[0] :], w.changes[before[1] :], w.new_texts[before[2] :], w.questions[before[3] :]
        w.supported.intersection_update(before[4])
        w.flag(unit, found.doubts)
    elif found.questions:
        w.ask(unit, _pairs(found.questions))
    else:
        _settle(w, number, unit, own, found)


def _settle(w: Weighing, number: int, unit: Unit, own: Sequence[Statement], found: UnitFindings) -> None:
    """Settle a unit without disputes: the text it corrects, the text it covers, and the text it adds."""
    contested = [pair for pair in found.corrections if (pair[1].unit, pair[1].span) in w.repeated]
    for new, old in contested:
        w.retain(unit, old.unit, "other text in this call repeats the existing statement", new)
    found.corrections = [pair for pair in found.corrections if pair not in contested]
    replaced = _replace_whole(w, number, unit, own, found)
    if replaced is None and (extended := list(_extended(w, unit, found))):
        w.ask(unit, _pairs(extended))
        return
    fresh = [*found.new, *_paraphrases_to_add(w, unit, found, replaced)]
    for new, old in found.outdated:
        w.retain(unit, old.unit, "older", new)
    for new, old, dismissal in found.kept:
        w.retain(unit, old.unit, dismissed(dismissal), new)
    for new, old in found.corrections:
        if old.unit != replaced:
            _correct(w, number, new, old)
    if fresh:
        whole = len(fresh) == len(own) or _stays_whole(w, unit, own, fresh, found)
        _keep_new(w, number, unit, fresh, found=found, whole=whole)
    elif found.duplicates:
        if contested or replaced is not None or found.corrections or found.outdated or found.kept or found.paraphrases:
            w.matched.setdefault(number, found.duplicates[0].unit)
        else:
            w.unchanged(number, *dict.fromkeys(old.unit for old in found.duplicates))


def _pairs(questions: Iterable[tuple[Statement, Statement]]) -> list[tuple[str, str, int]]:
    return [(new.reading.text, old.reading.text, old.unit) for new, old in questions]


def _stays_whole(
    w: Weighing, unit: Unit, own: Sequence[Statement], fresh: Sequence[Statement], found: UnitFindings
) -> bool:
    """Return whether a text is written with what the page says already: if it is new but for that, and needs it.

    It does if only another section says it, because its other sentences may lean on that one, and if it has tags of a
    site generator, which must be closed.
    """
    if len(fresh) + len(found.duplicates) < len(own):
        return False
    return _TAG.search(unit.text) is not None or not all(w.in_same_section(unit, old.unit) for old in found.duplicates)


def _extended(w: Weighing, unit: Unit, found: UnitFindings) -> Iterator[tuple[Statement, Statement]]:
    """Yield (new, old) where the new statement covers the old one but may not replace the unit that holds it.

    Written beside it, the page would say the same thing twice in different words.
    """
    for new, old in found.paraphrases:
        is_kept = old.unit not in w.replaced_units and (unit.section, old.reading.folded) not in w.said_by_content
        is_weaker = w.is_weaker(old.unit) and not w.is_same_source(old.unit)
        # Text without a heading may be a version of this one, although it fits better elsewhere.
        is_near = w.in_same_section(unit, old.unit) or not (unit.section or w.within)
        if is_kept and not is_weaker and is_near and covers(new.reading, old.reading):
            yield new, old


def _paraphrases_to_add(w: Weighing, unit: Unit, found: UnitFindings, replaced: int | None) -> Iterator[Statement]:
    """Yield the paraphrases that are put beside the old text; one that is weaker than the old text is not written."""
    for new, old in found.paraphrases:
        if old.unit == replaced:
            continue
        if w.is_weaker(old.unit) and not w.is_same_source(old.unit):
            w.retain(unit, old.unit, "weaker", new)
        else:
            yield new


def _replace_whole(w: Weighing, number: int, unit: Unit, own: Sequence[Statement], found: UnitFindings) -> int | None:
    """Replace the page unit that the new one covers completely, if it may; return its number, else None."""
    related = dict.fromkeys(old.unit for _, old in (*found.corrections, *found.paraphrases))
    others = {old.unit for old in found.duplicates} | {old.unit for _, old in (*found.paraphrases, *found.outdated)}
    for there in related:
        if others <= {there} and _may_replace(w, number, there) and _is_covered(w, there, own, found):
            gone = [word for new, old in found.corrections for word in lost_words(new.reading, old.reading)]
            w.update_unit(number, unit, there, gone)
            found.new.clear()
            return there
    return None


def _may_replace(w: Weighing, number: int, there: int) -> bool:
    """Return whether a new unit may take the place of unit `there` of the page, and no other part of the content repeats that unit."""
    old, new = w.units[there], w.incoming[number]
    if old.kind not in PROSE or there in w.replaced_units:
        return False
    # Without its marker, an item with a list or code in it is not one paragraph.
    if old.kind == "paragraph" and [piece.kind for piece in cut(bare_text(new)).pieces] != ["paragraph"]:
        return False
    # A whole page sent as evidence repeats most of this page: a unit that another part of it repeats must stay.
    if w.confirmed_by.get(there, set()) - {number}:
        return False
    return w.replacing(new, there, covers=True) == "allowed"


def _is_covered(w: Weighing, there: int, own: Sequence[Statement], found: UnitFindings) -> bool:
    """Return whether the new unit corrects, repeats or extends each statement of a unit of the page, and loses no other word."""
    corrected = {(old.unit, old.span) for _, old in found.corrections}
    left = [old for old in w.index.statements(there) if (old.unit, old.span) not in corrected]
    # Two statements of the page may be covered by one, which has their words only once. The numbers of a list are no words.
    if not keeps_words(" ".join(new.reading.text for new in own), " ".join(old.reading.text for old in left)):
        return False
    return all(
        any(implies(new.reading, old.reading) or covers(new.reading, old.reading) for new in own) for old in left
    )


def _correct(w: Weighing, number: int, new: Statement, old: Statement) -> None:
    """Replace one statement, which its own source has corrected, in a unit that also holds other statements."""
    if old.unit in w.replaced_units:
        w.retain(w.incoming[number], old.unit, "this call has changed the same text already", new)
        return
    # Without its full stop the sentence would run into the next one.
    was, said = old.reading.text, new.reading.text
    stop = was[-1] if was[-1:] in ".!?" and said[-1:].isalnum() else ""
    text = w.splicer.with_ends((said if "\n" in was else " ".join(said.split("\n"))) + stop)
    verdict = w.update_verdict(old.unit, lost_words(new.reading, old.reading))
    w.replace_text(old.unit, text, verdict, part=old.span)
    w.matched[number] = old.unit


def _keep_new(
    w: Weighing, number: int, unit: Unit, fresh: Sequence[Statement], *, found: UnitFindings, whole: bool
) -> None:
    """Queue the new part of a unit for placement: all of it if `whole`, else only the statements that the page lacks."""
    related = (*(old for _, old in found.paraphrases), *found.duplicates, *(old for _, old in found.corrections))
    beside = related[0].unit if related else None
    if beside is not None and not whole and _is_inside_item(unit, fresh):
        _keep_inside(w, number, beside, fresh, found)
        return
    if not whole:
        text = " ".join(one.reading.text for one in sorted(fresh, key=lambda one: one.span.start))
        unit = unit._replace(text=text if unit.kind == "paragraph" else f"- {text}")
        w.supported.update(old.unit for old in found.duplicates)
    w.new_texts.append(NewText(w.verdict("integrate", unit.section, "", beside), unit, beside, whole))
    if beside is not None:
        w.matched.setdefault(number, beside)


def _is_inside_item(unit: Unit, fresh: Sequence[Statement]) -> bool:
    """Return whether all of these statements are inside an item, in its inner list."""
    inner = INNER_ITEM.search(unit.text) if unit.kind == "item" else None
    return inner is not None and all(one.span.start > inner.start() for one in fresh)


def _keep_inside(w: Weighing, number: int, there: int, fresh: Sequence[Statement], found: UnitFindings) -> None:
    """Put an item in the place of the page's, if it has all that the page's has and more inside; else say what to send.

    On its own, what is inside an item would be read as another item.
    """
    unit = found.unit
    if not _is_covered(w, there, statements_of([unit], w.language), found):
        part, line = quoted(fresh[0].reading.text), w.units[there].line
        w.note = (
            f"not written: {part} belongs inside the item in line {line}; send that item with all that it says and this"
        )
        w.verdict("retain", w.units[there].section, w.note, there)
    elif _may_replace(w, number, there):
        w.update_unit(number, unit, there)
    else:
        w.retain(unit, there, "weaker", fresh[0])
