"""Place discs of different sizes near those that they are connected with, without overlap. Pure and deterministic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
STEPS, DRAWING = 240, 110
"""The most steps, and the number of first steps in which discs are also drawn together. Later steps only push them apart."""
CLOSE = 1e-3
GAP = 1.06
"""Two discs push each other off until their centres are this multiple of the sum of their radii apart."""


def packed(points: Points, radii: Points, pull: Points) -> Points:
    """Return the centres of discs that begin at `points`, are drawn together by `pull`, and push each other off.

    `pull` has the weight of the connection between each two. Time and memory grow with the square of the number of discs.
    """
    centres = points.astype(np.float64)
    least = (radii[:, None] + radii[None, :]) * GAP
    np.fill_diagonal(least, 0.0)
    lighter = radii[None, :] ** 2 / (radii[:, None] ** 2 + radii[None, :] ** 2)
    strength = pull / np.maximum(pull.sum(axis=1, keepdims=True), 1e-9)
    drawn = strength.sum(axis=1, keepdims=True)
    for step in range(STEPS):
        if step < DRAWING:
            cool = 0.25 * (1 - step / DRAWING)
            centres += cool * (strength @ centres - centres * drawn)
            centres -= 0.02 * (centres - centres.mean(axis=0))
        away = centres[:, None, :] - centres[None, :, :]
        distance = np.sqrt((away**2).sum(axis=2))
        overlap = np.maximum(least - distance, 0.0)
        if step >= DRAWING and overlap.max(initial=0.0) < CLOSE:
            break
        push = away / np.maximum(distance, 1e-9)[:, :, None] * (overlap * lighter)[:, :, None]
        # A disc among many would be thrown out by the sum of their pushes.
        centres += push.sum(axis=1) / np.maximum((overlap > 0).sum(axis=1), 1)[:, None]
    return centres
