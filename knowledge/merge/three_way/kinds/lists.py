"""Joins two versions of a list item by item, and of an item block by block. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from knowledge.merge.document.units import (
    bare,
    item_starts,
    item_starts_in,
    split_lines,
    without_last_blanks,
)
from knowledge.merge.three_way.alignment import AlignedNode, align_versions, likeness
from knowledge.merge.three_way.kinds.prose import join_text
from knowledge.merge.three_way.moves import follow_moves
from knowledge.merge.three_way.sequence import PartJoin, SequenceMerge
from knowledge.pages.markdown.blocks import scan

DEEPEST = 10
"""Nested lists that are joined by items; deeper ones are joined by lines, so that a hostile page cannot exhaust the stack."""

_ITEM = re.compile(r"([ \t]*)([-+*]|(\d{1,9})([.)]))([ \t]+|(?=[\r\n])|$)(\[[^\]\r\n]\][ \t]+)?")


class ListItem(NamedTuple):
    """An item taken apart: marker, number (-1 if it has none), the blanks after the marker, check box, and content."""

    indent: str
    marker: str
    number: int
    room: str
    box: str
    body: str

    @property
    def column(self) -> int:
        """The column in which its content begins."""
        before = len((self.indent + self.marker).expandtabs(4))
        after = len((self.indent + self.marker + self.room).expandtabs(4))
        return after if 0 < after - before <= 4 else before + 1


def join_list(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode, indent: int = 0, depth: int = 0) -> PartJoin:
    """Return the merged list, with the items that either side changed, added or removed, also in nested lists."""
    if depth == DEEPEST:
        return PartJoin(join_text(base.text, ours.text, theirs.text))
    b, o, t = (_items(node, indent) for node in (base, ours, theirs))

    def join(one: AlignedNode, mine: AlignedNode, other: AlignedNode) -> PartJoin:
        return _join_item(one, mine, other, depth)

    gaps = [item.gap for item in o if item.gap is not None]
    loose = [gap for gap in gaps if gap]
    usual_gap = loose[0] if 2 * len(loose) > len(gaps) else ""
    merged = SequenceMerge(follow_moves(b, o, t, _likeness), join, gap=usual_gap).merged()
    texts = _renumbered([part.text for part in merged.parts], (b, o, t))
    text = "".join(item + (part.gap or "") for item, part in zip(texts, merged.parts, strict=True))
    return PartJoin(text, merged.clashes)


def _join_item(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode, depth: int) -> PartJoin:
    """Return the merge of one item."""
    b, o, t = (_taken_apart(node.text) for node in (base, ours, theirs))
    if b is None or o is None or t is None or not b.indent == o.indent == t.indent:
        return PartJoin(None)
    marker = _of_three(b.marker, o.marker, t.marker)
    room = _of_three(b.room, o.room, t.room)
    box = _of_three(b.box, o.box, t.box)
    if b.number >= 0 and o.number >= 0 and t.number >= 0:
        # Two numbers for one item come from items above it; the list is renumbered afterwards.
        marker = o.marker
    if marker is None or room is None or box is None:
        return PartJoin(None)
    prefix = o.indent + marker + room + box
    if t.body in (o.body, b.body):
        return PartJoin(prefix + o.body)
    if o.body == b.body:
        return PartJoin(prefix + t.body)
    x, y, z = (_blocks(item.body, o.column, node) for item, node in ((b, base), (o, ours), (t, theirs)))

    def join(one: AlignedNode, mine: AlignedNode, other: AlignedNode) -> PartJoin:
        if one.kind == mine.kind == other.kind == "list":
            return join_list(one, mine, other, o.column, depth + 1)
        if one.kind == mine.kind == other.kind == "paragraph":
            return PartJoin(join_text(one.text, mine.text, other.text))
        return PartJoin(None)

    merged = SequenceMerge(align_versions(x, y, z), join).merged()
    return PartJoin(prefix + "".join(part.text + (part.gap or "") for part in merged.parts), merged.clashes)


def _of_three(base: str, ours: str, theirs: str) -> str | None:
    if theirs in (ours, base):
        return ours
    return theirs if ours == base else None


def _items(node: AlignedNode, indent: int) -> list[AlignedNode]:
    lines = split_lines(node.text)
    starts = item_starts([_dedented(bare(line), indent) for line in lines]) if indent else item_starts_in(node.text)
    found: list[AlignedNode] = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        last = without_last_blanks(lines, start, end)
        text = "".join(lines[start:last])
        gap = None if end == len(lines) else "".join(lines[last:end])
        # The number of an item says only where it is.
        marked = _ITEM.match(text)
        key = marked[1] + marked[4] + text[marked.end(2) :] if marked and marked[3] else text
        found.append(AlignedNode("item", text, gap, key, node.line + start, node.section))
    return found


def _likeness(one: AlignedNode, other: AlignedNode) -> float:
    """Return how alike two items are; what is nested in them counts less than their own first line."""
    whole = likeness(one, other)
    if one.key.count("\n") < 2 and other.key.count("\n") < 2:
        return whole
    mine, yours = (node._replace(key=node.key.split("\n", 1)[0]) for node in (one, other))
    return max(likeness(mine, yours), whole)


def _taken_apart(text: str) -> ListItem | None:
    found = _ITEM.match(text)
    if not found:
        return None
    number = int(found[3]) if found[3] else -1
    return ListItem(found[1], found[2], number, found[5], found[6] or "", text[found.end() :])


def _blocks(body: str, indent: int, node: AlignedNode) -> list[AlignedNode]:
    """Return the blocks inside an item."""
    lines = split_lines(body)
    seen = [bare(line) if at == 0 else _dedented(bare(line), indent) for at, line in enumerate(lines)]
    blocks = scan(seen).blocks
    found: list[AlignedNode] = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        text = "".join(lines[block.start : block.end])
        gap = None if following is None else "".join(lines[block.end : following.start])
        found.append(AlignedNode(block.kind, text, gap, text, node.line + block.start, node.section))
    if found and blocks[0].start:
        # An item may begin with an empty line.
        found[0] = found[0]._replace(text="".join(lines[: blocks[0].start]) + found[0].text)
    return found


def _dedented(line: str, columns: int) -> str:
    if not columns:
        return line
    spread = line.expandtabs(4) if "\t" in line else line
    kept = spread.lstrip(" ")
    return spread[min(columns, len(spread) - len(kept)) :]


def _renumbered(texts: list[str], versions: Sequence[Sequence[AlignedNode]]) -> list[str]:
    """Return the items renumbered in the style of the list, counting up or all alike; the side that changed the style decides.

    They stay as they are in a list of any other style, or if a number would get wider above nested lines.
    """
    numberings = [_numbering(nodes) for nodes in versions]
    base, ours, theirs = numberings
    chosen = ours if theirs in (ours, base) or ours != base else theirs
    if chosen is None:
        return texts
    first, step = chosen
    found: list[str] = []
    for at, text in enumerate(texts):
        item = _ITEM.match(text)
        if not item or not item[3]:
            return texts
        marker = f"{first + at * step}{item[4]}"
        # A wider marker moves the column of the content, and nested lines would fall out of the item.
        if len(marker) != len(item[2]) and len(split_lines(text)) > 1:
            return texts
        found.append(item[1] + marker + text[item.end(2) :])
    return found


def _numbering(nodes: Sequence[AlignedNode]) -> tuple[int, int] | None:
    """Return the first number of a list and the step to the next, 1 or 0; None for any other list."""
    numbers = [item.number for node in nodes if (item := _taken_apart(node.text))]
    if not numbers or numbers[0] < 0:
        return None
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    # One item alone may begin either kind; most lists count.
    return (numbers[0], steps.pop() if steps else 1) if steps in ({0}, {1}, set()) else None
