"""Analysis: its own steps, forward to the end and back, and for each condition the near misses that it rejects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.state import JourneyState
from agents.library.cognitive.library import cognitive, described
from tests.support.agents.agent_harness import ALTERED, VARROA, WINTER, Led, change, leading, walk
from tests.support.agents.cognitive.scripts import Scene
from tests.support.agents.cognitive.scripts.analysis import BOUND, CONCLUDE, DECOMPOSE, DRIVERS, WEIGH, WORKS, acts
from tests.support.agents.cognitive.steps import before, follow, judge, own, perform
from tests.support.agents.team_agents import OWN_TOOLS

ANALYSIS = own("analysis")
PART = {**BOUND, "missing_part": {"id": "p3", "why": "nobody asked who pays"}}
REFUTED = {"refuted": {"assumption": "a1", "evidence": [WINTER], "why": "the winter was long"}}
DRIVER = {**WEIGH, "missing_driver": {"id": "d3", "part": "p1", "why": "hunger was not looked at"}}
OPTION = {"missing_option": {"id": "o3", "text": "Ask a beekeeper.", "why": "nobody here has done it"}}


def test_it_is_read_without_a_mistake_and_has_the_numbers_of_the_table() -> None:
    """The table of the agents' protocol: seven steps, 2,500 and 2,000 tokens, its priority sections, the largest class."""
    assert described("analysis", OWN_TOOLS).problems == ()
    agent = cognitive("analysis")
    assert agent.steps[2:] == tuple(WORKS)
    assert (agent.function, len(agent.steps)) == ("ANALYSIS", 7)
    assert (agent.budget.tokens_in, agent.budget.tokens_out) == (2_500, 2_000)
    assert agent.priority == ("research_findings", "constraints", "trade_offs")
    assert (agent.advice.model_class, agent.advice.example) == ("largest", "opus")


async def test_the_script_leads_it_step_by_step_to_the_end() -> None:
    constraints = ["Nobody is stung on the roof.", "Cheap"]
    async with leading(ANALYSIS, constraints=constraints) as led:
        assert await follow(led, acts, constraints=constraints) == list(WORKS)


async def upto(led: Led, phase: str) -> None:
    """Do what the script says up to that phase."""
    for name in before(WORKS, phase):
        await perform(led, acts(name, Scene(led.journey, "")))
    assert (await led.state()).phase == phase


@dataclass(frozen=True)
class Back:
    """A way back: from where, by what work, to where and why, what is missing there at first, and what is enough."""

    source: str
    work: Mapping[str, Any]
    target: str
    why: str
    detail: str
    almost: Mapping[str, Any]
    missing: str
    added: Mapping[str, Any]


THIRD_OPTION = {"options": [{"id": "o3", "text": "Ask a beekeeper."}]}
BACKS = [
    Back(
        source="BOUND",
        work=PART,
        target="DECOMPOSE",
        why="part_missing",
        detail="nobody asked who pays",
        almost={},
        missing="parts has nothing for p3 of BOUND.missing_part",
        added={"parts": [{"id": "p3", "text": "Who pays"}]},
    ),
    Back(
        source="WEIGH",
        work=DRIVER,
        target="DRIVERS",
        why="driver_missing",
        detail="hunger was not looked at",
        almost={},
        missing="drivers has nothing for d3 of WEIGH.missing_driver",
        added={
            "drivers": [
                {**DRIVERS["drivers"][0], "id": "d3", "text": "Hunger: stored honey runs out.", "evidence": [WINTER]}
            ]
        },
    ),
    Back(
        source="CONCLUDE",
        work=OPTION,
        target="WEIGH",
        why="option_missing",
        detail="nobody here has done it",
        almost=THIRD_OPTION,
        missing="trade_offs.option has nothing for o3 of options",
        added={"trade_offs": [{"id": "t4", "option": "o3", "driver": "d2", "gains": "she knows", "costs": "a cake"}]},
    ),
]


@pytest.mark.parametrize("back", BACKS, ids=lambda back: back.why)
async def test_missing_work_of_an_earlier_step_leads_back_and_must_be_added(back: Back) -> None:
    async with leading(ANALYSIS) as led:
        await upto(led, back.source)
        state = await led.submit(**back.work)
        assert (state.phase, state.backward_trigger, state.backward_trigger_detail) == (
            back.target,
            back.why,
            back.detail,
        )
        assert f"You come back to {back.target}, visit 2.\nWhy: {back.why}" in await led.told()
        assert (await led.submit(**back.almost)).phase == back.target
        assert await led.missing() == [back.missing]
        assert (await led.submit(**back.added)).phase != back.target


