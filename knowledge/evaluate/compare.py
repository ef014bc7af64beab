"""Compares two runs of a query set: which queries got better or worse, and whether the difference may be chance. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from knowledge.evaluate.metrics import MetricDifference, paired_bootstrap
from knowledge.evaluate.run import Measured
from knowledge.wire.validation_errors import misfit

# Sums of the same gains in another order differ in their last digits.
SAME = 1e-9
MEASURES = ("ndcg", "recall", "reciprocal_rank", "in_hits", "in_snippets", "reached")


@dataclass(frozen=True, slots=True)
class ChangedQuery:
    """A query whose nDCG has changed."""

    id: str
    query: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The comparison of two runs. `differences` has the change in each measure.

    The changes are averages over the queries that have an answer and that both runs have. The change in `tokens` covers
    only those whose answer both runs reached. `better` and `worse` begin with the largest change. `only_before` and
    `only_after` are queries that only one run has.
    """

    compared: int
    differences: Mapping[str, MetricDifference]
    better: Sequence[ChangedQuery]
    worse: Sequence[ChangedQuery]
    only_before: Sequence[str]
    only_after: Sequence[str]


def compare(before: Sequence[Measured], after: Sequence[Measured]) -> RunComparison:
    """Return the changes from one run to the other; queries are matched by their ids."""
    old = {one.id: one for one in before}
    new = {one.id: one for one in after}
    pairs = [(old[key], one) for key, one in new.items() if key in old and one.answerable and old[key].answerable]
    differences = {
        measure: paired_bootstrap(
            [float(getattr(was, measure)) for was, _ in pairs], [float(getattr(now, measure)) for _, now in pairs]
        )
        for measure in MEASURES
    }
    both = [(was, now) for was, now in pairs if was.reached and now.reached]
    differences["tokens"] = paired_bootstrap(
        [float(was.tokens) for was, _ in both], [float(now.tokens) for _, now in both]
    )
    changed = [
        ChangedQuery(now.id, now.query, was.ndcg, now.ndcg) for was, now in pairs if abs(now.ndcg - was.ndcg) > SAME
    ]
    return RunComparison(
        compared=len(pairs),
        differences=differences,
        better=sorted((c for c in changed if c.after > c.before), key=lambda c: c.before - c.after),
        worse=sorted((c for c in changed if c.after < c.before), key=lambda c: c.after - c.before),
        only_before=[key for key in old if key not in new],
        only_after=[key for key in new if key not in old],
    )


def measured_from(rows: object) -> list[Measured]:
    """Return the measured queries of a run that was printed as JSON (its list `queries`).

    Raises: ValueError: it is something else, or was printed by a version with other measures.
    """
    if not isinstance(rows, list) or not rows:
        raise ValueError("it has no measured queries")
    if any(not isinstance(row, Mapping) or row.keys() != Measured.__dataclass_fields__.keys() for row in rows):
        raise ValueError("its queries have fields other than those that this version measures")
    try:
        return TypeAdapter(list[Measured]).validate_python(rows)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise ValueError(misfit(problem, {}, f"{problem['loc'][1]} of a query")) from None
