"""Adding entries to a page that is a log. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.merge.document.dated_log import (
    are_entries_apart,
    dated_item,
    dated_sections,
    day_of,
    is_log,
    newest_first,
    same_date,
)
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.place.insertion import fence_note
from knowledge.merge.evidence.place.list_form import ListForm, folded_text
from knowledge.merge.evidence.place.placement import PageSection, Placement, is_inside, sections_of
from knowledge.merge.evidence.weigh.keys import weigh_key
from knowledge.merge.evidence.weighing_state import PageChange, Weighing
from knowledge.merge.model import CutDocument, Unit, unit_digest
from knowledge.merge.splice import Insertion


def append_entry(w: Weighing, content: CutDocument, within: PageSection | None) -> None:
    """Add the entries of `content` at the end or the head of a log, unchanged, except what their sections have already.

    A heading that the page lacks is added with everything below it: the same words under another date are another entry.
    Below a heading that the page has, only what is new is added.
    """
    w.within, w.content, w.incoming = within, content, units(content)
    for unit in w.incoming:
        if unit.kind == "front":
            weigh_key(w, unit)
    entries = sections_of(content)
    there: dict[tuple[str, ...], Sequence[PageSection]] = {}
    new: list[tuple[PageSection, PageSection]] = []
    handled = 0
    for entry in entries:
        if entry.heading is not None and entry.heading < handled:
            continue
        parents = there.get(entry.path[:-1], [within or w.placer.sections[0]])
        if entry.heading is None:
            # Text in front of a heading was written before that heading, wherever it is by now.
            _add_text(w, entry, [*w.placer.sections] if len(entries) > 1 and within is None else [], within)
        elif homes := _named(w, entry, parents):
            there[entry.path] = homes
            _add_text(w, entry, homes, homes[-1])
        else:
            new.append((entry, parents[-1]))
            handled = entry.last
    # After the text, and inner ones first: at the same line, a heading must not come before what belongs to the section ending there.
    for entry, parent in sorted(new, key=lambda one: -one[1].level):
        _add_section(w, entry, parent)


def is_entry_of_new_day(w: Weighing, content: CutDocument) -> bool:
    """Return whether all of `content` is below headings of days that the page lacks, and the page is a log of days.

    A page with one section is a log if that section is a day.
    """
    dated, all_ = dated_sections(w.page)
    title = w.placer.title.path[-1:]
    is_of_days = is_log(w.page) or all(name in dated for name in all_ if (name,) != title)
    said = {unit.section for unit in units(content) if unit.kind != "heading"}
    if not dated or not is_of_days or not all(any(map(day_of, one)) for one in said):
        return False
    return bool(said) and all(are_entries_apart(one, (name,)) for one in said for name in dated)


def _named(w: Weighing, entry: PageSection, parents: Sequence[PageSection]) -> Sequence[PageSection]:
    """Return the sections inside one of `parents` that the entry's heading names: several only if their whole paths are equal."""
    found = [
        one
        for parent in parents
        for one in w.placer.sections_named((*parent.path, *entry.path[-1:]))
        or w.placer.sections_named(entry.path[-1:])
        or [one for one in w.placer.sections if one.path and same_date(one.path[-1], entry.path[-1])]
        if is_inside(one, parent) and (one != parent or one == w.within)
    ]
    if len({one.path for one in found}) > 1:
        # `Morning` of many days: the one meant is that of the day where the log continues.
        current, _ = _log_place(w, has_heading=True)
        found = [one for one in found if current.section[: len(one.path) - 1] == one.path[:-1]]
        found = [one for one in found if len(one.path) == max(len(other.path) for other in found)]
    return found


def _add_section(w: Weighing, entry: PageSection, parent: PageSection) -> None:
    """Add the entry with its heading and all that is below it at the end of `parent`, or where the log continues."""
    if parent in (w.placer.title, w.placer.sections[0]):
        continued, _ = _log_place(w, has_heading=True)
        holder = w.placer.title if w.placer.title.level < entry.level else w.placer.sections[0]
        placement = Placement(holder.path, continued.after_line, "append")
    else:
        # Below a subsection of a higher level, it would become a part of that.
        inside = [one for one in w.placer.sections if one != parent and is_inside(one, parent)]
        end = next((one.heading for one in inside if one.level < entry.level), parent.last)
        last = w.placer.last_written(end or parent.last, parent)
        placement = Placement(parent.path, w.placer.line_after(last), "append")
    if (fence := w.placer.open_fence_after(placement.after_line)) is not None:
        w.note = fence_note(fence)
        w.verdict("retain", (*placement.section, *entry.path[-1:]), w.note)
        return
    text = folded_text("".join(piece.text for piece in w.content.pieces[entry.heading : entry.last]))
    _insert(w, placement, text, block=True, heading=entry.path[-1:])