async def test_an_assumption_that_a_page_disproves_has_to_go() -> None:
    async with leading(ANALYSIS) as led:
        await upto(led, "DRIVERS")
        state = await led.submit(**REFUTED)
        assert (state.phase, state.backward_trigger_detail) == ("BOUND", "the winter was long")
        assert (await led.submit()).phase == "BOUND"
        (told,) = await led.missing()
        assert told.startswith("a page disproves an assumption that is still there; take it out with drop")
        constraint = {"id": "c2", "part": "p1", "text": "15 kilograms are eaten.", "evidence": [WINTER]}
        assert (await led.submit(drop=["a1"], constraints=[constraint])).phase == "DRIVERS"
        assert (await led.submit(**DRIVERS)).phase == "DRIVERS"
        assert await led.missing() == ["drivers.assumption names a1, which BOUND.assumptions does not have"]
        second = {**DRIVERS["drivers"][1], "rests_on": "evidence", "assumption": "", "evidence": [VARROA]}
        assert (await led.submit(drivers=[second])).phase == "WEIGH"


NONE_SHOWN = change(DRIVERS, "drivers", 0, rests_on="assumption", assumption="a1")
MISSES: list[tuple[str, str, Mapping[str, Any], str]] = [
    ("taken_apart", "DECOMPOSE", {**DECOMPOSE, "question": ""}, "question is empty"),
    ("taken_apart", "DECOMPOSE", {**DECOMPOSE, "parts": DECOMPOSE["parts"][:1]}, "parts has 1, at least 2"),
    ("taken_apart", "DECOMPOSE", change(DECOMPOSE, "parts", 0, text=" "), "parts[p1] lacks 'text'"),
    ("taken_apart", "DECOMPOSE", change(DECOMPOSE, "parts", 1, text="what makes colonies die"), "parts[p2].text says the same"),
    ("taken_apart", "DECOMPOSE", change(DECOMPOSE, "parts", 0, needs=["p2"]), "parts has a circle"),
    ("taken_apart", "DECOMPOSE", change(DECOMPOSE, "parts", 0, needs=["p7"]), "parts[p1].needs names p7"),
    ("bounds_known", "BOUND", {**BOUND, "assumptions": []}, "assumptions.part has nothing for p1 of DECOMPOSE.parts"),
    ("bounds_known", "BOUND", change(BOUND, "constraints", 0, part="p9"), "names p9, which DECOMPOSE.parts"),
    ("bounds_known", "BOUND", change(BOUND, "constraints", 0, text=" "), "constraints[c1]: text is empty"),
    ("bounds_known", "BOUND", change(BOUND, "constraints", 0, evidence=[]), "constraints[c1] rests on nothing"),
    ("bounds_known", "BOUND", change(BOUND, "constraints", 0, evidence=[ALTERED]), "constraints[c1]: the quote is not in"),
    ("bounds_known", "BOUND", change(BOUND, "constraints", 0, words="No bee drowns."), "constraints[c1].words are not in"),
    ("bounds_known", "BOUND", change(BOUND, "assumptions", 0, if_wrong=" "), "assumptions[a1]: if_wrong is empty"),
    ("part_missing", "BOUND", BOUND, "missing_part is not in this submit"),
    ("part_missing", "BOUND", {**BOUND, "missing_part": {"id": "p2", "why": "x"}}, "missing_part.id names nothing that"),
    ("drivers_shown", "DRIVERS", {"drivers": DRIVERS["drivers"][:1]}, "drivers.part has nothing for p2"),
    ("drivers_shown", "DRIVERS", change(DRIVERS, "drivers", 0, part="p9"), "drivers.part names p9"),
    ("drivers_shown", "DRIVERS", change(DRIVERS, "drivers", 0, because=" "), "drivers[d1] lacks 'because'"),
    ("drivers_shown", "DRIVERS", change(DRIVERS, "drivers", 1, text="mites weaken the brood."), "drivers[d2].text says the same"),
    ("drivers_shown", "DRIVERS", change(DRIVERS, "drivers", 0, evidence=[]), "drivers[d1] rests on nothing"),
    ("drivers_shown", "DRIVERS", change(DRIVERS, "drivers", 0, evidence=[ALTERED]), "drivers[d1]: the quote is not in"),
    ("drivers_shown", "DRIVERS", change(DRIVERS, "drivers", 0, words="mites are bad"), "drivers[d1].words are not in"),
    ("drivers_shown", "DRIVERS", change(DRIVERS, "drivers", 1, assumption=""), "drivers[d2] lacks 'assumption'"),
    ("drivers_shown", "DRIVERS", change(DRIVERS, "drivers", 1, assumption="a9"), "drivers.assumption names a9"),
    ("drivers_shown", "DRIVERS", NONE_SHOWN, "at least one driver rests on evidence"),
    ("assumption_refuted", "DRIVERS", DRIVERS, "refuted is not in this submit"),
    ("assumption_refuted", "DRIVERS", {"refuted": {**REFUTED["refuted"], "assumption": "a9"}}, "refuted.assumption names a9"),
    ("assumption_refuted", "DRIVERS", {"refuted": {**REFUTED["refuted"], "evidence": []}}, "refuted.evidence rests on 0"),
    ("assumption_refuted", "DRIVERS", {"refuted": {**REFUTED["refuted"], "evidence": [ALTERED]}}, "the quote is not in"),
    ("options_weighed", "WEIGH", {**WEIGH, "options": WEIGH["options"][:1]}, "options has 1, at least 2"),
    ("options_weighed", "WEIGH", change(WEIGH, "options", 1, text=" "), "options[o2] lacks 'text'"),
    ("options_weighed", "WEIGH", change(WEIGH, "options", 1, text="treat in december,  by turns."), "options[o2].text says the"),
    ("options_weighed", "WEIGH", {**WEIGH, "trade_offs": WEIGH["trade_offs"][:2]}, "trade_offs.option has nothing for o2"),
    ("options_weighed", "WEIGH", {**WEIGH, "trade_offs": WEIGH["trade_offs"][::2]}, "trade_offs.driver has nothing for d2"),
    ("options_weighed", "WEIGH", change(WEIGH, "trade_offs", 0, option="o9"), "trade_offs.option names o9"),
    ("options_weighed", "WEIGH", change(WEIGH, "trade_offs", 0, driver="d9"), "trade_offs.driver names d9"),
    ("options_weighed", "WEIGH", change(WEIGH, "trade_offs", 0, costs=" "), "trade_offs[t1] lacks 'costs'"),
    ("options_weighed", "WEIGH", change(WEIGH, "broken", 0, option="o9"), "broken.option names o9"),
    ("options_weighed", "WEIGH", change(WEIGH, "broken", 0, constraint="a1"), "broken.constraint names a1"),
    ("driver_missing", "WEIGH", WEIGH, "missing_driver is not in this submit"),
    ("driver_missing", "WEIGH", {**WEIGH, "missing_driver": {**DRIVER["missing_driver"], "id": "d1"}}, "names nothing that"),
    ("driver_missing", "WEIGH", {**WEIGH, "missing_driver": {**DRIVER["missing_driver"], "part": "p9"}}, "names p9"),
    ("conclusions_carried", "CONCLUDE", {**CONCLUDE, "conclusions": CONCLUDE["conclusions"][:1]}, "has nothing for p2"),
    ("conclusions_carried", "CONCLUDE", change(CONCLUDE, "conclusions", 0, part="p9"), "conclusions.part names p9"),
    ("conclusions_carried", "CONCLUDE", change(CONCLUDE, "conclusions", 0, would_change=" "), "conclusions[n1] lacks 'would_change'"),
    ("conclusions_carried", "CONCLUDE", change(CONCLUDE, "conclusions", 1, rests_on=["n1"]), "conclusions[n2]: rests_on names n1"),
    ("conclusions_carried", "CONCLUDE", change(CONCLUDE, "conclusions", 1, rests_on=[]), "conclusions[n2]: rests_on names nothing"),
    ("conclusions_carried", "CONCLUDE", change(CONCLUDE, "conclusions", 1, confidence=80), "confidence of 80 or more takes two"),
    ("conclusions_carried", "CONCLUDE", {**CONCLUDE, "recommended": {"option": "o9", "because": "x"}}, "names o9"),
    ("conclusions_carried", "CONCLUDE", {**CONCLUDE, "recommended": {"option": "o1", "because": " "}}, "recommended.because is"),
    ("conclusions_carried", "CONCLUDE", {**CONCLUDE, "recommended": {"option": "o2", "because": "x"}}, "breaks a constraint"),
    ("conclusions_carried", "CONCLUDE", {**CONCLUDE, "risks": []}, "risks has 0"),
    ("conclusions_carried", "CONCLUDE", change(CONCLUDE, "risks", 0, answer=" "), "risks[k1] lacks 'answer'"),
    ("option_missing", "CONCLUDE", CONCLUDE, "missing_option is not in this submit"),
    ("option_missing", "CONCLUDE", {"missing_option": {**OPTION["missing_option"], "id": "o1"}}, "names nothing that WEIGH.options"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "phase", "work", "told"), MISSES)
