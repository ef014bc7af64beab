"""Positions for the pages of a graph of links: communities as discs side by side, each with its pages inside. Deterministic.

A single force-directed drawing of thousands of pages is a ball of lines (kb/decisions/0099), so each community is laid out by
itself by rustworkx's springs, and the communities are packed as discs near those that they are connected with. After a change
pages stay where they were, until a fifth of the links is different.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import rustworkx
from numpy.typing import NDArray

from mcp_server.web.link_graph.layout.communities import Weights, communities
from mcp_server.web.link_graph.layout.discs import packed

Edge = tuple[int, int]
LARGEST = 400
"""Pages of a community that is laid out as one; a larger one is divided first, if it can be."""
MOST_DISCS = 500
"""Communities that are packed by what connects them; with more, the largest are placed in the middle."""
SPRING_WORK = 20_000_000
"""Pairs of pages that the springs of one community may compare in all their steps."""
MOST_STEPS = 80
START = 0.1
"""Length of a spring. The library's first step is a tenth of one, so the pages can move freely at first."""
MOST_CHANGED = 0.2
"""The part of the links that may change, one change after the other, until the whole graph is laid out afresh."""
SPREAD = 2.2
"""Radius of a disc of one page; the area of a disc grows with its pages."""
GOLDEN = math.pi * (3 - math.sqrt(5))

Points = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GraphPlaces:
    """Where each page is, by path. `changed` counts the links that changed since the whole graph was laid out."""

    places: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    edges: frozenset[tuple[str, str]] = frozenset()
    changed: int = 0


def placed(paths: Sequence[str], edges: Sequence[Edge], before: GraphPlaces | None = None) -> GraphPlaces:
    """Return positions for all pages. With `before`, pages stay near where they were, if not too much has changed."""
    named = frozenset((paths[a], paths[b]) for a, b in edges)
    weights = _weights(len(paths), edges)
    if before is not None and before.edges:
        changed = before.changed + len(named ^ before.edges)
        if changed <= MOST_CHANGED * len(before.edges):
            return GraphPlaces(_by_path(paths, _kept(paths, weights, before)), named, changed)
    linked = [page for page, row in enumerate(weights) if row]
    points = np.full((len(paths), 2), math.nan)
    if linked:
        found = _laid_out(_subgraph(weights, linked))
        points[linked] = found - (found.max(axis=0) + found.min(axis=0)) / 2
    _place_alone(points, [page for page, row in enumerate(weights) if not row], paths)
    return GraphPlaces(_by_path(paths, points), named)


def _weights(count: int, edges: Sequence[Edge]) -> list[dict[int, float]]:
    weights: list[dict[int, float]] = [{} for _ in range(count)]
    for a, b in edges:
        if a != b:
            weights[a][b] = weights[a].get(b, 0.0) + 1.0
            weights[b][a] = weights[b].get(a, 0.0) + 1.0
    return weights


def _subgraph(weights: Weights, nodes: Sequence[int]) -> list[dict[int, float]]:
    place = {node: n for n, node in enumerate(nodes)}
    return [{place[o]: weight for o, weight in weights[node].items() if o in place} for node in nodes]


def _by_path(paths: Sequence[str], points: Points) -> dict[str, tuple[float, float]]:
    return {path: (float(x), float(y)) for path, (x, y) in zip(paths, points, strict=True)}


# --- the whole graph --------------------------------------------------------------------------------------------------


def _laid_out(weights: Weights) -> Points:
    """Return a position for each node, around 0."""
    groups = communities(weights)
    count = max(groups) + 1
    if len(weights) <= 2 or count == 1 or count == len(weights):
        return _springs(weights)
    members: list[list[int]] = [[] for _ in range(count)]
    for node, group in enumerate(groups):
        members[group].append(node)
    inner = [_inside(weights, nodes) for nodes in members]
    radii = np.array([_radius(points) for points in inner])
    centres = _centres(weights, groups, radii)
    points = np.zeros((len(weights), 2))
    for nodes, own, centre in zip(members, inner, centres, strict=True):
        ties = [
            (point, centres[groups[other]] - centre, weight)
            for point, node in zip(own, nodes, strict=True)
            for other, weight in weights[node].items()
            if groups[other] != groups[node]
        ]
        points[nodes] = _turned(own, ties) + centre
    return points


def _centres(weights: Weights, groups: Sequence[int], radii: Points) -> Points:
    """Return the centres of communities with these radii."""
    count = len(radii)
    if count > MOST_DISCS:
        # So many communities are mostly pairs and chains. The larger ones go to the middle. No visible links connect them.
        order = np.argsort(-radii, kind="stable")
        away = np.empty(count)
        away[order] = 1.3 * np.sqrt(np.cumsum(radii[order] ** 2))
        angle = np.empty(count)
        angle[order] = np.arange(count) * GOLDEN
        return np.stack([away * np.cos(angle), away * np.sin(angle)], axis=1)
    pull = np.zeros((count, count))
    for node, row in enumerate(weights):
        for other, weight in row.items():
            if groups[node] != groups[other]:
                pull[groups[node], groups[other]] += weight
    between = [{int(other): float(row[other]) for other in np.nonzero(row)[0]} for row in pull]
    first = _springs(between) / math.sqrt(count) * math.sqrt(float((radii**2).sum())) * 1.5
    return packed(first, radii, pull)


