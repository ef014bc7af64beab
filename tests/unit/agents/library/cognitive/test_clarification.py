"""Clarification: its own steps, forward to the end and back, and for each condition the near misses that it rejects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.state import JourneyState
from agents.errors import BadWork, NotToDecide, WaitsForPerson
from agents.library.cognitive.library import cognitive, described
from tests.support.agents.agent_harness import Led, change, leading, walk
from tests.support.agents.cognitive.scripts import Scene
from tests.support.agents.cognitive.scripts.clarification import (
    ANSWERED,
    ASK,
    DOUBT,
    READ,
    SETTLE,
    SPECIFY,
    WORKS,
    acts,
)
from tests.support.agents.cognitive.steps import before, follow, judge, own, perform
from tests.support.agents.team_agents import OWN_TOOLS

CLARIFICATION = own("clarification")
MISSED = {"missed": {"id": "p2", "words": "Keep bees", "means": "not only set them up"}}
RAISED = {"raised": {"id": "u3", "point": "p1", "what": "which roof"}}
THIRD = {
    "id": "u3",
    "point": "p1",
    "what": "which roof",
    "readings": ["the flat one", "the tower"],
    "matters": "the way up",
}
ANSWERS = {"ASK": {"q1": {"question": "How many hives at most?", "answer": ANSWERED["q1"]}}}


def test_it_is_read_without_a_mistake_and_has_the_numbers_of_the_table() -> None:
    """The table of the agents' protocol: seven steps, 2,000 and 1,500 tokens, its priority sections, the balanced class."""
    assert described("clarification", OWN_TOOLS).problems == ()
    agent = cognitive("clarification")
    assert agent.steps[2:] == tuple(WORKS)
    assert (agent.function, len(agent.steps)) == ("CLARIFICATION", 7)
    assert (agent.budget.tokens_in, agent.budget.tokens_out) == (2_000, 1_500)
    assert agent.priority == ("task_description", "user_query", "unknowns")
    assert (agent.advice.model_class, agent.advice.example) == ("balanced", "sonnet")


async def test_the_script_leads_it_step_by_step_to_the_end() -> None:
    constraints = ["The neighbours are not stung.", "Cheap"]
    async with leading(CLARIFICATION, constraints=constraints) as led:
        assert await follow(led, acts, constraints=constraints) == list(WORKS)


async def upto(led: Led, phase: str) -> None:
    """Do what the script says up to that phase."""
    for name in before(WORKS, phase):
        await perform(led, acts(name, Scene(led.journey, "")))
    assert (await led.state()).phase == phase


async def test_questions_wait_for_the_person_and_nobody_else_answers_them() -> None:
    """With clarifying questions the agent halts until the person has answered."""
    async with leading(CLARIFICATION) as led:
        await upto(led, "ASK")
        assert (await led.submit(**ASK)).status == "waiting"
        assert "- q1: How many hives at most?" in await led.told()
        with pytest.raises(WaitsForPerson):
            await led.submit(**SETTLE)
        with pytest.raises(NotToDecide):
            await led.decide("approve")
        state = await led.decide("answer", channel="relayed", changes=ANSWERED)
        assert (state.phase, state.status) == ("SETTLE", "active")
        assert f"q1: How many hives at most? {ANSWERED['q1']}" in await led.told()


async def test_without_doubts_nobody_is_asked() -> None:
    async with leading(CLARIFICATION) as led:
        await led.submit(**READ)
        await led.submit(unclear=[], nothing_unclear="the keeper said it all before")
        state = await led.submit(questions=[], assumptions=[])
        assert (state.phase, state.status) == ("SETTLE", "active")
        assert (await led.submit(settled=[])).phase == "SPECIFY"
        only = {**SPECIFY["requirements"][0], "from": ["p1"]}
        assert (await led.submit(goal="Bees.", requirements=[only])).status == "complete"


