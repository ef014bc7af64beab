"""Synthesis: its own steps, forward to the end and back, and for each condition the near misses that it rejects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.state import JourneyState
from agents.errors import NotToDecide, WaitsForPerson
from agents.library.cognitive.library import cognitive, described
from tests.support.agents.agent_harness import ALTERED, VARROA, WINTER, change, leading, walk
from tests.support.agents.cognitive.scripts import Scene
from tests.support.agents.cognitive.scripts.synthesis import (
    DECISIONS,
    DROWNING,
    PARTS,
    POSITIONS,
    SETTLED,
    TOPICS,
    acts,
    checks,
)
from tests.support.agents.cognitive.steps import Back, dearest, follow, go_back, judge, own, settle
from tests.support.agents.cognitive.steps import before as works_before
from tests.support.agents.team_agents import OWN_TOOLS

SYNTHESIS = own("synthesis")
SCENE = Scene("j-1", "")
COLLECTED: Mapping[str, Any] = {"topics": TOPICS, "positions": POSITIONS, "constraints": [DROWNING]}
RECONCILED: Mapping[str, Any] = {"topics": SETTLED}
INTEGRATED: Mapping[str, Any] = {"design": "Healthy bees first, then food.", "parts": PARTS}
CHECKED: Mapping[str, Any] = {"checks": checks(SCENE)}
DECIDED: Mapping[str, Any] = {"decisions": DECISIONS}
WORKS = {
    "COLLECT": COLLECTED,
    "RECONCILE": RECONCILED,
    "INTEGRATE": INTEGRATED,
    "CONSTRAIN": CHECKED,
    "DECIDE": DECIDED,
}
UNHEARD = {"unheard": {"topic": "t1", "why": "nobody asked the keeper"}}
TOPIC = {"missing_topic": {"id": "t3", "why": "who pays"}}
CLASH = {"clash": {"topic": "t1", "why": "both need October"}}
BROKEN = {"checks": [{**CHECKED["checks"][0], "result": "broken", "how": "the bowl is deep"}]}
GIVEN_UP = {
    "checks": [{**CHECKED["checks"][0], "result": "given_up"}],
    "ask": [{"id": "c1", "question": "May a bee drown now and then?"}],
}


before = partial(works_before, WORKS)


def test_it_is_read_without_a_mistake_and_has_the_numbers_of_the_table() -> None:
    """The table of the agents' protocol: seven steps, 3,000 and 2,500 tokens, its priority sections, the largest class."""
    assert described("synthesis", OWN_TOOLS).problems == ()
    agent = cognitive("synthesis")
    assert agent.steps[2:] == ("COLLECT", "RECONCILE", "INTEGRATE", "CONSTRAIN", "DECIDE")
    assert (agent.function, len(agent.steps)) == ("SYNTHESIS", 7)
    assert (agent.budget.tokens_in, agent.budget.tokens_out) == (3_000, 2_500)
    assert agent.priority == ("analysis_output", "constraints", "design_decisions")
    assert (agent.advice.model_class, agent.advice.example) == ("largest", "opus")


async def test_the_script_leads_it_step_by_step_to_the_end() -> None:
    given = ["Nobody is stung on the roof.", "Cheap"]
    async with leading(SYNTHESIS, constraints=given) as led:
        assert await follow(led, acts, constraints=given) == list(WORKS)


async def test_a_given_constraint_cannot_be_omitted() -> None:
    async with leading(SYNTHESIS, constraints=["Nobody is stung on the roof.", "Cheap"]) as led:
        assert (await led.submit(**COLLECTED)).phase == "COLLECT"
        assert await led.missing() == [
            "no item of constraints covers number 1, 2 of inputs.constraints: copy its words"
        ]


BACKS: list[Back] = [
    ("RECONCILE", UNHEARD, "COLLECT", "side_unheard", "nobody asked the keeper"),
    ("INTEGRATE", TOPIC, "COLLECT", "topic_missing", "who pays"),
    ("INTEGRATE", CLASH, "RECONCILE", "settled_topics_clash", "both need October"),
    ("CONSTRAIN", BROKEN, "INTEGRATE", "constraint_broken", "the bowl is deep"),
    ("DECIDE", UNHEARD, "COLLECT", "side_unheard", "nobody asked the keeper"),
]


