"""Repeats one side's moves of blocks in the other versions, so that their edits reach a moved block. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from knowledge.merge.three_way.alignment import (
    BODY,
    AlignedNode,
    AlignedVersions,
    Likeness,
    align_versions,
    likeness,
    text_below_is_alike,
)

SUBSTANCE = 12
"""The fewest letters and digits of a text that counts as moved when it disappears in one place and appears in another:
`---` and `{` come and go."""


class _MovedRun(NamedTuple):
    """`base[start:end]` was moved in front of `base[before]`."""

    start: int
    end: int
    before: int


def follow_moves(
    base: Sequence[AlignedNode], ours: Sequence[AlignedNode], theirs: Sequence[AlignedNode], alike: Likeness = likeness
) -> AlignedVersions:
    """Return the versions with everything that either side moved in its new place.

    A part that both moved goes where our side has it.
    """
    versions = align_versions(base, ours, theirs, alike)
    if runs := _moved_runs(base, ours, versions.to_ours):
        base, theirs = _move_in_both(runs, base, theirs, versions.to_theirs)
        versions = align_versions(base, ours, theirs, alike)
    if runs := _moved_runs(base, theirs, versions.to_theirs):
        base, ours = _move_in_both(runs, base, ours, versions.to_ours)
        versions = align_versions(base, ours, theirs, alike)
    return versions


def _move_in_both(
    runs: Sequence[_MovedRun], base: Sequence[AlignedNode], other: Sequence[AlignedNode], to_other: Sequence[int]
) -> tuple[list[AlignedNode], list[AlignedNode]]:
    """Return `base` and `other` with the parts that one side moved at the places to which it moved them."""
    there = list(to_other)
    # A part that the other side moved too is the same part, wherever that side has it.
    for x, y in _elsewhere(base, other, there):
        there[x] = y
    owner = {y: x for x, y in enumerate(there) if y >= 0}
    done: list[_MovedRun] = []
    segments: list[_MovedRun] = []
    for run in runs:
        segment = _segment(run, base, other, there, owner)
        if segment is not None:
            done.append(run)
            if segment.start < segment.end:
                segments.append(segment)
    return _moved(base, done), _moved(other, segments)


def _moved_runs(base: Sequence[AlignedNode], mover: Sequence[AlignedNode], to: Sequence[int]) -> list[_MovedRun]:
    """Return the runs of parts that were moved, in their new order."""
    taken = {y for y in to if y >= 0}
    groups: list[list[tuple[int, int]]] = []
    for x, y in _elsewhere(base, mover, to):
        last = groups[-1][-1] if groups else None
        # Parts that left together and came together are one run; between them there are only removed or new parts.
        if (
            last
            and last[1] < y
            and all(to[at] < 0 for at in range(last[0], x))
            and not any(at in taken for at in range(last[1], y))
        ):
            groups[-1].append((x, y))
        else:
            groups.append([(x, y)])
    settled = [(y, at) for at, y in enumerate(to) if y >= 0]
    runs: list[tuple[int, _MovedRun]] = []
    for group in groups:
        nodes = [base[x] for x, _ in group]
        named = any(node.kind in ("heading", "item", "row") for node in nodes)
        if not named and sum(sum(map(str.isalnum, node.key)) for node in nodes) < SUBSTANCE:
            continue
        start, end = group[0][0], group[-1][0] + 1
        # A heading moves with what is left of its section.
        level = base[start].level
        while level < BODY and end < len(base) and to[end] < 0 and base[end].level > level:
            end += 1
        following = bisect_right(settled, (group[-1][1], len(base)))
        before = settled[following][1] if following < len(settled) else len(base)
        runs.append((group[0][1], _MovedRun(start, end, before)))
    return [run for _, run in sorted(runs)]


def _elsewhere(base: Sequence[AlignedNode], side: Sequence[AlignedNode], to: Sequence[int]) -> list[tuple[int, int]]:
    """Return the parts that left their place and appear exactly once elsewhere, headings with a version of the text below them."""
    taken = {y for y in to if y >= 0}
    gone = [at for at, y in enumerate(to) if y < 0]
    new = [at for at in range(len(side)) if at not in taken]
    if not gone or not new:
        return []
    often = Counter((nodes[at].kind, nodes[at].key) for nodes, places in ((base, gone), (side, new)) for at in places)
    left, came = ([(_name(nodes, at, often), at) for at in places] for nodes, places in ((base, gone), (side, new)))
    places, count = dict(came), Counter(name for name, _ in (*left, *came))
    # Gone once and new once: with more copies it is unclear which one moved where.
    pairs = [(at, places[name]) for name, at in left if name in places and count[name] == 2]
    return [(x, y) for x, y in pairs if base[x].kind != "heading" or text_below_is_alike(base, side, x, y)]


def _name(nodes: Sequence[AlignedNode], at: int, often: Mapping[tuple[str, str], int]) -> tuple[str, str, str]:
    """Return what identifies a part that moved. Of several headings of the same words, each is known by the block after it."""
    kind, key = nodes[at].kind, nodes[at].key
    ambiguous = kind == "heading" and often[kind, key] > 2 and at + 1 < len(nodes)
    return kind, key, nodes[at + 1].key if ambiguous else ""


def _segment(
    run: _MovedRun,
    base: Sequence[AlignedNode],
    other: Sequence[AlignedNode],
    there: Sequence[int],
    owner: Mapping[int, int],
) -> _MovedRun | None:
    """Return the stretch of `other` that corresponds to `run`, and where it goes; None if it is not contiguous.

    Parts that the other side added to the run belong to the stretch. `there` gives the index of each part of `base` in
    `other`, `owner` the reverse.
    """
    places = [there[at] for at in range(run.start, run.end) if there[at] >= 0]
    # The other side removed all of the run, so it has nothing to move.
    if not places:
        return _MovedRun(0, 0, 0)
    start, end = places[0], places[-1] + 1
    foreign = any(at in owner and not run.start <= owner[at] < run.end for at in range(start, end))
    # Another part is in between, or the other side has reordered the run.
    if foreign or places != sorted(places):
        return None
    level = min(base[at].level for at in range(run.start, run.end))
    while level < BODY and end < len(other) and end not in owner and other[end].level > level:
        end += 1
    following = (at for at in range(run.before, len(base)) if there[at] >= 0 and not run.start <= at < run.end)
    before = next((there[at] for at in following), len(other))
    # A stretch can't be moved into itself.
    return None if start < before < end else _MovedRun(start, end, before)


def _moved(nodes: Sequence[AlignedNode], runs: Sequence[_MovedRun]) -> list[AlignedNode]:
    """Return the nodes with each run in its new place; the gap between new neighbours is left open."""
    away = {at for run in runs for at in range(run.start, run.end)}
    coming: dict[int, list[int]] = {}
    for run in runs:
        coming.setdefault(run.before, []).extend(range(run.start, run.end))
    order: list[int] = []
    for at in range(len(nodes) + 1):
        order += coming.get(at, ())
        if at < len(nodes) and at not in away:
            order.append(at)
    found: list[AlignedNode] = []
    for at, following in zip(order, [*order[1:], -1], strict=False):
        node = nodes[at]
        found.append(node if following == at + 1 or node.gap else node._replace(gap=None))
    return found