def _add_text(w: Weighing, entry: PageSection, homes: Sequence[PageSection], home: PageSection | None) -> None:
    """Add the text between the entry's heading and the next one to `home`, or where the log continues.

    What one of `homes` has already is left out; without any, what the section has that the text would go into.
    """
    own = [
        (number, unit)
        for number, unit in enumerate(w.incoming)
        if entry.first <= unit.piece < entry.end and unit.kind != "front" and folded_text(unit.text)
    ]
    if not own:
        return
    if home is not None and home.heading is not None:
        last = w.placer.last_written(home.end, home)
        placement, block = Placement(home.path, w.placer.line_after(last), "append"), False
    else:
        placement, block = _log_place(w, has_heading=False)
    searched = homes or [home or w.placer.section_at(placement)]
    fresh: list[Unit] = []
    for number, unit in own:
        found = w.index.equal(unit, lambda at: any(one.first <= w.units[at].piece < one.end for one in searched))
        if found is None:
            fresh.append(unit)
        else:
            w.unchanged(number, found)
    if not fresh:
        return
    lists = w.placer.lists_in(w.placer.section_at(placement))
    if lists and not block and all(unit.kind == "item" for unit in fresh):
        items = ListForm(w.splicer, lists[-1]).numbers
        after = w.units[items[0]].line - 1 if newest_first(w.page) else w.splicer.last_line(items[-1])
        placement = Placement(placement.section, after, "append")
    else:
        block = True
    _insert(w, placement, _text_of(w, entry, own, fresh), block=block)


def _text_of(w: Weighing, entry: PageSection, own: Sequence[tuple[int, Unit]], fresh: Sequence[Unit]) -> str:
    """Return the entry's own text with only the `fresh` units of it, or all of it if these would read differently on their own."""
    pieces = w.content.pieces
    whole = folded_text("".join(piece.text for piece in pieces[entry.first : entry.end] if piece.kind != "front"))
    if len(fresh) == len(own):
        return whole
    parts: dict[int, list[str]] = {}
    for unit in fresh:
        # Only items are left out one by one: a row needs the head of its table.
        said = parts.setdefault(unit.piece, [])
        said[:] = [*said, folded_text(unit.text)] if unit.kind == "item" else [folded_text(pieces[unit.piece].text)]
    text = "\n\n".join("\n".join(said) for said in parts.values())
    there = {unit_digest(unit.text) for unit in units(cut(text))}
    return text if all(unit_digest(unit.text) in there for unit in fresh) else whole


def _insert(w: Weighing, placement: Placement, text: str, *, block: bool, heading: Sequence[str] = ()) -> None:
    verdict = w.verdict(
        "integrate", (*placement.section, *heading), f"new entry: {w.weight}; placed {placement.reason}"
    )
    insertion = Insertion(placement.after_line, text, block=block)
    w.changes.append(PageChange([verdict], insertion, expected=tuple(units(cut(text)))))


def _log_place(w: Weighing, *, has_heading: bool) -> tuple[Placement, bool]:
    """Return where the log continues, and whether an entry there is a block.

    It continues before its newest entry if that comes first, else at its end.
    """
    pieces = w.page.pieces
    if newest_first(w.page):
        first = next((at for at, piece in enumerate(pieces) if piece.kind == "heading" and day_of(piece.text)), None)
        if first is not None:
            before = first - 1
            while before >= 0 and pieces[before].kind == "blank":
                before -= 1
            section = pieces[before].section if before >= 0 else ()
            return Placement(section, w.placer.line_after(before), "append"), True
        entry = next((unit for unit in w.units if dated_item(unit.text)), None)
        if entry is not None and not has_heading:
            return Placement(entry.section, entry.line - 1, "append"), pieces[entry.piece].kind != "list"
    last = w.placer.last_written(len(pieces), w.placer.title if has_heading else w.placer.sections[-1])
    section = pieces[last].section if last >= 0 else ()
    is_list = last >= 0 and pieces[last].kind == "list"
    return Placement(section, w.placer.line_after(last), "append"), has_heading or not is_list