def _inside(weights: Weights, nodes: Sequence[int]) -> Points:
    """Return positions for the nodes of one community, around 0."""
    own = _subgraph(weights, nodes)
    if len(nodes) > LARGEST:
        points = _laid_out(own)
        points -= points.mean(axis=0)
        return points
    return _springs(own)


def _springs(weights: Weights) -> Points:
    """Return positions by a force-directed layout, inside of a disc whose area grows with the number of nodes."""
    count = len(weights)
    if count == 1:
        return np.zeros((1, 2))
    steps = min(MOST_STEPS, SPRING_WORK // count**2)
    points = _spiral(count, weights)
    if steps:
        graph = rustworkx.PyGraph(multigraph=False)
        graph.add_nodes_from([None] * count)
        graph.add_edges_from([(a, b, w) for a, row in enumerate(weights) for b, w in row.items() if a < b])
        found = rustworkx.spring_layout(
            graph,
            pos={n: (float(x) * START, float(y) * START) for n, (x, y) in enumerate(points)},
            fixed=set(),  # otherwise the result is scaled to a square
            k=START,
            num_iter=steps,
            adaptive_cooling=False,
            weight_fn=math.sqrt,
            seed=1,
        )
        points = np.array([found[n] for n in range(count)])
    return _in_disc(points)


def _spiral(count: int, weights: Weights) -> Points:
    """Return points of a sunflower, the node with the most connections in the middle."""
    order = sorted(range(count), key=lambda node: (-len(weights[node]), node))
    points = np.zeros((count, 2))
    for place, node in enumerate(order):
        away = SPREAD * math.sqrt(place + 0.5)
        points[node] = away * math.cos(place * GOLDEN), away * math.sin(place * GOLDEN)
    return points


def _in_disc(points: Points) -> Points:
    """Return the points spread evenly over a disc around 0, each in its direction and in the order of their distances."""
    centred = points - points.mean(axis=0)
    away = np.sqrt((centred**2).sum(axis=1))
    order = np.argsort(away, kind="stable")
    even = np.empty(len(points))
    even[order] = SPREAD * np.sqrt(np.arange(len(points)) + 0.5)
    scale = SPREAD * math.sqrt(len(points)) / max(float(np.percentile(away, 90)), 1e-9)
    # Half of both: evenly spread alone would hide that some pages are close to each other.
    wanted = 0.5 * even + 0.5 * np.minimum(away * scale, SPREAD * math.sqrt(len(points)))
    spread: Points = centred / np.maximum(away, 1e-9)[:, None] * wanted[:, None]
    return spread


def _radius(points: Points) -> float:
    return float(np.sqrt((points**2).sum(axis=1)).max(initial=0.0)) + SPREAD


def _turned(own: Points, ties: Sequence[tuple[Points, Points, float]]) -> Points:
    """Return the community turned so that its pages are near those that they are connected with in other communities.

    A tie is the place of a page, the direction from the centre to the other community, and the weight of the connection.
    """
    cross = sum(weight * float(point[0] * towards[1] - point[1] * towards[0]) for point, towards, weight in ties)
    along = sum(weight * float(point[0] * towards[0] + point[1] * towards[1]) for point, towards, weight in ties)
    angle = math.atan2(cross, along)
    turned: Points = own @ np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return turned


def _place_alone(points: Points, alone: Sequence[int], paths: Sequence[str]) -> None:
    """Place pages without links in rows below all others, by path."""
    step = 3 * SPREAD
    points[alone] = math.nan
    there = points[~np.isnan(points[:, 0])]
    left, right = (float(there[:, 0].min()), float(there[:, 0].max())) if len(there) else (0.0, 0.0)
    bottom = float(there[:, 1].max()) + 2 * step if len(there) else 0.0
    row = max(int((right - left) / step), math.ceil(math.sqrt(3 * len(alone))))
    for place, page in enumerate(sorted(alone, key=lambda page: paths[page])):
        beside = place % row - (min(row, len(alone)) - 1) / 2
        points[page] = (left + right) / 2 + beside * step, bottom + place // row * step


# --- after a change ---------------------------------------------------------------------------------------------------


def _kept(paths: Sequence[str], weights: Weights, before: GraphPlaces) -> Points:
    """Return positions in which all pages with links are where they were.

    New ones are placed in the middle of those that they are connected with.
    """
    places = before.places
    points = np.array([places.get(path, (math.nan, math.nan)) for path in paths]).reshape(-1, 2)
    new = [page for page, path in enumerate(paths) if path not in places]
    alone = [page for page, row in enumerate(weights) if not row]
    for place, page in enumerate(sorted(new, key=lambda page: paths[page])):
        near = points[[other for other in weights[page] if not math.isnan(points[other, 0])]]
        if len(near):
            # Beside the middle, since another page may be there.
            away = SPREAD * np.array([math.cos(place * GOLDEN), math.sin(place * GOLDEN)])
            points[page] = near.mean(axis=0) + away
        elif weights[page]:
            alone.append(page)
    _place_alone(points, alone, paths)
    return points
