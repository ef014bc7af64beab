"""Compares two sequences, and joins the changes that two sides made to one. Pure, and close to linear for any input.

Sequences are of lines, or of anything else that has a key. First, the anchors are matched: keys that both sides have
once, in their longest common order. Between two anchors, the shortest edit is found; where that would take long, equal
keys are matched in order of appearance. `difflib` is quadratic for repeated lines, of which tables and code are full
(kb/decisions/0022).

Source: Myers, An O(ND) Difference Algorithm (1986); Bram Cohen's patience diff; Khanna, Kunal, Pierce, A Formal
Investigation of Diff3 (2007).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

MOST_STEPS = 60_000
"""Steps of the exact search between two anchors before the quick way is taken."""


class LineHunk(NamedTuple):
    """`base[start:end]` became `side[first:last]`."""

    start: int
    end: int
    first: int
    last: int


class JoinedLines(NamedTuple):
    """A stretch of a joined sequence. In a clash, `lines` are ours; the base and the other side are given too."""

    lines: Sequence[str]
    clash: bool = False
    base: Sequence[str] = ()
    theirs: Sequence[str] = ()


def matches(base: Sequence[Hashable], side: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of indexes of equal elements, increasing on both sides."""
    same = 0
    for one, other in zip(base, side, strict=False):
        if one != other:
            break
        same += 1
    found = [(at, at) for at in range(same)]
    if same == len(base) or same == len(side):
        return found
    # Small numbers in place of keys: long lines are compared once, not at every step.
    ids: dict[Hashable, int] = {}
    # The common beginning is matched already: placeholders only keep the indexes right.
    a = [-1] * same + [ids.setdefault(key, len(ids)) for key in base[same:]]
    b = [-1] * same + [ids.setdefault(key, len(ids)) for key in side[same:]]
    work = [LineHunk(same, len(a), same, len(b))]
    while work:
        low, high, first, last = work.pop()
        while low < high and first < last and a[low] == b[first]:
            found.append((low, first))
            low, first = low + 1, first + 1
        while low < high and first < last and a[high - 1] == b[last - 1]:
            high, last = high - 1, last - 1
            found.append((high, last))
        if low == high or first == last:
            continue
        left = LineHunk(low, high, first, last)
        anchors = _anchors(a, b, left)
        if not anchors:
            found += _between(a, b, left)
            continue
        for x, y in [*anchors, (high, last)]:
            work.append(LineHunk(low, x, first, y))
            low, first = x + 1, y + 1
        found += anchors
    found.sort()
    return found


def common_ends(base: Sequence[object], side: Sequence[object]) -> tuple[int, int]:
    """Return how many elements are equal at the beginning, and how many of the others at the end."""
    most = min(len(base), len(side))
    same = tail = 0
    while same < most and base[same] == side[same]:
        same += 1
    while tail < most - same and base[-1 - tail] == side[-1 - tail]:
        tail += 1
    return same, tail


def hunks(base: Sequence[Hashable], side: Sequence[Hashable]) -> list[LineHunk]:
    """Return where `side` differs from `base`, in order."""
    return hunks_of(matches(base, side), len(base), len(side))


def hunks_of(pairs: Sequence[tuple[int, int]], length: int, other: int) -> list[LineHunk]:
    """Return the stretches between matched `pairs` of two sequences of these lengths."""
    found: list[LineHunk] = []
    start = first = 0
    for x, y in [*pairs, (length, other)]:
        if x > start or y > first:
            found.append(LineHunk(start, x, first, y))
        start, first = x + 1, y + 1
    return found


class Group(NamedTuple):
    """Changes of two sides that are about the same stretch of the base, from `low` up to `high`."""

    low: int
    high: int
    mine: Sequence[LineHunk]
    other: Sequence[LineHunk]


Meets = Callable[[int, int, LineHunk, Sequence[LineHunk]], bool]
"""Decides whether a change belongs to a group. The arguments are the start and the end of the group's stretch of the
base, the change, and the other side's changes in the group."""


def grouped(
    mine: Sequence[LineHunk], other: Sequence[LineHunk], ours_meet: Meets, theirs_meet: Meets
) -> Iterator[Group]:
    """Yield the changes of two sides in order, with changes that meet in one group."""
    x = y = 0
    while x < len(mine) or y < len(other):
        left, right = x, y
        if y == len(other) or (x < len(mine) and mine[x][:2] <= other[y][:2]):
            low, high, x = mine[x].start, mine[x].end, x + 1
        else:
            low, high, y = other[y].start, other[y].end, y + 1
        # A change that meets the group may make its stretch longer, so that another change of the other side meets it
        # too.
        while True:
            if x < len(mine) and ours_meet(low, high, mine[x], other[right:y]):
                high, x = max(high, mine[x].end), x + 1
            elif y < len(other) and theirs_meet(low, high, other[y], mine[left:x]):
                high, y = max(high, other[y].end), y + 1
            else:
                break
        yield Group(low, high, mine[left:x], other[right:y])


