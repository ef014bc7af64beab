"""Writing what a text says in the form of the place it goes to: as an item of that list, as that paragraph. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from knowledge.merge.model import Unit
from knowledge.merge.splice import Insertion, SplicedPage
from knowledge.pages.markdown.inline import plain

SORTED_FROM = 3
"""Items that a list has at least if their order is to mean something."""

_ITEM = re.compile(
    r"(?P<indent>[ \t]*)(?:(?P<bullet>[-+*])|(?P<number>\d{1,9})(?P<after>[.)]))(?P<room>[ \t]+|$)(?P<box>\[[ xX]\][ \t]+)?"
)


class RephrasedItem(NamedTuple):
    """An item taken apart: what stands before its text, its check box with the blank after it, and its text, dedented."""

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
    """Return `text` as it is put in: LF line ends, none at its end."""
    return folded_ends(text).rstrip(" \t\n")


def item_of(text: str) -> RephrasedItem:
    """Return the parts of an item; a text that is none has no marker."""
    folded = folded_ends(text)
    found = _ITEM.match(folded)
    if not found:
        return RephrasedItem("", "", None, "", "", _dedented(folded, len(folded) - len(folded.lstrip(" "))))
    width = found.start("room") - found.start() + len(found["room"].expandtabs(4)) if found["room"] else found.end() + 1
    marker = found["bullet"] or found["after"]
    number = int(found["number"]) if found["number"] else None
    return RephrasedItem(
        found["indent"], marker, number, found["room"], found["box"] or "", _dedented(folded[found.end() :], width)
    )


def bare_text(unit: Unit) -> str:
    """Return what a paragraph or an item says, without marker and indent."""
    return item_of(unit.text).text if unit.kind == "item" else _dedented(folded_ends(unit.text), 3).strip()


def _dedented(text: str, columns: int) -> str:
    first, *rest = text.split("\n")
    bare = [line[min(columns, len(line) - len(line.lstrip(" "))) :] for line in rest]
    return "\n".join([first.lstrip(" \t"), *bare])


def as_item(text: str, like: RephrasedItem, *, number: int | None = None, box: str | None = None) -> str:
    """Return `text` as an item that looks like `like`."""
    mark = f"{like.number if number is None else number}{like.bullet}" if like.number is not None else like.bullet
    room = like.room or " "
    shown = like.box if box is None else box
    lead = f"{like.indent}{mark}{room}"
    first, *rest = text.split("\n")
    return "\n".join(
        [f"{lead}{shown}{first}", *(" " * len(lead.expandtabs(4)) + line if line.strip() else line for line in rest)]
    )


def in_form_of(old: Unit, new: Unit) -> str:
    """Return what `new` says as the text that takes the place of `old`, its last line end as `old` had it."""
    ending = old.text[len(old.text.rstrip("\r\n")) :]
    if old.kind == "item":
        mine, other = item_of(old.text), item_of(new.text)
        if new.kind == "item":
            return as_item(other.text, mine, box=other.box or mine.box) + ending
        return as_item(bare_text(new), mine) + ending
    if old.kind == "paragraph":
        indent = old.text[: len(old.text) - len(old.text.lstrip(" "))]
        return "\n".join(indent + line for line in bare_text(new).split("\n")) + ending
    return folded_ends(new.text) + ending


class ListForm:
    """A list of a page, and where and how a new item joins it."""

    def __init__(self, ground: SplicedPage, piece: int) -> None:
        self.ground = ground
        self.numbers = [number for number, unit in enumerate(ground.units) if unit.piece == piece]
        self.items = [item_of(ground.units[number].text) for number in self.numbers]
        spaced = [ground.units[second].line > ground.last_line(first) + 1 for first, second in pairwise(self.numbers)]
        self.loose = bool(spaced) and sum(spaced) * 2 > len(spaced)
        self.ordered = self.items[-1].number is not None
        self.boxes = all(item.box for item in self.items)
        keys = [_sort_key(item.text) for item in self.items]
        self.is_sorted = (
            not self.ordered
            and len(keys) >= SORTED_FROM
            and all(first <= second for first, second in pairwise(keys))
            and keys[0] != keys[-1]
        )
        self._keys = keys
        self._added = 0

    def puts(self, units: Sequence[Unit], *, after: int | None = None) -> list[tuple[int, Insertion]]:
        """Return, by the index of each of `units`, the lines that make it an item: sorted in, after item `after`, or at the end."""
        order = list(range(len(units)))
        if self.is_sorted:
            order.sort(key=lambda at: _sort_key(bare_text(units[at])))
        return [(at, self._put(units[at], after)) for at in order]

    def _put(self, unit: Unit, after: int | None) -> Insertion:
        text, box = bare_text(unit), item_of(unit.text).box if unit.kind == "item" else ""
        last = self.items[-1]
        box = box or ("[ ] " if self.boxes else "")
        if self.ordered:
            self._added += 1
            # `1.` before every item is how some write a list that counts itself.
            counts = len(self.items) < 2 or self.items[-2].number != last.number
            number = (last.number or 0) + (self._added if counts else 0)
            return Insertion(
                self.ground.last_line(self.numbers[-1]),
                as_item(text, last, number=number, box=box),
                block=False,
                apart=self.loose,
            )
        if self.is_sorted:
            key = _sort_key(text)
            at = sum(other <= key for other in self._keys)
            if at == 0:
                first = self.ground.units[self.numbers[0]].line
                return Insertion(
                    first - 1, as_item(text, self.items[0], box=box) + ("\n" if self.loose else ""), block=False
                )
            return Insertion(
                self.ground.last_line(self.numbers[at - 1]), as_item(text, last, box=box), block=False, apart=self.loose
            )
        place = self.numbers[-1] if after is None or after not in self.numbers else after
        return Insertion(self.ground.last_line(place), as_item(text, last, box=box), block=False, apart=self.loose)


def _sort_key(text: str) -> str:
    return plain(text.split("\n", 1)[0]).casefold()
