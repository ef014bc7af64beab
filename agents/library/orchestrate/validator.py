"""Checks by the server itself, without a model: the inputs at the start, and each plan against the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

from anyio.lowlevel import checkpoint

from agents.engine.agent import Look, SubmitFacts
from agents.engine.events import Json
from agents.engine.work.form import duplicates, ids, items_in
from agents.library.orchestrate.plan_rules.checks import digest
from agents.library.orchestrate.plan_rules.durations import UNITS, seconds_of
from agents.library.orchestrate.plan_rules.rules import (
    TEAM_FILE,
    Rule,
    RuleFailure,
    RuleSet,
    Severity,
    failures,
    journey_rules,
    rule_set,
    rules_in,
)
from agents.library.orchestrate.record import of_facts
from knowledge.errors import InvalidPath, KnowledgeError

OWN_FILE = "rules.yaml"
MOST_FAILURES = 60
"""The most failures recorded per severity: after sixty are fixed, the plan is validated again anyway."""


def refused(inputs: Mapping[str, Json]) -> Iterator[str]:
    """Yield a sentence for each requirement, limit or rule that cannot be read or that no plan could meet."""
    given = items_in(inputs, "requirements")
    for id_ in duplicates(ids(given)):
        yield f"requirements: two have the id {id_}; each needs its own"
    for number, item in enumerate(given):
        if blank := [name for name in ("id", "text") if not str(item.get(name, "")).strip()]:
            yield f"requirements[{number}]: {' and '.join(blank)} must say something"
    limit = inputs.get("limit")
    if isinstance(limit, str) and not seconds_of(limit):
        yield f"limit: {limit!r} is not a duration: write a number with {UNITS}"
    yield from journey_rules(inputs.get("rules"))[1]


async def validated(facts: SubmitFacts, look: Look) -> Mapping[str, Json]:
    """Return the work of VALIDATING: the rules' findings in the plan, and how many times in a row they were the same."""
    rules = await _rules(facts, look)
    undertaking = of_facts(facts)
    found = list[RuleFailure]()
    for rule in rules.rules:
        await checkpoint()  # many rules over a large plan take a while, and other callers are waiting
        found += failures([rule], undertaking)
    errors = _listed(found, "error")
    before = facts.work
    # Compared with the work on record, which is that of the validation before.
    same = bool(errors) and errors == before.get("errors")
    digests = {step["id"]: digest(step) for step in undertaking.steps}
    return {
        "errors": errors,
        "warnings": _listed(found, "warning"),
        "rules": sum(rule.severity != "off" for rule in rules.rules),
        "rules_not_read": list(rules.mistakes),
        "in_a_row": int(before.get("in_a_row", 0)) + 1 if same else int(bool(errors)),
        # The last valid plan stays the measure: `reused` compares steps that are done with it.
        "validated": before.get("validated", {}) if errors else digests,
    }


@cache
def own_rules() -> tuple[Rule, ...]:
    """Return the rules of this program.

    Raises:
        ValueError: its file has a mistake.
    """
    rules, problems = rules_in((files(__package__) / OWN_FILE).read_bytes(), OWN_FILE)
    if problems:
        raise ValueError("; ".join(map(str, problems)))
    return rules


async def _rules(facts: SubmitFacts, look: Look) -> RuleSet:
    of_journey = facts.inputs.get("rules")
    try:
        return rule_set(own_rules(), await look.configured(TEAM_FILE), of_journey)
    except (KnowledgeError, OSError) as error:
        # Other errors may name a place outside the knowledge base.
        why = f": {error}" if isinstance(error, InvalidPath) else ""
        without = rule_set(own_rules(), None, of_journey)
        return RuleSet(without.rules, (f"{TEAM_FILE}: the file cannot be read now{why}", *without.mistakes))


def _listed(found: Sequence[RuleFailure], severity: Severity) -> list[dict[str, Json]]:
    listed = [
        {"id": f"{one.rule}:{one.about}"[:120], "rule": one.rule, "about": one.about, "text": one.text}
        for one in found
        if one.severity == severity
    ]
    if (more := len(listed) - MOST_FAILURES) <= 0:
        return listed
    return [
        *listed[:MOST_FAILURES],
        {"id": "more", "rule": "more", "about": "", "text": f"and {more} more of these"},
    ]
