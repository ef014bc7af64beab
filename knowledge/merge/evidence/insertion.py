"""Putting what is new into a page: beside what it belongs to, under its heading, or where it is most alike. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from knowledge.merge.document.units import cut, heading_level, units
from knowledge.merge.evidence.context import New, Op, Weighing, shown
from knowledge.merge.evidence.placement import PageSection
from knowledge.merge.evidence.rephrase import ListForm, folded_lines, folded_text
from knowledge.merge.model import (
    DocumentPiece,
    Unit,
    section_name,
)
from knowledge.merge.splice import Insertion


def place_news(w: Weighing) -> None:
    """Find the place of everything new: beside what it belongs to, else section by section, in order."""
    waiting: list[New] = []
    followed = _followed(w)
    for new in w.news:
        beside = new.beside if new.beside is not None else followed.get(new.unit.line)
        if beside is None or not _put_beside(w, new, beside):
            waiting.append(new)
    by_place: dict[object, list[New]] = {}
    for new in waiting:
        head = _unknown_heading(w, new.unit)
        target = w.target(new.unit.section)
        key: object = ("new", head) if head is not None else ("in", target, new.unit.piece if target is None else -1)
        by_place.setdefault(key, []).append(new)
    for news in by_place.values():
        head = _unknown_heading(w, news[0].unit)
        if head is not None:
            _put_section(w, head, news)
        else:
            _put_into_section(w, news)


def _followed(w: Weighing) -> dict[int, int]:
    """Return, by the line of a unit that came, the unit of the page that the last known one before it was found to be.

    What came together stays together: only what stands under the same heading counts.
    """
    last: dict[tuple[str, ...], int] = {}
    found: dict[int, int] = {}
    for number, unit in enumerate(w.incoming):
        if unit.section in last:
            found[unit.line] = last[unit.section]
        if (known := w.matched.get(number)) is not None and unit.kind not in ("front", "row"):
            last[unit.section] = known
    return found


def _put_beside(w: Weighing, new: New, beside: int) -> bool:
    old = w.ground.units[beside]
    if old.kind in ("row", "front") or (w.within is not None and not w.lies_in(old.piece, w.within)):
        return False
    if (
        old.kind == "item"
        and new.unit.kind in ("item", "paragraph")
        and not (new.whole and new.unit.kind == "paragraph" and new.beside is None)
    ):
        form = ListForm(w.ground, old.piece)
        for _, put in form.puts([new.unit], after=beside):
            _write(w, new, put, old.section, f"beside line {old.line}")
        return True
    piece = w.placer.after_what_it_leads_to(old.piece)
    _write(
        w, new, Insertion(w.placer.line_after(piece), _block(new), block=True), old.section, f"after line {old.line}"
    )
    return True


def _write(w: Weighing, new: New, put: Insertion, section: Sequence[str], where: str) -> None:
    reason = f"new: {shown(w.weight)}; placed {where}"
    if new.beside is not None and new.whole:
        old = w.confidence(new.beside)
        reason += f", whose {shown(old)} it does not replace since it does not say all of it"
    w.verdicts[new.order] = replace(w.verdicts[new.order], section=section_name(section), reason=reason)
    w.ops.append(Op([new.order], put=put, expected=_expected(new.unit, put)))


def _unknown_heading(w: Weighing, unit: Unit) -> int | None:
    """Return the piece of the outermost heading above the unit that the page does not have, None if it has all."""
    if _named_or_title(w, unit.section):
        return None
    for length in range(1, len(unit.section) + 1):
        if not _named_or_title(w, unit.section[:length]):
            return next(
                (
                    at
                    for at in range(unit.piece, -1, -1)
                    if w.content.pieces[at].kind == "heading" and w.content.pieces[at].section == unit.section[:length]
                ),
                None,
            )
    return None


def _named_or_title(w: Weighing, path: Sequence[str]) -> bool:
    return not path or w.placer.named(path) is not None


def _put_section(w: Weighing, head: int, news: Sequence[New]) -> None:
    """Make a section with the heading at piece `head` of the content and everything new below it."""
    heading = w.content.pieces[head]
    said = "\n\n".join(folded_text(new.unit.text) for new in news)
    level = heading_level(heading)
    placement = w.placer.place(said, path=heading.section, level=level, hint=w.hint, within=w.within)
    shift = placement.level - level if placement.level else 0
    blocks = [_heading(heading, shift)]
    blocks += _blocks_below(w, head, news, shift)
    put = Insertion(placement.after_line, "\n\n".join(blocks), block=True)
    orders = [new.order for new in news]
    section = (*placement.section, heading.section[-1])
    for order in orders:
        reason = f"new: {shown(w.weight)}; placed {placement.reason}"
        w.verdicts[order] = replace(w.verdicts[order], section=section_name(section), reason=reason)
    w.ops.append(Op(orders, put=put, expected=tuple(units(cut(put.text)))))


def _blocks_below(w: Weighing, head: int, news: Sequence[New], shift: int) -> list[str]:
    """Return the blocks of a new section: what is new, under the headings between."""
    blocks: list[str] = []
    used: set[int] = {head}
    last: New | None = None
    for new in news:
        for at in range(head + 1, new.unit.piece):
            piece = w.content.pieces[at]
            above = piece.kind == "heading" and piece.section == new.unit.section[: len(piece.section)]
            if above and at not in used:
                used.add(at)
                blocks.append(_heading(piece, shift))
        text = folded_text(new.unit.text)
        if last is not None and blocks and new.unit.kind == "item" and last.unit.piece == new.unit.piece:
            blocks[-1] += _between_items(w, new.unit.piece) + text
        else:
            blocks.append(text)
        last = new
    return blocks


def _between_items(w: Weighing, piece: int) -> str:
    items = [unit for unit in w.incoming if unit.piece == piece]
    tight = all(second.line <= first.line + len(folded_lines(first.text)) for first, second in pairwise(items))
    return "\n" if tight else "\n\n"


def _put_into_section(w: Weighing, news: Sequence[New]) -> None:
    """Put what is new into one section of the page, items into its list if it has one."""
    said = "\n\n".join(folded_text(new.unit.text) for new in news)
    path = news[0].unit.section
    placement = w.placer.place(said, path=path, hint=w.hint, within=w.within)
    section = w.section_at(placement)
    for run in _runs(news):
        if run[0].unit.kind == "item" and (form := _list_in(w, section, run)) is not None:
            for at, put in form.puts([new.unit for new in run]):
                _write(w, run[at], put, placement.section, f"in the list {placement.reason}")
            continue
        text = _between_items(w, run[0].unit.piece).join(folded_text(new.unit.text) for new in run)
        put = Insertion(placement.after_line, text, block=True)
        for new in run:
            reason = f"new: {shown(w.weight)}; placed {placement.reason}"
            w.verdicts[new.order] = replace(
                w.verdicts[new.order], section=section_name(placement.section), reason=reason
            )
        w.ops.append(Op([new.order for new in run], put=put, expected=tuple(units(cut(text)))))


def _list_in(w: Weighing, section: PageSection, run: Sequence[New]) -> ListForm | None:
    lists = [at for at in range(section.first, section.end) if w.page.pieces[at].kind == "list"]
    if not lists:
        return None
    if len(lists) == 1:
        return ListForm(w.ground, lists[0])
    said = "\n".join(new.unit.text for new in run)
    return ListForm(w.ground, w.placer.most_like(said, lists))


def _block(new: New) -> str:
    return folded_text(new.unit.text)


def _expected(unit: Unit, put: Insertion) -> tuple[Unit, ...]:
    """Return the units that what is put in is to be read as."""
    found = tuple(one for one in units(cut(put.text)) if one.kind != "heading")
    return found or (unit,)


def _heading(piece: DocumentPiece, shift: int) -> str:
    """Return a heading of the content, `shift` levels deeper."""
    if not shift:
        return folded_text(piece.text)
    level = min(6, max(1, heading_level(piece) + shift))
    words = folded_text(piece.text).split("\n")[0].strip().strip("#").strip()
    return f"{'#' * level} {words}"


def _runs(news: Sequence[New]) -> Iterator[list[New]]:
    """Yield what belongs together: items of one list, otherwise one by one."""
    run: list[New] = []
    for new in news:
        if run and not (
            new.unit.kind == "item" and run[-1].unit.kind == "item" and run[-1].unit.piece == new.unit.piece
        ):
            yield run
            run = []
        run.append(new)
    if run:
        yield run
