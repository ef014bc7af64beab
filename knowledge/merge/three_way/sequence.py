"""Joining what two sides made of a sequence of blocks, items or rows. Pure.

What only one side changed is taken, what both changed is handed to who knows the kind; what cannot be joined stays as it is
on our side and is told as a clash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from knowledge.merge.three_way.alignment import BODY, AlignedNode, Likeness, align, likeness
from knowledge.merge.three_way.line_join import LineHunk, grouped, hunks_of, matches
from knowledge.merge.three_way.moves import Followed


class Clash(NamedTuple):
    """Both sides changed the same. `line` and `section` are where `ours` is, or would be."""

    base: str
    ours: str
    theirs: str
    line: int
    section: tuple[str, ...]


class KeptPart(NamedTuple):
    """A part of the joined sequence, and which part of each side it comes from, -1 for none.

    `joined` tells whether it was put together from what both sides made of it, with nothing left over.
    """

    node: AlignedNode
    ours: int = -1
    theirs: int = -1
    joined: bool = False


class Inner(NamedTuple):
    """What became of one part that both sides changed: "" for nothing, None for `text` if that cannot be said."""

    text: str | None
    clashes: Sequence[Clash] = ()


class Joint(NamedTuple):
    """A joined sequence; the gaps between its parts are settled, that after the last is not."""

    parts: Sequence[AlignedNode]
    clashes: Sequence[Clash]


Join = Callable[[AlignedNode, AlignedNode, AlignedNode], Inner]
Rescue = Callable[[str, str, str], "Sequence[AlignedNode] | None"]
"""A last try at what clashes: base, ours, theirs."""


@dataclass(slots=True)
class Sequences:
    """Three versions of a sequence. `gap` is what goes between parts that no side has next to each other."""

    base: Sequence[AlignedNode]
    ours: Sequence[AlignedNode]
    theirs: Sequence[AlignedNode]
    join: Join
    gap: str
    alike: Likeness = likeness
    rescue: Rescue | None = None
    kept: list[KeptPart] = field(default_factory=list)
    clashes: list[Clash] = field(default_factory=list)
    to_ours: list[int] = field(default_factory=list)
    to_theirs: list[int] = field(default_factory=list)
    from_ours: dict[int, int] = field(default_factory=dict)

    def merged(self) -> Joint:
        """Return the joined sequence."""
        self.merge()
        return self.joint()

    def joint(self) -> Joint:
        """Return what is kept, each with the blank lines that belong between it and the next."""
        found = [one.node._replace(gap=self._between(one, following)) for one, following in pairwise(self.kept)]
        return Joint([*found, *(last.node._replace(gap=None) for last in self.kept[-1:])], self.clashes)

    def merge(self) -> None:
        """Settle what is kept and what clashes."""
        self.to_ours = self.to_ours or align(self.base, self.ours, self.alike)
        self.to_theirs = self.to_theirs or align(self.base, self.theirs, self.alike)
        self.from_ours = {other: at for at, other in enumerate(self.to_ours)}
        mine = _changes(self.base, self.ours, self.to_ours)
        other = _changes(self.base, self.theirs, self.to_theirs)
        at = 0
        for group in grouped(mine, other, partial(self._meets, self.ours), partial(self._meets, self.theirs)):
            self._unchanged(at, group.low)
            self._group(*group)
            at = group.high
        self._unchanged(at, len(self.base))
        self._once()

    def _once(self) -> None:
        """Leave out what theirs added where ours added the same, though not at quite the same place."""
        run: list[KeptPart] = []
        found: list[KeptPart] = []
        for kept in [*self.kept, None]:
            if kept and not self._is_same(kept):
                run.append(kept)
                continue
            own = {(self.ours[one.ours].kind, self.ours[one.ours].key) for one in run if one.ours >= 0}
            found += [one for one in run if one.ours >= 0 or (one.node.kind, one.node.key) not in own]
            found += [kept] if kept else []
            run = []
        self.kept = found

    def _is_same(self, kept: KeptPart) -> bool:
        return kept.ours >= 0 and kept.theirs >= 0 and self.ours[kept.ours].key == self.theirs[kept.theirs].key

    def _meets(
        self, side: Sequence[AlignedNode], low: int, high: int, hunk: LineHunk, others: Sequence[LineHunk]
    ) -> bool:
        """Return whether a side's `hunk` changes what was changed between `low` and `high`.

        So does what it adds to a section that the other side, whose changes there are `others`, took out.
        """
        if hunk.start < high or (hunk.start == high == low == hunk.end):
            return True
        if hunk.start != high or hunk.end != high or not others:
            return False
        to_other = self.to_theirs if side is self.ours else self.to_ours
        level = side[hunk.first].level
        for at in range(high - 1, -1, -1):
            if self.base[at].level < level:
                return at >= low and to_other[at] < 0
        return False

    def _unchanged(self, low: int, high: int) -> None:
        for at in range(low, high):
            x, y = self.to_ours[at], self.to_theirs[at]
            ours, theirs = self.ours[x], self.theirs[y]
            # The same to both, though they may be written differently.
            node = theirs if ours.text == self.base[at].text else ours
            self.kept.append(KeptPart(ours._replace(text=node.text), x, y))

    def _group(self, low: int, high: int, mine: Sequence[LineHunk], other: Sequence[LineHunk]) -> None:
        """Settle `base[low:high]`, which these changes are about."""
        if not other:
            self._one_side(low, high, mine, ours=True)
        elif not mine:
            self._one_side(low, high, other, ours=False)
        elif low == high:
            self._both_added(mine[0], other[0])
        elif high == low + 1 and self.to_ours[low] >= 0 and self.to_theirs[low] >= 0:
            self._both_edited(low)
        else:
            self._both(low, high, mine, other)

    def _one_side(self, low: int, high: int, changed: Sequence[LineHunk], *, ours: bool) -> None:
        other = self.to_theirs if ours else self.to_ours
        first, last = _span(changed, low, high)
        came = {(self.to_ours if ours else self.to_theirs)[at]: other[at] for at in range(low, high)}
        for at in range(first, last):
            node, there = (self.ours if ours else self.theirs)[at], came.get(at, -1)
            self.kept.append(KeptPart(node, at, there) if ours else KeptPart(node, there, at))

    def _both_added(self, mine: LineHunk, other: LineHunk) -> None:
        """Keep both insertions: what both have once, deeper sections first, as they belong to what stands above."""
        ours, theirs = self.ours[mine.first : mine.last], self.theirs[other.first : other.last]
        start = first = 0
        same = matches([(n.kind, n.key) for n in ours], [(n.kind, n.key) for n in theirs])
        for x, y in [*same, (len(ours), len(theirs))]:
            added = [KeptPart(node, ours=mine.first + start + i) for i, node in enumerate(ours[start:x])]
            others = [KeptPart(node, theirs=other.first + first + i) for i, node in enumerate(theirs[first:y])]
            self.kept += _by_depth(added, others)
            if x < len(ours):
                self.kept.append(KeptPart(ours[x], mine.first + x, other.first + y))
            start, first = x + 1, y + 1

    def _both_edited(self, at: int) -> None:
        x, y = self.to_ours[at], self.to_theirs[at]
        base, ours, theirs = self.base[at], self.ours[x], self.theirs[y]
        inner = Inner(ours.text) if ours.key == theirs.key else self.join(base, ours, theirs)
        self.clashes += inner.clashes
        if inner.text is None:
            self.clashes.append(Clash(base.text, ours.text, theirs.text, ours.line, ours.section))
        # Each side took away the rest of what the other took away.
        if inner.text != "":
            text = ours.text if inner.text is None else inner.text
            self.kept.append(KeptPart(ours._replace(text=text), x, y, inner.text is not None and not inner.clashes))

    def _both(self, low: int, high: int, mine: Sequence[LineHunk], other: Sequence[LineHunk]) -> None:
        first, last = _span(mine, low, high)
        start, end = _span(other, low, high)
        base, ours, theirs = self.base[low:high], self.ours[first:last], self.theirs[start:end]
        if [n.key for n in ours] == [n.key for n in theirs]:
            self.kept += [KeptPart(node, first + i, start + i) for i, node in enumerate(ours)]
            return
        # Neither did more than take out, each some of it.
        if all(hunk.first == hunk.last for hunk in (*mine, *other)):
            return
        # Both took it out; what one of them put there is not alike, so it is something else.
        gone = all(self.to_ours[at] < 0 and self.to_theirs[at] < 0 for at in range(low, high))
        if gone and not (ours and theirs):
            self.kept += [KeptPart(node, ours=first + i) for i, node in enumerate(ours)]
            self.kept += [KeptPart(node, theirs=start + i) for i, node in enumerate(theirs)]
            return
        texts = _text(base), _text(ours), _text(theirs)
        rescued = self.rescue(*texts) if self.rescue else None
        if rescued is not None:
            self.kept += [KeptPart(node) for node in rescued]
            return
        self.kept += [KeptPart(node, first + i) for i, node in enumerate(ours)]
        where = self.ours[min(first, len(self.ours) - 1)] if self.ours else None
        self.clashes.append(Clash(*texts, where.line if where else 1, where.section if where else ()))

    def _between(self, one: KeptPart, following: KeptPart) -> str:
        ours = self.ours[one.ours].gap if one.ours >= 0 and following.ours == one.ours + 1 else None
        theirs = self.theirs[one.theirs].gap if one.theirs >= 0 and following.theirs == one.theirs + 1 else None
        if ours is not None and theirs is not None:
            at = self.from_ours.get(one.ours, -1)
            return theirs if at >= 0 and self.to_theirs[at] == one.theirs and self.base[at].gap == ours else ours
        if ours is not None:
            return ours
        if theirs is not None:
            return theirs
        if one.ours < 0 and one.theirs < 0 and one.node.gap:
            return one.node.gap
        had = (self.ours[one.ours].gap if one.ours >= 0 else None) or (
            self.theirs[one.theirs].gap if one.theirs >= 0 else None
        )
        return had or self.gap


def in_sequence(nodes: Followed, join: Join, *, gap: str, rescue: Rescue | None = None) -> Sequences:
    """Return the three versions, with what was moved in its new place, ready to be merged."""
    return Sequences(
        nodes.base,
        nodes.ours,
        nodes.theirs,
        join=join,
        gap=gap,
        rescue=rescue,
        to_ours=nodes.to_ours,
        to_theirs=nodes.to_theirs,
    )


def _changes(base: Sequence[AlignedNode], side: Sequence[AlignedNode], to: Sequence[int]) -> list[LineHunk]:
    """Return what a side changed; a part that it only edited is a change of its own."""
    pairs = [(at, other) for at, other in enumerate(to) if other >= 0]
    edited = [LineHunk(x, x + 1, y, y + 1) for x, y in pairs if base[x].key != side[y].key]
    return sorted([*hunks_of(pairs, len(base), len(side)), *edited])


def _span(changed: Sequence[LineHunk], low: int, high: int) -> tuple[int, int]:
    """Return where a side has what became of `base[low:high]`, given its changes in there."""
    return changed[0].first - (changed[0].start - low), changed[-1].last + (high - changed[-1].end)


def _by_depth(ours: Sequence[KeptPart], theirs: Sequence[KeptPart]) -> list[KeptPart]:
    """Return both in their orders: text before new sections, deeper sections before others, ours first where it is all the same."""
    return [kept for _, _, kept in sorted([*_depths(ours, 0), *_depths(theirs, 1)], key=lambda entry: entry[:2])]


def _depths(added: Sequence[KeptPart], side: int) -> list[tuple[int, int, KeptPart]]:
    depth = BODY
    found: list[tuple[int, int, KeptPart]] = []
    for kept in added:
        depth = min(depth, kept.node.level)
        found.append((-depth, side, kept))
    return found


def _text(nodes: Sequence[AlignedNode]) -> str:
    return "".join(node.text + (node.gap or "") for node in nodes)
