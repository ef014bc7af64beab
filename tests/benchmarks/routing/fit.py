"""Fits the weights of the router's signs: `python -m tests.benchmarks.routing fit` writes them beside the router.

Logistic regression with a ridge, by Newton's method: deterministic, the same data give the same weights. It sees the
tuning half and the shipped examples, each of which is judged by its neighbours without itself. Source: Hastie,
Tibshirani, Friedman, "The Elements of Statistical Learning", 2nd edition, section 4.4.1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import knowledge.search.route
from knowledge.index.embed.ports import Embedder
from knowledge.index.embed.static import StaticEmbedder
from knowledge.search.route.examples import shipped_examples
from knowledge.search.route.router import embedded
from knowledge.search.route.signs import sign_values, signs
from tests.benchmarks.routing.questions import Labelled, questions

WEIGHTS = Path(knowledge.search.route.__file__).parent / "route_weights.json"
RIDGE = 1.0
ROUNDS = 40
FOLDS = 5


async def fit_and_write() -> None:
    """Write the weights fitted to all visible questions; print how often they are right on held-out parts."""
    rows, sides = await training_rows(StaticEmbedder(), questions("tune"))
    print(f"left-out fifths of {len(rows)} questions, wording and neighbours alone: {cross_validated(rows, sides):.3f}")
    found = fitted(rows, sides)
    weights = {name: round(float(weight), 3) for name, weight in zip(sign_values(signs(""), 0.0), found, strict=True)}
    made = "python -m tests.benchmarks.routing fit"
    WEIGHTS.write_text(json.dumps({"made_by": made, "weights": weights}, indent=1) + "\n", encoding="utf-8")


async def training_rows(
    embedder: Embedder, asked: Sequence[Labelled]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a row of signs for each question and 1 for navigation, 0 for discovery.

    `asked`, then the shipped examples.
    """
    shipped = shipped_examples()
    neighbours = await embedded(embedder, shipped, ())
    rows = [_row(each.query, neighbours.leaning(await _vector(embedder, each.query))) for each in asked]
    rows += [
        _row(each.query, neighbours.leaning(await _vector(embedder, each.query), without=n))
        for n, each in enumerate(shipped)
    ]
    labels = [each.label for each in asked] + [each.mode for each in shipped]
    return np.array(rows), np.array([float(label == "navigation") for label in labels])


def fitted(rows: NDArray[np.float64], sides: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights that explain `sides` best, held small by a ridge; the first column, the bias, is free."""
    ridge = np.full(rows.shape[1], RIDGE)
    ridge[0] = 1e-6
    weights = np.zeros(rows.shape[1])
    for _ in range(ROUNDS):
        chance = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (chance - sides) + ridge * weights
        curvature = (rows * (chance * (1 - chance))[:, np.newaxis]).T @ rows + np.diag(ridge)
        weights -= np.linalg.solve(curvature, slope)
    return weights


def cross_validated(rows: NDArray[np.float64], sides: NDArray[np.float64]) -> float:
    """Return how often weights fitted to four fifths are right on the remaining fifth."""
    fold = np.arange(len(rows)) % FOLDS
    right = 0
    for left_out in range(FOLDS):
        weights = fitted(rows[fold != left_out], sides[fold != left_out])
        right += int(((rows[fold == left_out] @ weights > 0) == sides[fold == left_out]).sum())
    return right / len(rows)


def _row(query: str, leaning: float) -> list[float]:
    return list(sign_values(signs(query), leaning).values())


async def _vector(embedder: Embedder, query: str) -> NDArray[np.float32]:
    vector: NDArray[np.float32] = (await embedder.embed([query]))[0]
    return vector