async def test_near_misses_hold_it_up(condition: str, phase: str, work: Mapping[str, Any], told: str) -> None:
    found = await judge(ANALYSIS, condition, phase, work, works=before(WORKS, phase))
    assert not found.met
    assert any(told in text for text in found.missing), found.missing


def test_each_condition_has_near_misses() -> None:
    assert {condition for condition, *_ in MISSES} == set(ANALYSIS.conditions)


async def test_a_constraint_that_was_given_is_not_forgotten() -> None:
    given = {"constraints": ["Nobody is stung on the roof."]}
    found = await judge(ANALYSIS, "bounds_known", "BOUND", BOUND, works=before(WORKS, "BOUND"), inputs=given)
    assert found.missing == ("no item of constraints covers number 1 of inputs.constraints: copy its words",)


async def test_words_of_the_findings_carry_a_driver() -> None:
    said = change(DRIVERS, "drivers", 0, evidence=[], words="mites decide about the winter")
    works = before(WORKS, "DRIVERS")
    findings = {"findings": "All agree that mites decide about the winter."}
    assert (await judge(ANALYSIS, "drivers_shown", "DRIVERS", said, works=works, inputs=findings)).met
    document = {"research-cognitive": "# Found\n\nSo mites decide about the winter."}
    assert (await judge(ANALYSIS, "drivers_shown", "DRIVERS", said, works=works, documents=document)).met
    assert not (await judge(ANALYSIS, "drivers_shown", "DRIVERS", said, works=works)).met


