"""Weighing knowledge from a named source against what a page says: what is new, said already, weaker, or said otherwise. Pure.

Nothing of the page is lost. What is new is put where it belongs; what the page says already is not written twice but counts as
corroboration; what another lineage says otherwise is never written; only what says all that stood there, and weighs at least
as much, takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from knowledge.merge.document.dated_log import is_log, unwrapped
from knowledge.merge.document.log_entries import appended
from knowledge.merge.document.page_index import said_in, sort_of
from knowledge.merge.document.units import units
from knowledge.merge.evidence.context import Weighing
from knowledge.merge.evidence.insertion import place_news
from knowledge.merge.evidence.placement import PageSection, folded_heading
from knowledge.merge.evidence.weigh.blocks import weigh_block
from knowledge.merge.evidence.weigh.keys import weigh_key
from knowledge.merge.evidence.weigh.prose import find_stands, weigh_prose
from knowledge.merge.evidence.weigh.rows import weigh_rows, weigh_table
from knowledge.merge.evidence.weigh.table import rows_without_head, table_of
from knowledge.merge.model import (
    CutDocument,
    DocumentPiece,
    IncomingEvidence,
    MergePlan,
    Unit,
    unit_digest,
)
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

    `section` keeps to one section. New origins name no revision yet. Weighing the same again changes nothing.

    Raises:
        NoSuchSection, AmbiguousName: `section` does not name one section of the page.
    """
    weighing = Weighing(current, evidence, setting)
    within = weighing.asked_for(section) if section is not None else None
    if setting.append:
        return appended(weighing, content, within)
    return _weighed(weighing, content, within)


def _weighed(w: Weighing, content: CutDocument, within: PageSection | None) -> MergePlan:
    """Return the plan for content that is to be taken into the page."""
    dates = compared(w, content, within)
    for piece, numbers in groupby(range(len(w.incoming)), key=lambda number: w.incoming[number].piece):
        _weigh_piece(w, w.content.pieces[piece], list(numbers))
    place_news(w)
    if dates:
        _say_what_was_left_off(w, dates)
    return w.plan("section" if within is not None else "snippet")


def compared(w: Weighing, content: CutDocument, within: PageSection | None) -> tuple[str, ...]:
    """Find out how the content stands to the page, before anything is decided; return the dates that it came under."""
    w.within = within
    dates: tuple[str, ...] = ()
    if not is_log(w.page):
        known = [folded_heading(name) for one in w.placer.sections for name in one.path[-1:]]
        bare = unwrapped(content, known=known)
        content, w.hint, dates = bare
    w.content, w.incoming = content, units(content)
    find_stands(w)
    return dates


def _say_what_was_left_off(w: Weighing, dates: Sequence[str]) -> None:
    """Name, in the verdicts of what was written, the dates that it came under."""
    shown = ", ".join(dates)[:120]
    w.note = f"the page is no log: what came under {shown} is placed where it belongs, without the date (a log says `append: true`)"
    for order, verdict in enumerate(w.verdicts):
        if verdict.verdict in ("integrate", "update"):
            w.verdicts[order] = replace(
                verdict, reason=f"{verdict.reason}; the date it came under ({shown}) is left off"
            )


def _weigh_piece(w: Weighing, piece: DocumentPiece, numbers: Sequence[int]) -> None:
    if piece.kind == "table":
        weigh_table(w, table_of(w.content, w.incoming, w.incoming[numbers[0]].piece))
        return
    for number in numbers:
        unit = w.incoming[number]
        if unit.kind == "heading" or _came_before(w, unit):
            continue
        if unit.kind == "front":
            weigh_key(w, unit)
        elif unit.kind == "paragraph" and (rows := rows_without_head(unit.text)) and weigh_rows(w, unit, rows):
            continue
        elif unit.kind in ("paragraph", "item"):
            weigh_prose(w, number, unit)
        else:
            weigh_block(w, number, unit)


def _came_before(w: Weighing, unit: Unit) -> bool:
    """Return whether the same stands above it in the content, under the same heading."""
    name = (sort_of(unit), unit_digest(said_in(unit)), unit.section)
    before = name in w.seen
    w.seen.add(name)
    return before
