"""Adding an entry to a page that is a log. Pure."""

from __future__ import annotations

from knowledge.merge.document.dated_log import dated_heading, dated_item, newest_first
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.place.list_form import ListForm, folded_text
from knowledge.merge.evidence.place.placement import PageSection, Placement
from knowledge.merge.evidence.weigh.keys import weigh_key
from knowledge.merge.evidence.weighing_state import PageChange, Weighing
from knowledge.merge.model import CutDocument
from knowledge.merge.splice import Insertion


def append_entry(w: Weighing, content: CutDocument, within: PageSection | None) -> None:
    """Add `content` as an entry at the end or the head of a log, unchanged; add nothing if all of it is already there."""
    w.within, w.content, w.incoming = within, content, units(content)
    for unit in w.incoming:
        if unit.kind == "front":
            weigh_key(w, unit)
    said = [unit for unit in w.incoming if unit.kind not in ("heading", "front")]
    there = [w.index.equal(unit) for unit in said]
    fresh = [unit for unit, found in zip(said, there, strict=True) if found is None]
    if not fresh or not any(folded_text(unit.text) for unit in said):
        for number, found in enumerate(there):
            if found is not None:
                w.unchanged(number, found)
        return
    head = next((piece for piece in content.pieces if piece.kind == "heading"), None)
    named = w.placer.named(head.section) if head is not None else w.within
    placement, block = _entry_place(w, named, has_heading=head is not None)
    text = folded_text(
        "".join(piece.text for piece in content.pieces if piece.kind != "front" and not (named and piece is head))
    )
    if named is not None and head is not None and all(unit.kind == "item" for unit in fresh):
        # For a day that the log already has, only new items are added.
        text = "\n".join(folded_text(unit.text) for unit in fresh)
    verdict = w.verdict("integrate", placement.section, f"new entry: {w.weight}; placed {placement.reason}")
    expected = tuple(units(cut(text)))
    insertion = Insertion(placement.after_line, text, block=True)
    lists = w.placer.lists_in(w.placer.section_at(placement))
    if lists and not block and any(unit.kind == "item" for unit in expected):
        items = ListForm(w.splicer, lists[-1]).numbers
        after = w.units[items[0]].line - 1 if newest_first(w.page) else w.splicer.last_line(items[-1])
        insertion = Insertion(after, text, block=False)
    w.changes.append(PageChange([verdict], insertion, expected=expected))


def _entry_place(w: Weighing, named: PageSection | None, *, has_heading: bool) -> tuple[Placement, bool]:
    """Return where the entry goes, and whether it is inserted as a block.

    It goes under the `named` heading, or before the newest entry if that is the first of the log, or at the end.
    """
    pieces = w.page.pieces
    if named is not None and named.heading is not None:
        last = w.placer.last_written(named.end, named)
        return Placement(named.path, w.placer.line_after(last), "append"), False
    if newest_first(w.page):
        first = next(
            (at for at, piece in enumerate(pieces) if piece.kind == "heading" and dated_heading(piece.text)), None
        )
        if first is not None:
            before = first - 1
            while before >= 0 and pieces[before].kind == "blank":
                before -= 1
            section = pieces[before].section if before >= 0 else ()
            return Placement(section, w.placer.line_after(before), "append"), True
        entry = next((unit for unit in w.units if dated_item(unit.text)), None)
        if entry is not None and not has_heading:
            return Placement(entry.section, entry.line - 1, "append"), pieces[entry.piece].kind != "list"
    last = w.placer.last_written(len(pieces), w.placer.sections[0])
    section = pieces[last].section if last >= 0 else ()
    is_list = last >= 0 and pieces[last].kind == "list"
    return Placement(section, w.placer.line_after(last), "append"), has_heading or not is_list
