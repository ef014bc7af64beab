"""Divide a graph into communities: groups of pages that link to each other more than to others. Pure and deterministic.

Source: Blondel, Guillaume, Lambiotte, Lefebvre, "Fast unfolding of communities in large networks" (2008). The nodes are visited
in their order instead of a random one, so that the same graph always has the same communities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Weights = Sequence[Mapping[int, float]]
"""For each node its neighbours, each with the weight of the connection; both directions are listed."""
MOST_PASSES = 6
LEAST_MOVED = 0.02
"""A pass in which a smaller share of the nodes moved is the last one."""


def communities(weights: Weights) -> list[int]:
    """Return the number of each node's community; communities are numbered by their first node."""
    community = list(range(len(weights)))
    level: Weights = weights
    loops = [0.0] * len(weights)
    while True:
        moved = _moved(level, loops)
        numbers = _numbered(moved)
        if max(numbers, default=-1) + 1 == len(level):
            return _numbered(community)
        community = [numbers[node] for node in community]
        level, loops = _merged(level, loops, numbers)


def _moved(weights: Weights, loops: Sequence[float]) -> list[int]:
    """Return each node's community after moving nodes, one by one, where they increase modularity most."""
    degree = [sum(row.values()) + loop for row, loop in zip(weights, loops, strict=True)]
    total = sum(degree) or 1.0
    community = list(range(len(weights)))
    inside = list(degree)
    for _ in range(MOST_PASSES):
        moves = 0
        for node, row in enumerate(weights):
            here = community[node]
            own = degree[node]
            inside[here] -= own
            ties: dict[int, float] = {}
            for other, weight in row.items():
                there = community[other]
                ties[there] = ties.get(there, 0.0) + weight
            best, most = here, ties.get(here, 0.0) - inside[here] * own / total
            for there, weight in ties.items():
                gain = weight - inside[there] * own / total
                if gain > most + 1e-12 or (gain > most - 1e-12 and there < best):
                    best, most = there, gain
            inside[best] += own
            if best != here:
                community[node] = best
                moves += 1
        if moves <= LEAST_MOVED * len(weights):
            break
    return community


def _numbered(community: Sequence[int]) -> list[int]:
    numbers: dict[int, int] = {}
    return [numbers.setdefault(one, len(numbers)) for one in community]


def _merged(weights: Weights, loops: Sequence[float], numbers: Sequence[int]) -> tuple[Weights, list[float]]:
    """Return the graph in which each community is one node; connections inside of a community become its loop."""
    count = max(numbers) + 1
    merged: list[dict[int, float]] = [{} for _ in range(count)]
    inner = [0.0] * count
    for node, row in enumerate(weights):
        one = numbers[node]
        inner[one] += loops[node]
        for other, weight in row.items():
            two = numbers[other]
            if one == two:
                inner[one] += weight
            else:
                merged[one][two] = merged[one].get(two, 0.0) + weight
    return merged, inner
