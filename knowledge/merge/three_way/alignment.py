"""Matches the parts of a sequence before and after an edit. Pure.

Equal parts are matched first, then, between two matches, the most similar ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from knowledge.merge.three_way.line_join import hunks_of, matches

ALIKE = 0.4
"""Share of words that two texts must have in common to count as versions of one text."""
MOST_PAIRS = 4_096
"""Pairs between two matches that are compared one by one."""
LOOKED_AT = 4_000
"""This many characters at each end of a text count for its likeness."""
REMEMBERED = 1_024
"""Texts whose words are cached, because one is compared with several others."""
BODY = 7
"""The level of every part that is not a heading: below all headings."""

_WORDS = re.compile(r"[\u2e80-\U0003ffff]|[^\W\u2e80-\U0003ffff]+")
_NAMED = frozenset({"heading", "item", "row", "key"})
"""Kinds of parts that name something: a dissimilar one in the same place is a different part."""


class AlignedNode(NamedTuple):
    """A part of a sequence: a block of a document, an item of a list, a row of a table.

    `text` ends with a line end. `gap` are the blank lines after it, None at the end of the sequence. `key` is the text
    that it is compared by. `level` is a heading's.
    """

    kind: str
    text: str
    gap: str | None
    key: str
    line: int = 0
    section: tuple[str, ...] = ()
    level: int = BODY


Likeness = Callable[[AlignedNode, AlignedNode], float]


def words(text: str) -> frozenset[str]:
    """Return the words by which texts are compared; for a long text, those at both ends."""
    return _words(text) if len(text) <= 2 * LOOKED_AT else _words(text[:LOOKED_AT] + text[-LOOKED_AT:])


@lru_cache(maxsize=REMEMBERED)
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORDS.findall(text.lower()))


def likeness(one: AlignedNode, other: AlignedNode) -> float:
    """Return how alike two parts are, 0..1; parts of different kinds are not alike."""
    if one.kind != other.kind:
        return 0.0
    mine, yours = words(one.key), words(other.key)
    if not mine or not yours:
        return 0.0
    alike = 2 * len(mine & yours) / (len(mine) + len(yours))
    if alike >= ALIKE or len(one.key) + len(other.key) > LOOKED_AT:
        return alike
    # A short block that grew a lot is still recognised by its lines; lines of one word (`{`, `---`) prove nothing.
    lines, others = ({line for line in node.key.splitlines() if " " in line.strip()} for node in (one, other))
    return max(alike, len(lines & others) / min(len(lines), len(others))) if lines and others else alike


class AlignedVersions(NamedTuple):
    """Three versions of a sequence, and for each part of the base its index in the others, -1 for a part that is gone."""

    base: Sequence[AlignedNode]
    ours: Sequence[AlignedNode]
    theirs: Sequence[AlignedNode]
    to_ours: list[int]
    to_theirs: list[int]


def align_versions(
    base: Sequence[AlignedNode], ours: Sequence[AlignedNode], theirs: Sequence[AlignedNode], alike: Likeness = likeness
) -> AlignedVersions:
    """Return the three versions aligned with the base."""
    return AlignedVersions(base, ours, theirs, align(base, ours, alike), align(base, theirs, alike))


def align(base: Sequence[AlignedNode], side: Sequence[AlignedNode], alike: Likeness = likeness) -> list[int]:
    """Return, for each part of `base`, its index in `side`, -1 for a part that is gone. The indexes increase."""
    found = [-1] * len(base)
    same = matches([(node.kind, node.key) for node in base], [(node.kind, node.key) for node in side])
    for x, y in same:
        found[x] = y
    for start, end, first, last in hunks_of(same, len(base), len(side)):
        if start < end and first < last:
            pairs = _most_alike(base[start:end], side[first:last], alike)
            for i, j in [*pairs, *_in_place(base[start:end], side[first:last], pairs)]:
                found[start + i] = first + j
    _match_renamed_headings(base, side, found)
    _part_from_others(base, side, found)
    _part_other_sections(base, side, found, alike)
    return found


def _most_alike(base: Sequence[AlignedNode], side: Sequence[AlignedNode], alike: Likeness) -> list[tuple[int, int]]:
    """Return the pairs, increasing on both sides, whose likenesses have the highest sum."""
    n, m = len(base), len(side)
    if n == m == 1 and base[0].kind == side[0].kind and base[0].kind not in _NAMED:
        return []  # `_in_place` pairs the two, whether alike or not
    if n * m > MOST_PAIRS:
        # Much was rewritten: only what is alike at the same distance from the beginning is found, in one pass.
        return [(at, at) for at in range(min(n, m)) if alike(base[at], side[at]) >= ALIKE]
    # The longest common subsequence by dynamic programming, weighted by likeness: `best[i][j]` is what the rest can add up to.
    score = [[alike(one, other) for other in side] for one in base]
    best = [[0.0] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            paired = best[i + 1][j + 1] + score[i][j] if score[i][j] >= ALIKE else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < n and j < m:
        if score[i][j] >= ALIKE and best[i][j] == best[i + 1][j + 1] + score[i][j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return found


def _in_place(
    base: Sequence[AlignedNode], side: Sequence[AlignedNode], pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return pairs of unmatched parts that are in the same place and of the same kind, whether alike or not."""
    found: list[tuple[int, int]] = []
    for start, end, first, last in hunks_of(pairs, len(base), len(side)):
        kinds = [node.kind for node in base[start:end]]
        if _NAMED.isdisjoint(kinds) and kinds == [node.kind for node in side[first:last]]:
            found += zip(range(start, end), range(first, last), strict=True)
    return found


