"""Joining two versions of a list by its items, and of an item by what is in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from knowledge.merge.document.units import bare, item_starts, split_lines, starts_of
from knowledge.merge.three_way.alignment import AlignedNode, likeness
from knowledge.merge.three_way.kinds.prose import joined_text
from knowledge.merge.three_way.moves import followed
from knowledge.merge.three_way.sequence import Inner, Sequences, in_sequence
from knowledge.pages.markdown.blocks import scan

DEEPEST = 10
"""Lists inside lists that are joined by items; what is nested deeper is joined by lines."""

_ITEM = re.compile(r"([ \t]*)([-+*]|(\d{1,9})([.)]))([ \t]+|(?=[\r\n])|$)(\[[^\]\r\n]\][ \t]+)?")
_BLANK = " \t\r\n"


class ListItem(NamedTuple):
    """An item taken apart: its marker, with `number` -1 where it has none, the blanks after it, its check box, what it says."""

    indent: str
    marker: str
    number: int
    room: str
    box: str
    body: str


def joined_list(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode, indent: int = 0, depth: int = 0) -> Inner:
    """Return what both sides made of a list: items that one side changed, added or took away, nested ones too."""
    if depth == DEEPEST:
        return Inner(joined_text(base.text, ours.text, theirs.text))
    versions = [_items(node, indent) for node in (base, ours, theirs)]
    nodes = followed(versions[0], versions[1], versions[2], _alike)

    def join(one: AlignedNode, mine: AlignedNode, other: AlignedNode) -> Inner:
        return joined_item(one, mine, other, depth)

    merged = in_sequence(nodes, join, gap=_usual_gap(versions[1])).merged()
    texts = _renumbered([part.text for part in merged.parts], versions)
    gaps = [part.gap or "" for part in merged.parts]
    return Inner("".join(text + space for text, space in zip(texts, gaps, strict=True)), merged.clashes)


def joined_item(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode, depth: int) -> Inner:
    """Return what both sides made of one item."""
    b, o, t = (_taken_apart(node.text) for node in (base, ours, theirs))
    if b is None or o is None or t is None or not b.indent == o.indent == t.indent:
        return Inner(None)
    marker = _of_three(b.marker, o.marker, t.marker)
    room = _of_three(b.room, o.room, t.room)
    box = _of_three(b.box, o.box, t.box)
    if b.number >= 0 and o.number >= 0 and t.number >= 0:
        marker = o.marker
    if marker is None or room is None or box is None:
        return Inner(None)
    prefix = o.indent + marker + room + box
    if t.body in (o.body, b.body):
        return Inner(prefix + o.body)
    if o.body == b.body:
        return Inner(prefix + t.body)
    inside = _content(o)
    x, y, z = (_parts(item.body, inside, node) for item, node in ((b, base), (o, ours), (t, theirs)))

    def join(one: AlignedNode, mine: AlignedNode, other: AlignedNode) -> Inner:
        return _joined_part(one, mine, other, inside, depth)

    merged = Sequences(x, y, z, join=join, gap="").merged()
    return Inner(prefix + "".join(part.text + (part.gap or "") for part in merged.parts), merged.clashes)


def _joined_part(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode, indent: int, depth: int) -> Inner:
    """Return what both sides made of a block inside an item."""
    if not base.kind == ours.kind == theirs.kind:
        return Inner(None)
    if base.kind == "list":
        return joined_list(base, ours, theirs, indent, depth + 1)
    if base.kind == "paragraph":
        return Inner(joined_text(base.text, ours.text, theirs.text))
    return Inner(None)


def _items(node: AlignedNode, indent: int) -> list[AlignedNode]:
    lines = split_lines(node.text)
    starts = item_starts([_dedented(bare(line), indent) for line in lines]) if indent else starts_of(node.text)
    found: list[AlignedNode] = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        last = end
        while last > start + 1 and not lines[last - 1].strip(_BLANK):
            last -= 1
        text = "".join(lines[start:last])
        gap = None if end == len(lines) else "".join(lines[last:end])
        found.append(AlignedNode("item", text, gap, _key(text), node.line + start, node.section))
    return found


def _key(text: str) -> str:
    """Return an item without its number, which says only where it stands."""
    found = _ITEM.match(text)
    return found[1] + found[4] + text[found.end(2) :] if found and found[3] else text


def _alike(one: AlignedNode, other: AlignedNode) -> float:
    """Return how alike two items are; what is nested in them counts less than their own first line."""
    head = likeness(_head(one), _head(other))
    return max(head, likeness(one, other))


def _head(node: AlignedNode) -> AlignedNode:
    text = node.key.split("\n", 1)[0]
    return node._replace(key=text)


def _taken_apart(text: str) -> ListItem | None:
    found = _ITEM.match(text)
    if not found:
        return None
    number = int(found[3]) if found[3] else -1
    return ListItem(found[1], found[2], number, found[5], found[6] or "", text[found.end() :])


def _content(item: ListItem) -> int:
    """Return the column in which the content of an item begins."""
    before = (item.indent + item.marker).expandtabs(4)
    whole = (item.indent + item.marker + item.room).expandtabs(4)
    return len(whole) if 0 < len(whole) - len(before) <= 4 else len(before) + 1


def _parts(body: str, indent: int, node: AlignedNode) -> list[AlignedNode]:
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


def _usual_gap(items: Sequence[AlignedNode]) -> str:
    gaps = [item.gap for item in items if item.gap is not None]
    loose = [gap for gap in gaps if gap]
    return loose[0] if 2 * len(loose) > len(gaps) else ""


def _renumbered(texts: Sequence[str], versions: Sequence[Sequence[AlignedNode]]) -> list[str]:
    """Return the items counted through again if ours are; a number that would grow by a digit over nested lines stays."""
    before = [[item.number for node in nodes if (item := _taken_apart(node.text))] for nodes in versions[:2]]
    numbers = before[1]
    if max(map(len, before)) < 2 or not all(_is_count(some) for some in before):
        return list(texts)
    found: list[str] = []
    for number, text in enumerate(texts, numbers[0]):
        at = _ITEM.match(text)
        if not at or not at[3]:
            return list(texts)
        marker = f"{number}{at[4]}"
        if len(marker) != len(at[2]) and len(split_lines(text)) > 1:
            return list(texts)
        found.append(at[1] + marker + text[at.end(2) :])
    return found


def _is_count(numbers: Sequence[int]) -> bool:
    return bool(numbers) and numbers[0] >= 0 and list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))


def _of_three(base: str, ours: str, theirs: str) -> str | None:
    if theirs in (ours, base):
        return ours
    return theirs if ours == base else None
