"""The validator: no model, only rules over what is on record. What it finds is the work of its phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from anyio.lowlevel import checkpoint

from agents.engine.agent import Look, SubmitFacts
from agents.engine.events import Json
from agents.library.orchestrate.plan_rules.checks import digest
from agents.library.orchestrate.plan_rules.rules import (
    TEAM_FILE,
    Rule,
    RuleFailure,
    RuleSet,
    failures,
    rule_set,
    rules_in,
    severe,
)
from agents.library.orchestrate.record import of_facts
from knowledge.errors import InvalidPath, KnowledgeError

OWN_FILE = "rules.yaml"
MOST_FAILURES = 60
"""So many of each severity are kept: who has mended sixty validates again anyway."""


async def validated(facts: SubmitFacts, look: Look) -> Mapping[str, Json]:
    """Return what the rules find in the plan, and how many times in a row it was the same."""
    rules = await _rules(facts, look)
    undertaking = of_facts(facts)
    found = list[RuleFailure]()
    for rule in rules.rules:
        await checkpoint()  # a large plan and many rules take a while, and others are served meanwhile
        found += failures([rule], undertaking)
    errors = _listed(severe(found, "error"))
    before = facts.work
    same = bool(errors) and errors == before.get("errors")
    good = {step["id"]: digest(step) for step in undertaking.steps}
    return {
        "errors": errors,
        "warnings": _listed(severe(found, "warning")),
        "rules": sum(rule.severity != "off" for rule in rules.rules),
        "rules_not_read": list(rules.mistakes),
        "in_a_row": int(before.get("in_a_row", 0)) + 1 if same else int(bool(errors)),
        "validated": before.get("validated", {}) if errors else good,
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
        why = f": {error}" if isinstance(error, InvalidPath) else ""
        without = rule_set(own_rules(), None, of_journey)
        return RuleSet(without.rules, (f"{TEAM_FILE}: the file cannot be read now{why}", *without.mistakes))


def _listed(found: Sequence[RuleFailure]) -> list[dict[str, Json]]:
    kept = [
        {"id": f"{one.rule}:{one.about}"[:120], "rule": one.rule, "about": one.about, "text": one.text} for one in found
    ]
    more = len(kept) - MOST_FAILURES
    return [*kept[:MOST_FAILURES], *([_more(more)] if more > 0 else [])]


def _more(more: int) -> dict[str, Json]:
    return {"id": "more", "rule": "more", "about": "", "text": f"and {more} more of these"}
