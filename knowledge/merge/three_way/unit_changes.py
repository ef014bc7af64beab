"""How one text of a document differs from another, unit by unit. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from knowledge.merge.document.units import units
from knowledge.merge.model import CutDocument, Unit, section_name
from knowledge.merge.three_way.alignment import AlignedNode, align

ChangeKind = Literal["added", "changed", "removed", "moved"]

_BLANK = " \t\r\n"


@dataclass(frozen=True, slots=True)
class UnitChange:
    """One unit that is not what it was. `line` counts in the later text, from 1; `text` is the unit there.

    Of what was removed `text` is the old one, and `line` where the unit before it begins now.
    """

    section: str
    kind: ChangeKind
    line: int
    text: str


def changes_between(before: CutDocument, after: CutDocument) -> tuple[UnitChange, ...]:
    """Return how `after` differs from `before`, in the order of `after`."""
    same, tail = _alike_ends(before, after)
    old = units(CutDocument("", before.pieces[same : len(before.pieces) - tail]))
    new = units(CutDocument("", after.pieces[same : len(after.pieces) - tail]))
    olds, news = _nodes(old), _nodes(new)
    to = align(olds, news)
    came = {other: at for at, other in enumerate(to) if other >= 0}
    away = Counter(node.key for node, other in zip(olds, to, strict=True) if other < 0)
    moved = away & Counter(node.key for at, node in enumerate(news) if at not in came)
    there = moved.copy()
    found: list[UnitChange] = []
    for at, (unit, node) in enumerate(zip(new, news, strict=True)):
        if at not in came:
            kind: ChangeKind = "moved" if there[node.key] > 0 else "added"
            there[node.key] -= 1
            found.append(_change(unit, kind, unit.line))
        elif olds[came[at]].key != node.key:
            found.append(_change(unit, "changed", unit.line))
    line = after.pieces[same].line if same < len(after.pieces) else 1
    for unit, node, other in zip(old, olds, to, strict=True):
        if other >= 0:
            line = new[other].line
        elif moved[node.key] > 0:
            moved[node.key] -= 1
        else:
            found.append(_change(unit, "removed", line))
    return tuple(sorted(found, key=lambda change: change.line))


def _alike_ends(before: CutDocument, after: CutDocument) -> tuple[int, int]:
    """Return how many pieces are the same at the beginning, and at the end."""
    most = min(len(before.pieces), len(after.pieces))
    same = tail = 0
    while same < most and before.pieces[same].text == after.pieces[same].text:
        same += 1
    while tail < most - same and before.pieces[-1 - tail].text == after.pieces[-1 - tail].text:
        tail += 1
    return same, tail


def _nodes(of: Sequence[Unit]) -> list[AlignedNode]:
    return [AlignedNode(unit.kind, unit.text, None, unit.text.strip(_BLANK), unit.line, unit.section) for unit in of]


def _change(unit: Unit, kind: ChangeKind, line: int) -> UnitChange:
    return UnitChange(section_name(unit.section), kind, line, unit.text)