@pytest.mark.parametrize("back", BACKS)
async def test_missing_work_of_an_earlier_step_leads_back_and_forward_again(back: Back) -> None:
    async with leading(SYNTHESIS) as led:
        await settle(led, WORKS, back[0])
        await go_back(led, back, WORKS)


async def test_a_design_that_broke_a_constraint_must_change_and_is_checked_again() -> None:
    async with leading(SYNTHESIS) as led:
        await settle(led, WORKS, "CONSTRAIN")
        await led.submit(**BROKEN)
        assert "the bowl is deep" in (await led.told()).partition("Feedback so far:")[2]
        assert (await led.submit()).phase == "INTEGRATE"
        assert await led.missing() == ["bring what is new in design or parts"]
        assert (await led.submit(parts=[{**PARTS[1], "text": "A shallow bowl."}])).phase == "CONSTRAIN"
        assert (await led.submit()).phase == "CONSTRAIN", "what was checked before was another design"
        assert (await led.submit(**CHECKED)).phase == "DECIDE"


async def test_a_constraint_is_given_up_only_by_the_person() -> None:
    async with leading(SYNTHESIS) as led:
        await settle(led, WORKS, "CONSTRAIN")
        assert (await led.submit(checks=GIVEN_UP["checks"])).phase == "CONSTRAIN"
        assert "ask is not in this submit" in await led.missing()
        assert (await led.submit(**GIVEN_UP)).status == "waiting"
        assert "May a bee drown now and then?" in await led.told()
        with pytest.raises(WaitsForPerson):
            await led.submit(**CHECKED)
        with pytest.raises(NotToDecide):
            await led.decide("approve", channel="relayed")
        state = await led.decide("answer", channel="relayed", changes={"c1": "Now and then, yes."})
        assert (state.phase, state.answers["CONSTRAIN"]["c1"]["answer"]) == ("DECIDE", "Now and then, yes.")


async def test_a_person_who_keeps_the_constraint_sends_the_design_back() -> None:
    async with leading(SYNTHESIS) as led:
        await settle(led, WORKS, "CONSTRAIN")
        await led.submit(**GIVEN_UP)
        state = await led.decide("reject", "no bee drowns")
        assert (state.phase, state.backward_trigger, state.backward_trigger_detail) == (
            "INTEGRATE",
            "human_rejected",
            "no bee drowns",
        )


