"""Correct works of the orchestrate agent, and a function that returns a condition's finding on them."""

from __future__ import annotations

from collections.abc import Mapping

from agents.engine.agent import Called, ConditionFinding, JourneySpent, SubmitFacts
from agents.engine.events import Json
from agents.engine.work.form import joined
from agents.library.folder import agent
from agents.library.orchestrate.record import IMPLEMENTING, PLANNING, VALIDATING
from tests.support.agents.agent_harness import VARROA, WINTER, Pages

AGENT = agent("orchestrate")

Work = Mapping[str, Json]

BRIEF = "Get the hive through the winter. It must have 15 kilograms of honey. Mites have to be treated."
REQUIREMENTS: list[dict[str, Json]] = [
    {"id": "r1", "text": "Enough honey", "words": "must have 15 kilograms of honey"},
    {"id": "r2", "text": "No mites", "words": "Mites have to be treated"},
]


def step(id_: str, text: str, **more: Json) -> dict[str, Json]:
    return {"id": id_, "step": text, "done_when": f"one sees: {text}", "duration": "2 h", **more}


PLAN: Work = {
    "goal": "The hive lives in March.",
    "requirements": REQUIREMENTS,
    "steps": [step("s1", "Weigh the hive", covers=["r1"]), step("s2", "Treat it", covers=["r2"], depends_on=["s1"])],
}
BROKEN: Work = {**PLAN, "steps": PLAN["steps"][:1]}
SEEN: Work = {"artefacts": ["code:src/hive.py"], "observed": "12 passed"}
DONE: Work = {
    "done": [
        {"id": "s1", "result": "35 kilograms", "shown_by": [WINTER]},
        {"id": "s2", "result": "treated", "shown_by": [VARROA]},
    ]
}
CANNOT: Work = {"requirement": "r2", "why": "acid is forbidden here", "shown_by": [VARROA]}
VALID: Work = {"errors": [], "warnings": [], "rules_not_read": [], "in_a_row": 0, "validated": {}}
MADE: dict[str, Work] = {PLANNING: PLAN, VALIDATING: VALID, IMPLEMENTING: DONE}


REASONS = "The hive was weighed and treated."


def read_by_judge() -> Pages:
    """Return a knowledge base whose page the judge has read."""
    return Pages(called=[Called("kb_read", "", {"path": VARROA["path"]})])


def judgement(id_: str, met: str = "yes", **more: Json) -> dict[str, Json]:
    return {"id": id_, "met": met, "why": "I looked", **({"steps": [f"s{id_[1:]}"]} if met == "yes" else {}), **more}


def issue(id_: str, about: str, severity: str = "major", text: str = "nobody knows when") -> dict[str, Json]:
    return {"id": id_, "about": about, "severity": severity, "text": text}


def verdict(score: int | None, *issues: Work, r1: str = "yes", r2: str = "yes", **more: Json) -> dict[str, Json]:
    judged = [judgement("r1", r1), judgement("r2", r2)]
    return {"judged": judged, "issues": list(issues), "score": score, "reasons": REASONS, **more}


SOFT = verdict(68, issue("i1", "r2"), r2="partly")
HARD = verdict(40, issue("i2", "r2", "blocking", "too warm for acid"), r2="no")
GOOD = verdict(100)


async def judge(
    condition: str,
    phase: str,
    given_: Work,
    look: Pages | None = None,
    *,
    works: Mapping[str, Work] | None = None,
    spent: JourneySpent | None = None,
    **inputs: Json,
) -> ConditionFinding:
    """Return a condition's finding when this is submitted in the phase, with `works` on record."""
    before = {**(works or {})}
    form = AGENT.forms.get(phase)
    work = joined(before.get(phase), given_, form.asks if form else frozenset())
    if form:
        assert form.problems(work) == (), "a near miss has the right form: it is for the condition to refuse"
    facts = SubmitFacts(
        phase, 1, BRIEF, inputs, given_, work, {**before, phase: work}, spent=spent or JourneySpent(10, 1.0, 1)
    )
    return await AGENT.conditions[condition](facts, look or read_by_judge())
