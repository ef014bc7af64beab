"""Weighing knowledge from a named source against a page: what is new, known, weaker, or contradicts the page. Pure.

Nothing of the page is lost. New text is put where it belongs; a duplicate is not written but counts as corroboration; a
contradiction of another lineage is never written; only text that covers the old text and weighs at least as much takes its
place (`Weighing.replacing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from knowledge.merge.document.dated_log import dated_item, is_log, without_dates
from knowledge.merge.document.reference_labels import renaming_note, with_own_labels
from knowledge.merge.document.units import units
from knowledge.merge.evidence.outcome import plan_of
from knowledge.merge.evidence.place.insertion import place_new_texts
from knowledge.merge.evidence.place.log_entries import append_entry, is_entry_of_new_day
from knowledge.merge.evidence.place.placement import PageSection, folded_heading
from knowledge.merge.evidence.weigh.blocks import weigh_block
from knowledge.merge.evidence.weigh.keys import weigh_key
from knowledge.merge.evidence.weigh.page_index import identity
from knowledge.merge.evidence.weigh.prose import weigh_prose
from knowledge.merge.evidence.weigh.prose_comparison import compare_prose
from knowledge.merge.evidence.weigh.rows import weigh_rows, weigh_table
from knowledge.merge.evidence.weigh.table import rows_without_head, table_of
from knowledge.merge.evidence.weighing_state import Weighing
from knowledge.merge.model import CutDocument, IncomingEvidence, MergePlan, Unit
from knowledge.merge.setting import MergeSetting


def weigh(
    current: CutDocument,
    content: CutDocument,
    evidence: IncomingEvidence,
    setting: MergeSetting,
    *,
    section: str | None = None,
) -> MergePlan:
    """Return the plan for weighing `content` from `evidence` against the page, unit by unit.

    `section` limits the weighing to one section. New origins name no revision yet. Weighing the same content again changes nothing.

    Raises:
        NoSuchSection, AmbiguousName: `section` does not name one section of the page.
    """
    content, labels = with_own_labels(content, current)
    w = Weighing(current, evidence, setting)
    within = w.find_section(section) if section is not None else None
    if setting.append or (within is None and is_entry_of_new_day(w, content)):
        append_entry(w, content, within)
        return plan_of(w, "append")
    dates = compare_content(w, content, within)
    _weigh_units(w)
    place_new_texts(w)
    if dates:
        _name_dropped_dates(w, dates)
    if labels:
        w.note = "; ".join(filter(None, (w.note, renaming_note(labels))))
    return plan_of(w, "section" if within is not None else "snippet")


def compare_content(w: Weighing, content: CutDocument, within: PageSection | None) -> tuple[str, ...]:
    """Record in `w` how the content relates to the page, before anything is decided; return the dates stripped from it."""
    w.within = within
    dates: tuple[str, ...] = ()
    # In a log, dates are the structure; on any other page, a dated note would become an entry at the end that nobody finds.
    if not is_log(w.page):
        known = [folded_heading(name) for one in w.placer.sections for name in one.path[-1:]]
        content, w.hint, dates = without_dates(content, known=known, only_headings=_has_dated_items(w))
    w.content, w.incoming = content, units(content)
    compare_prose(w)
    return dates


def _has_dated_items(w: Weighing) -> bool:
    """Return whether the page has items that begin with a date, such as deadlines: a new one keeps its date."""
    return any(unit.kind == "item" and dated_item(unit.text) is not None for unit in w.units)


def _weigh_units(w: Weighing) -> None:
    seen: set[object] = set()
    for piece, numbers in groupby(range(len(w.incoming)), key=lambda number: w.incoming[number].piece):
        if w.content.pieces[piece].kind == "table":
            weigh_table(w, table_of(w.content, w.incoming, piece))
            continue
        for number in numbers:
            unit = w.incoming[number]
            # The same text twice under one heading is weighed once.
            name = (identity(unit), unit.section)
            if unit.kind != "heading" and name not in seen:
                seen.add(name)
                _weigh_unit(w, number, unit)


def _weigh_unit(w: Weighing, number: int, unit: Unit) -> None:
    if unit.kind == "front":
        weigh_key(w, unit)
    elif unit.kind == "paragraph" and (rows := rows_without_head(unit.text)) and weigh_rows(w, unit, rows):
        return
    elif unit.kind in ("paragraph", "item"):
        weigh_prose(w, number, unit)
    else:
        weigh_block(w, number, unit)


def _name_dropped_dates(w: Weighing, dates: Sequence[str]) -> None:
    """Mention the dropped dates in the note and in the verdicts of written text."""
    shown = ", ".join(dates)[:120]
    w.note = (
        f"the page is not a log, so text dated {shown} is placed by its subject, without the date "
        "(a log has `append: true` in its front matter)"
    )
    for number, verdict in enumerate(w.verdicts):
        if verdict.verdict in ("integrate", "update"):
            reason = f"{verdict.reason}; its date ({shown}) is left out"
            w.verdicts[number] = replace(verdict, reason=reason)
