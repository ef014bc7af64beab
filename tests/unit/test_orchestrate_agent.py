"""Orchestrate: what each condition accepts and what it does not, each way through the graph, and what a host is told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.agent import Called, Facts, Fate, Finding, Spent
from agents.catalogue import BUILT_IN
from agents.errors import BadStart, BadWork, NotToDecide
from agents.events import CheckpointReached, Json, PhaseChanged, SourceFound, Thinking, WorkRecorded
from agents.graph import checked
from agents.orchestrate.agent import AGENT, values
from agents.orchestrate.budget import Limits, limits_of, used_up
from agents.orchestrate.record import (
    BUDGET_EXHAUSTED,
    FAILED,
    IMPLEMENTING,
    JUDGING,
    PLANNING,
    SUCCEEDED,
    VALIDATING,
    of_state,
)
from agents.orchestrate.rules import TEAM_FILE
from agents.orchestrate.scoring import ISSUE_POINTS, MET_POINTS, score_range
from agents.prompting import COMMON, placeholders
from agents.state import JourneyState
from agents.work import joined
from knowledge.tokens import count_tokens
from tests.agents_at_work import (
    ALTERED,
    ANSWER_TOKENS,
    NOWHERE,
    PAGES,
    TOOLS,
    VARROA,
    WINTER,
    Led,
    Pages,
    change,
    cost,
    lacks,
    leading,
    walk,
    words_in,
)
from tests.journeys import Walk

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
VALID: Work = {"errors": [], "warnings": [], "rules_not_read": [], "in_a_row": 0, "validated": {}}
MADE: dict[str, Work] = {PLANNING: PLAN, VALIDATING: VALID, IMPLEMENTING: DONE}


def judgement(id_: str, met: str = "yes", **more: Json) -> dict[str, Json]:
    return {"id": id_, "met": met, "why": "I looked", **({"steps": [f"s{id_[1:]}"]} if met == "yes" else {}), **more}


def issue(id_: str, about: str, severity: str = "major", text: str = "nobody knows when") -> dict[str, Json]:
    return {"id": id_, "about": about, "severity": severity, "text": text}


def verdict(score: int | None, *issues: Work, r1: str = "yes", r2: str = "yes", **more: Json) -> dict[str, Json]:
    judged = [judgement("r1", r1), judgement("r2", r2)]
    return {"judged": judged, "issues": list(issues), "score": score, "reasons": "So it is.", **more}


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
    spent: Spent | None = None,
    **inputs: Json,
) -> Finding:
    """Return what a condition finds when that is submitted in the phase, with `works` on record."""
    before = {**(works or {})}
    form = AGENT.forms.get(phase)
    work = joined(before.get(phase), given_, form.asks if form else frozenset())
    if form:
        assert form.problems(work) == (), "a near miss has the right form: it is for the condition to refuse"
    facts = Facts(phase, 1, BRIEF, inputs, given_, work, {**before, phase: work}, spent=spent or Spent(10, 1.0, 1))
    return await AGENT.conditions[condition](facts, look or Pages())


# --- the graph --------------------------------------------------------------------------------------------------------


def test_the_graph_can_be_used_and_is_the_one_that_the_catalogue_shows() -> None:
    assert checked(AGENT.graph, AGENT.known_conditions, TOOLS) is AGENT.graph
    entry = next(entry for entry in BUILT_IN if entry.name == "orchestrate")
    assert (AGENT.name, AGENT.title, AGENT.summary) == (entry.name, entry.title, entry.summary)
    properties = AGENT.inputs["properties"]
    assert {name: form["description"] for name, form in properties.items()} == entry.inputs
    automatic = {phase.name for phase in AGENT.graph.phases if phase.automatic}
    assert automatic == set(AGENT.provides) == {VALIDATING}
    assert set(AGENT.forms) == {phase.name for phase in AGENT.graph.phases} - set(AGENT.graph.complete) - automatic
    assert {t.condition for t in AGENT.graph.transitions} - {"always"} == set(AGENT.conditions)
    assert {phase.speaker for phase in AGENT.graph.phases} - {""} == set(AGENT.models)


def test_each_phase_has_words_for_coming_and_for_coming_back_of_its_own_tools() -> None:
    known = COMMON | set(values(Walk(AGENT.graph).state))
    for phase in AGENT.graph.phases:
        first, again = AGENT.texts.get(phase.prompt, ""), AGENT.texts.get(phase.prompt_again, "")
        assert bool(first) != phase.automatic
        assert words_in(first) <= 350
        assert words_in(again) <= 200
        assert bool(again) == (phase.name not in AGENT.graph.complete and not phase.automatic)
        assert placeholders(first + again) <= known
        assert set(re.findall(r"\b(?:kb|plane|zulip)_\w+", first + again)) <= set(phase.tools)
    named = {phase.prompt for phase in AGENT.graph.phases} | {phase.prompt_again for phase in AGENT.graph.phases}
    assert set(AGENT.texts) == named - {""}


# --- planning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [PLAN, BROKEN, {"steps": [{"id": "s1"}]}])
async def test_whatever_is_a_plan_is_validated(plan: Work) -> None:
    """What is wrong with it is for the rules to say."""
    assert (await judge("planned", PLANNING, plan)).met


async def test_a_draft_is_kept_until_the_rest_is_there() -> None:
    assert lacks(await judge("planned", PLANNING, {**PLAN, "draft": True}), "recorded as a draft")
    assert (await judge("planned", PLANNING, {}, works={PLANNING: {**PLAN, "draft": True}})).met
    assert lacks(await judge("planned", PLANNING, {"goal": "A hive."}), "no step yet")


async def test_requirements_that_came_with_the_brief_are_all_there_are() -> None:
    given_ = [{"id": "r1", "text": "Honey"}]
    assert lacks(await judge("planned", PLANNING, PLAN, requirements=given_), "there are no others: drop r1, r2")
    assert (await judge("planned", PLANNING, {**PLAN, "requirements": []}, requirements=given_)).met


async def test_after_a_hard_failure_the_plan_answers_every_issue() -> None:
    works = {**MADE, JUDGING: HARD}
    assert lacks(await judge("planned", PLANNING, {}, works=works), "issue i2", "too warm for acid", "answers")
    assert (await judge("planned", PLANNING, {"answers": [{"id": "i2", "how": "in December"}]}, works=works)).met
    assert (await judge("planned", PLANNING, {}, works={**MADE, JUDGING: SOFT})).met, "that one is not for the planner"
    assert (await judge("planned", PLANNING, {}, works={**works, JUDGING: GOOD})).met


CANNOT: Work = {"requirement": "r2", "why": "acid is forbidden here", "shown_by": [VARROA]}


@pytest.mark.parametrize("cannot", [CANNOT, {**CANNOT, "shown_by": [], "tried": ["I asked the town"]}])
async def test_that_a_requirement_cannot_be_met_is_shown_and_named(cannot: Work) -> None:
    found = await judge("goal_cannot_be_met", PLANNING, {**PLAN, "cannot": cannot})
    assert found.met
    assert found.feedback == (), "a person may not agree"
    assert not (await judge("planned", PLANNING, {**PLAN, "cannot": cannot})).met


@pytest.mark.parametrize(
    ("cannot", "said"),
    [
        ({**CANNOT, "requirement": "r9"}, "name one of r1, r2"),
        ({**CANNOT, "shown_by": []}, "nothing shows that it cannot be met"),
        ({**CANNOT, "shown_by": [ALTERED]}, "cannot.shown_by[0]: the quote does not stand"),
        ({**CANNOT, "shown_by": [VARROA, NOWHERE]}, "cannot.shown_by[1]: there is no page"),
    ],
)
async def test_what_does_not_show_that_the_goal_cannot_be_met_ends_nothing(cannot: Work, said: str) -> None:
    assert lacks(await judge("goal_cannot_be_met", PLANNING, {**PLAN, "cannot": cannot}), said)


async def test_who_does_not_give_up_hears_nothing_of_it() -> None:
    for plan in (PLAN, {**PLAN, "cannot": None}):
        assert await judge("goal_cannot_be_met", PLANNING, plan) == Finding(met=False)


# --- implementing -----------------------------------------------------------------------------------------------------

PLANNED: dict[str, Work] = {PLANNING: PLAN, VALIDATING: VALID}


@pytest.mark.parametrize(
    "work",
    [
        DONE,
        change(DONE, "done", 1, shown_by=[], **SEEN),
        change(DONE, "done", 1, shown_by=[], said="ann, on Monday"),
        change(DONE, "done", 1, shown_by=[], artefacts=["kb:notes/bees.md#winter"], observed="it stands there"),
        {"done": DONE["done"][:1], "undone": [{"id": "s2", "why": "no acid"}]},
        {"undone": [{"id": "s1", "why": "no scales"}, {"id": "s2", "why": "no acid"}]},
    ],
)
async def test_every_step_is_done_and_shown_or_named_as_undone(work: Work) -> None:
    assert (await judge("implemented", IMPLEMENTING, work, works=PLANNED)).met


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ({}, ["not done yet: s1, s2"]),
        ({"done": DONE["done"][1:]}, ["not done yet: s1"]),
        ({"done": [*DONE["done"], {"id": "s9", "result": "x", "said": "ann"}]}, ["no steps of the plan: s9"]),
        ({**DONE, "undone": [{"id": "s2", "why": "no acid"}]}, ["done and not to be done: s2"]),
        (change(DONE, "done", 0, shown_by=[]), ["nothing shows yet that s1 is done"]),
        (change(DONE, "done", 0, shown_by=[], said=" "), ["nothing shows yet that s1 is done"]),
        (change(DONE, "done", 0, shown_by=[], artefacts=["code:a.py"]), ["nothing shows yet that s1 is done"]),
        (change(DONE, "done", 0, shown_by=[ALTERED]), ["done[s1].shown_by[0]", "does not stand in"]),
        (change(DONE, "done", 0, shown_by=[], said="ann", artefacts=["kb:wax.md"]), ["done[s1]", "wax.md"]),
        ({"done": DONE["done"][1:], "undone": [{"id": "s1", "why": "no scales"}]}, ["s2 is done, but", "is not: s1"]),
        (change(DONE, "done", 1, calls=[{"tool": "kb_merge"}]), ["done[s2]: no call of kb_merge was answered here"]),
    ],
)
async def test_what_is_not_shown_is_named(work: Work, said: list[str]) -> None:
    assert lacks(await judge("implemented", IMPLEMENTING, work, works=PLANNED), *said)


def called(tool: str, **facts: Json) -> Called:
    return Called(tool, IMPLEMENTING, facts)


BY_CALL = change(DONE, "done", 1, shown_by=[], calls=[{"tool": "kb_merge", "path": "notes/log.md"}])


@pytest.mark.parametrize(
    "calls",
    [
        [called("kb_merge", path="notes/log.md", status="done")],
        [called("kb_merge", path="notes/log.md", status="conflict"), called("kb_merge", path="notes/log.md", status="partial")],
        [called("kb_merge", path="notes/log.md", status="proposed", proposal="p1")],
    ],
)  # fmt: skip
async def test_a_call_shows_a_step_if_it_was_carried_out(calls: list[Called]) -> None:
    look = Pages(called=calls, fates={"p1": Fate("kb_merge", "done")})
    assert (await judge("implemented", IMPLEMENTING, BY_CALL, look, works=PLANNED)).met
    later = Pages(called_before=calls, fates=look.fates)
    works = {**PLANNED, IMPLEMENTING: BY_CALL}
    assert (await judge("implemented", IMPLEMENTING, {}, later, works=works)).met, "it stays shown in a later visit"
    looked = change(DONE, "done", 1, shown_by=[], calls=[{"tool": "kb_read"}])
    reading = Pages(called=[called("kb_read", path="notes/bees.md", revision="1")])
    assert (await judge("implemented", IMPLEMENTING, looked, reading, works=PLANNED)).met


@pytest.mark.parametrize(
    ("calls", "fate", "said"),
    [
        ([], None, "no call of kb_merge notes/log.md"),
        ([called("kb_merge", path="notes/bees.md", status="done")], None, "no call of kb_merge notes/log.md"),
        ([called("kb_move", path="notes/log.md", status="done")], None, "no call of kb_merge notes/log.md"),
        ([called("kb_merge", path="notes/log.md", status="conflict")], None, "changed nothing: its status is conflict"),
        ([called("kb_merge", path="notes/log.md", status="analysis")], None, "changed nothing: its status is analysis"),
        ([called("kb_merge", path="notes/log.md", status="proposed", proposal="p1")], "pending", "decision about proposal p1"),
        ([called("kb_merge", path="notes/log.md", status="proposed", proposal="p1")], "rejected", "its status is proposed"),
        ([called("kb_merge", path="notes/log.md", status="proposed", proposal="p1")], None, "its status is proposed"),
    ],
)  # fmt: skip
async def test_a_call_that_did_nothing_shows_nothing(calls: list[Called], fate: Any, said: str) -> None:
    look = Pages(called=calls, fates={"p1": Fate("kb_merge", fate)} if fate else {})
    assert lacks(await judge("implemented", IMPLEMENTING, BY_CALL, look, works=PLANNED), "done[s2]", said)


async def test_a_soft_failure_is_answered_by_the_steps_that_it_is_about() -> None:
    works = {**MADE, JUDGING: SOFT}
    assert lacks(await judge("implemented", IMPLEMENTING, {}, works=works), "issue i1", "nobody knows when")
    answer = {"id": "i1", "step": "s9", "how": "the date is there"}
    assert lacks(await judge("implemented", IMPLEMENTING, {"answers": [answer]}, works=works), "answers[i1]", "s9")
    assert (await judge("implemented", IMPLEMENTING, {"answers": [{**answer, "step": "s2"}]}, works=works)).met
    old = {**works, IMPLEMENTING: {**DONE, "answers": [answer]}, JUDGING: HARD}
    assert (await judge("implemented", IMPLEMENTING, {}, works=old)).met, "what was answered long ago holds nothing up"


# --- judging ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "work",
    [
        GOOD,
        verdict(95, issue("i1", "s2", "major")),
        verdict(88, issue("i1", "r2", "major")),
        verdict(99, issue("i1", "r1", "minor")),
        {**GOOD, "judged": [judgement("r1", steps=[], shown_by=[WINTER]), judgement("r2")]},
    ],
)
async def test_a_verdict_passes_that_agrees_with_itself(work: Work) -> None:
    assert (await judge("passed", JUDGING, work, works=MADE)).met
    for other in ("soft_failure", "hard_failure", "budget_exhausted"):
        assert not (await judge(other, JUDGING, work, works=MADE)).met


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ({}, ["not judged yet: r1, r2", "no reasons", "no score"]),
        (verdict(None), ["there is no score"]),
        ({**GOOD, "reasons": " "}, ["there are no reasons"]),
        ({**GOOD, "judged": GOOD["judged"][:1]}, ["not judged yet: r2"]),
        ({**GOOD, "judged": [*GOOD["judged"], judgement("r9", steps=["s1"])]}, ["no requirements: r9"]),
        ({**GOOD, "judged": [judgement("r1", steps=[]), judgement("r2")]}, ["nothing shows that r1 is met"]),
        ({**GOOD, "judged": [judgement("r1", steps=["s2"]), judgement("r2")]}, ["r1 is not shown by s2"]),
        ({**GOOD, "judged": [judgement("r1", steps=["s9"]), judgement("r2")]}, ["r1 is not shown by s9"]),
        ({**GOOD, "judged": [judgement("r1", shown_by=[ALTERED]), judgement("r2")]}, ["judged[r1].shown_by[0]"]),
        (verdict(75, r2="partly"), ["r2 is met partly: name an issue about r2"]),
        (verdict(49, issue("i1", "r2", "minor"), r2="no"), ["r2 is not met: name a major or blocking issue"]),
        (verdict(90, issue("i1", "r9")), ["about no requirement and no step: i1 (r9)"]),
        (verdict(90, issue("r1", "r2")), ["used for something else already: r1"]),
        (verdict(90, issue("s2", "r2")), ["used for something else already: s2"]),
        (verdict(99), ["the score 99 does not agree with what you found: 2 yes earn 100, so it lies 100"]),
        (verdict(88, issue("i1", "r2"), r2="partly"), ["so it lies between 55 and 70"]),
        (verdict(85, issue("i1", "r2", "blocking")), ["between 0 and 79; it cannot pass: i1 blocking"]),
        (verdict(80, issue("i1", "s1"), issue("i2", "s1")), []),
        (verdict(94, issue("i1", "s1"), issue("i2", "s1")), ["2 major 5 to 20 each", "between 60 and 90"]),
    ],
)
async def test_a_verdict_that_lacks_something_or_contradicts_itself_is_told_so(work: Work, said: list[str]) -> None:
    found = await judge("passed", JUDGING, work, works=MADE)
    assert lacks(found, *said) if said else found.met
    if said:
        for other in ("soft_failure", "hard_failure", "budget_exhausted"):
            assert not (await judge(other, JUDGING, work, works=MADE)).met


async def test_what_is_undone_or_only_said_keeps_a_verdict_from_passing_by_itself() -> None:
    undone = {"done": DONE["done"][:1], "undone": [{"id": "s2", "why": "no acid"}]}
    quoted = [judgement("r1"), judgement("r2", steps=[], shown_by=[VARROA])]
    works = {**MADE, IMPLEMENTING: undone}
    found = await judge("passed", JUDGING, {**GOOD, "judged": quoted}, works=works)
    assert lacks(found, "these steps are not done: s2; name an issue about each")
    found = await judge("passed", JUDGING, {**verdict(90, issue("i1", "s2")), "judged": quoted}, works=works)
    assert lacks(found, "so it lies between 59 and 79; it cannot pass: s2 not done")
    assert (await judge("soft_failure", JUDGING, {**verdict(79, issue("i1", "s2")), "judged": quoted}, works=works)).met
    said = change(DONE, "done", 1, shown_by=[], said="ann")
    works = {**MADE, IMPLEMENTING: said}
    assert lacks(await judge("passed", JUDGING, GOOD, works=works), "r2 rests on steps that are only said to be done")
    seen = {**GOOD, "judged": [judgement("r1"), judgement("r2", observed="I saw the mites fall")]}
    assert (await judge("passed", JUDGING, seen, works=works)).met


async def test_an_issue_that_was_answered_comes_back_under_a_new_id_only() -> None:
    answered = {**DONE, "answers": [{"id": "i1", "step": "s2", "how": "the date is there"}]}
    works = {**MADE, IMPLEMENTING: answered}
    assert lacks(await judge("passed", JUDGING, verdict(90, issue("i1", "r2")), works=works), "were answered: i1")
    planned = {**MADE, PLANNING: {**PLAN, "answers": [{"id": "i1", "how": "otherwise"}]}}
    assert lacks(await judge("passed", JUDGING, verdict(90, issue("i1", "r2")), works=planned), "were answered: i1")
    assert (await judge("passed", JUDGING, verdict(90, issue("i3", "r2")), works=works)).met


@pytest.mark.parametrize(
    ("work", "inputs", "leads"),
    [
        (SOFT, {}, "soft_failure"),
        (HARD, {}, "hard_failure"),
        (SOFT, {"pass_score": 68}, "passed"),
        (SOFT, {"pass_score": 69}, "soft_failure"),
        (SOFT, {"soft_score": 69}, "hard_failure"),
        (HARD, {"soft_score": 40}, "soft_failure"),
        (HARD, {"soft_score": 0}, "soft_failure"),
        (verdict(60, issue("i1", "r2"), r2="partly"), {}, "soft_failure"),
        (verdict(59, issue("i1", "r2"), r2="partly"), {}, "hard_failure"),
        (verdict(59, issue("i1", "r2"), r2="partly"), {"pass_score": 50, "soft_score": 90}, "passed"),
    ],
)
async def test_the_score_says_where_the_work_goes(work: Work, inputs: dict[str, Json], leads: str) -> None:
    met = [name for name in AGENT.conditions if (await judge(name, JUDGING, work, works=MADE, **inputs)).met]
    assert [name for name in met if name in ("passed", "soft_failure", "hard_failure", "budget_exhausted")] == [leads]


async def test_a_failure_tells_those_who_come_later_what_was_wrong() -> None:
    soft = await judge("soft_failure", JUDGING, SOFT, works=MADE)
    assert (soft.kind, soft.feedback) == ("soft_failure", ("68 of 100: i1 (major, r2) nobody knows when. So it is.",))
    assert soft.detail == soft.feedback[0]
    hard = await judge("hard_failure", JUDGING, HARD, works=MADE)
    assert (hard.kind, hard.feedback) == (
        "hard_failure",
        ("40 of 100: i2 (blocking, r2) too warm for acid. So it is.",),
    )


# --- the range of a score ---------------------------------------------------------------------------------------------

JUDGED = st.lists(st.sampled_from(list(MET_POINTS)), min_size=1, max_size=20)
ISSUES = st.lists(st.sampled_from(list(ISSUE_POINTS)), max_size=20)


@given(met=JUDGED, severities=ISSUES, undone=st.booleans(), pass_score=st.integers(1, 100))
def test_the_range_of_a_score_holds_what_the_judge_found(
    *, met: list[str], severities: list[str], undone: bool, pass_score: int
) -> None:
    judged = [{"id": f"r{n}", "met": one} for n, one in enumerate(met)]
    issues = [{"id": f"i{n}", "severity": one} for n, one in enumerate(severities)]
    steps = ["s1"] if undone else []
    range_ = score_range(judged, issues, steps, len(judged), pass_score)
    assert 0 <= range_.least <= range_.most <= 100
    if "no" in met or "blocking" in severities or undone:
        assert range_.most < pass_score
        assert range_.barred
    elif set(met) == {"yes"} and not severities:
        assert (range_.least, range_.most) == (100, 100)
    worse = score_range(judged, [*issues, {"id": "j", "severity": "minor"}], steps, len(judged), pass_score)
    assert worse.most <= range_.most
    assert worse.least <= range_.least


# --- the budget -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spent", "failed", "gone"),
    [
        (Spent(99, 9.9, 2), False, []),
        (Spent(100, 0.0, 1), False, ["100 of 100 tokens"]),
        (Spent(0, 10.0, 1), False, ["10.00 of 10.00 seconds"]),
        (Spent(0, 0.0, 3), False, []),
        (Spent(0, 0.0, 3), True, ["3 of 3 iterations"]),
        (Spent(0, 0.0, 2), True, []),
        (Spent(500, 99.0, 4), True, ["500 of 100 tokens", "99.00 of 10.00 seconds", "4 of 3 iterations"]),
    ],
)
def test_a_budget_is_used_up_when_its_last_part_is_spent(*, spent: Spent, failed: bool, gone: list[str]) -> None:
    assert used_up(spent, Limits(100, 3, 10), failed=failed) == gone


def test_what_the_inputs_do_not_name_is_as_usual() -> None:
    assert limits_of({}) == Limits()
    assert limits_of({"budget": {"iterations": 2}}) == replace(Limits(), iterations=2)


SPENT = Spent(10**9, 1.0, 1)


@pytest.mark.parametrize(
    ("phase", "work", "met"),
    [
        (PLANNING, PLAN, ["planned", "budget_exhausted"]),
        (IMPLEMENTING, DONE, ["implemented", "budget_exhausted"]),
        (IMPLEMENTING, {}, ["budget_exhausted"]),
        (JUDGING, {}, ["budget_exhausted"]),
        (JUDGING, SOFT, ["budget_exhausted"]),
        (JUDGING, HARD, ["budget_exhausted"]),
        (JUDGING, GOOD, ["passed", "budget_exhausted"]),
    ],
)
async def test_tokens_and_seconds_are_looked_at_with_every_submit(phase: str, work: Work, met: list[str]) -> None:
    here = [t.condition for t in AGENT.graph.transitions if t.source == phase]
    for spent in (SPENT, Spent(1, 10**9, 1)):
        works = {name: MADE[name] for name in MADE if name != phase}
        found = [name for name in here if (await judge(name, phase, work, works=works, spent=spent)).met]
        assert sorted(found) == sorted(met)


async def test_what_fails_in_the_last_iteration_is_the_end() -> None:
    last = Spent(1, 1.0, 6)
    for work in (SOFT, HARD):
        assert not (await judge("soft_failure", JUDGING, work, works=MADE, spent=last)).met
        assert not (await judge("hard_failure", JUDGING, work, works=MADE, spent=last)).met
        found = await judge("budget_exhausted", JUDGING, work, works=MADE, spent=last)
        assert found.feedback[1:] == ("the budget is used up: 6 of 6 iterations",)
        assert found.kind == ("soft_failure" if work is SOFT else "hard_failure")
    assert not (await judge("budget_exhausted", JUDGING, {**SOFT, "score": 99}, works=MADE, spent=last)).met


# --- the way through --------------------------------------------------------------------------------------------------


def conversations(events: Sequence[object]) -> list[tuple[str, str]]:
    """Return the phases that were entered, each with the conversation in which it goes on."""
    return [(e.target, e.conversation) for e in events if isinstance(e, PhaseChanged)]


async def test_the_happy_path_has_one_visit_of_each_phase(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        begun = await led.state()
        assert re.fullmatch(r"planner_iter1_\w+", begun.conversation)
        assert (await led.submit(**PLAN)).phase == IMPLEMENTING
        assert (await led.submit(**DONE)).phase == JUDGING
        state = await led.submit(**GOOD)
        assert (state.phase, state.status, state.iteration) == (SUCCEEDED, "complete", 1)
        assert {phase: took.visits for phase, took in state.metrics.items()} == dict.fromkeys(
            (PLANNING, VALIDATING, IMPLEMENTING, JUDGING, SUCCEEDED), 1
        )
        assert state.work[VALIDATING].automatic
        assert state.metrics[VALIDATING].submits == 0
        told, events = await led.told(), await led.events()
    assert "It has succeeded: 100 of 100." in told
    assert [phase for phase, _ in conversations(events)] == [VALIDATING, IMPLEMENTING, JUDGING, SUCCEEDED]
    assert [e.source for e in events if isinstance(e, SourceFound)] == ["kb:notes/bees.md"]
    assert state.feedback == ()


async def test_an_invalid_plan_comes_back_to_the_same_planner_with_what_it_breaks(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        first = (await led.state()).conversation
        state = await led.submit(**BROKEN)
        assert (state.phase, state.visit, state.iteration, state.conversation) == (PLANNING, 2, 2, first)
        assert [(f.kind, f.phase, f.text) for f in state.feedback] == [
            ("validation", VALIDATING, "the plan breaks 1 rule: requirement-covered:r2")
        ]
        told = await led.told()
        assert "Why: plan_invalid\nDetail: the plan breaks 1 rule\n" in told
        assert "- requirement r2 (No mites) is covered by no step" in told
        assert "- validation failure in VALIDATING: the plan breaks 1 rule: requirement-covered:r2" in told
        state = await led.submit(steps=PLAN["steps"][1:])
        assert state.phase == IMPLEMENTING
        assert re.fullmatch(r"implementer_iter2_\w+", state.conversation)
        assert "validation failure" not in await led.told()
        thoughts = [e.text for e in await led.events() if isinstance(e, Thinking)]
    assert thoughts == ["returning to PLANNING, plan_invalid: the plan breaks 1 rule"]


async def test_what_breaks_one_rule_in_several_ways_is_counted_and_named_once(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        state = await led.submit(goal="g", requirements=REQUIREMENTS, steps=[{"id": "s1", "covers": ["r1", "r2"]}])
        assert [one.text for one in state.feedback] == ["the plan breaks 1 rule: step-fields:s1"]
        told = await led.told()
    assert all(f"step s1 lacks {name}" in told for name in ("step", "done_when", "duration"))


async def test_the_same_failures_three_times_in_a_row_are_the_end(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        await led.submit(**BROKEN)
        state = await led.submit(goal="The hive lives.")
        assert state.backward_trigger_detail == "the plan breaks 1 rule, the same as before: 2 times in a row"
        state = await led.submit()
        assert (state.phase, state.status) == (FAILED, "complete")
        assert "broke the same rules 3 times in a row: requirement-covered:r2" in await led.told()
        state = await led.decide("revisit", "it is enough to weigh it", changes={"phase": PLANNING})
        assert (await led.submit(**PLAN)).phase == IMPLEMENTING, "who mends it goes on"


async def test_other_failures_between_them_give_another_chance(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        for number in range(2):
            await led.submit(**BROKEN)
            await led.submit(steps=[step("s1", "Weigh the hive", covers=["r1"], duration="soon")])
            assert (await led.state()).iteration == 3 + 2 * number
        assert (await led.submit(**PLAN)).phase == IMPLEMENTING


async def test_a_soft_failure_goes_on_in_the_implementer_s_conversation_and_is_judged_afresh(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        implementer = (await led.submit(**PLAN)).conversation
        judge_ = (await led.submit(**DONE)).conversation
        state = await led.submit(**SOFT)
        assert (state.phase, state.visit, state.conversation) == (IMPLEMENTING, 2, implementer)
        told = await led.told()
        assert "- i1 (major, about r2): nobody knows when" in told
        assert "- soft failure in JUDGING: 68 of 100: i1 (major, r2) nobody knows when. So it is." in told
        state = await led.submit(answers=[{"id": "i1", "step": "s2", "how": "the date is there"}])
        assert state.phase == JUDGING
        assert re.fullmatch(r"judge_iter2_\w+", state.conversation)
        assert state.conversation != judge_
        told = await led.told()
        assert "It was judged before" in told
        assert "soft failure in JUDGING: 68 of 100" in told
        assert "You come back" not in told
        assert (await led.submit()).phase == JUDGING, "nothing of the verdict before counts"
        assert "not judged yet: r1, r2; send the verdict whole" in await led.missing()
        assert (await led.submit(**GOOD)).phase == SUCCEEDED


async def test_a_hard_failure_plans_anew_in_new_conversations_that_are_told_what_was_wrong(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        planner = (await led.state()).conversation
        implementer = (await led.submit(**PLAN)).conversation
        await led.submit(**DONE)
        state = await led.submit(**HARD)
        assert (state.phase, state.iteration) == (PLANNING, 2)
        assert re.fullmatch(r"planner_iter2_\w+", state.conversation)
        assert state.conversation != planner
        assert set(state.conversations) == {"planner"}
        told = await led.told()
        assert "Why: hard_failure\nDetail: 40 of 100: i2 (blocking, r2) too warm for acid" in told
        assert "- hard failure in JUDGING: 40 of 100" in told
        assert "- i2 (blocking, about r2): too warm for acid" in told
        await led.submit(drop=["s2"], answers=[{"id": "i2", "how": "in December"}])
        state = await led.submit(steps=[step("s3", "Treat it in December", covers=["r2"], depends_on=["s1"])])
        assert state.phase == IMPLEMENTING
        assert state.conversation not in (implementer, "")
        assert "s1 (for r1): 35 kilograms" in await led.told(), "what was done for a step that stays counts"
        await led.submit(drop=["s2"], done=[{"id": "s3", "result": "treated", **SEEN}])
        assert "hard failure in JUDGING: 40 of 100" in await led.told()
        good = {**GOOD, "judged": [judgement("r1"), judgement("r2", steps=["s3"])]}
        assert (await led.submit(**good)).phase == SUCCEEDED
        judges = [name for phase, name in conversations(await led.events()) if phase == JUDGING]
    assert len(judges) == len(set(judges)) == 2


async def test_a_step_that_was_done_may_not_become_another_one_under_its_id(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        await led.submit(**PLAN)
        await led.submit(**DONE)
        await led.submit(**HARD)
        answers = [{"id": "i2", "how": "in December"}]
        steps = [step("s2", "Burn the hive", covers=["r2"], depends_on=["s1"])]
        state = await led.submit(answers=answers, steps=steps)
        assert state.phase == PLANNING
        assert "step s2 was done already and means something else now" in await led.told()
        steps = [step("s2", "treat it!", covers=["r2"], depends_on=["s1"], duration="9 h")]
        assert (await led.submit(steps=steps)).phase == IMPLEMENTING, "another length is no other step"


async def test_who_gives_up_waits_for_a_person_who_may_see_a_way(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        state = await led.submit(**PLAN, cannot=CANNOT)
        assert (state.phase, state.status) == (PLANNING, "waiting")
        told = await led.told()
        assert AGENT.questions[PLANNING] in told
        assert "cannot be met: r2, acid is forbidden here" in told
        assert "shown by: notes/bees.md > Bees > Varroa; tried: nothing" in told
        state = await led.decide("reject", "use thymol")
        assert (state.phase, state.status) == (PLANNING, "active")
        assert "use thymol" in await led.told()
        await led.submit(cannot=CANNOT)
        state = await led.decide("modify", changes={"cannot": None})
        assert state.phase == IMPLEMENTING, "the person struck it out, and the plan is good"
    async with leading(AGENT, tmp_path / "b", brief=BRIEF) as led:
        await led.submit(**PLAN, cannot=CANNOT)
        with pytest.raises(NotToDecide):
            await led.decide("answer", changes={"r2": "yes"})
        state = await led.decide("approve")
        assert (state.phase, state.status) == (FAILED, "complete")
        assert "It has failed: r2 cannot be met, and a person agreed: acid is forbidden here." in await led.told()
        assert [e.kind for e in await led.events() if isinstance(e, CheckpointReached)] == ["blocking"]


async def test_who_gives_up_after_planning_got_no_further_is_told_their_own_reason(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        for _ in range(3):
            await led.submit(**BROKEN)
        assert "broke the same rules 3 times in a row" in await led.told()
        assert "the plan breaks requirement-covered:r2" in AGENT.done(await led.state())
        await led.decide("revisit", "try once more", changes={"phase": PLANNING})
        assert (
            await led.submit(cannot={"requirement": "r2", "why": "no acid", "tried": ["asked"]})
        ).status == "waiting"
        await led.decide("approve")
        assert "It has failed: r2 cannot be met, and a person agreed: no acid." in await led.told()
        assert "cannot be met: r2, no acid" in AGENT.done(await led.state()), "a memory document has it, too"


@pytest.mark.parametrize(
    ("budget", "works", "visited", "gone"),
    [
        ({"tokens": 1}, [PLAN], [BUDGET_EXHAUSTED], " of 1 tokens"),
        ({"seconds": 1}, [PLAN], [BUDGET_EXHAUSTED], " of 1.00 seconds"),
        ({"iterations": 1}, [BROKEN], [VALIDATING, BUDGET_EXHAUSTED], "1 of 1 iterations"),
        ({"iterations": 2}, [BROKEN, {}], [VALIDATING, PLANNING, VALIDATING, BUDGET_EXHAUSTED], "2 of 2 iterations"),
        ({"iterations": 1}, [PLAN, DONE, SOFT], [VALIDATING, IMPLEMENTING, JUDGING, BUDGET_EXHAUSTED], "1 of 1 iter"),
        ({"iterations": 1}, [PLAN, DONE, HARD], [VALIDATING, IMPLEMENTING, JUDGING, BUDGET_EXHAUSTED], "1 of 1 iter"),
        ({"iterations": 1}, [PLAN, DONE, GOOD], [VALIDATING, IMPLEMENTING, JUDGING, SUCCEEDED], ""),
        (
            {"tokens": 900},
            [PLAN, {"done": DONE["done"][:1]}],
            [VALIDATING, IMPLEMENTING, BUDGET_EXHAUSTED],
            "900 tokens",
        ),
        ({"tokens": 900}, [PLAN, DONE, GOOD], [VALIDATING, IMPLEMENTING, JUDGING, SUCCEEDED], ""),
    ],
)
async def test_a_budget_that_is_used_up_ends_the_work_unless_it_passes(
    tmp_path: Path, budget: Work, works: list[Work], visited: list[str], gone: str
) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF, budget=budget) as led:
        for work in works:
            state = await led.submit(**work)
        assert [e.target for e in await led.events() if isinstance(e, PhaseChanged)] == visited
        assert state.status == "complete"
        told = await led.told()
        if gone:
            assert f"{gone}" in told
            assert state.feedback[-1].text.startswith("the budget is used up")
            assert "It ended before it was good enough" in told


async def test_what_ended_for_its_budget_may_be_sent_back_to_be_refined_and_judged_once_more(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF, budget={"tokens": 1_500}) as led:
        await led.submit(**PLAN)
        await led.submit(**DONE)
        assert (await led.submit(**SOFT)).phase == BUDGET_EXHAUSTED
        assert "issue i1 (major, about r2): nobody knows when" in await led.told()
        await led.decide("revisit", "it is worth it", channel="relayed", changes={"phase": IMPLEMENTING})
        assert (await led.submit()).phase == BUDGET_EXHAUSTED, "what is not whole ends again: the budget stays used up"
        await led.decide("revisit", "it is worth it", channel="relayed", changes={"phase": IMPLEMENTING})
        answer = {"id": "i1", "step": "s2", "how": "the date is there"}
        assert (await led.submit(answers=[answer])).phase == JUDGING
        state = await led.submit(**GOOD)
    assert (state.phase, state.status) == (SUCCEEDED, "complete")


async def test_a_team_s_rules_hold_and_its_broken_file_is_told_of(tmp_path: Path) -> None:
    rule = "{id: owner, kind: required, of: steps, fields: [details.owner], message: 'who does {{ about }}?'}"
    texts = {**PAGES, TEAM_FILE: f"rules:\n  - {rule}\n  - {{id: x, kind: usefull, message: m}}\n"}
    async with leading(AGENT, tmp_path, look=Pages(texts=texts), brief=BRIEF) as led:
        state = await led.submit(**PLAN)
        assert state.phase == PLANNING
        told = await led.told()
        assert "- who does s1?" in told
        assert "- who does s2?" in told
        assert f"these rules could not be read, and do not hold until somebody mends them: {TEAM_FILE}:3:" in told
        owned = [{**one, "details": {"owner": "ann"}} for one in PLAN["steps"]]
        state = await led.submit(steps=owned)
        assert state.phase == IMPLEMENTING
        assert f"- {TEAM_FILE}:3: there is no kind of rule 'usefull'" in await led.told()
        assert any("could not be read" in f.text for f in state.feedback if f.version == state.version)


async def test_a_team_that_does_without_requirements_has_its_work_judged_all_the_same(tmp_path: Path) -> None:
    look = Pages()
    off = [f"  - {{id: {id_}, kind: useful, severity: 'off'}}\n" for id_ in ("some-requirement", "useful")]
    look.texts[TEAM_FILE] = "rules:\n" + "".join(off)
    async with leading(AGENT, tmp_path, look=look, brief="Weigh the hive.") as led:
        assert (await led.submit(goal="We know.", steps=[step("s1", "Weigh it")])).phase == IMPLEMENTING
        await led.submit(done=[{"id": "s1", "result": "35 kilograms", "shown_by": [WINTER]}])
        await led.submit(judged=[], issues=[issue("i1", "s1")], score=100, reasons="So it is.")
        assert "no requirements earn 100, issues take off" in (await led.missing())[0]
        assert (await led.submit(judged=[], issues=[], score=100, reasons="So it is.")).phase == SUCCEEDED


async def test_whoever_judges_is_told_what_the_planner_left_out(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        out = [{"id": "l1", "words": "Mites have to be treated", "why": "nobody wants it"}]
        await led.submit(goal="g", requirements=REQUIREMENTS[:1], left_out=out, steps=PLAN["steps"][:1])
        await led.submit(done=DONE["done"][:1])
        told = await led.told()
    assert (
        "- r1: Enough honey\nLeft out of the brief by the planner, and why:\n- 'Mites have to be treated': nobody"
        in told
    )


async def test_where_a_team_lets_a_step_be_called_as_its_requirement_the_work_can_still_be_judged(
    tmp_path: Path,
) -> None:
    look = Pages()
    look.texts[TEAM_FILE] = "rules:\n  - {id: distinct, kind: useful, severity: 'off'}\n"
    async with leading(AGENT, tmp_path, look=look, brief="Weigh the hive today.") as led:
        needed = [{"id": "r1", "text": "t", "words": "Weigh the hive today."}]
        await led.submit(goal="We know.", requirements=needed, steps=[step("r1", "Weigh it", covers=["r1"])])
        await led.submit(done=[{"id": "r1", "result": "35 kilograms", "shown_by": [WINTER]}])
        judged = [judgement("r1", steps=["r1"])]
        await led.submit(judged=judged, issues=[issue("r1", "r1", "minor")], score=97, reasons="So it is.")
        assert "these ids are used for something else already: r1" in (await led.missing())[0]
        state = await led.submit(judged=judged, issues=[issue("i1", "r1", "minor")], score=97, reasons="So it is.")
        assert state.phase == SUCCEEDED


async def test_a_journey_s_own_rules_and_scores_hold(tmp_path: Path) -> None:
    rules = [{"id": "few", "kind": "count", "of": "steps", "most": 1, "message": "{{ count }} steps, {{ wanted }}"}]
    async with leading(AGENT, tmp_path, brief=BRIEF, rules=rules, pass_score=60, soft_score=30) as led:
        assert (await led.submit(**PLAN)).phase == PLANNING
        assert "- 2 steps, at most 1" in await led.told()
        await led.submit(drop=["s2"], steps=[step("s1", "Weigh and treat it", covers=["r1", "r2"])])
        await led.submit(done=DONE["done"][:1])
        one = {**SOFT, "judged": [judgement("r1"), judgement("r2", "partly")]}
        assert (await led.submit(**one)).phase == SUCCEEDED


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"budget": {"tokens": 0}}, "budget"),
        ({"budget": {"euros": 5}}, "euros"),
        ({"budget": 5}, "budget"),
        ({"pass_score": 101}, "pass_score"),
        ({"soft_score": "60"}, "soft_score"),
        ({"requirements": []}, "requirements"),
        ({"requirements": [{"id": "r1"}]}, "text"),
        ({"limit": 3}, "limit"),
        ({"rules": {}}, "rules"),
        ({"rules": [{"id": f"x{n}", "kind": "useful", "message": "m"} for n in range(21)]}, "at most 20"),
        ({"budget": {"seconds": 10**400}}, "budget.seconds"),
        ({"requirements": [{"id": "r1", "text": "a"}, {"id": "r1", "text": "b"}]}, "two have the id r1"),
        ({"requirements": [{"id": "r1", "text": " "}]}, r"requirements\[0\]: text must say something"),
        ({"limit": "soon"}, "limit: 'soon' is no duration: write a number"),
        (
            {"rules": [{"id": "x", "kind": "usefull", "message": "m"}]},
            r"rules\[0\]: there is no kind of rule 'usefull'",
        ),
        ({"deadline": "soon"}, "deadline"),
    ],
)
async def test_inputs_of_another_form_begin_nothing(tmp_path: Path, inputs: Work, said: str) -> None:
    with pytest.raises(BadStart, match=said):
        async with leading(AGENT, tmp_path, brief=BRIEF, **inputs):
            pass


async def test_work_of_another_form_is_refused_and_nothing_is_recorded(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        with pytest.raises(BadWork, match="two items have the id s1"):
            await led.submit(steps=[step("s1", "a"), step("s1", "b")])
        with pytest.raises(BadWork, match="no phase can be skipped"):
            await led.submit(**DONE)
        with pytest.raises(BadWork, match="details"):
            await led.submit(steps=[step("s1", "a", details={"x": "y" * 2_000})])
        assert (await led.state()).version == 1
        await led.submit(**PLAN)
        with pytest.raises(BadWork, match="errors"):
            await led.submit(**VALID)


async def test_a_version_has_every_work_whole_with_what_was_said_of_it(tmp_path: Path) -> None:
    """The issue, item 3: complete responses, and the feedback, are part of every checkpoint."""
    async with leading(AGENT, tmp_path, brief=BRIEF) as led:
        await led.submit(**BROKEN)
        await led.submit(**PLAN)
        versions = [(await led.runner.position(led.journey, version=n)).state for n in (1, 2, 3)]
        recorded = [e for e in await led.events() if isinstance(e, WorkRecorded)]
    assert [sorted(state.work) for state in versions] == [[], [PLANNING, VALIDATING], [PLANNING, VALIDATING]]
    assert [len(of_state(state).errors) for state in versions] == [0, 1, 0]
    assert [len(state.feedback) for state in versions] == [0, 1, 1]
    assert [one.automatic for one in recorded] == [False, True, False, True]
    assert versions[1].work[PLANNING].content == BROKEN


# --- feedback over its budget -----------------------------------------------------------------------------------------

LONG = "lengthy words about bees in the winter of the year before last " * 15


async def refine(led: Led, number: int) -> JourneyState:
    """Judge the implementation with a soft failure, and answer it."""
    await led.submit(**verdict(68, issue(f"j{number}", "r2", "major", f"{number} {LONG}"[:990]), r2="partly"))
    return await led.submit(answers=[{"id": f"j{number}", "step": "s2", "how": "otherwise"}])


async def test_of_feedback_over_its_budget_the_newest_is_kept_and_told_how_much_is_left_out(tmp_path: Path) -> None:
    async with leading(AGENT, tmp_path, brief=BRIEF, budget={"iterations": 40}) as led:
        await led.submit(**BROKEN)
        await led.submit(**PLAN)
        await led.submit(**DONE)
        for number in range(25):
            state = await refine(led, number)
        kept = [f for f in state.feedback if f.kind == "soft_failure"]
        assert kept[-1].text.startswith("68 of 100: j24")
        assert 1 < len(kept) < 25
        assert sum(count_tokens(f.text) for f in kept) <= 1_000
        assert [f.kind for f in state.feedback].count("validation") == 1, "what is of another kind is not pushed out"
        told = await led.told()
    assert "soft failure in JUDGING: 68 of 100: j24" in told
    left = re.search(r"- \((\d+) older left out: .*? the events have", told)
    assert left is not None
    assert int(left.group(1)) + told.count("- soft failure in JUDGING") == len(kept)


# --- what it costs ----------------------------------------------------------------------------------------------------


async def test_every_phase_is_resumed_within_its_budget_however_much_is_on_record(tmp_path: Path) -> None:
    """The design, section 7: resuming a journey costs at most 2,500 tokens."""
    costs = dict[str, int]()
    given_ = [{"id": f"r{n}", "text": f"{n} {LONG}"[:300]} for n in range(12)]
    steps = [
        step(
            f"s{n}",
            f"{n} {LONG}"[:990],
            covers=[f"r{n % 12}"],
            depends_on=[f"s{n - 1}"] if n else [],
            details={"x": LONG},
        )
        for n in range(30)
    ]
    done = [{"id": f"s{n}", "result": LONG, "said": LONG[:990], "shown_by": [WINTER]} for n in range(30)]
    judged = [judgement(f"r{n}", "partly", observed=LONG) for n in range(12)]
    issues = [issue(f"i{n}", f"r{n}", "minor", LONG[:990]) for n in range(12)]

    async with leading(AGENT, tmp_path, brief=LONG * 15, requirements=given_) as led:

        async def note(at: str) -> None:
            costs[at] = cost(await led.position())

        await note("PLANNING")
        await led.decide("answer", LONG * 3)
        await led.submit(goal=LONG, steps=[{**one, "done_when": "", "covers": []} for one in steps])
        await note("PLANNING with what is broken")
        cannot = {"requirement": "r1", "why": LONG[:990], "shown_by": [WINTER] * 20, "tried": [LONG[:990]] * 9}
        await led.submit(cannot=cannot)
        await note("waiting")
        await led.decide("reject", LONG * 3)
        await note("PLANNING after a no")
        await led.submit(steps=steps)
        await note("IMPLEMENTING")
        await led.submit(done=[{**one, "shown_by": [ALTERED, NOWHERE]} for one in done])
        await note("IMPLEMENTING with what is missing")
        await led.submit(done=done)
        await note("JUDGING")
        await led.submit(judged=judged[:3], issues=issues, reasons=LONG * 3, score=3)
        await note("JUDGING with what is missing")
        state = await led.submit(judged=judged, issues=issues, reasons=LONG * 3, score=30)
        assert state.phase == PLANNING
        await note("PLANNING after a hard failure")
        await led.submit(answers=[{"id": one["id"], "how": LONG[:990]} for one in issues])
        await note("IMPLEMENTING again")
        await led.submit()
        await note("JUDGING again")
        more = [issue(f"k{n}", f"r{n}", "minor", LONG[:990]) for n in range(12)]
        whole = [judgement(f"r{n}", steps=[f"s{n}"], observed=LONG) for n in range(12)]
        state = await led.submit(judged=whole, issues=more, reasons=LONG * 3, score=70)
        assert state.phase == IMPLEMENTING
        await note("IMPLEMENTING after a soft failure")
        await led.submit(answers=[{"id": one["id"], "step": "s1", "how": LONG[:990]} for one in more])
        state = await led.submit(judged=whole, issues=[], reasons=LONG, score=100)
        assert state.phase == SUCCEEDED
        await note("SUCCEEDED")
    assert max(costs.values()) <= ANSWER_TOKENS, costs


# --- random walks -----------------------------------------------------------------------------------------------------


BEES: Work = {
    **PLAN,
    "requirements": [
        {"id": "r1", "text": "Bees", "words": "Keep bees"},
        {"id": "r2", "text": "On the roof", "words": "on the roof"},
    ],
}
"""A plan for what walks are asked to do."""


def good(state: JourneyState) -> Sequence[tuple[Work, tuple[str, ...]]]:
    """Return work that brings the journey on from where it stands, whatever was recorded."""
    u = of_state(state)
    new = f"v{state.version}"
    if state.phase == PLANNING:
        gone = [item["id"] for item in (*u.requirements, *u.steps, *u.left_out)]
        steps = [step(f"{new}a", f"Weigh {new}", covers=["r1"]), step(f"{new}b", f"Treat {new}", covers=["r2"])]
        answers = [{"id": one["id"], "how": "otherwise"} for one in u.open_issues(PLANNING)]
        plan = {**BEES, "steps": steps}
        return [({**plan, "drop": [id_ for id_ in gone if id_ not in ("r1", "r2")], "answers": answers}, ())]
    if state.phase == IMPLEMENTING:
        gone = [*u.done, *u.undone]
        answers = [{"id": i["id"], "step": u.steps[0]["id"], "how": "so"} for i in u.open_issues(IMPLEMENTING)]
        done = [{"id": one["id"], "result": "done", **SEEN} for one in u.steps]
        return [({"drop": gone, "done": done, "undone": [], "answers": answers}, ())]
    judged = []
    for requirement in u.requirements:
        by = [one["id"] for one in u.steps if requirement["id"] in one.get("covers", ()) and one["id"] in u.done]
        shown = {"steps": by, "observed": "I saw it"} if by else {"shown_by": [WINTER]}
        judged.append({"id": requirement["id"], "met": "yes", "why": "so", **shown})
    undone = [issue(f"{new}{id_}", id_) for id_ in u.left_undone]
    most = score_range(judged, undone, u.left_undone, len(judged), u.pass_score).most if judged else 0
    return [({"judged": judged, "issues": undone, "score": most, "reasons": "So it is."}, ())]


def any_work(state: JourneyState) -> Sequence[tuple[Work, tuple[str, ...]]]:
    """Return what may be submitted in a state: good, half, wrong, and what leads back."""
    name = f"i{state.version}"
    u = of_state(state)
    bad = [{**judgement(r["id"], "no"), "why": "no"} for r in u.requirements]
    partly = [{**judgement(r["id"], "partly"), "why": "half"} for r in u.requirements]
    blocking = [issue(f"{name}-{r['id']}", r["id"], "blocking") for r in u.requirements]
    minor = [issue(f"{name}-{r['id']}", r["id"], "minor") for r in u.requirements]
    some: dict[str, Sequence[tuple[Work, tuple[str, ...]]]] = {
        PLANNING: [
            (BEES, ()),
            ({**BEES, "steps": BROKEN["steps"]}, ("planned",)),
            ({}, ("plan_valid",)),
            ({"drop": ["s2"]}, ()),
            ({"steps": [step("s1", "Weigh", depends_on=["s1"])]}, ()),
            ({**BEES, "cannot": CANNOT}, ()),
            ({**BEES, "draft": True}, ()),
        ],
        IMPLEMENTING: [
            (DONE, ()),
            ({"done": DONE["done"][:1]}, ("implemented",)),
            ({"undone": [{"id": one["id"], "why": "no"} for one in u.steps], "drop": list(u.done)}, ()),
            ({"done": [{"id": "s9", "result": "x", "shown_by": [ALTERED]}]}, ()),
        ],
        JUDGING: [
            (GOOD, ()),
            ({}, ("passed",)),
            ({"judged": bad, "issues": blocking, "score": 0, "reasons": "bad"}, ("hard_failure",)),
            ({"judged": partly, "issues": minor, "score": 45, "reasons": "half"}, ()),
            ({"judged": partly, "issues": minor, "score": 99, "reasons": "half"}, ("soft_failure",)),
            (_nearly(state), ()),
        ],
    }
    return [*some[state.phase], *good(state)]


def _nearly(state: JourneyState) -> Work:
    """Return a verdict that is good but for one major issue, with a score that nearly passes."""
    whole = dict(good(replace(state, phase=JUDGING))[0][0])
    about = whole["judged"][0]["id"] if whole["judged"] else "r1"
    names = [issue(f"n{state.version}{mark}", about) for mark in "ab"]
    return {**whole, "issues": [*whole["issues"], *names], "score": 70}


CHOICES = st.lists(st.integers(0, 2**16), max_size=25)


@settings(max_examples=25, deadline=None)
@given(CHOICES)
@example(
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 13409, 2114, 5, 2, 245, 1]
)  # sent on by hand with steps undone that are gone
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    asyncio.run(walk(AGENT, choices, any_work, good))


def test_walks_take_every_way_of_the_table() -> None:
    """Walks that never went back would prove little."""
    taken = set[str]()
    for seed in range(40):
        taken |= set(asyncio.run(walk(AGENT, [seed * 7919 * (n + 1) // 3 for n in range(30)], any_work, good)))
    assert {t.condition for t in AGENT.graph.transitions} <= taken


@pytest.mark.external
@settings(max_examples=10_000, deadline=None)
@given(CHOICES)
def test_ten_thousand_walks_never_leave_the_table_and_are_never_stuck(choices: list[int]) -> None:
    asyncio.run(walk(AGENT, choices, any_work, good))
