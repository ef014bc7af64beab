"""Scores places by small decision trees, fitted on pieces cut out of public documentation. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DEPTH = 3
"""Questions that each tree asks."""
PLACE_TREES = "place_trees.json"
"""The trees for a text without a heading."""
PARENT_TREES = "parent_trees.json"
"""The trees for a text that begins with a heading."""


class Trees(NamedTuple):
    """Complete trees of `DEPTH` levels: the sign and the threshold of each question, and what each leaf adds to the score."""

    signs: NDArray[np.int64]
    thresholds: NDArray[np.float64]
    leaves: NDArray[np.float64]


def corrected(rows: NDArray[np.float64], trees: Trees) -> Sequence[float]:
    """Return the score of each place, the first of its signs, with what the trees add to it."""
    return [float(score) for score in rows[:, 0] + added(trees, rows)]


def added(trees: Trees, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the leaves that each row of signs ends in."""
    total = np.zeros(len(rows))
    for signs, thresholds, leaves in zip(trees.signs, trees.thresholds, trees.leaves, strict=True):
        node = np.zeros(len(rows), dtype=np.int64)
        for _ in range(DEPTH):
            node = 2 * node + 1 + (rows[np.arange(len(rows)), signs[node]] > thresholds[node])
        total += leaves[node - (2**DEPTH - 1)]
    return total


def read_trees(text: str, signs: Sequence[str]) -> Trees:
    """Return the trees in `text`, a file of the form that `stored_trees` reads; `signs` names the columns they ask about."""
    trees = json.loads(text)["trees"]
    number = {name: at for at, name in enumerate(signs)}
    return Trees(
        np.array([[number[name] for name in tree["signs"]] for tree in trees]),
        np.array([tree["thresholds"] for tree in trees], dtype=np.float64),
        np.array([tree["leaves"] for tree in trees], dtype=np.float64),
    )


@cache
def stored_trees(name: str, signs: tuple[str, ...]) -> Trees:
    """Return the trees that come with the program; `python -m tests.benchmarks.history places` writes them."""
    return read_trees(files("knowledge.merge.evidence.place").joinpath(name).read_text(encoding="utf-8"), signs)