async def test_questions_that_the_person_rejects_lead_back_to_the_doubts() -> None:
    async with leading(CLARIFICATION) as led:
        await upto(led, "ASK")
        await led.submit(**ASK)
        state = await led.decide("reject", "that is for the town to say")
        assert (state.phase, state.backward_trigger) == ("DOUBT", "human_rejected")
        assert "that is for the town to say" in await led.told()
        assert (await led.submit()).phase == "ASK", "the doubts may well be right"
        assert "The person rejected the work submitted in this phase: that is for the town to say" in await led.told()
        with pytest.raises(BadWork, match=r"rejected q1 as worded \(that is for the town to say\)"):
            await led.submit(**ASK)
        assumed = {"id": "a2", "about": "u1", "text": "Two hives at most.", "because": "the town allows two"}
        assert (await led.submit(drop=["q1"], assumptions=[assumed])).phase == "SETTLE"


async def test_words_that_no_point_has_lead_back_to_read_them() -> None:
    async with leading(CLARIFICATION) as led:
        await led.submit(**READ)
        state = await led.submit(**MISSED)
        assert (state.phase, state.backward_trigger, state.backward_trigger_detail) == (
            "READ",
            "point_missed",
            "Keep bees",
        )
        assert (await led.submit(goal="The same.")).phase == "READ"
        assert await led.missing() == ["points has nothing for p2 of DOUBT.missed"]
        assert (await led.submit(points=[MISSED["missed"]])).phase == "DOUBT"


@pytest.mark.parametrize(
    ("source", "why"), [("SETTLE", "answer_raises_doubt"), ("SPECIFY", "specification_raises_doubt")]
)
async def test_a_new_doubt_leads_back_and_has_to_be_asked_or_assumed(source: str, why: str) -> None:
    async with leading(CLARIFICATION) as led:
        await upto(led, source)
        state = await led.submit(**RAISED, **({"settled": []} if source == "SETTLE" else {}))
        assert (state.phase, state.backward_trigger, state.backward_trigger_detail) == ("DOUBT", why, "which roof")
        assert (await led.submit(nothing_unclear="it does not matter")).phase == "DOUBT"
        where = "SETTLE.raised or SPECIFY.raised"
        assert await led.missing() == [f"unclear has nothing for u3 of {where}"]
        assert (await led.submit(unclear=[THIRD])).phase == "ASK"
        assert (await led.submit()).phase == "ASK"
        assert await led.missing() == ["questions.about or assumptions.about has nothing for u3 of DOUBT.unclear"]
        asked = {"id": "q2", "about": "u3", "question": "Which roof?", "why": "the way up"}
        assert (await led.submit(questions=[asked])).status == "waiting"
        told = await led.told()
        assert "- q2: Which roof?" in told
        assert "- q1:" not in told, "what was answered is not asked again"
        await led.decide("answer", changes={"q2": "flat"})
        assert (await led.submit(**SETTLE)).phase == "SETTLE"
        assert await led.missing() == ["settled.question has nothing for q2 of ASK.questions"]
        short = {"id": "s2", "question": "q2", "words": "flat", "means": "the flat roof"}
        assert (await led.submit(settled=[short])).phase == "SPECIFY", "a short answer is quoted whole"
        requirements = change(SPECIFY, "requirements", 0, **{"from": ["p1", "s1", "s2"]})
        assert (await led.submit(**requirements)).status == "complete"


