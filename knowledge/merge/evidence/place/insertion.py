"""Puts new text into a page: next to related text, under its heading, or where it is most similar. Pure.

Where a text goes is decided in this order, in `place_new_texts`:

1. beside the unit of the page that it says more about, or that came right before it under the same heading;
2. under the heading that it came with, made as a new section if the page does not have it;
3. without a heading, in the section that is most like it, or nowhere if that is a guess (`Placer.place`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from knowledge.merge.claims.statements import LEADS_IN
from knowledge.merge.document.units import cut, heading_level, units
from knowledge.merge.evidence.place.list_form import ListForm, folded_lines, folded_text
from knowledge.merge.evidence.weighing_state import NewText, PageChange, Weighing
from knowledge.merge.model import DocumentPiece, Unit, section_name
from knowledge.merge.splice import Insertion


def place_new_texts(w: Weighing) -> None:
    """Find the place of everything new: next to related text, else section by section, in order."""
    followed = _followed_units(w)
    groups: dict[object, tuple[int | None, list[NewText]]] = {}
    for new in w.new_texts:
        head = _unknown_heading(w, new.unit)
        # A new section stays together even if its texts resemble different parts of the page.
        if head is None and _put_beside(w, new, followed.get(new.unit.line)):
            continue
        target = w.target(new.unit.section)
        # Texts for one place are inserted together; texts without a place are grouped by their piece of the content.
        key: object = ("new", head) if head is not None else ("in", target, new.unit.piece if target is None else -1)
        groups.setdefault(key, (head, []))[1].append(new)
    for head, news in groups.values():
        if head is not None:
            _put_section(w, head, news)
        else:
            _put_into_section(w, news)


def _followed_units(w: Weighing) -> dict[int, int]:
    """Map the line of each incoming unit to the page unit that it should follow, so that text sent together stays together.

    The unit to follow is the page's copy of the last earlier unit under the same heading that the page already has.
    """
    firsts = Counter(map(_first_line, w.units))
    last: dict[tuple[str, ...], int] = {}
    found: dict[int, int] = {}
    for number, unit in enumerate(w.incoming):
        if unit.section in last:
            found[unit.line] = last[unit.section]
        # A line such as "Owners:", which the page has many times, is no anchor.
        known = w.matched.get(number)
        if (
            known is not None
            and unit.kind not in ("front", "row")
            and (first := _first_line(unit))
            and firsts[first] == 1
        ):
            last[unit.section] = known
    return found


def _first_line(unit: Unit) -> str:
    return folded_lines(unit.text)[0].strip()


def _put_beside(w: Weighing, new: NewText, followed: int | None) -> bool:
    """Put a text right after the page unit that it belongs to; return False if there is no such unit.

    That is `new.beside`, the unit that the text says more about, if it lies in the text's section. Otherwise it is
    `followed`, the unit that the text came after. After a list item, the text becomes an item.
    """
    says_more = new.beside is not None and w.in_same_section(new.unit, new.beside)
    beside = new.beside if says_more else followed
    if beside is None:
        return False
    old = w.units[beside]
    if old.kind in ("row", "front") or (w.within is not None and not w.lies_in(old.piece, w.within)):
        return False
    # A whole paragraph that only came after an item becomes a paragraph below the list.
    is_paragraph = new.whole and new.unit.kind == "paragraph" and not says_more
    if old.kind == "item" and new.unit.kind in ("item", "paragraph") and not is_paragraph:
        ((_, insertion),) = ListForm(w.splicer, old.piece).insertions([new.unit], after=beside)
        where = f"placed beside line {old.line}"
    else:
        piece = w.placer.after_what_it_leads_to(old.piece)
        insertion = Insertion(w.placer.line_after(piece), folded_text(new.unit.text), block=True)
        where = f"placed after line {old.line}"
    if says_more and new.whole:
        where += f", which it does not cover and so does not replace ({w.confidence(beside)})"
    _write(w, [new], insertion, old.section, where)
    return True


def _put_section(w: Weighing, head: int, news: Sequence[NewText]) -> None:
    """Insert a section: the heading at piece `head` of the content, and everything new below it."""
    heading = w.content.pieces[head]
    text = "\n\n".join(folded_text(new.unit.text) for new in news)
    level = heading_level(heading)
    placement = w.placer.place(text, path=heading.section, level=level, hint=w.hint, within=w.within)
    if placement.how == "unsure":
        w.offer([new.verdict for new in news], placement)
        return
    if (fence := w.placer.open_fence_after(placement.after_line)) is not None:
        _keep_out(w, news, fence)
        return
    shift = placement.level - level if placement.level else 0
    blocks = [_shifted_heading(heading, shift), *_blocks_below(w, head, news, shift)]
    insertion = Insertion(placement.after_line, "\n\n".join(blocks), block=True)
    section = (*placement.section, heading.section[-1])
    _write(w, news, insertion, section, f"placed {placement.reason}", with_headings=True)


def _keep_out(w: Weighing, news: Sequence[NewText], fence: DocumentPiece) -> None:
    """Report that a new section is not written, because it would come between a heading and its fence."""
    w.note = fence_note(fence)
    for new in news:
        w.verdicts[new.verdict] = replace(w.verdicts[new.verdict], verdict="retain", reason=w.note)


def fence_note(fence: DocumentPiece) -> str:
    """Return why no section is added before a fence or comment that is never closed."""
    return (
        f"not written: what begins in line {fence.line} is never closed, so it would come below the new heading; "
        "close it, and send this call again"
    )


def _put_into_section(w: Weighing, news: Sequence[NewText]) -> None:
    """Put new texts into one section of the page, items into its list if it has one."""
    text = "\n\n".join(folded_text(new.unit.text) for new in news)
    placement = w.placer.place(
        text,
        path=news[0].unit.section,
        hint=w.hint,
        within=w.within,
        is_item=all(new.unit.kind == "item" for new in news),
    )
    if placement.how == "unsure":
        w.offer([new.verdict for new in news], placement)
        return
    lists = w.placer.lists_in(w.placer.section_at(placement))
    for run in _runs(news):
        if run[0].unit.kind == "item" and lists:
            said = "\n".join(new.unit.text for new in run)
            form = ListForm(w.splicer, lists[0] if len(lists) == 1 else w.placer.most_like(said, lists))
            for at, insertion in form.insertions([new.unit for new in run]):
                _write(w, [run[at]], insertion, placement.section, f"placed in the list {placement.reason}")
            continue
        joined = _between_items(w, run[0].unit.piece).join(folded_text(new.unit.text) for new in run)
        insertion = Insertion(placement.after_line, joined, block=True)
        _write(w, run, insertion, placement.section, f"placed {placement.reason}", with_headings=True)


def _write(
    w: Weighing,
    news: Sequence[NewText],
    insertion: Insertion,
    section: Sequence[str],
    where: str,
    *,
    with_headings: bool = False,
) -> None:
    """Record an insertion, and say in the verdicts of its texts where they went."""
    numbers = [new.verdict for new in news]
    for number in numbers:
        reason = f"new: {w.weight}; {where}"
        w.verdicts[number] = replace(w.verdicts[number], section=section_name(section), reason=reason)
    # The text must be read as these units once it is in the page, or it is not written.
    expected = units(cut(insertion.text))
    if not with_headings:
        expected = tuple(unit for unit in expected if unit.kind != "heading") or (news[0].unit,)
    w.changes.append(PageChange(numbers, insertion, expected=expected))


def _unknown_heading(w: Weighing, unit: Unit) -> int | None:
    """Return the piece of the outermost heading above `unit` that the page lacks; None if the page has all of them.

    If the caller named a section, the headings that the page has elsewhere count as lacking.
    """
    if not unit.section or _names_a_section(w, unit.section):
        return None
    paths = (unit.section[:length] for length in range(1, len(unit.section) + 1))
    unknown = next((path for path in paths if not _names_a_section(w, path)), None)
    pieces = w.content.pieces
    above = range(unit.piece, -1, -1)
    return next((at for at in above if pieces[at].kind == "heading" and pieces[at].section == unknown), None)


def _names_a_section(w: Weighing, path: Sequence[str]) -> bool:
    """Return whether these headings name a section of the page, and one in or around the section that the caller named."""
    named = w.placer.named(path, w.within)
    if named is None or w.within is None:
        return named is not None
    return w.lies_in(named.heading, w.within) or w.lies_in(w.within.heading, named)


def _blocks_below(w: Weighing, head: int, news: Sequence[NewText], shift: int) -> list[str]:
    """Return the blocks of a new section: the new texts, the headings between them, and what introduces them.

    "Parameters:" belongs to the list below it, although another section of the page has such a line too.
    """
    blocks: list[str] = []
    # Headings above texts that the page has already are left out; those above new ones come along.
    used: set[int] = {head}
    last: NewText | None = None
    for new in news:
        for at in range(head + 1, new.unit.piece):
            piece = w.content.pieces[at]
            above = piece.kind == "heading" and piece.section == new.unit.section[: len(piece.section)]
            if above and at not in used:
                used.add(at)
                blocks.append(_shifted_heading(piece, shift))
        if (lead := _introduction(w, new.unit.piece)) is not None and lead not in used | {
            one.unit.piece for one in news
        }:
            used.add(lead)
            blocks.append(folded_text(w.content.pieces[lead].text))
        text = folded_text(new.unit.text)
        if last is not None and blocks and new.unit.kind == "item" and last.unit.piece == new.unit.piece:
            blocks[-1] += _between_items(w, new.unit.piece) + text
        else:
            blocks.append(text)
        last = new
    return blocks


def _introduction(w: Weighing, piece: int) -> int | None:
    """Return the paragraph of the content that introduces a piece: the one right above, if it ends in a colon."""
    pieces = w.content.pieces
    above = next((at for at in range(piece - 1, -1, -1) if pieces[at].kind != "blank"), None)
    if above is None or pieces[above].kind != "paragraph":
        return None
    return above if LEADS_IN.search(pieces[above].text) else None


def _between_items(w: Weighing, piece: int) -> str:
    items = [unit for unit in w.incoming if unit.piece == piece]
    tight = all(second.line <= first.line + len(folded_lines(first.text)) for first, second in pairwise(items))
    return "\n" if tight else "\n\n"


def _shifted_heading(piece: DocumentPiece, shift: int) -> str:
    """Return a heading of the content, `shift` levels deeper."""
    text = folded_text(piece.text)
    if not shift:
        return text
    level = min(6, max(1, heading_level(piece) + shift))
    words = text.split("\n")[0].strip().strip("#").strip()
    return f"{'#' * level} {words}"


def _runs(news: Sequence[NewText]) -> Iterator[list[NewText]]:
    """Yield the texts in runs: items of one list together, everything else alone."""
    run: list[NewText] = []
    for new in news:
        together = run and new.unit.kind == run[-1].unit.kind == "item" and run[-1].unit.piece == new.unit.piece
        if run and not together:
            yield run
            run = []
        run.append(new)
    if run:
        yield run
