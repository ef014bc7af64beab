"""Which agent is proposed for a brief: the lightest that is enough, a tool, or nothing."""

from __future__ import annotations

import pytest

from agents.catalogue import built_in, cognitive_entries, entries
from agents.choice.proposal import NearBrief, by_class, proposed, signs
from agents.engine.agent import ModelAdvice

AGENTS = [entry.name for entry in entries()]
FOUND = NearBrief("sufficient", "guides/deploy.md", "Rolling back")
LOST = NearBrief()

BRIEFS = {
    "kb_search": [
        "Where is the onboarding guide?",
        "How long does a rollback of the payment service take?",
        "what is the cap on calls",
        "Who keeps the keys of the harbour office?",
        "Is the crane open on Sundays?",
    ],
    "kb_merge": [
        "The cap is 20 calls an hour now, not 10. Correct the page on limits.",
        "Please update the fee for a night to 20 euros.",
        "Fix the typo in the title of the deploy guide.",
        "Note that the office closes at four on Fridays.",
        "Replace 'master' by 'main' in the guide to releases.",
    ],
    "memory": ["Look back at last week's migration and note the lessons learned."],
    "clarification": [
        "It is unclear what the new report is for.",
        "Clarify with me what the dashboard must show.",
        "I need to pin down what the customer wants from the export.",
    ],
    "validation": [
        "Check whether the runbook meets our criteria.",
        "Verify that every step of the restore guide works.",
        "Validate the proposal against the security requirements.",
    ],
    "analysis": [
        "Analyse the constraints of the payment service.",
        "Compare the two queue designs and their trade-offs.",
        "Find the root cause of the nightly failures.",
        "Why do deployments fail on Mondays?",
    ],
    "synthesis": [
        "Reconcile the three proposals for the archive into one design.",
        "Combine what sales and support want into one process.",
    ],
    "build": [
        "Write a guide to restoring backups.",
        "Draft an announcement of the new fees.",
        "Create a checklist for new colleagues, based on the handbook.",
        "Please build a small tool that lists stale pages.",
    ],
    "understand": [
        "Teach me how our index works.",
        "I want to learn how trust levels work.",
        "Explain the merge rules to me and quiz me afterwards.",
        "Help me understand the deployment pipeline.",
    ],
    "research": [
        "Research how other teams rotate secrets.",
        "Find out everything we know about the 2024 outage.",
        "Give me an overview of our decisions on queues.",
        "How do we deploy? How do we roll back? Who is on call?",
        "Investigate what is recorded about flaky tests.",
    ],
    "assess": [
        "Assess the incident process.",
        "Evaluate our onboarding against its goals.",
        "How good is our documentation of the API?",
    ],
    "decide-well": [
        "Decide between PostgreSQL and SQLite for the archive.",
        "Which of the two vendors should we use?",
        "Should we move the office to the north pier?",
        "Recommend one of the three hosting offers.",
    ],
    "orchestrate": [
        "Get the hive through winter. It must have 15 kilograms of honey. Mites have to be treated. It should cost 50 euros.",
        "Orchestrate this: move the wiki into the handbook.",
    ],
    "deliver": ["Deliver a monthly report on stale pages.", "Take the intranet search end to end."],
}


@pytest.mark.parametrize(("wanted", "brief"), [(agent, brief) for agent, briefs in BRIEFS.items() for brief in briefs])
def test_the_lightest_that_is_enough_is_proposed_with_a_reason(wanted: str, brief: str) -> None:
    found = proposed(brief, FOUND, AGENTS)
    assert wanted in (found.first.agent, found.first.tool), found
    assert found.first.why
    assert len({(one.agent, one.tool) for one in (found.first, *found.others)}) == 1 + len(found.others)


@pytest.mark.parametrize(
    ("brief", "near", "wanted"),
    [
        ("Where is the onboarding guide?", LOST, "research"),
        ("Where is the onboarding guide?", NearBrief("partial", "guides/a.md"), "research"),
        ("What is in guides?", NearBrief("lost", place="guides"), "kb_map"),
        ("Write down what is in guides.", NearBrief("lost", place="guides"), "build"),
        ("Fix the typo in the title of the deploy guide.", LOST, "curate"),
        (
            "Fix the guide to deployments. " + "It says too little about rolling back and much else. " * 8,
            FOUND,
            "curate",
        ),
        ("deliver: a guide to restoring backups", FOUND, "deliver"),
        ("Use assess for the incident process.", FOUND, "assess"),
    ],
)
def test_a_tool_alone_is_proposed_only_if_the_search_shows_that_it_is_enough(
    brief: str, near: NearBrief, wanted: str
) -> None:
    first = proposed(brief, near, AGENTS).first
    assert (first.agent or first.tool) == wanted


@pytest.mark.parametrize("brief", ["bees", "Königin und Waben im Juni", "the thing from yesterday"])
def test_nothing_is_proposed_for_a_brief_that_does_not_say_what_to_do(brief: str) -> None:
    found = proposed(brief, LOST, AGENTS)
    assert (found.first.agent, found.first.tool, found.others) == ("", "", ())


def test_only_agents_that_can_be_started_are_proposed() -> None:
    for briefs in BRIEFS.values():
        for brief in briefs:
            found = proposed(brief, LOST, ["noting"])
            assert {one.agent for one in (found.first, *found.others)} == {""}
    assert proposed("noting: bees", LOST, ["noting"]).first.agent == "noting"


def test_single_agents_come_in_the_order_of_the_classes_of_model() -> None:
    """The founding documents: the fastest model for memory, the largest for analysis and synthesis, a balanced one for the others."""
    order = ["fastest", "balanced", "largest"]
    known = {entry.name for entry in cognitive_entries()}
    names = [one.agent for one in signs()]
    assert set(names) <= set(AGENTS)
    single = [one for one in signs() if one.agent in known]
    assert {one.agent for one in single} == known
    for one in single:
        models = built_in(one.agent).models
        assert one.weight == models.get(one.agent, models.get("", ModelAdvice("", ""))).model_class
    classes = [order.index(one.weight) for one in single]
    assert classes == sorted(classes)
    assert len(classes) == names.index("curate"), "single agents come before those of many phases"
    assert by_class().startswith("fastest: memory; balanced: clarification,")