POINT, DOUBTED, SETTLED = READ["points"][0], DOUBT["unclear"][0], SETTLE["settled"][0]
MISSES: list[tuple[str, str, Mapping[str, Any], str]] = [
    ("points_read", "READ", {**READ, "goal": " "}, "goal is empty: fill it in"),
    ("points_read", "READ", {**READ, "points": []}, "points has 0"),
    ("points_read", "READ", change(READ, "points", 0, words="wasps on the roof"), "points[p1].words are not in the brief"),
    ("points_read", "READ", change(READ, "points", 0, words="the roof of"), "points[p1].words are not in"),
    ("points_read", "READ", change(READ, "points", 0, means=""), "points[p1] lacks 'means'"),
    ("doubts_named", "DOUBT", {}, "name what is unclear, or say in nothing_unclear why nothing is"),
    ("doubts_named", "DOUBT", change(DOUBT, "unclear", 0, point="p7"), "unclear[u1]: point names p7, which READ.points"),
    ("doubts_named", "DOUBT", change(DOUBT, "unclear", 0, readings=["one", "One "]), "unclear[u1]: readings has 1"),
    ("doubts_named", "DOUBT", change(DOUBT, "unclear", 1, matters=" "), "unclear[u2]: matters is empty"),
    ("doubts_named", "DOUBT", change(DOUBT, "unclear", 1, what="How many hives"), "unclear[u2].what says the same"),
    ("point_missed", "DOUBT", {"missed": {**MISSED["missed"], "id": "p1"}}, "missed.id names nothing that READ.points does not"),
    ("point_missed", "DOUBT", {"missed": {**MISSED["missed"], "words": "Keep wasps"}}, "missed.words are not in the brief"),
    ("point_missed", "DOUBT", DOUBT, "missed is not in this submit"),
    ("doubts_asked_or_assumed", "ASK", {**ASK, "assumptions": []}, "has nothing for u2 of DOUBT.unclear"),
    ("doubts_asked_or_assumed", "ASK", change(ASK, "questions", 0, about="u9"), "names u9, which DOUBT.unclear"),
    ("doubts_asked_or_assumed", "ASK", change(ASK, "questions", 0, why=" "), "questions[q1]: why is empty"),
    ("doubts_asked_or_assumed", "ASK", change(ASK, "assumptions", 0, because=" "), "assumptions[a1]: because is empty"),
    (
        "doubts_asked_or_assumed",
        "ASK",
        {**ASK, "questions": [*ASK["questions"], {**ASK["questions"][0], "id": "q2", "about": "u2"}]},
        "questions[q2].question says the same",
    ),
    ("answers_taken_in", "SETTLE", {"settled": []}, "settled.question has nothing for q1 of ASK.questions"),
    ("answers_taken_in", "SETTLE", change(SETTLE, "settled", 0, question="q9"), "settled.question names q9"),
    ("answers_taken_in", "SETTLE", change(SETTLE, "settled", 0, words="Three at most"), "settled[s1].words are not in the"),
    ("answers_taken_in", "SETTLE", change(SETTLE, "settled", 0, words="How many hives"), "settled[s1].words are not in the"),
    ("answers_taken_in", "SETTLE", change(SETTLE, "settled", 0, means=" "), "settled[s1]: means is empty"),
    ("answer_raises_doubt", "SETTLE", {"settled": [], "raised": {**RAISED["raised"], "id": "U1"}}, "raised.id names nothing that"),
    ("answer_raises_doubt", "SETTLE", {"settled": [], "raised": {**RAISED["raised"], "point": "p7"}}, "raised.point names p7"),
    ("answer_raises_doubt", "SETTLE", SETTLE, "raised is not in this submit"),
    ("requirements_testable", "SPECIFY", {**SPECIFY, "goal": ""}, "goal is empty"),
    ("requirements_testable", "SPECIFY", {**SPECIFY, "requirements": []}, "requirements has 0"),
    ("requirements_testable", "SPECIFY", change(SPECIFY, "requirements", 0, test=" "), "requirements[r1] lacks 'test'"),
    ("requirements_testable", "SPECIFY", change(SPECIFY, "requirements", 1, **{"from": ["p1"]}), "has nothing for a1 of READ.poi"),
    ("requirements_testable", "SPECIFY", change(SPECIFY, "requirements", 1, **{"from": ["a1", "a2"]}), "names a2, which READ.poi"),
    (
        "requirements_testable",
        "SPECIFY",
        change(SPECIFY, "requirements", 1, test=SPECIFY["requirements"][0]["test"]),
        "requirements[r2].test says the same",
    ),
    (
        "requirements_testable",
        "SPECIFY",
        {**SPECIFY, "left_out": [{"id": "l1", "from": ["p1"], "why": ""}]},
        "left_out[l1]: why is empty",
    ),
    ("specification_raises_doubt", "SPECIFY", {"raised": {**RAISED["raised"], "id": "u1"}}, "raised.id names nothing that"),
    ("specification_raises_doubt", "SPECIFY", {"raised": {**RAISED["raised"], "point": "u1"}}, "raised.point names u1"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "phase", "work", "told"), MISSES)
