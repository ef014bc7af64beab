"""Orchestrate, until there is something to judge: what counts as planned, impossible, done and shown."""

from __future__ import annotations

from typing import Any

import pytest

from agents.engine.agent import Called, ConditionFinding, Fate
from agents.engine.events import Json
from agents.library.orchestrate.record import IMPLEMENTING, JUDGING, PLANNING, VALIDATING
from tests.support.agents.agent_harness import ALTERED, NOWHERE, VARROA, Pages, change, lacks
from tests.support.agents.orchestrate_works import (
    BROKEN,
    CANNOT,
    DONE,
    GOOD,
    HARD,
    MADE,
    PLAN,
    SEEN,
    SOFT,
    VALID,
    Work,
    judge,
)

# --- planning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [PLAN, BROKEN, {"steps": [{"id": "s1"}]}])
async def test_whatever_is_a_plan_is_validated(plan: Work) -> None:
    """The rules decide what is wrong with it."""
    assert (await judge("planned", PLANNING, plan)).met


async def test_a_draft_is_kept_until_the_rest_is_there() -> None:
    assert lacks(await judge("planned", PLANNING, {**PLAN, "draft": True}), "recorded as a draft")
    assert (await judge("planned", PLANNING, {}, works={PLANNING: {**PLAN, "draft": True}})).met
    assert lacks(await judge("planned", PLANNING, {"goal": "A hive."}), "no step yet")


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({**PLAN, "goal": "ok"}, "`goal` is only 'ok'"),
        (change(PLAN, "steps", 0, step="x"), "s1: `step` is only 'x'"),
        (change(PLAN, "steps", 0, done_when="done"), "s1: `done_when` is only 'done'"),
        (change(PLAN, "requirements", 0, text="yes"), "r1: `text` is only 'yes'"),
    ],
)
async def test_a_plan_of_empty_words_is_not_validated(plan: Work, said: str) -> None:
    assert lacks(await judge("planned", PLANNING, plan), said)


async def test_requirements_from_the_brief_are_complete() -> None:
    given_ = [{"id": "r1", "text": "Honey"}]
    assert lacks(await judge("planned", PLANNING, PLAN, requirements=given_), "so the plan adds none: drop r1, r2")
    assert (await judge("planned", PLANNING, {**PLAN, "requirements": []}, requirements=given_)).met


async def test_after_a_hard_failure_the_plan_answers_every_issue() -> None:
    works = {**MADE, JUDGING: HARD}
    assert lacks(await judge("planned", PLANNING, {}, works=works), "issue i2", "too warm for acid", "answers")
    assert (await judge("planned", PLANNING, {"answers": [{"id": "i2", "how": "in December"}]}, works=works)).met
    assert (await judge("planned", PLANNING, {}, works={**MADE, JUDGING: SOFT})).met, "that one is not for the planner"
    assert (await judge("planned", PLANNING, {}, works={**works, JUDGING: GOOD})).met


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
        ({**CANNOT, "shown_by": [ALTERED]}, "cannot.shown_by[0]: the quote is not in"),
        ({**CANNOT, "shown_by": [VARROA, NOWHERE]}, "cannot.shown_by[1]: there is no page"),
    ],
)
async def test_an_unproven_impossibility_ends_nothing(cannot: Work, said: str) -> None:
    assert lacks(await judge("goal_cannot_be_met", PLANNING, {**PLAN, "cannot": cannot}), said)


async def test_work_that_continues_needs_no_reason_to_give_up() -> None:
    for plan in (PLAN, {**PLAN, "cannot": None}):
        assert await judge("goal_cannot_be_met", PLANNING, plan) == ConditionFinding(met=False)


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
        ({"done": [*DONE["done"], {"id": "s9", "result": "x", "said": "ann"}]}, ["not steps of the plan: s9"]),
        ({**DONE, "undone": [{"id": "s2", "why": "no acid"}]}, ["as done and as undone: s2"]),
        (change(DONE, "done", 0, shown_by=[]), ["nothing shows yet that s1 is done"]),
        (change(DONE, "done", 0, shown_by=[], said=" "), ["nothing shows yet that s1 is done"]),
        (change(DONE, "done", 0, shown_by=[], artefacts=["code:a.py"]), ["nothing shows yet that s1 is done"]),
        (change(DONE, "done", 0, shown_by=[ALTERED]), ["done[s1].shown_by[0]", "is not in"]),
        (change(DONE, "done", 0, shown_by=[], said="ann", artefacts=["kb:wax.md"]), ["done[s1]", "wax.md"]),
        (
            {"done": DONE["done"][1:], "undone": [{"id": "s1", "why": "no scales"}]},
            ["s2 is done, but", "steps that are not: s1"],
        ),
        (
            change(DONE, "done", 1, calls=[{"tool": "kb_merge"}]),
            ["done[s2]: no call of kb_merge was answered in this phase"],
        ),
        (change(DONE, "done", 0, result="done"), ["s1: `result` is only 'done'"]),
        ({"undone": [{"id": "s1", "why": "x"}, {"id": "s2", "why": "no acid"}]}, ["s1: `why` is only 'x'"]),
    ],
)
async def test_unproven_steps_are_named(work: Work, said: list[str]) -> None:
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
        ([called("kb_merge", path="notes/log.md", status="proposed", proposal="p1")], "pending", "decision on proposal p1"),
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
