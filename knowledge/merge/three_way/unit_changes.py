"""How one text of a document differs from another, unit by unit. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from knowledge.merge.document.units import BLANK, units
from knowledge.merge.model import CutDocument, section_name
from knowledge.merge.three_way.alignment import AlignedNode, align
from knowledge.merge.three_way.line_join import common_ends

ChangeKind = Literal["added", "changed", "removed", "moved"]


@dataclass(frozen=True, slots=True)
class UnitChange:
    """A changed unit. `line` counts in the later text, from 1; `text` is the unit there.

    For a removed unit, `text` is the old text, and `line` is where the unit before it begins now.
    """

    section: str
    kind: ChangeKind
    line: int
    text: str


def changes_between(before: CutDocument, after: CutDocument) -> tuple[UnitChange, ...]:
    """Return how `after` differs from `before`, in the order of `after`."""
    # Pieces that are the same at both ends are not compared: an edit of a long page is mostly in one place.
    same, tail = common_ends([piece.text for piece in before.pieces], [piece.text for piece in after.pieces])
    olds, news = _nodes(before, same, tail), _nodes(after, same, tail)
    to = align(olds, news)
    came = {other: at for at, other in enumerate(to) if other >= 0}
    away = Counter(node.key for node, other in zip(olds, to, strict=True) if other < 0)
    moved = away & Counter(node.key for at, node in enumerate(news) if at not in came)
    there = moved.copy()
    found: list[UnitChange] = []
    for at, node in enumerate(news):
        if at not in came:
            found.append(_change(node, "moved" if there[node.key] > 0 else "added", node.line))
            # Counted down: of three new copies only as many were moved here as disappeared elsewhere.
            there[node.key] -= 1
        elif olds[came[at]].key != node.key:
            found.append(_change(node, "changed", node.line))
    line = after.pieces[same].line if same < len(after.pieces) else 1
    for node, other in zip(olds, to, strict=True):
        if other >= 0:
            line = news[other].line
        elif moved[node.key] > 0:
            moved[node.key] -= 1
        else:
            found.append(_change(node, "removed", line))
    return tuple(sorted(found, key=lambda change: change.line))


def _nodes(document: CutDocument, same: int, tail: int) -> list[AlignedNode]:
    pieces = document.pieces[same : len(document.pieces) - tail]
    return [
        AlignedNode(unit.kind, unit.text, None, unit.text.strip(BLANK), unit.line, unit.section)
        for unit in units(CutDocument("", pieces))
    ]


def _change(node: AlignedNode, kind: ChangeKind, line: int) -> UnitChange:
    return UnitChange(section_name(node.section), kind, line, node.text)