async def test_near_misses_hold_it_up(condition: str, phase: str, work: Mapping[str, Any], told: str) -> None:
    found = await judge(CLARIFICATION, condition, phase, work, works=before(WORKS, phase), answers=ANSWERS)
    assert not found.met
    assert any(told in text for text in found.missing), found.missing


def test_each_condition_has_near_misses() -> None:
    assert {condition for condition, *_ in MISSES} == set(CLARIFICATION.conditions)


async def test_an_answer_that_nobody_gave_is_not_taken_in() -> None:
    found = await judge(CLARIFICATION, "answers_taken_in", "SETTLE", SETTLE, works=before(WORKS, "SETTLE"))
    assert "a person has not answered q1 of ASK.questions" in found.missing
    assert any(text.startswith("settled[s1].words are not in the person's answers") for text in found.missing)


async def test_a_point_that_is_left_out_for_a_reason_is_not_forgotten() -> None:
    left = {
        **change(SPECIFY, "requirements", 0, **{"from": ["s1"]}),
        "left_out": [{"id": "l1", "from": ["p1"], "why": "later"}],
    }
    assert (await judge(CLARIFICATION, "requirements_testable", "SPECIFY", left, works=before(WORKS, "SPECIFY"))).met


OTHER: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "READ": [{"goal": "Other."}],
    "DOUBT": [MISSED, {"unclear": [THIRD]}, {"drop": ["u2"]}],
    "ASK": [{"questions": [], "assumptions": [], "drop": ["q1", "a1"]}],
    "SETTLE": [{**RAISED, "settled": []}, {"settled": []}],
    "SPECIFY": [RAISED, {"goal": "Other."}],
}


def good(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Return work that leads on from any state of a walk."""
    kept = {name: work.content for name, work in state.work.items()}
    phase, answers = state.phase, state.answers.get("ASK", {})
    questions = [one for one in kept.get("ASK", {}).get("questions", []) if one["id"] in answers]
    doubts = kept.get("DOUBT", {}).get("unclear", [])
    assumed = [{**ASK["assumptions"][0], "id": f"a{n}", "about": d["id"]} for n, d in enumerate(doubts, 1)]
    said = [{**SETTLED, "question": one["id"], "words": answers[one["id"]]["answer"]} for one in questions]
    found: dict[str, Mapping[str, Any]] = {
        "READ": {**READ, "points": [POINT, MISSED["missed"]]},
        "DOUBT": {"unclear": [*DOUBT["unclear"], THIRD]},
        "ASK": {"questions": [], "assumptions": assumed, "drop": ["q1", "a1", "a2", "a3"]},
        "SETTLE": {"settled": said, "drop": ["s1"]},
    }
    if phase == "SPECIFY":
        ids = [
            item["id"]
            for where, name in (("READ", "points"), ("SETTLE", "settled"), ("ASK", "assumptions"))
            for item in kept[where][name]
        ]
        one, other = SPECIFY["requirements"]
        return [({**SPECIFY, "requirements": [{**one, "from": ids}, {**other, "from": ids[:1]}]}, ())]
    return [(found[phase], ())]


def any_work(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    # What a person rejected is asked otherwise.
    asked = {**ASK["questions"][0], "question": f"How many hives at most, at version {state.version}?"}
    asking = [{"drop": ["a1"], **ASK, "questions": [asked]}] if state.phase == "ASK" else []
    return [*good(state), *((work, ()) for work in [*OTHER[state.phase], *asking])]


@given(choices=st.lists(st.integers(0, 1_000), max_size=25))
@settings(max_examples=12)
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    assert "requirements_testable" in asyncio.run(walk(CLARIFICATION, choices, any_work, good))
