"""Orchestrate: which verdicts count, the range of a score, and when the budget is used up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.engine.agent import JourneySpent
from agents.engine.events import Json
from agents.library.folder import agent
from agents.library.orchestrate.conditions import used_up
from agents.library.orchestrate.record import IMPLEMENTING, JUDGING, PLANNING, Undertaking, WorkLimits
from agents.library.orchestrate.scores import ISSUE_POINTS, MET_POINTS, score_range
from tests.support.agents.agent_harness import ALTERED, VARROA, WINTER, Pages, change, lacks
from tests.support.agents.orchestrate_works import (
    DONE,
    GOOD,
    HARD,
    MADE,
    PLAN,
    REASONS,
    SOFT,
    Work,
    issue,
    judge,
    judgement,
    read_by_judge,
    verdict,
)

AGENT = agent("orchestrate")

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


async def test_a_yes_that_rests_on_pages_counts_only_if_the_judge_read_them() -> None:
    unread = await judge("passed", JUDGING, GOOD, Pages(), works=MADE)
    assert lacks(unread, "r1 rests on pages that you have not read: kb_read notes/bees.md", "r2 rests on pages")
    by_others = Pages(called_before=read_by_judge().called)
    assert lacks(await judge("passed", JUDGING, GOOD, by_others, works=MADE), "r1 rests on pages")
    quoted = [judgement(id_, shown_by=[WINTER]) for id_ in ("r1", "r2")]
    assert (await judge("passed", JUDGING, {**GOOD, "judged": quoted}, Pages(), works=MADE)).met


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (verdict(68, issue("i1", "r2", "major", "x"), r2="partly"), "i1: `text` is only 'x'"),
        ({**GOOD, "reasons": "ok"}, "`reasons` is only 'ok'"),
        ({**GOOD, "judged": [judgement("r1", why="yes"), judgement("r2")]}, "r1: `why` is only 'yes'"),
    ],
)
async def test_a_verdict_of_empty_words_is_refused(work: Work, said: str) -> None:
    assert lacks(await judge("passed", JUDGING, work, works=MADE), said)
    assert not (await judge("soft_failure", JUDGING, work, works=MADE)).met


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ({}, ["not judged yet: r1, r2", "no reasons", "no score"]),
        (verdict(None), ["there is no score"]),
        ({**GOOD, "reasons": " "}, ["there are no reasons"]),
        ({**GOOD, "judged": GOOD["judged"][:1]}, ["not judged yet: r2"]),
        ({**GOOD, "judged": [*GOOD["judged"], judgement("r9", steps=["s1"])]}, ["not requirements: r9"]),
        ({**GOOD, "judged": [judgement("r1", steps=[]), judgement("r2")]}, ["nothing shows that r1 is met"]),
        ({**GOOD, "judged": [judgement("r1", steps=["s2"]), judgement("r2")]}, ["r1 is not shown by s2"]),
        ({**GOOD, "judged": [judgement("r1", steps=["s9"]), judgement("r2")]}, ["r1 is not shown by s9"]),
        ({**GOOD, "judged": [judgement("r1", shown_by=[ALTERED]), judgement("r2")]}, ["judged[r1].shown_by[0]"]),
        (verdict(75, r2="partly"), ["r2 is met partly: name an issue about r2"]),
        (verdict(49, issue("i1", "r2", "minor"), r2="no"), ["r2 is not met: name a major or blocking issue"]),
        (verdict(90, issue("i1", "r9")), ["about neither a requirement nor a step: i1 (r9)"]),
        (verdict(90, issue("r1", "r2")), ["already used for something else: r1"]),
        (verdict(90, issue("s2", "r2")), ["already used for something else: s2"]),
        (verdict(99), ["the score 99 does not agree with what you found: 2 yes earn 100, so it must be 100"]),
        (verdict(88, issue("i1", "r2"), r2="partly"), ["so it must be between 55 and 70"]),
        (verdict(85, issue("i1", "r2", "blocking")), ["between 0 and 79; it cannot pass: i1 blocking"]),
        (verdict(80, issue("i1", "s1"), issue("i2", "s1")), []),
        (verdict(94, issue("i1", "s1"), issue("i2", "s1")), ["2 major 5 to 20 each", "between 60 and 90"]),
    ],
)
async def test_an_incomplete_or_contradictory_verdict_is_reported(work: Work, said: list[str]) -> None:
    found = await judge("passed", JUDGING, work, works=MADE)
    assert lacks(found, *said) if said else found.met
    if said:
        for other in ("soft_failure", "hard_failure", "budget_exhausted"):
            assert not (await judge(other, JUDGING, work, works=MADE)).met


async def test_undone_or_merely_claimed_steps_keep_a_verdict_from_passing() -> None:
    undone = {"done": DONE["done"][:1], "undone": [{"id": "s2", "why": "no acid"}]}
    quoted = [judgement("r1"), judgement("r2", steps=[], shown_by=[VARROA])]
    works = {**MADE, IMPLEMENTING: undone}
    found = await judge("passed", JUDGING, {**GOOD, "judged": quoted}, works=works)
    assert lacks(found, "these steps are not done: s2; name an issue about each")
    found = await judge("passed", JUDGING, {**verdict(90, issue("i1", "s2")), "judged": quoted}, works=works)
    assert lacks(found, "so it must be between 59 and 79; it cannot pass: s2 not done")
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


async def test_a_failure_passes_its_findings_on() -> None:
    soft = await judge("soft_failure", JUDGING, SOFT, works=MADE)
    assert (soft.kind, soft.feedback) == (
        "soft_failure",
        (f"68 of 100: i1 (major, r2) nobody knows when. {REASONS}",),
    )
    assert soft.detail == soft.feedback[0]
    hard = await judge("hard_failure", JUDGING, HARD, works=MADE)
    assert (hard.kind, hard.feedback) == (
        "hard_failure",
        (f"40 of 100: i2 (blocking, r2) too warm for acid. {REASONS}",),
    )


# --- the range of a score ---------------------------------------------------------------------------------------------

JUDGED = st.lists(st.sampled_from(list(MET_POINTS)), min_size=1, max_size=20)
ISSUES = st.lists(st.sampled_from(list(ISSUE_POINTS)), max_size=20)


@given(met=JUDGED, severities=ISSUES, undone=st.booleans(), pass_score=st.integers(1, 100))
def test_the_range_of_a_score_matches_the_judges_findings(
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
        (JourneySpent(99, 9.9, 2), False, []),
        (JourneySpent(100, 0.0, 1), False, ["100 of 100 tokens"]),
        (JourneySpent(0, 10.0, 1), False, ["10.00 of 10.00 seconds"]),
        (JourneySpent(0, 0.0, 3), False, []),
        (JourneySpent(0, 0.0, 3), True, ["3 of 3 iterations"]),
        (JourneySpent(0, 0.0, 2), True, []),
        (JourneySpent(500, 99.0, 4), True, ["500 of 100 tokens", "99.00 of 10.00 seconds", "4 of 3 iterations"]),
    ],
)
def test_a_budget_is_used_up_when_its_last_part_is_spent(*, spent: JourneySpent, failed: bool, gone: list[str]) -> None:
    assert used_up(spent, WorkLimits(100, 3, 10), failed=failed) == gone


def test_inputs_that_are_not_given_have_defaults() -> None:
    assert Undertaking("", {}).limits == WorkLimits()
    assert Undertaking("", {"budget": {"iterations": 2}}).limits == replace(WorkLimits(), iterations=2)


SPENT = JourneySpent(10**9, 1.0, 1)


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
    for spent in (SPENT, JourneySpent(1, 10**9, 1)):
        works = {name: MADE[name] for name in MADE if name != phase}
        found = [name for name in here if (await judge(name, phase, work, works=works, spent=spent)).met]
        assert sorted(found) == sorted(met)


async def test_a_failure_in_the_last_iteration_is_the_end() -> None:
    last = JourneySpent(1, 1.0, 6)
    for work in (SOFT, HARD):
        assert not (await judge("soft_failure", JUDGING, work, works=MADE, spent=last)).met
        assert not (await judge("hard_failure", JUDGING, work, works=MADE, spent=last)).met
        found = await judge("budget_exhausted", JUDGING, work, works=MADE, spent=last)
        assert found.feedback[1:] == ("the budget is used up: 6 of 6 iterations",)
        assert found.kind == ("soft_failure" if work is SOFT else "hard_failure")
    assert not (await judge("budget_exhausted", JUDGING, {**SOFT, "score": 99}, works=MADE, spent=last)).met
