"""The labelled examples as an embedder sees them, and which of them are nearest to a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from knowledge.index.embed.ports import Embedder
from knowledge.search.route.examples import Example

MOST_NEIGHBOURS: Final = 7
SHARPNESS: Final = 2
"""How much more a nearer example counts: its cosine to this power."""


@dataclass(frozen=True, slots=True)
class NearestExample:
    """The team's example that is nearest to a question, and the cosine between them."""

    example: Example
    similarity: float


class Neighbours:
    """Examples with their vectors, one row each, of length 1 or 0."""

    def __init__(self, shipped: Sequence[Example], team: Sequence[Example], rows: NDArray[np.float32]) -> None:
        self._team, self._all = tuple(team), (*team, *shipped)
        self._rows = np.ascontiguousarray(rows)
        sides = [1.0 if example.mode == "navigation" else -1.0 for example in (*team, *shipped)]
        self._sides = np.array(sides, np.float32)

    def near(self, vector: NDArray[np.float32]) -> NearestExample | None:
        """Return the nearest example of the team; None without one, or if `vector` is of another embedder."""
        if not self._team or vector.shape != self._rows.shape[1:]:
            return None
        cosines = self._rows[: len(self._team)] @ vector
        best = int(cosines.argmax())
        return NearestExample(self._team[best], float(cosines[best]))

    def nearest(self, vector: NDArray[np.float32], most: int) -> list[Example]:
        """Return the examples that are nearest to a question, at most so many; none if `vector` is of another embedder."""
        if vector.shape != self._rows.shape[1:]:
            return []
        return [self._all[at] for at in np.argsort(self._rows @ vector)[::-1][:most]]

    def leaning(self, vector: NDArray[np.float32], *, without: int | None = None) -> float:
        """Return -1..1: how much the nearest examples are about places (1) or ideas (-1), the less the farther they are.

        `without` leaves out one row, so that an example can be judged by the others.
        """
        if vector.shape != self._rows.shape[1:]:
            return 0.0
        cosines = self._rows @ vector
        if without is not None:
            cosines[without] = -1.0
        best = np.argpartition(cosines, -MOST_NEIGHBOURS)[-MOST_NEIGHBOURS:]
        nearness = np.maximum(cosines[best], 0) ** SHARPNESS
        return float(nearness @ self._sides[best]) / MOST_NEIGHBOURS


async def embedded(embedder: Embedder, shipped: Sequence[Example], team: Sequence[Example]) -> Neighbours:
    """Return the examples as `embedder` sees them; raises `EmbedderUnavailable` as it does."""
    return Neighbours(shipped, team, await embedder.embed([example.query for example in (*team, *shipped)]))