def _match_renamed_headings(base: Sequence[AlignedNode], side: Sequence[AlignedNode], found: list[int]) -> None:
    """Match headings whose words changed over the same text: a renamed heading may have no word in common with the old one.

    A heading that the side has elsewhere was moved, not renamed.
    """
    taken = set(found)
    new = {node.key for at, node in enumerate(side) if node.kind == "heading" and at not in taken}
    for at, node in enumerate(base[:-1]):
        if found[at] < 0 and node.kind == "heading" and found[at + 1] > 0 and node.key not in new:
            before = found[at + 1] - 1
            other = side[before]
            if before not in taken and other.kind == "heading" and other.level == node.level:
                found[at] = before
                taken.add(before)


def _part_from_others(base: Sequence[AlignedNode], side: Sequence[AlignedNode], found: list[int]) -> None:
    """Undo matches of texts that only resemble each other where the side has the very text elsewhere: it was moved.

    Not of items and rows: many resemble each other, and what was added between them is no move.
    """
    taken = set(found)
    new = {(node.kind, node.key) for at, node in enumerate(side) if at not in taken}
    for at, node in enumerate(base):
        if node.kind in _NAMED or found[at] < 0 or side[found[at]].key == node.key:
            continue
        if (node.kind, node.key) in new:
            found[at] = -1


def _part_other_sections(
    base: Sequence[AlignedNode], side: Sequence[AlignedNode], found: list[int], alike: Likeness
) -> None:
    """Undo matches of headings that only share their words: "Setup" below "Linux" is not "Setup" below "Windows".

    That is so where they are below different headings and the text after them is different. Different texts that were matched because
    they are in the same place are parted too.
    """
    above, above_side = _headings_above(base), _headings_above(side)
    for at, node in enumerate(base):
        other = found[at]
        if node.kind != "heading" or other < 0:
            continue
        upper, upper_side = above[at], above_side[other]
        if upper_side == (found[upper] if upper >= 0 else -1):
            continue
        if found[at + 1 : at + 2] in ([], [other + 1]) and text_below_is_alike(base, side, at, other, alike):
            continue
        found[at] = -1
        for text in range(at + 1, len(base)):
            if base[text].kind == "heading":
                break
            if found[text] >= 0 and alike(base[text], side[found[text]]) < ALIKE:
                found[text] = -1


def _headings_above(nodes: Sequence[AlignedNode]) -> list[int]:
    """Return, for each node, the index of the heading of the section that it is in, -1 for none."""
    found: list[int] = []
    open_headings: list[int] = []
    for at, node in enumerate(nodes):
        while node.level < BODY and open_headings and nodes[open_headings[-1]].level >= node.level:
            open_headings.pop()
        found.append(open_headings[-1] if open_headings else -1)
        if node.level < BODY:
            open_headings.append(at)
    return found


def text_below_is_alike(
    base: Sequence[AlignedNode], side: Sequence[AlignedNode], at: int, other: int, alike: Likeness = likeness
) -> bool:
    """Return whether the blocks after two headings are alike, or one of the two has no text of its own."""
    mine, yours = base[at + 1 : at + 2], side[other + 1 : other + 2]
    if not mine or not yours or "heading" in (mine[0].kind, yours[0].kind):
        return True
    return alike(mine[0], yours[0]) >= ALIKE
