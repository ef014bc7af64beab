"""Which inputs could lead nowhere: what no planner could mend is said to who begins. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.engine.events import Json
from agents.engine.work.form import ids, listed, twice
from agents.library.orchestrate.plan_rules.durations import UNITS, seconds_of
from agents.library.orchestrate.plan_rules.rules import OF_JOURNEY, rules_of


def refused(inputs: Mapping[str, Json]) -> Sequence[str]:
    """Return a sentence for each requirement, limit or rule that every plan would break, or that cannot be read."""
    return [*_requirements(inputs), *_limit(inputs), *_rules(inputs)]


def _requirements(inputs: Mapping[str, Json]) -> Iterator[str]:
    given = listed(inputs, "requirements")
    for id_ in twice(ids(given)):
        yield f"requirements: two have the id {id_}; each needs one of its own"
    for number, item in enumerate(given):
        blank = [name for name in ("id", "text") if not str(item.get(name, "")).strip()]
        if blank:
            yield f"requirements[{number}]: {' and '.join(blank)} must say something"


def _limit(inputs: Mapping[str, Json]) -> Iterator[str]:
    limit = inputs.get("limit")
    if isinstance(limit, str) and not seconds_of(limit):
        yield f"limit: {limit!r} is no duration: write a number with {UNITS}"


def _rules(inputs: Mapping[str, Json]) -> Iterator[str]:
    taken: list[str] = []
    rules = inputs.get("rules")
    for number, item in enumerate(rules if isinstance(rules, list) else ()):
        place = f"{OF_JOURNEY}[{number}]"
        found, problems = rules_of(item, place, taken)
        yield from (f"rules[{number}]: {problem.text}" for problem in problems)
        taken += [rule.id for rule in found]
