"""Joins the changes that two sides made to a sequence of blocks, items or rows. Pure.

A change by one side only is taken. A part that both changed is handed to a function that knows its kind; where that cannot join
the two, our side stays and the difference is reported as a clash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from knowledge.merge.document.units import split_lines
from knowledge.merge.three_way.alignment import BODY, AlignedNode, AlignedVersions
from knowledge.merge.three_way.kinds.other_wordings import are_one_text
from knowledge.merge.three_way.line_join import LineHunk, grouped, hunks_of, matches, span_of


class Clash(NamedTuple):
    """Both sides changed the same part differently. `line` and `section` are where `ours` is, or would be."""

    base: str
    ours: str
    theirs: str
    line: int
    section: tuple[str, ...]


class KeptPart(NamedTuple):
    """A part of the joined sequence, and the index of its part on each side, -1 for none.

    `joined`: it was joined completely from both sides' versions.
    """

    node: AlignedNode
    ours: int = -1
    theirs: int = -1
    joined: bool = False


class PartJoin(NamedTuple):
    """A part that both sides changed, joined: `text` is "" for nothing left, None if the two cannot be joined."""

    text: str | None
    clashes: Sequence[Clash] = ()


class JoinedSequence(NamedTuple):
    """A joined sequence; the gaps between its parts are settled, the one after the last is not."""

    parts: Sequence[AlignedNode]
    clashes: Sequence[Clash]


Join = Callable[[AlignedNode, AlignedNode, AlignedNode], PartJoin]
"""Merges one part, given its base version, ours and theirs."""
Rescue = Callable[[str, str, str], "Sequence[AlignedNode] | None"]
"""A last attempt to merge parts that clash, given their base version, ours and theirs."""


class SequenceMerge:
    """Three versions of a sequence, and their merge. `gap` goes between parts that no side has next to each other."""

    def __init__(self, versions: AlignedVersions, join: Join, *, gap: str = "", rescue: Rescue | None = None) -> None:
        self.base, self.ours, self.theirs, self.to_ours, self.to_theirs = versions
        self.from_ours = {other: at for at, other in enumerate(self.to_ours)}
        self.join, self.gap, self.rescue = join, gap, rescue
        self.kept: list[KeptPart] = []
        self.clashes: list[Clash] = []

    def merged(self) -> JoinedSequence:
        """Return the joined sequence."""
        self.merge()
        return self.result()

    def result(self) -> JoinedSequence:
        """Return the kept parts, each with the blank lines that belong between it and the next."""
        found = [one.node._replace(gap=self._between(one, following)) for one, following in pairwise(self.kept)]
        return JoinedSequence([*found, *(last.node._replace(gap=None) for last in self.kept[-1:])], self.clashes)

    def merge(self) -> None:
        """Settle what is kept and what clashes."""
        mine = _changes(self.base, self.ours, self.to_ours)
        other = _changes(self.base, self.theirs, self.to_theirs)
        at = 0
        for group in grouped(mine, other, partial(self._meets, self.ours), partial(self._meets, self.theirs)):
            self._keep_unchanged(at, group.low)
            self._join_group(*group)
            at = group.high
        self._keep_unchanged(at, len(self.base))
        self._drop_twins()

    def _drop_twins(self) -> None:
        """Drop what theirs added where ours added the same, though not at quite the same place.

        Two hosts that append the same entry to a list, one of them above a line that the other added, mean one entry.
        """
        run: list[KeptPart] = []
        found: list[KeptPart] = []
        for kept in [*self.kept, None]:
            on_both = kept and kept.ours >= 0 and kept.theirs >= 0
            if kept and not (on_both and self.ours[kept.ours].key == self.theirs[kept.theirs].key):
                run.append(kept)
                continue
            own = {(self.ours[one.ours].kind, self.ours[one.ours].key) for one in run if one.ours >= 0}
            found += [one for one in run if one.ours >= 0 or (one.node.kind, one.node.key) not in own]
            found += [kept] if kept else []
            run = []
        self.kept = found

    def _meets(
        self, side: Sequence[AlignedNode], low: int, high: int, hunk: LineHunk, others: Sequence[LineHunk]
    ) -> bool:
        """Return whether a side's `hunk` is about the same stretch of the base as the changes between `low` and `high`.

        An addition to a section that the other side removed is, too. `others` are the other side's changes in the
        stretch.
        """
        if hunk.start < high or (hunk.start == high == low == hunk.end):
            return True
        if hunk.start != high or hunk.end != high or not others:
            return False
        to_other = self.to_theirs if side is self.ours else self.to_ours
        level = side[hunk.first].level
        for at in range(high - 1, -1, -1):
            # The nearest heading above of a higher level: the section that the addition belongs to.
            if self.base[at].level < level:
                return at >= low and to_other[at] < 0
        return False

    def _keep_unchanged(self, low: int, high: int) -> None:
        for at in range(low, high):
            x, y = self.to_ours[at], self.to_theirs[at]
            ours, theirs = self.ours[x], self.theirs[y]
            # Their keys are equal, but they may be written differently: the side that rewrote it is taken.
            node = theirs if ours.text == self.base[at].text else ours
            self.kept.append(KeptPart(ours._replace(text=node.text), x, y))

    def _join_group(self, low: int, high: int, mine: Sequence[LineHunk], other: Sequence[LineHunk]) -> None:
        """Settle `base[low:high]`, which these changes are about."""
        if not other:
            first, last = span_of(mine, low, high)
            came = {self.to_ours[at]: self.to_theirs[at] for at in range(low, high)}
            self.kept += [KeptPart(self.ours[at], at, came.get(at, -1)) for at in range(first, last)]
        elif not mine:
            first, last = span_of(other, low, high)
            came = {self.to_theirs[at]: self.to_ours[at] for at in range(low, high)}
            self.kept += [KeptPart(self.theirs[at], came.get(at, -1), at) for at in range(first, last)]
        elif low == high:
            self._both_added(mine[0], other[0])
        elif high == low + 1 and self.to_ours[low] >= 0 and self.to_theirs[low] >= 0:
            self._both_edited(low)
        else:
            self._both_changed(low, high, mine, other)

    def _both_added(self, mine: LineHunk, other: LineHunk) -> None:
        """Keep both insertions; common parts appear once, and deeper sections come first, since they belong to the section above."""
        ours, theirs = self.ours[mine.first : mine.last], self.theirs[other.first : other.last]
        start = first = 0
        same = matches([(n.kind, n.key) for n in ours], [(n.kind, n.key) for n in theirs])
        for x, y in [*same, (len(ours), len(theirs))]:
            added = [KeptPart(node, ours=mine.first + start + i) for i, node in enumerate(ours[start:x])]
            others = [KeptPart(node, theirs=other.first + first + i) for i, node in enumerate(theirs[first:y])]
            self.kept += _by_depth(added, self._without_other_wordings(added, others))
            if x < len(ours):
                self.kept.append(KeptPart(ours[x], mine.first + x, other.first + y))
            start, first = x + 1, y + 1

    def _without_other_wordings(self, ours: Sequence[KeptPart], theirs: Sequence[KeptPart]) -> list[KeptPart]:
        """Return what theirs added, without other wordings of what ours added, which become clashes.

        Two people who describe the same thing at one place do not want both descriptions there.
        """
        found: list[KeptPart] = []
        for part in theirs:
            node = part.node
            twin = next((one.node for one in ours if are_one_text(one.node, node)), None)
            if twin is None:
                found.append(part)
            else:
                self.clashes.append(Clash("", twin.text, node.text, twin.line, twin.section))
        return found

    def _both_edited(self, at: int) -> None:
        x, y = self.to_ours[at], self.to_theirs[at]
        base, ours, theirs = self.base[at], self.ours[x], self.theirs[y]
        joined = PartJoin(ours.text) if ours.key == theirs.key else self.join(base, ours, theirs)
        self.clashes += joined.clashes
        if joined.text is None:
            self.clashes.append(Clash(base.text, ours.text, theirs.text, ours.line, ours.section))
        # "" means that each side removed the part of it that the other had left.
        if joined.text != "":
            text = ours.text if joined.text is None else joined.text
            self.kept.append(KeptPart(ours._replace(text=text), x, y, joined.text is not None and not joined.clashes))

    def _both_changed(self, low: int, high: int, mine: Sequence[LineHunk], other: Sequence[LineHunk]) -> None:
        first, last = span_of(mine, low, high)
        start, end = span_of(other, low, high)
        base, ours, theirs = self.base[low:high], self.ours[first:last], self.theirs[start:end]
        if [n.key for n in ours] == [n.key for n in theirs]:
            self.kept += [KeptPart(node, first + i, start + i) for i, node in enumerate(ours)]
            return
        # Each side only removed parts of it.
        if all(hunk.first == hunk.last for hunk in (*mine, *other)):
            return
        # Both removed it. Text that one of them put in its place is dissimilar, so it is an addition and not another version.
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
        line = where.line if where else 1
        if where and first == len(self.ours):
            line += len(split_lines(where.text + (where.gap or "")))
        self.clashes.append(Clash(*texts, line, where.section if where else ()))

    def _between(self, one: KeptPart, following: KeptPart) -> str:
        """Return the blank lines between two kept parts: as on a side where they are neighbours, otherwise as after the first part."""
        ours = self.ours[one.ours].gap if one.ours >= 0 and following.ours == one.ours + 1 else None
        theirs = self.theirs[one.theirs].gap if one.theirs >= 0 and following.theirs == one.theirs + 1 else None
        if ours is not None and theirs is not None:
            # The side that changed the blank lines decides; ours if both did.
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


def _changes(base: Sequence[AlignedNode], side: Sequence[AlignedNode], to: Sequence[int]) -> list[LineHunk]:
    """Return a side's changes; a part that it only edited is a separate change."""
    pairs = [(at, other) for at, other in enumerate(to) if other >= 0]
    edited = [LineHunk(x, x + 1, y, y + 1) for x, y in pairs if base[x].key != side[y].key]
    parted = (part for hunk in hunks_of(pairs, len(base), len(side)) for part in _new_sections_apart(base, side, hunk))
    return sorted([*parted, *edited])