CONFLICT, ALONE = SETTLED
MISSES: list[tuple[str, str, Mapping[str, Any], str]] = [
    ("positions_collected", "COLLECT", {**COLLECTED, "positions": POSITIONS[:1]}, "give at least two positions"),
    ("positions_collected", "COLLECT", {**COLLECTED, "positions": POSITIONS[:2]}, "positions.topic has nothing for t2"),
    ("positions_collected", "COLLECT", {**COLLECTED, "topics": TOPICS[:1]}, "positions.topic names t2, which"),
    ("positions_collected", "COLLECT", {**COLLECTED, "topics": []}, "topics has 0"),
    (
        "positions_collected",
        "COLLECT",
        change(COLLECTED, "positions", 1, text="stores  decide."),
        "positions[p2].text says the same as positions[p1].text",
    ),
    (
        "positions_collected",
        "COLLECT",
        change(COLLECTED, "topics", 1, text="what do the bees need in winter?"),
        "topics[t2].text says the same",
    ),
    (
        "positions_collected",
        "COLLECT",
        change(COLLECTED, "positions", 0, evidence=[]),
        "positions[p1] rests on nothing: give 'words' copied from the brief",
    ),
    (
        "positions_collected",
        "COLLECT",
        change(COLLECTED, "positions", 0, evidence=[ALTERED]),
        "positions[p1]: the quote is not in notes/bees.md",
    ),
    (
        "positions_collected",
        "COLLECT",
        change(COLLECTED, "positions", 0, words="Stores decide everything"),
        "positions[p1].words are not in",
    ),
    (
        "positions_collected",
        "COLLECT",
        {**COLLECTED, "constraints": [{"id": "c1", "text": "No bee drowns."}]},
        "constraints[c1] rests on nothing",
    ),
    ("positions_collected", "COLLECT", {**COLLECTED, "constraints": []}, "constraints is empty"),
    ("conflicts_settled", "RECONCILE", {"topics": [CONFLICT]}, "topics has nothing for t2 of COLLECT.topics"),
    ("conflicts_settled", "RECONCILE", {"topics": [*SETTLED, {**ALONE, "id": "t9"}]}, "topics names t9, which"),
    (
        "conflicts_settled",
        "RECONCILE",
        {"topics": [{**CONFLICT, "gives_up": []}, ALONE]},
        "has nothing for p1 of COLLECT.positions",
    ),
    (
        "conflicts_settled",
        "RECONCILE",
        {"topics": [{**CONFLICT, "keeps": ["p2", "p7"]}, ALONE]},
        "names p7, which COLLECT.positions does not have",
    ),
    (
        "conflicts_settled",
        "RECONCILE",
        {"topics": [{**CONFLICT, "relation": "complete"}, ALONE]},
        "topics.relation!=conflict.gives_up must be empty",
    ),
    (
        "conflicts_settled",
        "RECONCILE",
        {"topics": [{key: value for key, value in CONFLICT.items() if key != "because"}, ALONE]},
        "topics[t1] lacks 'because'",
    ),
    (
        "conflicts_settled",
        "RECONCILE",
        {"topics": [CONFLICT, {**ALONE, "relation": "conflict", "because": "so"}]},
        "topics[t2]: give one position up, or keep two",
    ),
    ("side_unheard", "RECONCILE", RECONCILED, "unheard is not in this submit"),
    ("side_unheard", "RECONCILE", {"unheard": {"topic": "t9", "why": "x"}}, "unheard.topic names t9"),
    ("side_unheard", "DECIDE", {"unheard": {"topic": "p1", "why": "x"}}, "unheard.topic names p1"),
    ("design_integrated", "INTEGRATE", {"parts": PARTS}, "design is empty"),
    ("design_integrated", "INTEGRATE", {**INTEGRATED, "parts": PARTS[:1]}, "parts.settles has nothing for t2"),
    (
        "design_integrated",
        "INTEGRATE",
        change(INTEGRATED, "parts", 0, settles=["t1", "p1"]),
        "parts.settles names p1, which COLLECT.topics does not have",
    ),
    (
        "design_integrated",
        "INTEGRATE",
        change(INTEGRATED, "parts", 1, text=PARTS[0]["text"].upper()),
        "parts[d2].text says the same as parts[d1].text",
    ),
    ("topic_missing", "INTEGRATE", {"missing_topic": {"id": "T2", "why": "x"}}, "names nothing that COLLECT.topics"),
    ("topic_missing", "INTEGRATE", INTEGRATED, "missing_topic is not in this submit"),
    ("settled_topics_clash", "INTEGRATE", {"clash": {"topic": "d1", "why": "x"}}, "clash.topic names d1"),
    ("constraints_kept", "CONSTRAIN", {}, "checks has nothing for c1 of COLLECT.constraints"),
    ("constraints_kept", "CONSTRAIN", BROKEN, "checks[c1].result is not 'kept'"),
    ("constraints_kept", "CONSTRAIN", change(CHECKED, "checks", 0, parts=[]), "checks.parts names nothing"),
    ("constraints_kept", "CONSTRAIN", change(CHECKED, "checks", 0, parts=["d9"]), "checks.parts names d9"),
    ("constraints_kept", "CONSTRAIN", change(CHECKED, "checks", 0, id="c9"), "checks names c9"),
    ("constraint_given_up", "CONSTRAIN", {"checks": GIVEN_UP["checks"]}, "ask is not in this submit"),
    (
        "constraint_given_up",
        "CONSTRAIN",
        {**CHECKED, "ask": GIVEN_UP["ask"]},
        "ask names c1, which checks.result=given",
    ),
    (
        "constraint_given_up",
        "CONSTRAIN",
        {"checks": GIVEN_UP["checks"], "ask": [{"id": "c2", "question": "May it?"}]},
        "ask has nothing for c1",
    ),
    ("constraint_broken", "CONSTRAIN", CHECKED, "checks.result=broken is not in this submit"),
    ("constraint_broken", "CONSTRAIN", change(BROKEN, "checks", 0, id="c9"), "names c9"),
    ("decisions_reasoned", "DECIDE", {"decisions": DECISIONS[:1]}, "decisions.part has nothing for d2"),
    ("decisions_reasoned", "DECIDE", change(DECIDED, "decisions", 0, part="d9"), "decisions.part names d9"),
    ("decisions_reasoned", "DECIDE", change(DECIDED, "decisions", 0, rests_on=[]), "decisions[e1] lacks 'rests_on'"),
    (
        "decisions_reasoned",
        "DECIDE",
        change(DECIDED, "decisions", 0, rests_on=["p1"]),
        "decisions.rests_on names p1, which RECONCILE.topics.keeps does not have",
    ),
    (
        "decisions_reasoned",
        "DECIDE",
        change(DECIDED, "decisions", 1, text=DECISIONS[0]["text"]),
        "decisions[e2].text says the same",
    ),
]


