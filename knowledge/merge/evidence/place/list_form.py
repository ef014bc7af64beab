"""Formats a text to match its place: as an item of the list there, or like the paragraph that it replaces. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from knowledge.merge.model import Unit
from knowledge.merge.splice import Insertion, PageSplicer
from knowledge.pages.markdown.inline import plain

SORTED_FROM = 3
"""Items that a list must have for its order to count as sorted."""

_ITEM = re.compile(
    r"(?P<indent>[ \t]*)(?:(?P<bullet>[-+*])|(?P<number>\d{1,9})(?P<after>[.)]))(?P<room>[ \t]+|$)(?P<box>\[[ xX]\][ \t]+)?"
)


class ItemForm(NamedTuple):
    """An item taken apart: the characters before its text, its check box with the blank after it, and its text, dedented."""

    indent: str
    bullet: str
    number: int | None
    room: str
    box: str
    text: str


def folded_ends(text: str) -> str:
    """Return `text` with LF line ends and none at its end."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")


def folded_lines(text: str) -> list[str]:
    """Return the lines of `text` without their ends, and without empty ones at both ends of it."""
    return folded_ends(text).split("\n")


def folded_text(text: str) -> str:
    """Return `text` in the form for insertion: LF line ends, and no white space at its end."""
    return folded_ends(text).rstrip(" \t\n")


def bare_text(unit: Unit) -> str:
    """Return the text of a paragraph or an item, without marker and indent.

    Up to three blanks before a line do not count in Markdown; four make it code.
    """
    return _item_of(unit.text).text if unit.kind == "item" else _dedented(folded_ends(unit.text), 3).strip()


def item_number(text: str) -> int | None:
    """Return the number of an item of a numbered list, None for any other text."""
    return _item_of(text).number


def is_done(text: str) -> bool:
    """Return whether an item is a finished task."""
    return _item_of(text).box.strip().casefold() == "[x]"


def in_form_of(old: Unit, new: Unit) -> str:
    """Return the text of `new` in the form of `old`, whose place it takes, with its last line end as `old` had it."""
    ending = old.text[len(old.text.rstrip("\r\n")) :]
    if old.kind == "item":
        mine = _item_of(old.text)
        if new.kind == "item":
            other = _item_of(new.text)
            return _as_item(other.text, mine, box=other.box or mine.box) + ending
        return _as_item(bare_text(new), mine) + ending
    if old.kind == "paragraph":
        indent = old.text[: len(old.text) - len(old.text.lstrip(" "))]
        return "\n".join(indent + line for line in bare_text(new).split("\n")) + ending
    return folded_ends(new.text) + ending


def _item_of(text: str) -> ItemForm:
    """Return the parts of an item; a text that is not one has no marker."""
    folded = folded_ends(text)
    found = _ITEM.match(folded)
    if not found:
        return ItemForm("", "", None, "", "", _dedented(folded, len(folded) - len(folded.lstrip(" "))))
    # Lines that continue an item are indented to the column where its text begins.
    width = found.start("room") - found.start() + len(found["room"].expandtabs(4)) if found["room"] else found.end() + 1
    number = int(found["number"]) if found["number"] else None
    said = _dedented(folded[found.end() :], width)
    return ItemForm(found["indent"], found["bullet"] or found["after"], number, found["room"], found["box"] or "", said)


def _dedented(text: str, columns: int) -> str:
    first, *rest = text.split("\n")
    bare = [line[min(columns, len(line) - len(line.lstrip(" "))) :] for line in rest]
    return "\n".join([first.lstrip(" \t"), *bare])


def _as_item(text: str, like: ItemForm, *, number: int | None = None, box: str | None = None) -> str:
    """Return `text` as an item that looks like `like`."""
    mark = f"{like.number if number is None else number}{like.bullet}" if like.number is not None else like.bullet
    lead = f"{like.indent}{mark}{like.room or ' '}"
    first, *rest = text.split("\n")
    inner = " " * len(lead.expandtabs(4))
    lines = [
        lead + (like.box if box is None else box) + first,
        *(inner + line if line.strip() else line for line in rest),
    ]
    return "\n".join(lines)


class ListForm:
    """A list of a page; decides where a new item goes and how it is written."""

    def __init__(self, splicer: PageSplicer, piece: int) -> None:
        self.splicer = splicer
        self.numbers = [number for number, unit in enumerate(splicer.units) if unit.piece == piece]
        self._items = [_item_of(splicer.units[number].text) for number in self.numbers]
        gaps = [splicer.units[second].line > splicer.last_line(first) + 1 for first, second in pairwise(self.numbers)]
        # Most items have a blank line between them.
        self._loose = sum(gaps) * 2 > len(gaps)
        self._boxed = all(item.box for item in self._items)
        self._numbered = self._items[-1].number is not None
        self._keys = [_sort_key(item.text) for item in self._items]
        self._sorted = (
            not self._numbered
            and len(self._keys) >= SORTED_FROM
            and self._keys == sorted(self._keys)
            # A list of equal items looks sorted, but nobody sorted it.
            and self._keys[0] != self._keys[-1]
        )
        self._added = 0

    def insertions(self, units: Sequence[Unit], *, after: int | None = None) -> list[tuple[int, Insertion]]:
        """Return, by the index of each of `units`, the insertion that makes it an item.

        In a sorted list, the new item goes to its sorted place; in a numbered list, to the end. In any other list, it
        goes after item `after`, or to the end.
        """
        order = list(range(len(units)))
        if self._sorted:
            order.sort(key=lambda at: _sort_key(bare_text(units[at])))
        return [(at, self._insertion(units[at], after)) for at in order]

    def _insertion(self, unit: Unit, after: int | None) -> Insertion:
        text, last = bare_text(unit), self._items[-1]
        box = _item_of(unit.text).box if unit.kind == "item" else ""
        box = box or ("[ ] " if self._boxed else "")
        number: int | None = None
        place = self.numbers[-1] if after is None or after not in self.numbers else after
        if self._numbered:
            self._added += 1
            # Some authors write `1.` before every item and let the renderer count.
            counts = len(self._items) < 2 or self._items[-2].number != last.number
            number, place = (last.number or 0) + (self._added if counts else 0), self.numbers[-1]
        elif self._sorted:
            at = bisect_right(self._keys, _sort_key(text))
            if at == 0:
                first = self.splicer.units[self.numbers[0]].line
                item = _as_item(text, self._items[0], box=box) + ("\n" if self._loose else "")
                return Insertion(first - 1, item, block=False)
            place = self.numbers[at - 1]
        item = _as_item(text, last, number=number, box=box)
        return Insertion(self.splicer.last_line(place), item, block=False, apart=self._loose)


def _sort_key(text: str) -> str:
    return plain(text.split("\n", 1)[0]).casefold()