OTHER: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "DECOMPOSE": [{"parts": [{"id": "p3", "text": "Who pays"}]}],
    "BOUND": [PART, {"assumptions": [], "constraints": []}],
    "DRIVERS": [REFUTED, {}],
    "WEIGH": [DRIVER, {**WEIGH, "drop": ["t3"]}],
    "CONCLUDE": [OPTION, {"risks": []}],
}


def good(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Return work that leads on from any state of a walk."""
    assumption, driver = BOUND["assumptions"][0], DRIVERS["drivers"][0]
    drivers = [
        {**driver, "id": f"d{n}", "part": part, "text": f"Driver {n}."} for n, part in enumerate(["p1", "p2", "p3"], 1)
    ]
    trade_off = WEIGH["trade_offs"][0]
    found: dict[str, Mapping[str, Any]] = {
        "DECOMPOSE": {**DECOMPOSE, "parts": [*DECOMPOSE["parts"], {"id": "p3", "text": "Who pays"}]},
        "BOUND": {
            **BOUND,
            "assumptions": [{**assumption, "id": f"b{n}", "part": part} for n, part in enumerate(["p1", "p3"], 1)],
            "drop": ["a1"],
        },
        "DRIVERS": {"drivers": drivers},
        "WEIGH": {
            **WEIGH,
            "options": [*WEIGH["options"], {"id": "o3", "text": "Ask a beekeeper."}],
            "trade_offs": [{**trade_off, "id": f"t{n}", "option": f"o{n}", "driver": f"d{n}"} for n in range(1, 4)],
        },
        "CONCLUDE": {
            **CONCLUDE,
            "conclusions": [
                {**CONCLUDE["conclusions"][1], "id": f"n{n}", "part": f"p{n}", "rests_on": ["d1"]} for n in range(1, 4)
            ],
        },
    }
    return [(found[state.phase], ())]


def any_work(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    return [*good(state), *((work, ()) for work in OTHER[state.phase])]


@given(choices=st.lists(st.integers(0, 1_000), max_size=25))
@settings(max_examples=12)
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    assert "conclusions_carried" in asyncio.run(walk(ANALYSIS, choices, any_work, good))
