"""Adding an entry to a page that is a log. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.merge.document.dated_log import dated_heading, dated_item, newest_first
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.context import Op, Weighing, shown
from knowledge.merge.evidence.placement import PageSection, Placement
from knowledge.merge.evidence.rephrase import ListForm, folded_text
from knowledge.merge.evidence.weigh.keys import weigh_key
from knowledge.merge.model import (
    CutDocument,
    MergePlan,
    Unit,
)
from knowledge.merge.splice import Insertion


def appended(w: Weighing, content: CutDocument, within: PageSection | None) -> MergePlan:
    """Return the plan for an entry of a log: written as it is at its end, or its head, unless it is there already."""
    w.within, w.content, w.incoming = within, content, units(content)
    said = [unit for unit in w.incoming if unit.kind not in ("heading", "front")]
    there = [w.index.equal(unit, lambda _: True) for unit in said]
    rows = [unit for unit in w.incoming if unit.kind == "front"]
    for unit in rows:
        weigh_key(w, unit)
    if all(found is not None for found in there) or not any(folded_text(unit.text) for unit in said):
        for number, found in enumerate(there):
            if found is not None:
                w.unchanged(number, found)
        return w.plan("append")
    _append(w, content, [unit for unit, found in zip(said, there, strict=True) if found is None])
    return w.plan("append")


def _append(w: Weighing, content: CutDocument, fresh: Sequence[Unit]) -> None:
    head = next((piece for piece in content.pieces if piece.kind == "heading"), None)
    named = w.placer.named(head.section) if head is not None else w.within
    placement, block = _entry_place(w, named, content)
    text = folded_text(
        "".join(piece.text for piece in content.pieces if piece.kind != "front" and not (named and piece is head))
    )
    reason = f"new entry: {shown(w.weight)}; placed {placement.reason}"
    order = w.verdict("integrate", placement.section, reason)
    if named is not None and head is not None:
        kept = [unit for unit in fresh if unit.kind != "heading"]
        text = "\n".join(folded_text(unit.text) for unit in kept) if all(u.kind == "item" for u in kept) else text
    items = [unit for unit in units(cut(text)) if unit.kind == "item"]
    if not block and items and (form := _list_at(w, placement)) is not None:
        log = newest_first(w.page)
        after = form.numbers[0] if log else form.numbers[-1]
        line = w.ground.units[after].line - 1 if log else w.ground.last_line(after)
        put = Insertion(line, text, block=False)
    else:
        put = Insertion(placement.after_line, text, block=True)
    w.ops.append(Op([order], put=put, expected=tuple(units(cut(text)))))


def _list_at(w: Weighing, placement: Placement) -> ListForm | None:
    section = w.section_at(placement)
    lists = [at for at in range(section.first, section.end) if w.page.pieces[at].kind == "list"]
    return ListForm(w.ground, lists[-1]) if lists else None


def _entry_place(w: Weighing, named: PageSection | None, content: CutDocument) -> tuple[Placement, bool]:
    """Return where the entry goes, and whether as a block: under its heading, before the newest, or at the end."""
    if named is not None and named.heading is not None:
        last = w.placer.last_written(named.end, named)
        return Placement(named.path, w.placer.line_after(last), "append"), False
    has_heading = any(piece.kind == "heading" for piece in content.pieces)
    if newest_first(w.page):
        first = next(
            (at for at, piece in enumerate(w.page.pieces) if piece.kind == "heading" and dated_heading(piece.text)),
            None,
        )
        if first is not None:
            before = first - 1
            while before >= 0 and w.page.pieces[before].kind == "blank":
                before -= 1
            return Placement(
                w.page.pieces[before].section if before >= 0 else (), w.placer.line_after(before), "append"
            ), True
        entry = next((unit for unit in w.ground.units if dated_item(unit.text)), None)
        if entry is not None and not has_heading:
            return Placement(entry.section, entry.line - 1, "append"), w.page.pieces[entry.piece].kind != "list"
    everything = w.placer.sections[0]
    last = w.placer.last_written(len(w.page.pieces), everything)
    section = w.page.pieces[last].section if last >= 0 else ()
    is_list = last >= 0 and w.page.pieces[last].kind == "list"
    return Placement(section, w.placer.line_after(last), "append"), has_heading or not is_list