def _new_sections_apart(base: Sequence[AlignedNode], side: Sequence[AlignedNode], hunk: LineHunk) -> Sequence[LineHunk]:
    """Return a change of text as two if sections were added after that text: the other side's additions go between."""
    at = next((at for at in range(hunk.first + 1, hunk.last) if side[at].level < BODY), hunk.last)
    if at == hunk.last or hunk.start == hunk.end or any(node.level < BODY for node in base[hunk.start : hunk.end]):
        return [hunk]
    return [hunk._replace(last=at), LineHunk(hunk.end, hunk.end, at, hunk.last)]


def _by_depth(ours: Sequence[KeptPart], theirs: Sequence[KeptPart]) -> list[KeptPart]:
    """Return the parts that both sides added, each side's in its own order.

    Text comes before new sections, deeper sections before others, and ours first at the same depth.
    """
    entries: list[tuple[int, int, KeptPart]] = []
    for side, added in enumerate((ours, theirs)):
        depth = BODY
        for kept in added:
            # Text below an added heading belongs to it, so it moves with that heading.
            depth = min(depth, kept.node.level)
            entries.append((-depth, side, kept))
    return [kept for _, _, kept in sorted(entries, key=lambda entry: entry[:2])]


def _text(nodes: Sequence[AlignedNode]) -> str:
    return "".join(node.text + (node.gap or "") for node in nodes)
