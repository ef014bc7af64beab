"""Provisional places for pages, in a hundredth of a second: folder by folder, until the graph is laid out. Pure and deterministic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

SPREAD = 2.2
"""Radius of a disc of one page; the area of a disc grows with its pages."""
GAP = 3.0
WIDER = 1.4
"""The approximate width of the whole drawing, as a multiple of its height."""
GOLDEN = math.pi * (3 - math.sqrt(5))


def sketched(paths: Sequence[str], edges: Sequence[tuple[int, int]]) -> Mapping[str, tuple[float, float]]:
    """Return a place for each page: each folder is a disc with its most linked pages in the middle; discs are in rows, by path."""
    links = [0] * len(paths)
    for end in (end for edge in edges for end in edge):
        links[end] += 1
    by_folder = sorted(range(len(paths)), key=lambda n: (_folder(paths[n]), -links[n], paths[n]))
    discs = [[paths[n] for n in pages] for _, pages in groupby(by_folder, key=lambda n: _folder(paths[n]))]
    boxes = [2 * _radius(len(disc)) + GAP for disc in discs]
    width = max([*boxes, math.sqrt(WIDER * sum(box**2 for box in boxes))], default=0.0)
    places: dict[str, tuple[float, float]] = {}
    left = top = high = 0.0
    for disc, box in zip(discs, boxes, strict=True):
        if left + box > width and left:
            left, top, high = 0.0, top + high, 0.0
        for n, path in enumerate(disc):
            away = SPREAD * math.sqrt(n)
            places[path] = (
                left + box / 2 + away * math.cos(n * GOLDEN),
                top + box / 2 + away * math.sin(n * GOLDEN),
            )
        left, high = left + box, max(high, box)
    return places


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _radius(pages: int) -> float:
    return SPREAD * math.sqrt(pages)