def merge_lines(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str], *, strict: bool = False
) -> list[JoinedLines]:
    """Return the merge of both sides with `base`, in stretches; a clash where they changed the same lines differently.

    Edits that only touch are joined: an insertion before or after lines that the other side changed, and changes of
    neighbouring lines. Two insertions at one place are both kept, ours first, and text that both have is kept once. `strict` requires
    an unchanged line between edits of the two sides.
    """

    def meet(low: int, high: int, hunk: LineHunk, _others: Sequence[LineHunk]) -> bool:
        # Two insertions at one place meet although neither covers a line.
        return hunk.start < high or (hunk.start == high and (strict or low == high == hunk.end))

    parts: list[JoinedLines] = []
    at = 0
    for low, high, mine, other in grouped(hunks(base, ours), hunks(base, theirs), meet, meet):
        if low > at:
            parts.append(JoinedLines(base[at:low]))
        mine_now = ours[slice(*span_of(mine, low, high))] if mine else ()
        other_now = theirs[slice(*span_of(other, low, high))] if other else ()
        if not other or (mine and mine_now == other_now):
            parts.append(JoinedLines(mine_now))
        elif not mine:
            parts.append(JoinedLines(other_now))
        elif low == high and not strict:
            parts.append(JoinedLines(join_insertions(mine_now, other_now)))
        else:
            parts.append(JoinedLines(mine_now, clash=True, base=base[low:high], theirs=other_now))
        at = high
    if at < len(base):
        parts.append(JoinedLines(base[at:]))
    return parts


def joined_lines(parts: Iterable[JoinedLines]) -> list[str] | None:
    """Return the joined sequence, None if anything clashes."""
    lines: list[str] = []
    for part in parts:
        if part.clash:
            return None
        lines += part.lines
    return lines


def join_insertions(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return two insertions at one place as one.

    Lines that both have appear once; of the other lines, ours come before theirs.
    """
    found: list[str] = []
    start = first = 0
    for x, y in [*matches(ours, theirs), (len(ours), len(theirs))]:
        found += ours[start:x]
        found += theirs[first:y]
        found += ours[x : x + 1]
        start, first = x + 1, y + 1
    return found


def span_of(changed: Sequence[LineHunk], low: int, high: int) -> tuple[int, int]:
    """Return the span of a side that corresponds to `base[low:high]`; `changed` are the side's changes there, at least one."""
    return changed[0].first - (changed[0].start - low), changed[-1].last + (high - changed[-1].end)


def _anchors(a: Sequence[int], b: Sequence[int], within: LineHunk) -> list[tuple[int, int]]:
    """Return the keys that both sides have once, as index pairs, in their longest common order."""
    low, high, first, last = within
    here, there = Counter(a[low:high]), Counter(b[first:last])
    where = {key: at for at, key in enumerate(b[first:last], first) if there[key] == 1}
    return _increasing([(x, where[a[x]]) for x in range(low, high) if here[a[x]] == 1 and a[x] in where])


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest selection of `pairs`, sorted by their first, whose seconds increase."""
    # Patience sorting: `tails[n]` is the lowest end of an increasing selection of n + 1 pairs, `ends[n]` the number of its last.
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, y) in enumerate(pairs):
        at = bisect_left(tails, y)
        before.append(ends[at - 1] if at else -1)
        if at == len(tails):
            tails.append(y)
            ends.append(number)
        else:
            tails[at], ends[at] = y, number
    found: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _between(a: Sequence[int], b: Sequence[int], within: LineHunk) -> list[tuple[int, int]]:
    """Return matches of two stretches without anchors: those of a shortest edit, or quick ones where that takes too long."""
    low, high, first, last = within
    found = _shortest(a[low:high], b[first:last])
    if found is None:
        found = _in_order_of_appearance(a[low:high], b[first:last])
    return [(low + x, first + y) for x, y in found]


def _shortest(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return the matches of a shortest edit from `a` to `b`, None if it takes too many steps to find. Source: Myers, section 4."""
    n, m = len(a), len(b)
    # `best[k]` is the furthest x that is reached on the diagonal k = x - y with the edits so far.
    best = {1: 0}
    trace: list[dict[int, int]] = []
    for d in range(n + m + 1):
        # `d` edits take about `d * d` steps: two texts with little in common would take minutes.
        if d * d > MOST_STEPS:
            return None
        trace.append(best)
        now: dict[int, int] = {}
        for k in range(-d, d + 1, 2):
            x = best[k + 1] if k == -d or (k != d and best[k - 1] < best[k + 1]) else best[k - 1] + 1
            y = x - k
            while x < n and y < m and a[x] == b[y]:
                x, y = x + 1, y + 1
            now[k] = x
            if x >= n and y >= m:
                return _walked_back(trace, d, n, m)
        best = now
    return None


def _walked_back(trace: Sequence[dict[int, int]], d: int, x: int, y: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for depth in range(d, -1, -1):
        best = trace[depth]
        k = x - y
        came = k + 1 if k == -depth or (k != depth and best[k - 1] < best[k + 1]) else k - 1
        before_x = best[came]
        before_y = before_x - came
        # Diagonal steps are the matches.
        while x > before_x and y > before_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            found.append((x, y))
        x, y = before_x, before_y
    return found[::-1]


def _in_order_of_appearance(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Return matches of equal keys by occurrence: the first of a key with the first, the second with the second, and so on.

    Of these, the longest selection that is in the same order on both sides is returned.
    """

    def numbered(keys: Sequence[int]) -> Iterator[tuple[int, int]]:
        seen: Counter[int] = Counter()
        for key in keys:
            yield key, seen[key]
            seen[key] += 1

    places = {name: y for y, name in enumerate(numbered(b))}
    return _increasing([(x, places[name]) for x, name in enumerate(numbered(a)) if name in places])