@pytest.mark.parametrize(("condition", "phase", "work", "told"), MISSES)
async def test_near_misses_hold_it_up(condition: str, phase: str, work: Mapping[str, Any], told: str) -> None:
    found = await judge(SYNTHESIS, condition, phase, work, works=before(phase))
    assert not found.met
    assert any(told in text for text in found.missing), found.missing


def test_each_condition_has_near_misses() -> None:
    assert {condition for condition, *_ in MISSES} == set(SYNTHESIS.conditions)


async def test_words_of_the_brief_and_of_agents_before_carry_a_position() -> None:
    positions = [
        {**POSITIONS[0], "evidence": [], "words": "bees on the roof"},
        {**POSITIONS[1], "evidence": [], "words": "oxalic acid comes first", "source": "analysis"},
        POSITIONS[2],
    ]
    work = {**COLLECTED, "positions": positions}
    analysis = {"analyse.CLOSING": {"document": "# Analysis\n\nSo oxalic acid comes first."}}
    assert (await judge(SYNTHESIS, "positions_collected", "COLLECT", work, works=analysis)).met
    alone = await judge(SYNTHESIS, "positions_collected", "COLLECT", work, works={})
    assert [text.partition(" are not")[0] for text in alone.missing] == ["positions[p2].words"]


async def test_a_conflict_may_keep_both_positions_each_for_its_case() -> None:
    both = {**CONFLICT, "keeps": ["p1", "p2"], "gives_up": [], "because": "stores in cold winters, mites in mild ones"}
    work = {"topics": [both, ALONE]}
    assert (await judge(SYNTHESIS, "conflicts_settled", "RECONCILE", work, works=before("RECONCILE"))).met


async def test_no_steps_input_exceeds_its_budget() -> None:
    """For any input: the seed's table, 3,000 tokens."""
    given = ["".join(f"{n}.{m}: nobody is stung on the roof. " for m in range(9)) for n in range(4)]
    most = await dearest("synthesis", acts, constraints=given, findings="They starve in spring. " * 800)
    assert 2_500 < most <= 3_000


OTHER: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "COLLECT": [
        {"topics": [{"id": "t9", "text": "Who pays?"}]},
        {"positions": [{"id": "p9", "topic": "t1", "text": "Warmth.", "source": "me", "evidence": [WINTER, VARROA]}]},
    ],
    "RECONCILE": [UNHEARD, {"drop": ["t2"]}],
    "INTEGRATE": [TOPIC, CLASH, {"design": "Other."}],
    "CONSTRAIN": [BROKEN, {}],
    "DECIDE": [UNHEARD, {"open": ["Who pays?"]}],
}


def good(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Return work that leads on from any state of a walk; where a person sent it on early, it goes back and returns."""
    work = dict(WORKS[state.phase])
    if state.phase == "COLLECT":
        work["drop"] = ["t9", "p9"]
    elif ids_of(state, "COLLECT", "topics") != {"t1", "t2"}:
        work = dict({"RECONCILE": UNHEARD, "INTEGRATE": TOPIC, "DECIDE": UNHEARD}.get(state.phase, work))
    elif state.phase == "RECONCILE":
        others = ids_of(state, "COLLECT", "positions") - {"p1", "p2", "p3"}
        work["topics"] = [{**CONFLICT, "gives_up": ["p1", *others]}, ALONE]
    elif state.phase == "DECIDE" and ids_of(state, "RECONCILE", "topics") != {"t1", "t2"}:
        work = dict(UNHEARD)
    return [(work, ())]


def ids_of(state: JourneyState, phase: str, name: str) -> set[str]:
    return {item["id"] for item in state.work[phase].content.get(name, [])}


def any_work(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    return [*good(state), *((work, ()) for work in OTHER[state.phase])]


@given(choices=st.lists(st.integers(0, 1_000), max_size=25))
@settings(max_examples=12)
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    assert "decisions_reasoned" in asyncio.run(walk(SYNTHESIS, choices, any_work, good))
