"""Orchestrate: a host's instructions however much is recorded, and random walks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.engine.state import JourneyState
from agents.library.folder import agent
from agents.library.orchestrate.record import IMPLEMENTING, JUDGING, PLANNING, SUCCEEDED, of_state
from agents.library.orchestrate.scores import score_range
from knowledge.tokens import count_tokens
from tests.support.agents.agent_harness import (
    ALTERED,
    ANSWER_TOKENS,
    NOWHERE,
    WINTER,
    Led,
    cost,
    leading,
    walk,
    ways_not_taken,
)
from tests.support.agents.orchestrate_works import (
    BRIEF,
    BROKEN,
    CANNOT,
    DONE,
    GOOD,
    PLAN,
    SEEN,
    Work,
    issue,
    judgement,
    read_by_judge,
    step,
    verdict,
)

AGENT = agent("orchestrate")

# --- feedback over its budget -----------------------------------------------------------------------------------------

LONG = "lengthy words about bees in the winter of the year before last " * 15


async def refine(led: Led, number: int) -> JourneyState:
    """Judge the implementation with a soft failure, and answer it."""
    await led.submit(**verdict(68, issue(f"j{number}", "r2", "major", f"{number} {LONG}"[:990]), r2="partly"))
    return await led.submit(answers=[{"id": f"j{number}", "step": "s2", "how": "otherwise"}])


async def test_over_budget_feedback_keeps_the_newest_and_counts_the_rest() -> None:
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF, budget={"iterations": 40}) as led:
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
    assert int(left.group(1)) + told.count("- soft failure in JUDGING") == 25, (
        "those that fell out of the record count too"
    )


async def test_a_step_may_name_the_lightest_agent_that_is_enough() -> None:
    """The founding documents order agents by the class of model that their work needs."""
    async with leading(AGENT, look=read_by_judge(), brief=BRIEF) as led:
        assert "fastest: memory; balanced: clarification" in await led.told()
        first, *others = PLAN["steps"]
        await led.submit(**{**PLAN, "steps": [{**first, "details": {"agent": "research"}}, *others]})
        assert "; with research; " in await led.told()


# --- what it costs ----------------------------------------------------------------------------------------------------


async def test_every_phase_is_resumed_within_its_budget_however_much_is_on_record() -> None:
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

    async with leading(AGENT, look=read_by_judge(), brief=LONG * 15, requirements=given_) as led:

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
"""A plan for the brief of walks."""


def good(state: JourneyState) -> Sequence[tuple[Work, tuple[str, ...]]]:
    """Return work that leads the journey on from its present state, whatever was recorded."""
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
        answers = [
            {"id": i["id"], "step": u.steps[0]["id"], "how": "weighed again"} for i in u.open_issues(IMPLEMENTING)
        ]
        done = [{"id": one["id"], "result": "weighed", **SEEN} for one in u.steps]
        return [({"drop": gone, "done": done, "undone": [], "answers": answers}, ())]
    judged = []
    for requirement in u.requirements:
        by = [one["id"] for one in u.steps if requirement["id"] in one.get("covers", ()) and one["id"] in u.done]
        shown = {"steps": by, "observed": "I saw it"} if by else {"shown_by": [WINTER]}
        judged.append({"id": requirement["id"], "met": "yes", "why": "it was weighed", **shown})
    undone = [issue(f"{new}{id_}", id_) for id_ in u.left_undone]
    most = score_range(judged, undone, u.left_undone, len(judged), u.pass_score).most if judged else 0
    return [({"judged": judged, "issues": undone, "score": most, "reasons": "The hive was weighed and treated."}, ())]


def any_work(state: JourneyState) -> Sequence[tuple[Work, tuple[str, ...]]]:
    """Return what may be submitted in a state: good, half, wrong, and what leads back."""
    name = f"i{state.version}"
    u = of_state(state)
    bad = [{**judgement(r["id"], "no"), "why": "nothing was weighed"} for r in u.requirements]
    partly = [{**judgement(r["id"], "partly"), "why": "half was weighed"} for r in u.requirements]
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
            ({"undone": [{"id": one["id"], "why": "no scales"} for one in u.steps], "drop": list(u.done)}, ()),
            ({"done": [{"id": "s9", "result": "x", "shown_by": [ALTERED]}]}, ()),
        ],
        JUDGING: [
            (GOOD, ()),
            ({}, ("passed",)),
            ({"judged": bad, "issues": blocking, "score": 0, "reasons": "nothing was weighed"}, ("hard_failure",)),
            ({"judged": partly, "issues": minor, "score": 45, "reasons": "half was weighed"}, ()),
            ({"judged": partly, "issues": minor, "score": 99, "reasons": "half was weighed"}, ("soft_failure",)),
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


@settings(max_examples=12)
@given(CHOICES)
@example(
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 13409, 2114, 5, 2, 245, 1]
)  # sent on by hand with steps undone that are gone
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    asyncio.run(walk(AGENT, choices, any_work, good, look=read_by_judge()))


def test_walks_take_every_way_of_the_table() -> None:
    """Walks that never went back would prove little."""
    assert not asyncio.run(ways_not_taken(AGENT, any_work, good, walks=40, look=read_by_judge))


@pytest.mark.slow
@settings(max_examples=10_000)
@given(CHOICES)
def test_ten_thousand_walks_never_leave_the_table_and_are_never_stuck(choices: list[int]) -> None:
    asyncio.run(walk(AGENT, choices, any_work, good, look=read_by_judge()))
